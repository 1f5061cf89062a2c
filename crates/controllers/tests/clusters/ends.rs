//! How clusters go: in whatever order, and with what stays.

use capt_api::cluster::core::Cluster;
use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_api::machine::NodeGroup;
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::cluster_fixture::{cluster_spec, message, network_spec, said};
use crate::fixture::{Fixture, SOON};

/// No Terraform runs for what was never built.
pub async fn deleted_before_anything(fixture: &Fixture) {
    let before = fixture.processes();
    fixture.put::<CAPTCluster>("demo", network_spec()).await;
    fixture.network("False WaitingForCluster").await;
    fixture.remove::<CAPTCluster>("demo").await;
    fixture.absent::<CAPTCluster>("demo").await;
    // With workspaces that wait for their templates.
    fixture.demo("1.31").await;
    fixture.network("False WorkspaceTemplateNotFound").await;
    fixture.plane("False WaitingForVPC").await;
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
    assert_eq!(fixture.processes(), before, "nothing ran");
    assert!(fixture.traces().is_empty());
}

pub async fn deleted_in_any_order(fixture: &Fixture) {
    fixture.templates_of_both().await;
    for order in 0..3 {
        fixture.demo("1.31").await;
        fixture.both_ready().await;
        match order {
            0 => {
                fixture.remove::<CAPTCluster>("demo").await;
                let waits = fixture.network("False Deleting").await;
                assert_eq!(said(&waits, "Deleting"), "True InUse");
                assert_eq!(message(&waits, "Deleting"), "waits until CAPTControlPlane demo has gone");
                fixture.remove::<CAPTControlPlane>("demo").await;
                fixture.absent::<CAPTCluster>("demo").await;
                fixture.remove_cluster().await;
            }
            1 => {
                fixture.remove::<CAPTControlPlane>("demo").await;
                fixture.absent::<CAPTControlPlane>("demo").await;
                fixture.network("True Ready").await;
                fixture.remove_cluster().await;
            }
            _ => {
                fixture.remove_cluster().await;
                // They may have gone with their Cluster already.
                let _ = fixture.api::<CAPTControlPlane>().delete("demo", &DeleteParams::background()).await;
                let _ = fixture.api::<CAPTCluster>().delete("demo", &DeleteParams::background()).await;
            }
        }
        fixture.nothing_is_left().await;
        let traces = fixture.traces();
        assert_eq!(traces[order * 5 + 3..], ["destroyed plane demo", "destroyed demo-vpc"], "{traces:#?}");
    }
}

/// Machines and groups, then the control plane, then the network: also where nobody keeps the order.
pub async fn the_network_goes_last(fixture: &Fixture) {
    fixture.templates_of_both().await;
    fixture.demo("1.31").await;
    fixture.both_ready().await;
    let group = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "NodeGroup",
        "metadata": {"name": "workers", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}},
        "spec": {"external": {"name": "workers"}},
    });
    let force = PatchParams::apply("user").force();
    let groups = fixture.api::<NodeGroup>();
    groups.patch("workers", &force, &Patch::Apply(&group)).await.unwrap();
    // What nobody has seen yet holds nothing.
    let seen = until("the group is seen", SOON, async || groups.get("workers").await.unwrap().status);
    seen.await.unwrap();
    fixture.remove::<CAPTCluster>("demo").await;
    fixture.remove::<CAPTControlPlane>("demo").await;
    let plane = fixture
        .told::<CAPTControlPlane>("demo", "waits", |plane| said(plane, "Deleting") == "True InUse")
        .await;
    assert_eq!(message(&plane, "Deleting"), "waits until NodeGroup workers has gone");
    let network = fixture
        .told::<CAPTCluster>("demo", "waits", |network| {
            message(network, "Deleting").contains("NodeGroup workers")
        })
        .await;
    assert_eq!(
        message(&network, "Deleting"),
        "waits until CAPTControlPlane demo, NodeGroup workers has gone"
    );
    assert_eq!(fixture.traces().len(), 3, "nothing is destroyed");
    groups.delete("workers", &DeleteParams::background()).await.unwrap();
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
    assert_eq!(fixture.traces()[3..], ["destroyed plane demo", "destroyed demo-vpc"]);
}

pub async fn a_retained_network(fixture: &Fixture) {
    fixture.templates_of_both().await;
    let mut retains = network_spec();
    retains["retainVpcOnDelete"] = json!(true);
    fixture.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    fixture.put::<CAPTCluster>("demo", retains).await;
    fixture.put::<CAPTControlPlane>("demo", crate::cluster_fixture::plane_spec("1.31")).await;
    fixture.both_ready().await;
    fixture.remove_cluster().await;
    fixture.absent::<Cluster>("demo").await;
    fixture.absent::<CAPTCluster>("demo").await;
    fixture.gone("demo-eks-controlplane-apply").await;
    let kept = fixture.ready("demo-vpc").await;
    assert!(kept.owner_references().is_empty() && kept.metadata.deletion_timestamp.is_none());
    assert_eq!(kept.labels()["infrastructure.cluster.x-k8s.io/retained"], "true");
    assert_eq!(fixture.traces()[3..], ["destroyed plane demo"]);
    // Another of its name takes it up, and nothing is built again.
    fixture.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    fixture.put::<CAPTCluster>("demo", network_spec()).await;
    let network = fixture.network("True Ready").await;
    assert_eq!(network.status.unwrap().vpc_id.as_deref(), Some("vpc-demo"));
    assert_eq!(fixture.api::<CAPTCluster>().get("demo").await.unwrap().finalizers().len(), 1);
    let taken = fixture.get("demo-vpc").await;
    assert_eq!(taken.uid(), kept.uid());
    assert!(!taken.labels().contains_key("infrastructure.cluster.x-k8s.io/retained"));
    assert_eq!(fixture.traces().len(), 4);
    if fixture.harness.collects_garbage() {
        in_the_foreground(fixture).await;
    }
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
    assert_eq!(fixture.traces()[4..], ["destroyed demo-vpc"]);
}

/// A foreground deletion takes the object of the workspace, whatever its owner says; what was built stays, and its state.
async fn in_the_foreground(fixture: &Fixture) {
    fixture.merge::<CAPTCluster>("demo", json!({"spec": {"retainVpcOnDelete": true}})).await;
    fixture.when("demo-vpc", "retains", |apply| apply.spec.retain_workspace_on_delete).await;
    fixture.api::<Cluster>().delete("demo", &DeleteParams::foreground()).await.unwrap();
    fixture.absent::<Cluster>("demo").await;
    fixture.absent::<CAPTCluster>("demo").await;
    assert_eq!(fixture.traces().len(), 4, "nothing is destroyed");
    fixture.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    fixture.put::<CAPTCluster>("demo", network_spec()).await;
    fixture.network("True Ready").await;
    assert_eq!(fixture.traces().len(), 4, "nor built again");
}
