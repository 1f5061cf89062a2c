//! One machine: its workspace, its status, what stops it.

use capt_api::machine::{CaptMachine, MachinePhase};
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::core;
use crate::fixture::{Fixture, SOON, condition};
use crate::fleet::{Fleet, is_ready, nothing_is_left, reason};

fn spec(kind: &str) -> Value {
    json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"}, "instanceType": kind,
        "labels": {"role": "db"}, "tags": {"team": "blue"},
    })
}

async fn goes(fixture: &Fixture, name: &str) {
    fixture.api::<CaptMachine>().delete(name, &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>(name).await;
    nothing_is_left(fixture).await;
}

pub async fn a_machine_lives_and_goes(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    fixture.put("CaptMachine", "m", spec("small")).await;
    let machine = fixture.machine("m", "ready", is_ready).await;
    assert_eq!(fixture.traces(), ["created m small"]);
    assert_eq!(machine.spec.provider_id.as_deref(), Some("test:///m"));
    let status = machine.status.as_ref().unwrap();
    assert_eq!(status.instance_id.as_deref(), Some("i-m"));
    assert_eq!(status.private_ip.as_deref(), Some("10.0.0.7"));
    assert_eq!(status.addresses.len(), 1);
    assert_eq!(status.node_group.as_deref(), Some("workers"));
    assert_eq!(status.phase, Some(MachinePhase::Running));
    assert_eq!(status.initialization.as_ref().unwrap().provisioned, Some(true));
    let workspace = fixture.get("m-machine").await;
    assert_eq!(workspace.owner_references()[0].controller, Some(true));
    assert_eq!(workspace.finalizers(), ["infrastructure.cluster.x-k8s.io/finalizer"]);
    assert_eq!(condition(&workspace, "Synced").0, "Ready", "an undeclared variable of ours is no fault");
    let told = &workspace.status.unwrap().outputs["told"];
    assert_eq!(told["labels"], json!({"role": "db"}));
    assert_eq!(told["group"], "workers");
    fixture.event("m", "Provisioned").await;
    goes(fixture, "m").await;
    assert_eq!(fixture.traces(), ["created m small", "destroyed m small"]);
}

pub async fn a_template_is_awaited(fixture: &Fixture) {
    fixture.put("CaptMachine", "m", spec("small")).await;
    let waiting = |machine: &CaptMachine| reason(machine, "Ready") == "WorkspaceTemplateNotFound";
    fixture.machine("m", "waits", waiting).await;
    fixture.template("machine", &fixture.machine_module()).await;
    fixture.machine("m", "ready", is_ready).await;
    goes(fixture, "m").await;
}

pub async fn paused_means_paused(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let mut paused = spec("small");
    paused["paused"] = json!(true);
    fixture.put("CaptMachine", "m", paused.clone()).await;
    fixture.machine("m", "paused", |machine| reason(machine, "Paused") == "Paused").await;
    assert!(fixture.applies().get_opt("m-machine").await.unwrap().is_none());
    fixture.put("CaptMachine", "m", spec("small")).await;
    fixture.machine("m", "ready", |machine| is_ready(machine) && reason(machine, "Paused").is_empty()).await;
    fixture.put("CaptMachine", "m", paused).await;
    let still = fixture.machine("m", "paused", |machine| reason(machine, "Paused") == "Paused").await;
    assert!(is_ready(&still), "what runs goes on running");
    fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    // Its workspace stands still with it.
    fixture.reason("m-machine", "Paused").await;
    assert_eq!(fixture.traces(), ["created m small"]);
    fixture.put("CaptMachine", "m", spec("small")).await;
    fixture.when_gone::<CaptMachine>("m").await;
    nothing_is_left(fixture).await;
}

pub async fn somebody_else_manages_it(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let body = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachine",
        "metadata": {"name": "theirs", "annotations": {"cluster.x-k8s.io/managed-by": "others"}}, "spec": spec("small"),
    });
    let force = PatchParams::apply("user").force();
    fixture.api::<CaptMachine>().patch("theirs", &force, &Patch::Apply(&body)).await.unwrap();
    // Another machine shows that this one was looked at, too.
    fixture.put("CaptMachine", "ours", spec("small")).await;
    fixture.machine("ours", "ready", is_ready).await;
    let theirs = fixture.api::<CaptMachine>().get("theirs").await.unwrap();
    assert!(theirs.status.is_none() && theirs.finalizers().is_empty());
    assert_eq!(fixture.traces(), ["created ours small"]);
    fixture.api::<CaptMachine>().delete("theirs", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("theirs").await;
    goes(fixture, "ours").await;
}

pub async fn a_failure_is_told(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    fixture.put("CaptMachine", "m", spec("broken")).await;
    let failed = fixture.machine("m", "failed", |machine| {
        machine.status.as_ref().and_then(|status| status.phase) == Some(MachinePhase::Failed)
    });
    let status = failed.await.status.unwrap();
    assert_eq!(status.failure_reason.as_deref(), Some("ApplyFailed"));
    assert!(status.failure_message.unwrap().contains("no such machine type"));
    fixture.event("m", "Failed").await;
    // A template that is mended reaches it.
    fixture.template("machine", &fixture.machine_module().replace("= broken", "= worse")).await;
    let mended = fixture.machine("m", "ready", is_ready).await.status.unwrap();
    assert_eq!((mended.failure_reason, mended.phase), (None, Some(MachinePhase::Running)));
    // Deleted while its workspace is being worked on: it waits, and nothing is left.
    let gone = fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    assert!(gone.is_left(), "it is held");
    let told = until("it says what it waits for, or is gone", SOON, async || {
        let Some(machine) = fixture.api::<CaptMachine>().get_opt("m").await.unwrap() else { return Some(()) };
        (reason(&machine, "Deleting") == "Deleting").then_some(())
    });
    told.await.unwrap();
    fixture.when_gone::<CaptMachine>("m").await;
    nothing_is_left(fixture).await;
}

/// A Cluster's pause reaches its machines. Cluster API is installed while the controllers run.
pub async fn a_paused_cluster(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let force = PatchParams::apply("user").force();
    let labels = json!({"cluster.x-k8s.io/cluster-name": "demo"});
    let machine = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachine",
        "metadata": {"name": "m", "labels": labels}, "spec": spec("small"),
    });
    fixture.api::<CaptMachine>().patch("m", &force, &Patch::Apply(&machine)).await.unwrap();
    fixture.machine("m", "ready", is_ready).await;
    assert_eq!(fixture.get("m-machine").await.labels()["cluster.x-k8s.io/cluster-name"], "demo");

    core::put(fixture, "Cluster", "demo", json!({"paused": true}), json!({})).await;
    fixture.machine("m", "paused", |machine| reason(machine, "Paused") == "Paused").await;
    fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    fixture.reason("m-machine", "Paused").await;
    assert_eq!(fixture.traces(), ["created m small"]);
    core::put(fixture, "Cluster", "demo", json!({"paused": false}), json!({})).await;
    fixture.when_gone::<CaptMachine>("m").await;
    nothing_is_left(fixture).await;
}
