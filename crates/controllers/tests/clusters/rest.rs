//! Controllers that start anew where nothing is to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use capt_api::cluster::core::Cluster;
use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::ListParams;

use crate::stage::{Harness, SOON, Stage};
use crate::town::{network_spec, open, said};

/// Versions of everything that the controllers write.
async fn versions(stage: &Stage) -> BTreeMap<String, Option<String>> {
    let all = ListParams::default();
    let mut versions = BTreeMap::new();
    for one in stage.api::<Cluster>().list(&all).await.unwrap() {
        versions.insert(format!("cluster {}", one.name_any()), one.resource_version());
    }
    for one in stage.api::<CAPTCluster>().list(&all).await.unwrap() {
        versions.insert(format!("network {}", one.name_any()), one.resource_version());
    }
    for one in stage.api::<CAPTControlPlane>().list(&all).await.unwrap() {
        versions.insert(format!("plane {}", one.name_any()), one.resource_version());
    }
    for one in stage.applies().list(&all).await.unwrap() {
        versions.insert(format!("workspace {}", one.name_any()), one.resource_version());
    }
    for one in stage.secrets().list(&all).await.unwrap() {
        versions.insert(format!("secret {}", one.name_any()), one.resource_version());
    }
    versions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_rest_nothing_is_written() {
    if !crate::can_run("embedded") {
        return;
    }
    let mut stage = Stage::new(Arc::new(open(Harness::embedded().await).await), "rest").await;
    stage.templates_of_both().await;
    stage.demo("1.31").await;
    stage.both_ready().await;
    let free = |plane: &CAPTControlPlane| {
        !plane.annotations().contains_key("clusterctl.cluster.x-k8s.io/block-move")
    };
    stage.told::<CAPTControlPlane>("demo", "no run is under way", free).await;
    let asked = |plane: &CAPTControlPlane| {
        !matches!(said(plane, "RemoteConnectionProbe").as_str(), "absent" | "Unknown NotProbed")
    };
    stage.told::<CAPTControlPlane>("demo", "it was asked", asked).await;
    let settled =
        |network: &CAPTCluster| !network.annotations().contains_key("clusterctl.cluster.x-k8s.io/block-move");
    stage.told::<CAPTCluster>("demo", "no run is under way", settled).await;
    let told = until("the Cluster has said all", SOON, async || {
        let cluster = stage.api::<Cluster>().get("demo").await.unwrap();
        let status = serde_json::to_value(cluster.status.as_ref()?).unwrap();
        let current = status["observedGeneration"].as_i64() == cluster.metadata.generation;
        let list = status["conditions"].as_array()?;
        let available = list.iter().any(|one| one["type"] == "Available" && one["status"] == "True");
        (current && available).then_some(())
    });
    told.await.unwrap();
    let before = versions(&stage).await;
    let Stage { harness, client, namespace, trace } = stage;
    let mut harness = Arc::into_inner(harness).expect("nobody else has the harness");
    let folder = harness.folder.path().join("engine");
    harness.restart(&folder, None).await;
    stage = Stage { harness: Arc::new(harness), client, namespace, trace };
    // Another network shows that the new controllers have looked.
    stage.put::<CAPTCluster>("other", network_spec()).await;
    let waits = |network: &CAPTCluster| said(network, "Ready") == "False WaitingForCluster";
    stage.told::<CAPTCluster>("other", "waits", waits).await;
    let mut after = versions(&stage).await;
    after.retain(|name, _| !name.contains("other"));
    assert_eq!(after, before);
}
