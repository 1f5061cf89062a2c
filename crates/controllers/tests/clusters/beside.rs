//! Where another takes care of Clusters, and knows nothing of CAPT's own machines: the test does what Cluster API core
//! does. `tests/beside_core` has core itself.

use std::sync::Arc;

use capt_api::cluster::core::Cluster;
use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet, NodeGroup};
use capt_controllers::ClusterApi;
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster_fixture::{cluster_spec, network_spec, open, plane_spec, said};
use crate::fixture::{Fixture, Harness, SOON};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_go_with_their_cluster() {
    if !crate::can_run("embedded") {
        return;
    }
    let mut harness = Harness::embedded().await;
    harness.cluster_api = ClusterApi::Core;
    let fixture = Fixture::new(Arc::new(open(harness).await), "beside").await;
    fixture.templates_of_both().await;
    fixture
        .put_cluster(
            json!({"name": "demo", "finalizers": ["example.com/core"]}),
            cluster_spec("demo", "demo"),
        )
        .await;
    let uid = fixture.api::<Cluster>().get("demo").await.unwrap().uid();
    let owner =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "demo", "uid": uid});
    let owned = json!({"name": "demo", "ownerReferences": [owner]});
    fixture.put_with::<CAPTCluster>(owned.clone(), network_spec()).await;
    fixture.put_with::<CAPTControlPlane>(owned, plane_spec("1.31")).await;
    fixture.both_ready().await;
    workers(&fixture).await;

    // The control plane alone waits for a person to take its workers away.
    fixture.remove::<CAPTControlPlane>("demo").await;
    let waits = |plane: &CAPTControlPlane| said(plane, "Deleting") == "True InUse";
    fixture.told::<CAPTControlPlane>("demo", "waits", waits).await;
    let deployment = fixture.api::<CaptMachineDeployment>().get("pool").await.unwrap();
    assert_eq!(deployment.metadata.deletion_timestamp, None, "nobody said that they should go");

    // With its Cluster it takes them along.
    fixture.remove_cluster().await;
    fixture.absent::<CAPTControlPlane>("demo").await;
    fixture.absent::<CaptMachineDeployment>("pool").await;
    fixture.absent::<NodeGroup>("group").await;
    assert!(fixture.api::<CaptMachineSet>().list(&ListParams::default()).await.unwrap().items.is_empty());
    assert!(fixture.api::<CaptMachine>().list(&ListParams::default()).await.unwrap().items.is_empty());
    fixture.event("demo", "DeletedWorker").await;
    let network = fixture.api::<CAPTCluster>().get("demo").await.unwrap();
    assert_eq!(network.metadata.deletion_timestamp, None, "core deletes it when the control plane is gone");

    // Machines without a control plane of CAPT's go with the network.
    workers(&fixture).await;
    fixture.remove::<CAPTCluster>("demo").await;
    fixture.absent::<CAPTCluster>("demo").await;
    fixture.absent::<CaptMachineDeployment>("pool").await;
    fixture.absent::<NodeGroup>("group").await;
    fixture.merge_cluster(json!({"metadata": {"finalizers": null}})).await;
    fixture.nothing_is_left().await;
}

/// A group, and a deployment with one machine in it.
async fn workers(fixture: &Fixture) {
    fixture.template("machine", "output \"instance_id\" { value = \"i-1\" }").await;
    let labels = json!({"cluster.x-k8s.io/cluster-name": "demo", "pool": "pool"});
    put::<NodeGroup>(fixture, "NodeGroup", "group", &labels, json!({"external": {"name": "group"}})).await;
    let machine = json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "group"}, "instanceType": "small",
    });
    let deployment = json!({
        "replicas": 1, "selector": {"matchLabels": {"pool": "pool"}},
        "template": {"metadata": {"labels": labels}, "spec": machine},
    });
    put::<CaptMachineDeployment>(fixture, "CaptMachineDeployment", "pool", &labels, deployment).await;
    let built = until("a machine", SOON, async || {
        let machines = fixture.api::<CaptMachine>().list(&ListParams::default()).await.unwrap().items;
        let ready = |machine: &CaptMachine| machine.status.as_ref().is_some_and(|status| status.ready);
        (machines.len() == 1 && ready(&machines[0])).then_some(())
    });
    built.await.unwrap();
}

async fn put<K>(fixture: &Fixture, kind: &str, name: &str, labels: &Value, spec: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let body = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind,
        "metadata": {"name": name, "labels": labels}, "spec": spec,
    });
    fixture.api::<K>().patch(name, &PatchParams::apply("user").force(), &Patch::Apply(&body)).await.unwrap();
}
