//! What happens to clusters while they live: upgrades, failures, delays, pauses.

use capt_api::cluster::{CAPTCluster, CAPTControlPlane, ControlPlanePhase};
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage};
use crate::town::{cluster_spec, message, network_spec, plane_spec, said};

fn versions(plane: &CAPTControlPlane) -> Vec<&str> {
    plane.status.iter().flat_map(|status| &status.versions).map(|one| one.version.as_str()).collect()
}

fn phase(plane: &CAPTControlPlane) -> Option<ControlPlanePhase> {
    plane.status.as_ref().and_then(|status| status.phase)
}

pub async fn an_upgrade(stage: &Stage) {
    stage.templates_of_both().await;
    stage.demo("v1.31.4").await;
    stage.both_ready().await;
    stage.put::<CAPTControlPlane>("demo", plane_spec("v1.32.1")).await;
    stage.traced("version 1.32").await;
    let updating = stage.plane("True Updating").await;
    assert_eq!((phase(&updating), versions(&updating)), (Some(ControlPlanePhase::Updating), vec!["v1.31.4"]));
    assert_eq!(updating.status.as_ref().unwrap().version.as_deref(), Some("v1.31.4"), "not before it runs");
    stage.open_gate();
    let updated = stage.plane("True Ready").await;
    assert_eq!((phase(&updated), versions(&updated)), (Some(ControlPlanePhase::Ready), vec!["v1.32.1"]));
    // Tags reach it, too; and a patch version that the module is not told of starts nothing.
    let mut spec = plane_spec("v1.32.1");
    spec["additionalTags"] = json!({"team": "red"});
    stage.put::<CAPTControlPlane>("demo", spec).await;
    let tagged = stage.told::<CAPTControlPlane>("demo", "tagged", |plane| {
        let outputs = &plane
            .status
            .as_ref()
            .unwrap()
            .workspace_status
            .as_ref()
            .unwrap()
            .at_provider
            .as_ref()
            .unwrap()
            .outputs;
        said(plane, "Ready") == "True Ready" && outputs["told"]["tags"] == json!({"team": "red"})
    });
    tagged.await;
    assert_eq!(
        stage.traces(),
        ["created demo-vpc", "created plane demo", "version 1.31", "version 1.32"],
        "in place"
    );
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

/// A module that fails after what it had to build.
fn failing(module: &str, built: &str) -> String {
    let check = "resource \"terraform_data\" \"check\" {\n  depends_on = [terraform_data.BUILT]\n  provisioner \"local-exec\" {\n    command = \"echo no room >&2; exit 1\"\n  }\n}\n";
    format!("{module}{}", check.replace("BUILT", built))
}

pub async fn a_network_fails_and_is_mended(stage: &Stage) {
    stage.template("network", &failing(&stage.network_module(), "vpc")).await;
    stage.template("plane", &stage.plane_module()).await;
    stage.demo("1.31").await;
    let failed = stage.network("False VPCCreationFailed").await;
    assert_eq!(said(&failed, "VPCFailed"), "True VPCCreationFailed");
    assert_eq!(said(&failed, "VPCReady"), "False VPCCreationFailed");
    let status = failed.status.as_ref().unwrap();
    assert_eq!(status.failure_reason.as_deref(), Some("VPCCreationFailed"));
    assert!(status.failure_message.as_ref().unwrap().contains("no room"), "{status:#?}");
    assert!(status.workspace_template_status.as_ref().unwrap().last_failure_message.is_some());
    let waits = stage
        .told::<CAPTControlPlane>("demo", "waits", |plane| message(plane, "VPCReady").contains("no room"));
    assert_eq!(said(&waits.await, "Ready"), "False WaitingForVPC");
    stage.template("network", &stage.network_module()).await;
    let (mended, _) = stage.both_ready().await;
    assert_eq!(said(&mended, "VPCFailed"), "False VPCCreated");
    assert_eq!(mended.status.unwrap().failure_reason, None);
    // What a person must mend says so, and what stands goes on standing.
    stage.template("network", "resource {").await;
    let stalled = stage.network("True VPCCreationFailed").await;
    assert_eq!(said(&stalled, "Stalled"), "True VPCCreationFailed");
    assert!(stalled.status.unwrap().ready);
    stage.template("network", &stage.network_module()).await;
    stage.both_ready().await;
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

pub async fn a_control_plane_fails_and_is_mended(stage: &Stage) {
    stage.template("network", &stage.network_module()).await;
    stage.template("plane", &failing(&stage.plane_module(), "plane")).await;
    stage.demo("1.31").await;
    let failed = stage.plane("False WorkspaceError").await;
    assert_eq!(
        (phase(&failed), said(&failed, "Failed").as_str()),
        (Some(ControlPlanePhase::Failed), "True WorkspaceError")
    );
    let status = failed.status.unwrap();
    assert_eq!(status.failure_reason.as_deref(), Some("WorkspaceError"));
    assert!(status.failure_message.unwrap().contains("no room"));
    assert!(!status.ready && !status.initialized && status.version.is_none());
    stage.template("plane", &stage.plane_module()).await;
    let (_, mended) = stage.both_ready().await;
    assert_eq!(
        (phase(&mended), said(&mended, "Failed").as_str()),
        (Some(ControlPlanePhase::Ready), "False Ready")
    );
    assert_eq!(mended.status.unwrap().failure_reason, None);
    // An upgrade that fails leaves what runs alone.
    stage.template("plane", &failing(&stage.plane_module(), "version")).await;
    stage.open_gate();
    stage.put::<CAPTControlPlane>("demo", plane_spec("1.32")).await;
    let failed = stage.plane("True WorkspaceError").await;
    assert_eq!((phase(&failed), versions(&failed)), (Some(ControlPlanePhase::Failed), vec!["1.31"]));
    stage.template("plane", &stage.plane_module()).await;
    assert_eq!(versions(&stage.plane("True Ready").await), ["1.32"]);
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

/// Each of the three times, told with what is waited for; what is late is taken when it comes.
pub async fn what_is_late_is_told(stage: &Stage) {
    let late = async |minutes: i64, expected: &str| {
        stage.harness.clock.turn(minutes);
        stage.nudge::<CAPTControlPlane>("demo").await;
        let plane = stage.plane(expected).await;
        assert_eq!(phase(&plane), Some(ControlPlanePhase::Failed));
        let status = plane.status.clone().unwrap();
        assert_eq!(Some(format!("False {}", status.failure_reason.unwrap())).as_deref(), Some(expected));
        message(&plane, "Failed")
    };
    stage.demo("1.31").await;
    stage
        .told::<CAPTControlPlane>("demo", "waits", |plane| {
            message(plane, "VPCReady").contains("WorkspaceTemplate network")
        })
        .await;
    let told = late(15, "False VPCReadyTimeout").await;
    assert!(told.starts_with("waited 15 minutes for the network: CAPTCluster demo is not ready"), "{told}");
    stage.template("network", &stage.network_module()).await;
    let plane = stage.plane("False WorkspaceTemplateNotFound").await;
    assert_eq!(
        (phase(&plane), said(&plane, "Creating").as_str()),
        (Some(ControlPlanePhase::Creating), "True WorkspaceTemplateNotFound")
    );
    let told = late(30, "False ControlPlaneTimeout").await;
    assert_eq!(
        told,
        "not ready after 30 minutes: spec.workspaceTemplateRef: WorkspaceTemplate plane does not exist"
    );
    let without = stage.plane_module().replace("\"cluster_certificate_authority_data\"", "\"nothing\"");
    stage.template("plane", &without).await;
    let plane = stage.plane("False KubeconfigGenerationFailed").await;
    assert_eq!(said(&plane, "SecretsReady"), "False KubeconfigGenerationFailed");
    let told = late(5, "False SecretTimeout").await;
    assert!(
        told.starts_with("waited 5 minutes for its Secrets: ")
            && told.contains("cluster_certificate_authority_data"),
        "{told}"
    );
    assert!(stage.secrets().get_opt("demo-kubeconfig").await.unwrap().is_none(), "nothing by halves");
    stage.template("plane", &stage.plane_module()).await;
    let (_, plane) = stage.both_ready().await;
    assert_eq!(plane.status.unwrap().failure_reason, None);

    // An upgrade that hangs says so, and what serves goes on serving.
    stage.put::<CAPTControlPlane>("demo", plane_spec("1.32")).await;
    stage.traced("version 1.32").await;
    stage.plane("True Updating").await;
    stage.harness.clock.turn(30);
    stage.nudge::<CAPTControlPlane>("demo").await;
    let plane = stage.plane("True ControlPlaneTimeout").await;
    assert_eq!((phase(&plane), versions(&plane)), (Some(ControlPlanePhase::Failed), vec!["1.31"]));
    let told = message(&plane, "Failed");
    assert!(told.contains("not changed after 30 minutes: "), "{told}");
    stage.open_gate();
    let plane = stage.plane("True Ready").await;
    assert_eq!((phase(&plane), versions(&plane)), (Some(ControlPlanePhase::Ready), vec!["1.32"]));
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

pub async fn paused_in_the_middle(stage: &Stage) {
    stage.templates_of_both().await;
    stage.demo("1.32").await;
    stage.traced("version 1.32").await;
    stage.merge_cluster(json!({"spec": {"paused": true}})).await;
    stage.told::<CAPTControlPlane>("demo", "paused", |plane| said(plane, "Paused") == "True Paused").await;
    stage.told::<CAPTCluster>("demo", "paused", |network| said(network, "Paused") == "True Paused").await;
    stage.open_gate();
    // Nothing of what is asked meanwhile happens; not even the end.
    stage.put::<CAPTControlPlane>("demo", plane_spec("1.33")).await;
    stage.merge::<CAPTCluster>("demo", json!({"spec": {"vpcConfig": {"name": "other"}}})).await;
    stage.told::<CAPTControlPlane>("demo", "paused", |plane| said(plane, "Paused") == "True Paused").await;
    stage.reason("demo-eks-controlplane-apply", "Paused").await;
    assert_eq!(stage.get("demo-vpc").await.spec.variables["vpc_name"], "demo-vpc");
    assert_eq!(stage.get("demo-eks-controlplane-apply").await.spec.variables["kubernetes_version"], "1.32");
    stage.merge_cluster(json!({"spec": {"paused": false}})).await;
    let (_, plane) = stage.both_ready().await;
    assert_eq!((versions(&plane), said(&plane, "Paused").as_str()), (vec!["1.33"], "absent"));
    // By its own annotation, too, and deletion with it.
    stage
        .merge::<CAPTCluster>("demo", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}))
        .await;
    stage.told::<CAPTCluster>("demo", "paused", |network| said(network, "Paused") == "True Paused").await;
    stage.remove_cluster().await;
    stage.absent::<CAPTControlPlane>("demo").await;
    let going = until("the network is deleted", SOON, async || {
        stage.api::<CAPTCluster>().get("demo").await.unwrap().metadata.deletion_timestamp.map(drop)
    });
    going.await.unwrap();
    assert!(!stage.traces().iter().any(|line| line.starts_with("destroyed other")));
    stage
        .merge::<CAPTCluster>("demo", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}))
        .await;
    stage.nothing_is_left().await;
}

pub async fn somebody_else_manages_it(stage: &Stage) {
    stage.templates_of_both().await;
    stage.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    let notes = json!({"name": "demo", "annotations": {"cluster.x-k8s.io/managed-by": "others"}});
    stage.put_with::<CAPTCluster>(notes, network_spec()).await;
    stage.put::<CAPTControlPlane>("demo", plane_spec("1.31")).await;
    stage.plane("False WaitingForVPC").await;
    let theirs = stage.api::<CAPTCluster>().get("demo").await.unwrap();
    assert!(theirs.status.is_none() && theirs.finalizers().is_empty());
    // What others say of it counts.
    let status =
        json!({"status": {"ready": true, "vpcId": "vpc-theirs", "initialization": {"provisioned": true}}});
    stage
        .api::<CAPTCluster>()
        .patch_status("demo", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    let plane = stage.plane("True Ready").await;
    assert_eq!(plane.status.unwrap().workspace_template_status.unwrap().outputs["told"]["vpc"], "vpc-theirs");
    assert_eq!(stage.traces(), ["created plane demo", "version 1.31"]);
    let theirs = stage.api::<CAPTCluster>().get("demo").await.unwrap();
    assert!(theirs.finalizers().is_empty() && theirs.status.unwrap().conditions.is_empty());
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}

pub async fn what_is_moved_waits_for_runs(stage: &Stage) {
    let blocked = |object: &Value| {
        object["metadata"]["annotations"].get("clusterctl.cluster.x-k8s.io/block-move").is_some()
    };
    stage.templates_of_both().await;
    stage.demo("1.32").await;
    stage.traced("version 1.32").await;
    let is = |wanted: bool| {
        move |plane: &CAPTControlPlane| blocked(&serde_json::to_value(plane).unwrap()) == wanted
    };
    stage.told::<CAPTControlPlane>("demo", "kept here", is(true)).await;
    stage.open_gate();
    stage.both_ready().await;
    stage.told::<CAPTControlPlane>("demo", "free to go", is(false)).await;
    let network = |network: &CAPTCluster| !blocked(&serde_json::to_value(network).unwrap());
    stage.told::<CAPTCluster>("demo", "free to go", network).await;
    stage.remove_cluster().await;
    stage.nothing_is_left().await;
}
