//! Clusters that are built as they should be.

use capt_api::cluster::core::Cluster;
use capt_api::cluster::{CAPTCluster, CAPTControlPlane, ControlPlanePhase};
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::cluster_fixture::{CA, cluster_spec, columns, message, network_spec, owner_of, plane_spec, said};
use crate::fixture::{Fixture, SOON, condition};

pub async fn a_cluster_lives_and_goes(fixture: &Fixture) {
    fixture.templates_of_both().await;
    // The network is not there before all have said that they wait for it.
    let gate = fixture.trace.with_extension("network");
    let begin = "command = \"echo created";
    let wait = format!("command = \"while test ! -e {}; do sleep 0.1; done; echo created", gate.display());
    fixture.template("network", &fixture.network_module().replace(begin, &wait)).await;
    fixture.demo("v1.31.4").await;
    for reason in ["CreatedWorkspace", "WaitingForVPC", "VPCCreating"] {
        fixture.event("demo", reason).await;
    }
    std::fs::write(&gate, "").unwrap();
    let (network, plane) = fixture.both_ready().await;
    assert_eq!(fixture.traces(), ["created demo-vpc", "created plane demo", "version 1.31"]);

    let status = network.status.as_ref().unwrap();
    assert_eq!(status.vpc_id.as_deref(), Some("vpc-demo"));
    assert_eq!((status.ready, status.initialization.as_ref().unwrap().provisioned), (true, Some(true)));
    assert_eq!(status.vpc_workspace_name.as_deref(), Some("demo-vpc"));
    assert_eq!(status.endpoint.as_deref(), Some("demo.example:6443"));
    let domains: Vec<&str> = status.failure_domains.iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(domains, ["eu-west-1a", "eu-west-1b"]);
    for (kind, expected) in [
        ("VPCReady", "True VPCCreated"),
        ("VPCCreating", "False VPCCreated"),
        ("VPCFailed", "False VPCCreated"),
    ] {
        assert_eq!(said(&network, kind), expected, "{kind}");
    }
    assert_eq!(network.spec.control_plane_endpoint.as_ref().unwrap().host, "demo.example");

    let status = plane.status.as_ref().unwrap();
    assert_eq!(status.phase, Some(ControlPlanePhase::Ready));
    assert_eq!((status.ready, status.initialized, status.secrets_ready), (true, true, true));
    assert_eq!(status.initialization.as_ref().unwrap().control_plane_initialized, Some(true));
    assert_eq!(status.external_managed_control_plane, Some(true));
    assert_eq!(
        (status.version.as_deref(), status.versions[0].version.as_str()),
        (Some("v1.31.4"), "v1.31.4")
    );
    assert_eq!(status.endpoint.as_deref(), Some("demo.example:6443"), "no scheme, no slash");
    let outputs = &status.workspace_status.as_ref().unwrap().at_provider.as_ref().unwrap().outputs;
    assert_eq!(outputs["cluster_endpoint"], "https://demo.example:6443/");
    assert!(!outputs.contains_key("cluster_token"), "never a sensitive one");
    let summary = status.workspace_template_status.as_ref().unwrap();
    assert!(
        summary.ready
            && summary.last_applied_revision.is_some()
            && !summary.outputs.contains_key("cluster_token")
    );
    assert_eq!(summary.workspace_name.as_deref(), Some("demo-eks-controlplane"));
    told(&outputs["told"]);

    printed(fixture).await;
    fixture.event("demo", "Ready").await;
    workspaces(fixture).await;
    cluster_and_secrets(fixture).await;
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
    assert_eq!(fixture.traces()[3..], ["destroyed plane demo", "destroyed demo-vpc"]);
}

/// What the module of the control plane was told.
fn told(told: &Value) {
    let expected = json!({
        "region": "eu-west-1", "public": true, "private": false, "cidrs": ["203.0.113.0/24"],
        "addons": [{"name": "coredns", "version": null}], "tags": {"team": "blue", "example.com/cost": "7"}, "team": "blue",
        "vpc": "vpc-demo", "subnets": ["subnet-1", "subnet-2"], "full": "1.31.4",
    });
    assert_eq!(told, &expected);
}

/// The seed's columns, with what is really there.
async fn printed(fixture: &Fixture) {
    let plain = |mut cells: Vec<(String, Value)>| {
        assert_eq!(cells.pop().unwrap().0.to_lowercase(), "age");
        cells.into_iter().map(|(name, cell)| format!("{} {cell}", name.to_uppercase())).collect::<Vec<_>>()
    };
    let network = plain(columns::<CAPTCluster>(fixture, "demo").await);
    assert_eq!(
        network,
        ["NAME \"demo\"", "VPC-ID \"vpc-demo\"", "READY true", "ENDPOINT \"demo.example:6443\""]
    );
    let plane = plain(columns::<CAPTControlPlane>(fixture, "demo").await);
    let expected = [
        "NAME \"demo\"",
        "READY true",
        "PHASE \"Ready\"",
        "VERSION \"v1.31.4\"",
        "ENDPOINT \"demo.example:6443\"",
    ];
    assert_eq!(plane, expected);
}

async fn workspaces(fixture: &Fixture) {
    let network = fixture.get("demo-vpc").await;
    assert_eq!(owner_of(&network), "CAPTCluster demo");
    assert_eq!(network.labels()["cluster.x-k8s.io/cluster-name"], "demo");
    assert_eq!(network.spec.variables["environment"], "production");
    let plane = fixture.get("demo-eks-controlplane-apply").await;
    assert_eq!(owner_of(&plane), "CAPTControlPlane demo");
    assert_eq!(plane.spec.wait_for_workspaces[0].name, "demo-vpc");
    assert_eq!(condition(&plane, "Synced").0, "Ready", "an undeclared variable of ours is no fault");
    let connection = fixture.secrets().get("demo-eks-connection").await.unwrap();
    assert_eq!(connection.data.unwrap()["cluster_token"].0, b"token-of-demo");
}

async fn cluster_and_secrets(fixture: &Fixture) {
    let done = until("the Cluster has all of it", SOON, async || {
        let cluster = fixture.api::<Cluster>().get("demo").await.unwrap();
        let endpoint = cluster.spec.control_plane_endpoint.as_ref()?.host == "demo.example";
        let status = serde_json::to_value(&cluster.status).unwrap();
        let phase = status["phase"] == "Provisioned";
        // The endpoint may come first.
        let answers = status["initialization"]["controlPlaneInitialized"] == true;
        (endpoint && phase && answers).then_some(cluster)
    });
    let cluster = serde_json::to_value(done.await.unwrap().status).unwrap();
    let first = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    assert_eq!(cluster["initialization"], first);
    assert_eq!(cluster["failureDomains"][1]["name"], "eu-west-1b");
    let kubeconfig = fixture.secrets().get("demo-kubeconfig").await.unwrap();
    assert_eq!(kubeconfig.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
    assert_eq!(kubeconfig.labels()["cluster.x-k8s.io/cluster-name"], "demo");
    let text = String::from_utf8(kubeconfig.data.unwrap()["value"].0.clone()).unwrap();
    assert!(text.contains("https://demo.example:6443") && text.contains("token-of-demo"), "{text}");
    let ca = fixture.secrets().get("demo-ca").await.unwrap().data.unwrap();
    assert_eq!(String::from_utf8(ca["tls.crt"].0.clone()).unwrap().trim(), CA.trim());
}

pub async fn the_owner_comes_late(fixture: &Fixture) {
    fixture.templates_of_both().await;
    fixture.put::<CAPTControlPlane>("demo", plane_spec("1.31")).await;
    fixture.put::<CAPTCluster>("demo", network_spec()).await;
    let network = fixture.network("False WaitingForCluster").await;
    assert_eq!(said(&network, "WaitingForCluster"), "True WaitingForCluster");
    let plane = fixture.plane("False WaitingForCluster").await;
    assert!(network.finalizers().is_empty() && plane.finalizers().is_empty());
    assert!(fixture.applies().list(&ListParams::default()).await.unwrap().items.is_empty());
    fixture.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    let (network, _) = fixture.both_ready().await;
    assert_eq!(said(&network, "WaitingForCluster"), "absent");
    assert_eq!(
        fixture.traces(),
        ["created demo-vpc", "created plane demo", "version 1.31"],
        "the network came first"
    );
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

pub async fn an_existing_vpc(fixture: &Fixture) {
    fixture.templates_of_both().await;
    fixture.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    fixture.put::<CAPTCluster>("demo", json!({"region": "eu-west-1", "existingVpcId": "vpc-0123"})).await;
    fixture.put::<CAPTControlPlane>("demo", plane_spec("1.31")).await;
    let (network, plane) = fixture.both_ready().await;
    assert_eq!(said(&network, "VPCReady"), "True ExistingVPCUsed");
    assert_eq!(network.status.unwrap().vpc_id.as_deref(), Some("vpc-0123"));
    let outputs = plane.status.unwrap().workspace_template_status.unwrap().outputs;
    assert_eq!(outputs["told"]["vpc"], "vpc-0123");
    assert_eq!(outputs["told"]["region"], "eu-west-1", "of the network");
    assert!(fixture.applies().get_opt("demo-vpc").await.unwrap().is_none(), "nothing is built for it");
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
    assert_eq!(fixture.traces(), ["created plane demo", "version 1.31", "destroyed plane demo"]);
}

/// As ClusterClass names them: what belongs together is found by reference. And a Cluster without a CAPTCluster.
pub async fn names_that_differ(fixture: &Fixture) {
    fixture.templates_of_both().await;
    fixture.put_cluster(json!({"name": "prod"}), cluster_spec("prod-x7k2p", "prod-9zk3l")).await;
    fixture.put::<CAPTControlPlane>("prod-9zk3l", plane_spec("1.31")).await;
    let waits = |plane: &CAPTControlPlane| said(plane, "Ready") == "False WaitingForVPC";
    let plane = fixture.told("prod-9zk3l", "waits", waits).await;
    assert_eq!(message(&plane, "VPCReady"), "CAPTCluster prod-x7k2p does not exist");
    // One of the control plane's name is not meant.
    fixture
        .put::<CAPTCluster>("prod-9zk3l", json!({"region": "us-east-1", "existingVpcId": "vpc-other"}))
        .await;
    fixture.put::<CAPTCluster>("prod-x7k2p", network_spec()).await;
    let ready = |plane: &CAPTControlPlane| said(plane, "Ready") == "True Ready";
    let plane = fixture.told("prod-9zk3l", "ready", ready).await;
    let outputs = plane.status.unwrap().workspace_template_status.unwrap().outputs;
    assert_eq!(
        (&outputs["told"]["vpc"], &outputs["told"]["region"]),
        (&json!("vpc-prod"), &json!("eu-west-1"))
    );
    assert_eq!(outputs["cluster_endpoint"], "https://prod.example:6443/", "cluster_name is the Cluster's");
    for secret in ["prod-kubeconfig", "prod-9zk3l-ca", "prod-9zk3l-eks-connection"] {
        fixture.secrets().get(secret).await.unwrap();
    }
    assert_eq!(fixture.traces()[0], "created prod-x7k2p-vpc");
    fixture.remove::<CAPTCluster>("prod-9zk3l").await;
    fixture.api::<Cluster>().delete("prod", &DeleteParams::default()).await.unwrap();
    fixture.absent::<Cluster>("prod").await;
    fixture.gone("prod-x7k2p-vpc").await;
    assert_eq!(fixture.traces()[3..], ["destroyed plane prod", "destroyed prod-x7k2p-vpc"]);
}

pub async fn two_of_the_same_name(fixture: &Fixture) {
    let other = Fixture::new(std::sync::Arc::clone(&fixture.harness), "two_in_another_place").await;
    for one in [fixture, &other] {
        one.templates_of_both().await;
        one.demo("1.31").await;
    }
    for one in [fixture, &other] {
        one.both_ready().await;
        assert_eq!(one.traces(), ["created demo-vpc", "created plane demo", "version 1.31"]);
    }
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
    let (network, plane) = other.both_ready().await;
    assert!(network.metadata.deletion_timestamp.is_none() && plane.metadata.deletion_timestamp.is_none());
    assert_eq!(other.traces().len(), 3, "what is elsewhere stays");
    other.remove_cluster().await;
    other.nothing_is_left().await;
}

/// Templates of the Crossplane-based CAPT: the network's names a Secret after its workspace, and the control plane's
/// reads that by the cluster's name.
pub async fn templates_that_meet_in_a_secret(fixture: &Fixture) {
    let network =
        fixture.network_module() + "output \"file\" { value = jsonencode({ from_secret = var.vpc_name }) }\n";
    let written = json!({
        "forProvider": {"source": "Inline", "module": network},
        "writeConnectionSecretToRef": {"name": "${WORKSPACE_NAME}-vpc-connection", "namespace": fixture.namespace},
    });
    fixture.put_template("network", written).await;
    let plane = fixture.plane_module()
        + "variable \"from_secret\" { type = string }\noutput \"found\" { value = var.from_secret }\n";
    let secret =
        json!({"name": "${cluster_name}-vpc-vpc-connection", "key": "file", "namespace": fixture.namespace});
    let read = json!({"forProvider": {
        "source": "Inline", "module": plane, "varFiles": [{"source": "SecretKey", "format": "JSON", "secretKeyRef": secret}],
    }});
    fixture.put_template("plane", read).await;
    fixture.demo("v1.31.4").await;
    let (_, plane) = fixture.both_ready().await;
    let outputs = plane.status.unwrap().workspace_status.unwrap().at_provider.unwrap().outputs;
    assert_eq!(outputs["found"], "demo-vpc");
    assert!(fixture.secrets().get_opt("demo-vpc-vpc-connection").await.unwrap().is_some());
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}
