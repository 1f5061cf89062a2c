//! How clusters go: in whatever order, and with what stays.

use capt_api::cluster::core::Cluster;
use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_api::machine::NodeGroup;
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::stage::{SOON, Stage};
use crate::town::{cluster_spec, message, network_spec, said};

/// No Terraform runs for what was never built.
pub async fn deleted_before_anything(stage: &Stage) {
    let before = stage.processes();
    stage.put::<CAPTCluster>("demo", network_spec()).await;
    stage.network("False WaitingForCluster").await;
    stage.remove::<CAPTCluster>("demo").await;
    stage.absent::<CAPTCluster>("demo").await;
    // With workspaces that wait for their templates.
    stage.demo("1.31").await;
    stage.network("False WorkspaceTemplateNotFound").await;
    stage.plane("False WaitingForVPC").await;
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
    assert_eq!(stage.processes(), before, "nothing ran");
    assert!(stage.traces().is_empty());
}

pub async fn deleted_in_any_order(stage: &Stage) {
    stage.templates_of_both().await;
    for order in 0..3 {
        stage.demo("1.31").await;
        stage.both_ready().await;
        match order {
            0 => {
                stage.remove::<CAPTCluster>("demo").await;
                let waits = stage.network("False Deleting").await;
                assert_eq!(said(&waits, "Deleting"), "True InUse");
                assert_eq!(message(&waits, "Deleting"), "waits until CAPTControlPlane demo has gone");
                stage.remove::<CAPTControlPlane>("demo").await;
                stage.absent::<CAPTCluster>("demo").await;
                stage.remove_cluster().await;
            }
            1 => {
                stage.remove::<CAPTControlPlane>("demo").await;
                stage.absent::<CAPTControlPlane>("demo").await;
                stage.network("True Ready").await;
                stage.remove_cluster().await;
            }
            _ => {
                stage.remove_cluster().await;
                // They may have gone with their Cluster already.
                let _ = stage.api::<CAPTControlPlane>().delete("demo", &DeleteParams::background()).await;
                let _ = stage.api::<CAPTCluster>().delete("demo", &DeleteParams::background()).await;
            }
        }
        stage.nothing_is_left().await;
        let traces = stage.traces();
        assert_eq!(traces[order * 5 + 3..], ["destroyed plane demo", "destroyed demo-vpc"], "{traces:#?}");
    }
}

/// Machines and groups, then the control plane, then the network: also where nobody keeps the order.
pub async fn the_network_goes_last(stage: &Stage) {
    stage.templates_of_both().await;
    stage.demo("1.31").await;
    stage.both_ready().await;
    let group = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "NodeGroup",
        "metadata": {"name": "workers", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}},
        "spec": {"external": {"name": "workers"}},
    });
    let force = PatchParams::apply("user").force();
    let groups = stage.api::<NodeGroup>();
    groups.patch("workers", &force, &Patch::Apply(&group)).await.unwrap();
    // What nobody has seen yet holds nothing.
    let seen = until("the group is seen", SOON, async || groups.get("workers").await.unwrap().status);
    seen.await.unwrap();
    stage.remove::<CAPTCluster>("demo").await;
    stage.remove::<CAPTControlPlane>("demo").await;
    let plane = stage
        .told::<CAPTControlPlane>("demo", "waits", |plane| said(plane, "Deleting") == "True InUse")
        .await;
    assert_eq!(message(&plane, "Deleting"), "waits until NodeGroup workers has gone");
    let network = stage
        .told::<CAPTCluster>("demo", "waits", |network| {
            message(network, "Deleting").contains("NodeGroup workers")
        })
        .await;
    assert_eq!(
        message(&network, "Deleting"),
        "waits until CAPTControlPlane demo, NodeGroup workers has gone"
    );
    assert_eq!(stage.traces().len(), 3, "nothing is destroyed");
    groups.delete("workers", &DeleteParams::background()).await.unwrap();
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
    assert_eq!(stage.traces()[3..], ["destroyed plane demo", "destroyed demo-vpc"]);
}

pub async fn a_retained_network(stage: &Stage) {
    stage.templates_of_both().await;
    let mut retains = network_spec();
    retains["retainVpcOnDelete"] = json!(true);
    stage.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    stage.put::<CAPTCluster>("demo", retains).await;
    stage.put::<CAPTControlPlane>("demo", crate::town::plane_spec("1.31")).await;
    stage.both_ready().await;
    stage.remove_cluster().await;
    stage.absent::<Cluster>("demo").await;
    stage.absent::<CAPTCluster>("demo").await;
    stage.gone("demo-eks-controlplane-apply").await;
    let kept = stage.ready("demo-vpc").await;
    assert!(kept.owner_references().is_empty() && kept.metadata.deletion_timestamp.is_none());
    assert_eq!(kept.labels()["infrastructure.cluster.x-k8s.io/retained"], "true");
    assert_eq!(stage.traces()[3..], ["destroyed plane demo"]);
    // Another of its name takes it up, and nothing is built again.
    stage.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    stage.put::<CAPTCluster>("demo", network_spec()).await;
    let network = stage.network("True Ready").await;
    assert_eq!(network.status.unwrap().vpc_id.as_deref(), Some("vpc-demo"));
    assert_eq!(stage.api::<CAPTCluster>().get("demo").await.unwrap().finalizers().len(), 1);
    let taken = stage.get("demo-vpc").await;
    assert_eq!(taken.uid(), kept.uid());
    assert!(!taken.labels().contains_key("infrastructure.cluster.x-k8s.io/retained"));
    assert_eq!(stage.traces().len(), 4);
    if stage.harness.collects_garbage() {
        in_the_foreground(stage).await;
    }
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
    assert_eq!(stage.traces()[4..], ["destroyed demo-vpc"]);
}

/// A foreground deletion takes the object of the workspace, whatever its owner says; what was built stays, and its state.
async fn in_the_foreground(stage: &Stage) {
    stage.merge::<CAPTCluster>("demo", json!({"spec": {"retainVpcOnDelete": true}})).await;
    stage.when("demo-vpc", "retains", |apply| apply.spec.retain_workspace_on_delete).await;
    stage.api::<Cluster>().delete("demo", &DeleteParams::foreground()).await.unwrap();
    stage.absent::<Cluster>("demo").await;
    stage.absent::<CAPTCluster>("demo").await;
    assert_eq!(stage.traces().len(), 4, "nothing is destroyed");
    stage.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    stage.put::<CAPTCluster>("demo", network_spec()).await;
    stage.network("True Ready").await;
    assert_eq!(stage.traces().len(), 4, "nor built again");
}
