//! What makes no sense: a condition that names the field, and nothing by halves.

use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_api::workspace::WorkspaceTemplateApply;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::cluster_fixture::{cluster_spec, message, network_spec, plane_spec, said};
use crate::fixture::{Fixture, SOON, condition, truth};

pub async fn outputs_that_are_missing(fixture: &Fixture) {
    fixture.template("network", &fixture.network_module().replace("\"vpc_id\"", "\"vpc\"")).await;
    let none = fixture.plane_module().replace("\"cluster_endpoint\"", "\"endpoint\"");
    fixture.template("plane", &none).await;
    fixture.demo("1.31").await;
    let network = fixture.network("False OutputNotFound").await;
    assert!(
        message(&network, "VPCFailed").contains("no output vpc_id"),
        "{}",
        message(&network, "VPCFailed")
    );
    assert_eq!(said(&network, "Stalled"), "True OutputNotFound");
    let status = network.status.unwrap();
    assert!(status.vpc_id.is_none() && !status.ready && status.initialization.is_none());
    fixture.template("network", &fixture.network_module()).await;
    let plane = fixture.plane("False OutputNotFound").await;
    assert!(
        message(&plane, "Failed").contains("no output cluster_endpoint"),
        "{}",
        message(&plane, "Failed")
    );
    assert!(plane.spec.control_plane_endpoint.is_none() && !plane.status.unwrap().initialized);
    let wrong = fixture
        .plane_module()
        .replace("https://${var.cluster_name}.example:6443/", "ftp://${var.cluster_name}");
    fixture.template("plane", &wrong).await;
    let plane = fixture.plane("False EndpointUpdateFailed").await;
    assert!(message(&plane, "Failed").contains("output cluster_endpoint: ftp:// is not https://"));
    assert!(plane.spec.control_plane_endpoint.is_none());
    assert!(fixture.secrets().get_opt("demo-kubeconfig").await.unwrap().is_none());
    fixture.template("plane", &fixture.plane_module()).await;
    fixture.both_ready().await;
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

pub async fn a_template_elsewhere(fixture: &Fixture) {
    let other = Fixture::new(std::sync::Arc::clone(&fixture.harness), "templates_live_here").await;
    other.template("network", &fixture.network_module()).await;
    fixture.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    fixture.put::<CAPTCluster>("demo", network_spec()).await;
    let network = fixture.network("False WorkspaceTemplateNotFound").await;
    assert_eq!(message(&network, "Ready"), "spec.vpcTemplateRef: WorkspaceTemplate network does not exist");
    fixture.remove::<CAPTCluster>("demo").await;
    fixture.absent::<CAPTCluster>("demo").await;
    // With its namespace it is found, where that allows it.
    let shared = json!({"group": "infrastructure.cluster.x-k8s.io", "kind": "WorkspaceTemplate"});
    fixture.grant(&other.namespace, "WorkspaceTemplateApply", shared).await;
    let mut spec = network_spec();
    spec["vpcTemplateRef"]["namespace"] = json!(other.namespace);
    fixture.put::<CAPTCluster>("demo", spec).await;
    fixture.network("True Ready").await;
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

pub async fn a_secret_of_others(fixture: &Fixture) {
    let theirs = serde_json::from_value(json!({
        "metadata": {"name": "demo-kubeconfig"}, "stringData": {"value": "mine"},
    }));
    let theirs = fixture.secrets().create(&PostParams::default(), &theirs.unwrap()).await.unwrap();
    fixture.templates_of_both().await;
    fixture.demo("1.31").await;
    let plane = fixture.plane("False SecretError").await;
    assert!(
        message(&plane, "SecretsReady").contains("demo-kubeconfig"),
        "{}",
        message(&plane, "SecretsReady")
    );
    assert_eq!(
        fixture.secrets().get("demo-kubeconfig").await.unwrap().resource_version(),
        theirs.resource_version()
    );
    assert!(fixture.secrets().get_opt("demo-ca").await.unwrap().is_none(), "nothing by halves");
    let of = ListParams::default().fields("involvedObject.kind=CAPTControlPlane,reason=SecretError");
    let warned = capt_e2e::until("a warning", SOON, async || {
        let events = fixture.api::<Event>().list(&of).await.unwrap();
        events.iter().any(|event| event.type_.as_deref() == Some("Warning")).then_some(())
    });
    warned.await.unwrap();
    fixture.secrets().delete("demo-kubeconfig", &DeleteParams::default()).await.unwrap();
    fixture.both_ready().await;
    // One that is deleted comes back.
    fixture.secrets().delete("demo-kubeconfig", &DeleteParams::default()).await.unwrap();
    let back = capt_e2e::until("it is back", SOON, async || {
        fixture.secrets().get_opt("demo-kubeconfig").await.unwrap()
    });
    back.await.unwrap();
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

pub async fn a_connection_secret_of_others(fixture: &Fixture) {
    let theirs = serde_json::from_value(json!({
        "metadata": {"name": "demo-eks-connection"}, "stringData": {"note": "mine"},
    }));
    fixture.secrets().create(&PostParams::default(), &theirs.unwrap()).await.unwrap();
    fixture.templates_of_both().await;
    fixture.demo("1.31").await;
    // Not that the module lacked the output: nobody can know, since it is in the Secret that could not be written.
    let plane = fixture.plane("False SecretError").await;
    let told = message(&plane, "SecretsReady");
    assert!(told.starts_with("Secret demo-eks-connection, where the workspace writes"), "{told}");
    let blocked = |object: &WorkspaceTemplateApply| truth(object, "ConnectionSecretReady") == "False";
    let name = fixture.applies().list(&ListParams::default()).await.unwrap();
    let name =
        name.iter().map(ResourceExt::name_any).find(|name| name.contains("eks") || name.contains("plane"));
    let workspace = fixture.when(&name.unwrap(), "a condition says so", blocked).await;
    let (reason, told) = condition(&workspace, "ConnectionSecretReady");
    assert_eq!(reason, "SecretError");
    assert!(told.starts_with("Secret demo-eks-connection was not made for this workspace"), "{told}");
    assert_eq!(truth(&workspace, "Ready"), "True", "what is built is usable");
    fixture.secrets().delete("demo-eks-connection", &DeleteParams::default()).await.unwrap();
    fixture.both_ready().await;
    let mended = |object: &WorkspaceTemplateApply| truth(object, "ConnectionSecretReady") == "True";
    fixture.when(&workspace.name_any(), "the condition is true", mended).await;
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

pub async fn a_kubeconfig_that_is_none(fixture: &Fixture) {
    fixture.template("network", &fixture.network_module()).await;
    let module = format!("{}output \"kubeconfig\" {{ value = \"hello\" }}\n", fixture.plane_module());
    fixture.template("plane", &module).await;
    fixture.demo("1.31").await;
    let plane = fixture.plane("False KubeconfigGenerationFailed").await;
    assert!(
        message(&plane, "SecretsReady").contains("output kubeconfig"),
        "{}",
        message(&plane, "SecretsReady")
    );
    assert!(fixture.secrets().get_opt("demo-kubeconfig").await.unwrap().is_none());
    fixture.template("plane", &fixture.plane_module()).await;
    fixture.both_ready().await;
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

pub async fn names_that_are_taken(fixture: &Fixture) {
    fixture.templates_of_both().await;
    fixture.template("other", &fixture.module()).await;
    for name in ["demo-vpc", "demo-eks-controlplane-apply"] {
        fixture.apply(name, "other", json!({"variables": {"name": name}})).await;
        fixture.ready(name).await;
    }
    fixture.demo("1.31").await;
    let network = fixture.network("False NameTaken").await;
    assert!(
        message(&network, "Ready")
            .contains("WorkspaceTemplateApply demo-vpc is controlled by another object")
    );
    fixture.delete("demo-vpc").await;
    let plane = fixture.plane("False NameTaken").await;
    assert!(message(&plane, "Ready").contains("WorkspaceTemplateApply demo-eks-controlplane-apply"));
    let theirs = fixture.get("demo-eks-controlplane-apply").await;
    assert!(
        theirs.owner_references().is_empty() && theirs.metadata.generation == Some(1),
        "it is left alone"
    );
    fixture.delete("demo-eks-controlplane-apply").await;
    fixture.both_ready().await;
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

/// The region of a Cluster without a CAPTCluster is in an annotation, which nothing has checked.
pub async fn a_region_that_is_none(fixture: &Fixture) {
    fixture.template("plane", &fixture.plane_module()).await;
    let mut spec = cluster_spec("demo", "demo");
    spec.as_object_mut().unwrap().remove("infrastructureRef");
    let noted = |region: &str| json!({"name": "demo", "annotations": {"cluster.x-k8s.io/region": region}});
    fixture.put_cluster(noted("EU West"), spec.clone()).await;
    fixture.put::<CAPTControlPlane>("demo", plane_spec("1.31")).await;
    let plane = fixture.plane("False Invalid").await;
    assert!(message(&plane, "Ready").starts_with("annotation cluster.x-k8s.io/region of the Cluster: "));
    assert_eq!(said(&plane, "Stalled"), "True Invalid");
    assert!(fixture.applies().list(&ListParams::default()).await.unwrap().items.is_empty());
    fixture.put_cluster(noted("eu-west-3"), spec).await;
    let plane = fixture.plane("True Ready").await;
    let outputs = plane.status.unwrap().workspace_template_status.unwrap().outputs;
    assert_eq!((&outputs["told"]["region"], &outputs["told"]["vpc"]), (&json!("eu-west-3"), &json!("none")));
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}
