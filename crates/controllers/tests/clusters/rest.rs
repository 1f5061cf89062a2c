//! Controllers that start anew where nothing is to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use capt_api::cluster::core::Cluster;
use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::ListParams;

use crate::cluster_fixture::{network_spec, open, said};
use crate::fixture::{Fixture, Harness, SOON};

/// Versions of everything that the controllers write.
async fn versions(fixture: &Fixture) -> BTreeMap<String, Option<String>> {
    let all = ListParams::default();
    let mut versions = BTreeMap::new();
    for one in fixture.api::<Cluster>().list(&all).await.unwrap() {
        versions.insert(format!("cluster {}", one.name_any()), one.resource_version());
    }
    for one in fixture.api::<CAPTCluster>().list(&all).await.unwrap() {
        versions.insert(format!("network {}", one.name_any()), one.resource_version());
    }
    for one in fixture.api::<CAPTControlPlane>().list(&all).await.unwrap() {
        versions.insert(format!("plane {}", one.name_any()), one.resource_version());
    }
    for one in fixture.applies().list(&all).await.unwrap() {
        versions.insert(format!("workspace {}", one.name_any()), one.resource_version());
    }
    for one in fixture.secrets().list(&all).await.unwrap() {
        versions.insert(format!("secret {}", one.name_any()), one.resource_version());
    }
    versions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_rest_nothing_is_written() {
    if !crate::can_run("embedded") {
        return;
    }
    let mut fixture = Fixture::new(Arc::new(open(Harness::embedded().await).await), "rest").await;
    fixture.templates_of_both().await;
    fixture.demo("1.31").await;
    fixture.both_ready().await;
    let free = |plane: &CAPTControlPlane| {
        !plane.annotations().contains_key("clusterctl.cluster.x-k8s.io/block-move")
    };
    fixture.told::<CAPTControlPlane>("demo", "no run is under way", free).await;
    let asked = |plane: &CAPTControlPlane| {
        !matches!(said(plane, "RemoteConnectionProbe").as_str(), "absent" | "Unknown NotProbed")
    };
    fixture.told::<CAPTControlPlane>("demo", "it was asked", asked).await;
    let settled =
        |network: &CAPTCluster| !network.annotations().contains_key("clusterctl.cluster.x-k8s.io/block-move");
    fixture.told::<CAPTCluster>("demo", "no run is under way", settled).await;
    let told = until("the Cluster has said all", SOON, async || {
        let cluster = fixture.api::<Cluster>().get("demo").await.unwrap();
        let status = serde_json::to_value(cluster.status.as_ref()?).unwrap();
        let current = status["observedGeneration"].as_i64() == cluster.metadata.generation;
        let list = status["conditions"].as_array()?;
        let available = list.iter().any(|one| one["type"] == "Available" && one["status"] == "True");
        (current && available).then_some(())
    });
    told.await.unwrap();
    let before = versions(&fixture).await;
    let Fixture { harness, client, namespace, trace } = fixture;
    let mut harness = Arc::into_inner(harness).expect("nobody else has the harness");
    let folder = harness.folder.path().join("engine");
    harness.restart(&folder, None).await;
    fixture = Fixture { harness: Arc::new(harness), client, namespace, trace };
    // Another network shows that the new controllers have looked.
    fixture.put::<CAPTCluster>("other", network_spec()).await;
    let waits = |network: &CAPTCluster| said(network, "Ready") == "False WaitingForCluster";
    fixture.told::<CAPTCluster>("other", "waits", waits).await;
    let mut after = versions(&fixture).await;
    after.retain(|name, _| !name.contains("other"));
    assert_eq!(after, before);
}
