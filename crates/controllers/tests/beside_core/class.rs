//! A Cluster of a ClusterClass, as `examples/clusterclass` has it, with machines of Cluster API's own kinds.

use kube::api::DynamicObject;
use serde_json::json;

use crate::live_core::{
    CONTROL_PLANE, CORE, INFRASTRUCTURE, LiveCore, api, apply, apply_templates, change, condition, example,
};
use crate::plain::is_available;
use crate::workers;

const CLUSTER: (&str, &str) = (CORE, "Cluster");

pub async fn a_class_makes_a_cluster(core: &LiveCore) {
    let fixture = core.fixture("class").await;
    apply_templates(&fixture).await;
    apply(&fixture, example("clusterclass/00-templates.yaml")).await;
    apply(&fixture, example("clusterclass/10-clusterclass.yaml")).await;
    let known = |class: &DynamicObject| {
        condition(class, "VariablesReady") == "True" && condition(class, "RefVersionsUpToDate") == "True"
    };
    core.when(&fixture, (CORE, "ClusterClass"), "offline", "variables and references are understood", known)
        .await;
    let (cluster, machines): (Vec<_>, Vec<_>) =
        example("clusterclass/20-cluster.yaml").into_iter().partition(|object| object["kind"] == "Cluster");
    apply(&fixture, cluster).await;
    let cluster = core.when(&fixture, CLUSTER, "classy", "available", is_available).await;
    assert_eq!(condition(&cluster, "TopologyReconciled"), "True");
    eprintln!("class: available");

    // The clones of the templates, whatever they are called, have what the class's patches wrote.
    let reference = |part: &str| cluster.data["spec"][part]["name"].as_str().unwrap().to_owned();
    let network =
        api(&fixture, INFRASTRUCTURE, "CAPTCluster").get(&reference("infrastructureRef")).await.unwrap();
    assert_eq!(network.data["spec"]["region"], "eu-central-1");
    let plane = reference("controlPlaneRef");
    let made = api(&fixture, CONTROL_PLANE, "CAPTControlPlane").get(&plane).await.unwrap();
    assert_eq!(made.data["spec"]["version"], "v1.35.0");
    assert_eq!(made.data["spec"]["controlPlaneConfig"]["region"], "eu-central-1");
    assert_eq!(made.data["spec"]["controlPlaneConfig"]["endpointAccess"]["public"], false);

    workers::live(core, &fixture, machines).await;

    change(&fixture, CLUSTER, "classy", json!({"spec": {"topology": {"version": "v1.36.1"}}})).await;
    let upgraded = |plane: &DynamicObject| {
        plane.data["spec"]["version"] == "v1.36.1" && plane.data["status"]["version"] == "v1.36.1"
    };
    let plane = core.when(&fixture, (CONTROL_PLANE, "CAPTControlPlane"), &plane, "upgraded", upgraded).await;
    let outputs = &plane.data["status"]["workspaceStatus"]["atProvider"]["outputs"];
    assert_eq!(outputs["cluster_version"], "1.36", "it reached the module");
    let reconciled =
        |cluster: &DynamicObject| is_available(cluster) && condition(cluster, "TopologyReconciled") == "True";
    core.when(&fixture, CLUSTER, "classy", "available after the upgrade", reconciled).await;
    eprintln!("class: upgraded");
    core.delete_cluster(&fixture, "classy").await;
    eprintln!("class: gone");
}
