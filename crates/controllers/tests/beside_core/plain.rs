//! A Cluster with its two parts and CAPT's own machines, as `examples/cluster` has them.

use kube::api::DynamicObject;
use serde_json::json;

use crate::live_core::{
    CONTROL_PLANE, CORE, INFRASTRUCTURE, LiveCore, api, apply, apply_templates, condition, example,
};

pub async fn a_cluster_lives_and_goes(core: &LiveCore) {
    let fixture = core.fixture("plain").await;
    apply_templates(&fixture).await;
    apply(&fixture, example("cluster/10-cluster.yaml")).await;
    let cluster = core.when(&fixture, (CORE, "Cluster"), "demo", "available", is_available).await;
    eprintln!("plain: available");
    assert_eq!(cluster.data["status"]["phase"], "Provisioned");
    for kind in
        ["InfrastructureReady", "ControlPlaneInitialized", "ControlPlaneAvailable", "RemoteConnectionProbe"]
    {
        assert_eq!(condition(&cluster, kind), "True", "{kind}");
    }
    let initialization = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    assert_eq!(cluster.data["status"]["initialization"], initialization);
    let zones = cluster.data["status"]["failureDomains"].as_array().unwrap();
    let names: Vec<_> = zones.iter().map(|zone| zone["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ap-northeast-1a", "ap-northeast-1b", "ap-northeast-1c"]);
    let endpoint = &cluster.data["spec"]["controlPlaneEndpoint"];
    assert!(endpoint["host"].as_str().unwrap().ends_with(".ap-northeast-1.eks.example"), "{endpoint}");
    assert_eq!(endpoint["port"], 443);
    // Core took both as its own, and CAPT left them so.
    for part in [(INFRASTRUCTURE, "CAPTCluster"), (CONTROL_PLANE, "CAPTControlPlane")] {
        let part = api(&fixture, part.0, part.1).get("demo").await.unwrap();
        let owners = part.metadata.owner_references.unwrap();
        assert_eq!(owners.iter().map(|owner| owner.kind.as_str()).collect::<Vec<_>>(), ["Cluster"]);
        assert_eq!(part.metadata.labels.unwrap()["cluster.x-k8s.io/cluster-name"], "demo");
    }

    apply(&fixture, example("cluster/20-workers.yaml")).await;
    core.all(&fixture, (INFRASTRUCTURE, "CaptMachine"), 3, "three machines", is_provisioned).await;
    eprintln!("plain: has workers");
    core.delete_cluster(&fixture, "demo").await;
    eprintln!("plain: gone");
}

pub fn is_available(object: &DynamicObject) -> bool {
    condition(object, "Available") == "True"
}

pub fn is_provisioned(machine: &DynamicObject) -> bool {
    machine.data["status"]["initialization"]["provisioned"] == true
        && machine.data["spec"]["providerID"].is_string()
}
