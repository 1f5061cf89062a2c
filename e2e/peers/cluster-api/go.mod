// Pins Cluster API, whose CRDs the tests install. Nothing of it is built.
module capt/e2e/peers/cluster-api

go 1.26.0

require sigs.k8s.io/cluster-api v1.13.6
