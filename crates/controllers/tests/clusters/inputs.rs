//! What makes no sense: a condition that names the field, and nothing by halves.

use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_api::workspace::WorkspaceTemplateApply;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::stage::{SOON, Stage, condition, truth};
use crate::town::{cluster_spec, message, network_spec, plane_spec, said};

pub async fn outputs_that_are_missing(stage: &Stage) {
    stage.template("network", &stage.network_module().replace("\"vpc_id\"", "\"vpc\"")).await;
    let none = stage.plane_module().replace("\"cluster_endpoint\"", "\"endpoint\"");
    stage.template("plane", &none).await;
    stage.demo("1.31").await;
    let network = stage.network("False OutputNotFound").await;
    assert!(
        message(&network, "VPCFailed").contains("no output vpc_id"),
        "{}",
        message(&network, "VPCFailed")
    );
    assert_eq!(said(&network, "Stalled"), "True OutputNotFound");
    let status = network.status.unwrap();
    assert!(status.vpc_id.is_none() && !status.ready && status.initialization.is_none());
    stage.template("network", &stage.network_module()).await;
    let plane = stage.plane("False OutputNotFound").await;
    assert!(
        message(&plane, "Failed").contains("no output cluster_endpoint"),
        "{}",
        message(&plane, "Failed")
    );
    assert!(plane.spec.control_plane_endpoint.is_none() && !plane.status.unwrap().initialized);
    let wrong = stage
        .plane_module()
        .replace("https://${var.cluster_name}.example:6443/", "ftp://${var.cluster_name}");
    stage.template("plane", &wrong).await;
    let plane = stage.plane("False EndpointUpdateFailed").await;
    assert!(message(&plane, "Failed").contains("output cluster_endpoint: ftp:// is not https://"));
    assert!(plane.spec.control_plane_endpoint.is_none());
    assert!(stage.secrets().get_opt("demo-kubeconfig").await.unwrap().is_none());
    stage.template("plane", &stage.plane_module()).await;
    stage.both_ready().await;
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

pub async fn a_template_elsewhere(stage: &Stage) {
    let other = Stage::new(std::sync::Arc::clone(&stage.harness), "templates_live_here").await;
    other.template("network", &stage.network_module()).await;
    stage.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    stage.put::<CAPTCluster>("demo", network_spec()).await;
    let network = stage.network("False WorkspaceTemplateNotFound").await;
    assert_eq!(message(&network, "Ready"), "spec.vpcTemplateRef: WorkspaceTemplate network does not exist");
    stage.remove::<CAPTCluster>("demo").await;
    stage.absent::<CAPTCluster>("demo").await;
    // With its namespace it is found, where that allows it.
    let shared = json!({"group": "infrastructure.cluster.x-k8s.io", "kind": "WorkspaceTemplate"});
    stage.grant(&other.namespace, "WorkspaceTemplateApply", shared).await;
    let mut spec = network_spec();
    spec["vpcTemplateRef"]["namespace"] = json!(other.namespace);
    stage.put::<CAPTCluster>("demo", spec).await;
    stage.network("True Ready").await;
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

pub async fn a_secret_of_others(stage: &Stage) {
    let theirs = serde_json::from_value(json!({
        "metadata": {"name": "demo-kubeconfig"}, "stringData": {"value": "mine"},
    }));
    let theirs = stage.secrets().create(&PostParams::default(), &theirs.unwrap()).await.unwrap();
    stage.templates_of_both().await;
    stage.demo("1.31").await;
    let plane = stage.plane("False SecretError").await;
    assert!(
        message(&plane, "SecretsReady").contains("demo-kubeconfig"),
        "{}",
        message(&plane, "SecretsReady")
    );
    assert_eq!(
        stage.secrets().get("demo-kubeconfig").await.unwrap().resource_version(),
        theirs.resource_version()
    );
    assert!(stage.secrets().get_opt("demo-ca").await.unwrap().is_none(), "nothing by halves");
    let of = ListParams::default().fields("involvedObject.kind=CAPTControlPlane,reason=SecretError");
    let warned = capt_e2e::until("a warning", SOON, async || {
        let events = stage.api::<Event>().list(&of).await.unwrap();
        events.iter().any(|event| event.type_.as_deref() == Some("Warning")).then_some(())
    });
    warned.await.unwrap();
    stage.secrets().delete("demo-kubeconfig", &DeleteParams::default()).await.unwrap();
    stage.both_ready().await;
    // One that is deleted comes back.
    stage.secrets().delete("demo-kubeconfig", &DeleteParams::default()).await.unwrap();
    let back = capt_e2e::until("it is back", SOON, async || {
        stage.secrets().get_opt("demo-kubeconfig").await.unwrap()
    });
    back.await.unwrap();
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

pub async fn a_connection_secret_of_others(stage: &Stage) {
    let theirs = serde_json::from_value(json!({
        "metadata": {"name": "demo-eks-connection"}, "stringData": {"note": "mine"},
    }));
    stage.secrets().create(&PostParams::default(), &theirs.unwrap()).await.unwrap();
    stage.templates_of_both().await;
    stage.demo("1.31").await;
    // Not that the module lacked the output: nobody can know, since it is in the Secret that could not be written.
    let plane = stage.plane("False SecretError").await;
    let told = message(&plane, "SecretsReady");
    assert!(told.starts_with("Secret demo-eks-connection, where the workspace writes"), "{told}");
    let blocked = |object: &WorkspaceTemplateApply| truth(object, "ConnectionSecretReady") == "False";
    let name = stage.applies().list(&ListParams::default()).await.unwrap();
    let name =
        name.iter().map(ResourceExt::name_any).find(|name| name.contains("eks") || name.contains("plane"));
    let workspace = stage.when(&name.unwrap(), "a condition says so", blocked).await;
    let (reason, told) = condition(&workspace, "ConnectionSecretReady");
    assert_eq!(reason, "SecretError");
    assert!(told.starts_with("Secret demo-eks-connection was not made for this workspace"), "{told}");
    assert_eq!(truth(&workspace, "Ready"), "True", "what is built is usable");
    stage.secrets().delete("demo-eks-connection", &DeleteParams::default()).await.unwrap();
    stage.both_ready().await;
    let mended = |object: &WorkspaceTemplateApply| truth(object, "ConnectionSecretReady") == "True";
    stage.when(&workspace.name_any(), "the condition is true", mended).await;
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

pub async fn a_kubeconfig_that_is_none(stage: &Stage) {
    stage.template("network", &stage.network_module()).await;
    let module = format!("{}output \"kubeconfig\" {{ value = \"hello\" }}\n", stage.plane_module());
    stage.template("plane", &module).await;
    stage.demo("1.31").await;
    let plane = stage.plane("False KubeconfigGenerationFailed").await;
    assert!(
        message(&plane, "SecretsReady").contains("output kubeconfig"),
        "{}",
        message(&plane, "SecretsReady")
    );
    assert!(stage.secrets().get_opt("demo-kubeconfig").await.unwrap().is_none());
    stage.template("plane", &stage.plane_module()).await;
    stage.both_ready().await;
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

pub async fn names_that_are_taken(stage: &Stage) {
    stage.templates_of_both().await;
    stage.template("other", &stage.module()).await;
    for name in ["demo-vpc", "demo-eks-controlplane-apply"] {
        stage.apply(name, "other", json!({"variables": {"name": name}})).await;
        stage.ready(name).await;
    }
    stage.demo("1.31").await;
    let network = stage.network("False NameTaken").await;
    assert!(message(&network, "Ready").contains("WorkspaceTemplateApply demo-vpc belongs to another"));
    stage.delete("demo-vpc").await;
    let plane = stage.plane("False NameTaken").await;
    assert!(message(&plane, "Ready").contains("WorkspaceTemplateApply demo-eks-controlplane-apply"));
    let theirs = stage.get("demo-eks-controlplane-apply").await;
    assert!(
        theirs.owner_references().is_empty() && theirs.metadata.generation == Some(1),
        "it is left alone"
    );
    stage.delete("demo-eks-controlplane-apply").await;
    stage.both_ready().await;
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

/// The region of a Cluster without a CAPTCluster is in an annotation, which nothing has checked.
pub async fn a_region_that_is_none(stage: &Stage) {
    stage.template("plane", &stage.plane_module()).await;
    let mut spec = cluster_spec("demo", "demo");
    spec.as_object_mut().unwrap().remove("infrastructureRef");
    let noted = |region: &str| json!({"name": "demo", "annotations": {"cluster.x-k8s.io/region": region}});
    stage.put_cluster(noted("EU West"), spec.clone()).await;
    stage.put::<CAPTControlPlane>("demo", plane_spec("1.31")).await;
    let plane = stage.plane("False Invalid").await;
    assert!(message(&plane, "Ready").starts_with("annotation cluster.x-k8s.io/region of the Cluster: "));
    assert_eq!(said(&plane, "Stalled"), "True Invalid");
    assert!(stage.applies().list(&ListParams::default()).await.unwrap().items.is_empty());
    stage.put_cluster(noted("eu-west-3"), spec).await;
    let plane = stage.plane("True Ready").await;
    let outputs = plane.status.unwrap().workspace_template_status.unwrap().outputs;
    assert_eq!((&outputs["told"]["region"], &outputs["told"]["vpc"]), (&json!("eu-west-3"), &json!("none")));
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}
