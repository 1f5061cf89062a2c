//! What happens to clusters while they live: upgrades, failures, delays, pauses.

use capt_api::cluster::{CAPTCluster, CAPTControlPlane, ControlPlanePhase};
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster_fixture::{cluster_spec, message, network_spec, plane_spec, said};
use crate::fixture::{Fixture, SOON};

fn versions(plane: &CAPTControlPlane) -> Vec<&str> {
    plane.status.iter().flat_map(|status| &status.versions).map(|one| one.version.as_str()).collect()
}

fn phase(plane: &CAPTControlPlane) -> Option<ControlPlanePhase> {
    plane.status.as_ref().and_then(|status| status.phase)
}

pub async fn an_upgrade(fixture: &Fixture) {
    fixture.templates_of_both().await;
    fixture.demo("v1.31.4").await;
    fixture.both_ready().await;
    fixture.put::<CAPTControlPlane>("demo", plane_spec("v1.32.1")).await;
    fixture.traced("version 1.32").await;
    let updating = fixture.plane("True Updating").await;
    assert_eq!((phase(&updating), versions(&updating)), (Some(ControlPlanePhase::Updating), vec!["v1.31.4"]));
    assert_eq!(updating.status.as_ref().unwrap().version.as_deref(), Some("v1.31.4"), "not before it runs");
    fixture.open_gate();
    let updated = fixture.plane("True Ready").await;
    assert_eq!((phase(&updated), versions(&updated)), (Some(ControlPlanePhase::Ready), vec!["v1.32.1"]));
    // Tags reach it, too; and a patch version that the module is not told of starts nothing.
    let mut spec = plane_spec("v1.32.1");
    spec["additionalTags"] = json!({"team": "red"});
    fixture.put::<CAPTControlPlane>("demo", spec).await;
    let tagged = fixture.told::<CAPTControlPlane>("demo", "tagged", |plane| {
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
        fixture.traces(),
        ["created demo-vpc", "created plane demo", "version 1.31", "version 1.32"],
        "in place"
    );
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

/// A module that fails after what it had to build.
fn failing(module: &str, built: &str) -> String {
    let check = "resource \"terraform_data\" \"check\" {\n  depends_on = [terraform_data.BUILT]\n  provisioner \"local-exec\" {\n    command = \"echo no room >&2; exit 1\"\n  }\n}\n";
    format!("{module}{}", check.replace("BUILT", built))
}

pub async fn a_network_fails_and_is_mended(fixture: &Fixture) {
    fixture.template("network", &failing(&fixture.network_module(), "vpc")).await;
    fixture.template("plane", &fixture.plane_module()).await;
    fixture.demo("1.31").await;
    let failed = fixture.network("False VPCCreationFailed").await;
    assert_eq!(said(&failed, "VPCFailed"), "True VPCCreationFailed");
    assert_eq!(said(&failed, "VPCReady"), "False VPCCreationFailed");
    let status = failed.status.as_ref().unwrap();
    assert_eq!(status.failure_reason.as_deref(), Some("VPCCreationFailed"));
    assert!(status.failure_message.as_ref().unwrap().contains("no room"), "{status:#?}");
    assert!(status.workspace_template_status.as_ref().unwrap().last_failure_message.is_some());
    let waits = fixture
        .told::<CAPTControlPlane>("demo", "waits", |plane| message(plane, "VPCReady").contains("no room"));
    assert_eq!(said(&waits.await, "Ready"), "False WaitingForVPC");
    fixture.template("network", &fixture.network_module()).await;
    let (mended, _) = fixture.both_ready().await;
    assert_eq!(said(&mended, "VPCFailed"), "False VPCCreated");
    assert_eq!(mended.status.unwrap().failure_reason, None);
    // What a person must mend says so, and what stands goes on standing.
    fixture.template("network", "resource {").await;
    let stalled = fixture.network("True VPCCreationFailed").await;
    assert_eq!(said(&stalled, "Stalled"), "True VPCCreationFailed");
    assert!(stalled.status.unwrap().ready);
    fixture.template("network", &fixture.network_module()).await;
    fixture.both_ready().await;
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

pub async fn a_control_plane_fails_and_is_mended(fixture: &Fixture) {
    fixture.template("network", &fixture.network_module()).await;
    fixture.template("plane", &failing(&fixture.plane_module(), "plane")).await;
    fixture.demo("1.31").await;
    let failed = fixture.plane("False WorkspaceError").await;
    assert_eq!(
        (phase(&failed), said(&failed, "Failed").as_str()),
        (Some(ControlPlanePhase::Failed), "True WorkspaceError")
    );
    let status = failed.status.unwrap();
    assert_eq!(status.failure_reason.as_deref(), Some("WorkspaceError"));
    assert!(status.failure_message.unwrap().contains("no room"));
    assert!(!status.ready && !status.initialized && status.version.is_none());
    fixture.template("plane", &fixture.plane_module()).await;
    let (_, mended) = fixture.both_ready().await;
    assert_eq!(
        (phase(&mended), said(&mended, "Failed").as_str()),
        (Some(ControlPlanePhase::Ready), "False Ready")
    );
    assert_eq!(mended.status.unwrap().failure_reason, None);
    // An upgrade that fails leaves what runs alone.
    fixture.template("plane", &failing(&fixture.plane_module(), "version")).await;
    fixture.open_gate();
    fixture.put::<CAPTControlPlane>("demo", plane_spec("1.32")).await;
    let failed = fixture.plane("True WorkspaceError").await;
    assert_eq!((phase(&failed), versions(&failed)), (Some(ControlPlanePhase::Failed), vec!["1.31"]));
    fixture.template("plane", &fixture.plane_module()).await;
    assert_eq!(versions(&fixture.plane("True Ready").await), ["1.32"]);
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

/// Each of the three times, told with what is waited for; what is late is taken when it comes.
pub async fn what_is_late_is_told(fixture: &Fixture) {
    let late = async |minutes: i64, expected: &str| {
        fixture.harness.clock.turn(minutes);
        fixture.nudge::<CAPTControlPlane>("demo").await;
        let plane = fixture.plane(expected).await;
        assert_eq!(phase(&plane), Some(ControlPlanePhase::Failed));
        let status = plane.status.clone().unwrap();
        assert_eq!(Some(format!("False {}", status.failure_reason.unwrap())).as_deref(), Some(expected));
        message(&plane, "Failed")
    };
    fixture.demo("1.31").await;
    fixture
        .told::<CAPTControlPlane>("demo", "waits", |plane| {
            message(plane, "VPCReady").contains("WorkspaceTemplate network")
        })
        .await;
    let told = late(15, "False VPCReadyTimeout").await;
    assert!(told.starts_with("waited 15 minutes for the network: CAPTCluster demo is not ready"), "{told}");
    fixture.template("network", &fixture.network_module()).await;
    let plane = fixture.plane("False WorkspaceTemplateNotFound").await;
    assert_eq!(
        (phase(&plane), said(&plane, "Creating").as_str()),
        (Some(ControlPlanePhase::Creating), "True WorkspaceTemplateNotFound")
    );
    let told = late(30, "False ControlPlaneTimeout").await;
    assert_eq!(
        told,
        "not ready after 30 minutes: spec.workspaceTemplateRef: WorkspaceTemplate plane does not exist"
    );
    let without = fixture.plane_module().replace("\"cluster_certificate_authority_data\"", "\"nothing\"");
    fixture.template("plane", &without).await;
    let plane = fixture.plane("False KubeconfigGenerationFailed").await;
    assert_eq!(said(&plane, "SecretsReady"), "False KubeconfigGenerationFailed");
    let told = late(5, "False SecretTimeout").await;
    assert!(
        told.starts_with("waited 5 minutes for its Secrets: ")
            && told.contains("cluster_certificate_authority_data"),
        "{told}"
    );
    assert!(fixture.secrets().get_opt("demo-kubeconfig").await.unwrap().is_none(), "nothing by halves");
    fixture.template("plane", &fixture.plane_module()).await;
    let (_, plane) = fixture.both_ready().await;
    assert_eq!(plane.status.unwrap().failure_reason, None);

    // An upgrade that hangs says so, and what serves goes on serving.
    fixture.put::<CAPTControlPlane>("demo", plane_spec("1.32")).await;
    fixture.traced("version 1.32").await;
    fixture.plane("True Updating").await;
    fixture.harness.clock.turn(30);
    fixture.nudge::<CAPTControlPlane>("demo").await;
    let plane = fixture.plane("True ControlPlaneTimeout").await;
    assert_eq!((phase(&plane), versions(&plane)), (Some(ControlPlanePhase::Failed), vec!["1.31"]));
    let told = message(&plane, "Failed");
    assert!(told.contains("not changed after 30 minutes: "), "{told}");
    fixture.open_gate();
    let plane = fixture.plane("True Ready").await;
    assert_eq!((phase(&plane), versions(&plane)), (Some(ControlPlanePhase::Ready), vec!["1.32"]));
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

pub async fn paused_in_the_middle(fixture: &Fixture) {
    fixture.templates_of_both().await;
    fixture.demo("1.32").await;
    fixture.traced("version 1.32").await;
    fixture.merge_cluster(json!({"spec": {"paused": true}})).await;
    fixture.told::<CAPTControlPlane>("demo", "paused", |plane| said(plane, "Paused") == "True Paused").await;
    fixture.told::<CAPTCluster>("demo", "paused", |network| said(network, "Paused") == "True Paused").await;
    fixture.open_gate();
    // Nothing of what is asked meanwhile happens; not even the end.
    fixture.put::<CAPTControlPlane>("demo", plane_spec("1.33")).await;
    fixture.merge::<CAPTCluster>("demo", json!({"spec": {"vpcConfig": {"name": "other"}}})).await;
    fixture.told::<CAPTControlPlane>("demo", "paused", |plane| said(plane, "Paused") == "True Paused").await;
    fixture.reason("demo-eks-controlplane-apply", "Paused").await;
    assert_eq!(fixture.get("demo-vpc").await.spec.variables["vpc_name"], "demo-vpc");
    assert_eq!(fixture.get("demo-eks-controlplane-apply").await.spec.variables["kubernetes_version"], "1.32");
    fixture.merge_cluster(json!({"spec": {"paused": false}})).await;
    let (_, plane) = fixture.both_ready().await;
    assert_eq!((versions(&plane), said(&plane, "Paused").as_str()), (vec!["1.33"], "absent"));
    // By its own annotation, too, and deletion with it.
    fixture
        .merge::<CAPTCluster>("demo", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}))
        .await;
    fixture.told::<CAPTCluster>("demo", "paused", |network| said(network, "Paused") == "True Paused").await;
    fixture.remove_cluster().await;
    fixture.absent::<CAPTControlPlane>("demo").await;
    let going = until("the network is deleted", SOON, async || {
        fixture.api::<CAPTCluster>().get("demo").await.unwrap().metadata.deletion_timestamp.map(drop)
    });
    going.await.unwrap();
    assert!(!fixture.traces().iter().any(|line| line.starts_with("destroyed other")));
    fixture
        .merge::<CAPTCluster>("demo", json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}))
        .await;
    fixture.nothing_is_left().await;
}

pub async fn somebody_else_manages_it(fixture: &Fixture) {
    fixture.templates_of_both().await;
    fixture.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
    let notes = json!({"name": "demo", "annotations": {"cluster.x-k8s.io/managed-by": "others"}});
    fixture.put_with::<CAPTCluster>(notes, network_spec()).await;
    fixture.put::<CAPTControlPlane>("demo", plane_spec("1.31")).await;
    fixture.plane("False WaitingForVPC").await;
    let theirs = fixture.api::<CAPTCluster>().get("demo").await.unwrap();
    assert!(theirs.status.is_none() && theirs.finalizers().is_empty());
    // What others say of it counts.
    let status =
        json!({"status": {"ready": true, "vpcId": "vpc-theirs", "initialization": {"provisioned": true}}});
    fixture
        .api::<CAPTCluster>()
        .patch_status("demo", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    let plane = fixture.plane("True Ready").await;
    assert_eq!(plane.status.unwrap().workspace_template_status.unwrap().outputs["told"]["vpc"], "vpc-theirs");
    assert_eq!(fixture.traces(), ["created plane demo", "version 1.31"]);
    let theirs = fixture.api::<CAPTCluster>().get("demo").await.unwrap();
    assert!(theirs.finalizers().is_empty() && theirs.status.unwrap().conditions.is_empty());
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}

pub async fn what_is_moved_waits_for_runs(fixture: &Fixture) {
    let blocked = |object: &Value| {
        object["metadata"]["annotations"].get("clusterctl.cluster.x-k8s.io/block-move").is_some()
    };
    fixture.templates_of_both().await;
    fixture.demo("1.32").await;
    fixture.traced("version 1.32").await;
    let is = |wanted: bool| {
        move |plane: &CAPTControlPlane| blocked(&serde_json::to_value(plane).unwrap()) == wanted
    };
    fixture.told::<CAPTControlPlane>("demo", "kept here", is(true)).await;
    fixture.open_gate();
    fixture.both_ready().await;
    fixture.told::<CAPTControlPlane>("demo", "free to go", is(false)).await;
    let network = |network: &CAPTCluster| !blocked(&serde_json::to_value(network).unwrap());
    fixture.told::<CAPTCluster>("demo", "free to go", network).await;
    fixture.remove_cluster().await;
    fixture.nothing_is_left().await;
}
