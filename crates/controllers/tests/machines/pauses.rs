//! What is paused stands still, on every level; and goes on when it is not.

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet, NodeGroup};
use capt_e2e::until;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::core;
use crate::fixture::{Fixture, SOON};
use crate::fleet::{Fleet, deployment, is_ready, nothing_is_left, put, reason, rolling};

const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Why an object says that it is paused; nothing where it is not.
fn pause(conditions: Option<&Vec<Condition>>) -> Option<String> {
    let list = conditions?.iter();
    let found = list.into_iter().find(|one| one.type_ == "Paused" && one.status == "True");
    found.map(|one| one.message.clone())
}

async fn deployment_paused(fixture: &Fixture, by: Option<&str>) {
    let mut last = None;
    let seen = until("the pause is seen", SOON, async || {
        let object = fixture.api::<CaptMachineDeployment>().get("web").await.unwrap();
        let status = object.status?;
        let current = status.observed_generation == object.metadata.generation;
        last = pause(Some(&status.conditions));
        (current && last.as_deref() == by).then_some(())
    });
    let seen = seen.await;
    assert!(seen.is_ok(), "it should be paused by {by:?}, and is by {last:?}");
}

async fn set_paused(fixture: &Fixture, name: &str, by: Option<&str>) {
    let seen = until("the pause is seen", SOON, async || {
        let status = fixture.api::<CaptMachineSet>().get(name).await.unwrap().status?;
        (pause(Some(&status.conditions)).as_deref() == by).then_some(())
    });
    seen.await.unwrap();
}

fn annotation(value: Value) -> Value {
    json!({"metadata": {"annotations": {PAUSED: value}}})
}

pub async fn a_deployment_is_paused(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let labels = json!({"labels": {"cluster.x-k8s.io/cluster-name": "demo"}});
    let mut spec = deployment(1, "small", &rolling());
    spec["template"]["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = json!("demo");
    put(fixture, "CaptMachineDeployment", "web", labels.clone(), spec.clone()).await;
    fixture.rolled_out().await;
    let first = fixture.standing();

    // By its annotation: neither an edit nor a new size does anything.
    let api = fixture.api::<CaptMachineDeployment>();
    let merge = PatchParams::default();
    api.patch("web", &merge, &Patch::Merge(&annotation(json!("true")))).await.unwrap();
    spec["replicas"] = json!(2);
    spec["template"]["spec"]["instanceType"] = json!("large");
    put(fixture, "CaptMachineDeployment", "web", labels.clone(), spec.clone()).await;
    deployment_paused(fixture, Some("the annotation cluster.x-k8s.io/paused is set")).await;
    assert_eq!(fixture.standing(), first);

    // By its Cluster, too: the whole family stands still.
    core::put(fixture, "Cluster", "demo", json!({"paused": true}), json!({})).await;
    let machine = first.first().unwrap();
    fixture.machine(machine, "paused", |machine| reason(machine, "Paused") == "Paused").await;
    api.patch("web", &merge, &Patch::Merge(&annotation(Value::Null))).await.unwrap();
    deployment_paused(fixture, Some("Cluster demo is paused")).await;
    assert_eq!(fixture.standing(), first);
    core::put(fixture, "Cluster", "demo", json!({"paused": false}), json!({})).await;
    fixture.rolled_out().await;
    deployment_paused(fixture, None).await;
    let second = fixture.standing();
    assert!(second.len() == 2 && second.is_disjoint(&first), "{second:?}");

    // A deletion waits for the end of the pause.
    api.patch("web", &merge, &Patch::Merge(&annotation(json!("")))).await.unwrap();
    deployment_paused(fixture, Some("the annotation cluster.x-k8s.io/paused is set")).await;
    api.delete("web", &DeleteParams::background()).await.unwrap();
    let seen = until("the deletion is seen", SOON, async || {
        let status = api.get("web").await.unwrap().status?;
        status.conditions.iter().any(|one| one.type_ == "Deleting").then_some(())
    });
    seen.await.unwrap();
    assert_eq!(fixture.standing(), second);
    api.patch("web", &merge, &Patch::Merge(&annotation(Value::Null))).await.unwrap();
    fixture.when_gone::<CaptMachineDeployment>("web").await;
    nothing_is_left(fixture).await;
}

pub async fn a_set_is_paused(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let web = deployment(2, "small", &rolling());
    let spec = json!({"replicas": 2, "selector": web["selector"], "template": web["template"]});
    let annotated = json!({"annotations": {PAUSED: ""}});
    put(fixture, "CaptMachineSet", "s", annotated, spec.clone()).await;
    set_paused(fixture, "s", Some("the annotation cluster.x-k8s.io/paused is set")).await;
    assert!(fixture.machine_names().await.is_empty());
    fixture.put("CaptMachineSet", "s", spec).await;
    set_paused(fixture, "s", None).await;
    let both = until("both are built", SOON, async || (fixture.standing().len() == 2).then_some(()));
    both.await.unwrap();

    // What goes meanwhile is replaced later.
    let api = fixture.api::<CaptMachineSet>();
    let merge = PatchParams::default();
    api.patch("s", &merge, &Patch::Merge(&annotation(json!("")))).await.unwrap();
    set_paused(fixture, "s", Some("the annotation cluster.x-k8s.io/paused is set")).await;
    fixture.api::<CaptMachine>().delete("s-0", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("s-0").await;
    let counted = until("it is counted", SOON, async || {
        (api.get("s").await.unwrap().status?.replicas == 1).then_some(())
    });
    counted.await.unwrap();
    assert_eq!(fixture.machine_names().await.len(), 1);
    api.patch("s", &merge, &Patch::Merge(&annotation(Value::Null))).await.unwrap();
    fixture.machine("s-2", "ready", is_ready).await;
    api.delete("s", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachineSet>("s").await;
    nothing_is_left(fixture).await;
}

/// A group that fails, is mended, and is paused: machines wait for it, and those that are there stay.
pub async fn a_group_fails_and_is_paused(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let module = |command: &str| {
        format!(
            r#"
variable "node_group_name" {{ type = string }}
resource "terraform_data" "group" {{
  provisioner "local-exec" {{ command = "{command}" }}
}}
output "node_group_name" {{ value = var.node_group_name }}
"#
        )
    };
    fixture.template("group", &module("echo no room in this zone >&2; exit 1")).await;
    let spec = |paused: bool| json!({"workspaceTemplateRef": {"name": "group"}, "paused": paused});
    fixture.put("NodeGroup", "workers", spec(false)).await;
    let machine = json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"}, "instanceType": "small",
    });
    fixture.put("CaptMachine", "m", machine.clone()).await;
    let failed = until("it fails", SOON, async || {
        let status = fixture.api::<NodeGroup>().get("workers").await.unwrap().status?;
        Some((status.failure_reason?, status.failure_message?))
    });
    let (why, message) = failed.await.unwrap();
    assert_eq!(why, "ApplyFailed");
    assert!(message.contains("no room in this zone"), "{message}");
    fixture.event("workers", "Failed").await;
    fixture.machine("m", "waits", |machine| reason(machine, "Ready") == "WaitingForNodeGroup").await;
    assert!(fixture.traces().is_empty());
    let labelled = async || {
        let members = ListParams::default().labels("infrastructure.cluster.x-k8s.io/node-group-name=workers");
        let found = until("the member has the group's label", SOON, async || {
            let found = fixture.api::<CaptMachine>().list(&members).await.unwrap().items.len();
            (found == 1).then_some(())
        });
        found.await.unwrap();
    };
    labelled().await;

    fixture.template("group", &module("true")).await;
    fixture.machine("m", "ready", is_ready).await;

    // Somebody takes the label off: it comes back.
    let body = json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/node-group-name": null}}});
    fixture.api::<CaptMachine>().patch("m", &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    labelled().await;

    fixture.put("NodeGroup", "workers", spec(true)).await;
    let paused = until("it is paused", SOON, async || {
        let status = fixture.api::<NodeGroup>().get("workers").await.unwrap().status?;
        (pause(Some(&status.conditions)).as_deref() == Some("spec.paused is true") && status.ready)
            .then_some(())
    });
    paused.await.unwrap();
    fixture.reason("workers-nodegroup", "Paused").await;
    fixture.api::<NodeGroup>().delete("workers", &DeleteParams::background()).await.unwrap();
    fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("m").await;
    assert!(fixture.api::<NodeGroup>().get_opt("workers").await.unwrap().is_some(), "it stands still");
    fixture.put("NodeGroup", "workers", spec(false)).await;
    fixture.when_gone::<NodeGroup>("workers").await;
    nothing_is_left(fixture).await;
}
