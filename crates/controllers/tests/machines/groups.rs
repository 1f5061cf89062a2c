//! Groups that machines join.

use capt_api::machine::{CaptMachine, NodeGroup};
use capt_e2e::until;
use kube::api::DeleteParams;
use serde_json::json;

use crate::fixture::{Fixture, SOON};
use crate::fleet::{Fleet, is_ready, nothing_is_left, reason};

const GROUP: &str = r#"
variable "node_group_name" { type = string }
variable "desired_size" { type = number }
output "node_group_name" { value = "built-${var.node_group_name}" }
output "network" { value = "net-${var.desired_size}" }
"#;

async fn group(fixture: &Fixture, what: &str, done: impl Fn(&NodeGroup) -> bool) -> NodeGroup {
    let mut last = None;
    let found = until(what, SOON, async || {
        let object = fixture.api::<NodeGroup>().get_opt("workers").await.unwrap()?;
        last = Some(object.clone());
        done(&object).then_some(object)
    })
    .await;
    found.unwrap_or_else(|error| panic!("{error}: {last:#?}"))
}

fn members(group: &NodeGroup) -> i32 {
    group.status.as_ref().map_or(0, |status| status.members)
}

fn ready_members(group: &NodeGroup) -> i32 {
    group.status.as_ref().map_or(0, |status| status.ready_members)
}

pub async fn machines_wait_for_their_group(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let spec = json!({
        "workspaceTemplateRef": {"name": "group"},
        "scaling": {"minSize": 1, "maxSize": 5, "desiredSize": 2},
    });
    fixture.put("NodeGroup", "workers", spec).await;
    group(fixture, "it waits for its template", |group| group.status.is_some()).await;
    let machine = json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"}, "instanceType": "small",
    });
    fixture.put("CaptMachine", "m", machine).await;
    fixture.machine("m", "waits", |machine| reason(machine, "Ready") == "WaitingForNodeGroup").await;
    let waiting = group(fixture, "a member that waits", |group| members(group) == 1).await;
    assert_eq!(ready_members(&waiting), 0, "it is not ready");
    fixture.template("group", GROUP).await;
    let ready = fixture.machine("m", "ready", is_ready).await;
    assert_eq!(ready.status.unwrap().node_group.as_deref(), Some("built-workers"));
    let told = fixture.get("m-machine").await.status.unwrap().outputs["told"].clone();
    assert_eq!((&told["group"], &told["network"]), (&json!("built-workers"), &json!("net-2")));
    group(fixture, "one ready member", |group| members(group) == 1 && ready_members(group) == 1).await;

    // A group in use stays.
    fixture.api::<NodeGroup>().delete("workers", &DeleteParams::background()).await.unwrap();
    let held = group(fixture, "it is held", |group| {
        let list = group.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        list.iter().any(|one| one.type_ == "Deleting" && one.reason == "InUse" && one.message.contains(" m "))
    });
    held.await;
    fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("m").await;
    fixture.when_gone::<NodeGroup>("workers").await;
    nothing_is_left(fixture).await;
}

pub async fn an_existing_group(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    fixture.put("NodeGroup", "workers", json!({"external": {"name": "ng-old"}})).await;
    group(fixture, "ready", |group| group.status.as_ref().is_some_and(|status| status.ready)).await;
    let machine = json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"}, "instanceType": "small",
    });
    fixture.put("CaptMachine", "m", machine).await;
    let ready = fixture.machine("m", "ready", is_ready).await;
    assert_eq!(ready.status.unwrap().node_group.as_deref(), Some("ng-old"));
    fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("m").await;
    group(fixture, "no member", |group| members(group) == 0).await;
    fixture.api::<NodeGroup>().delete("workers", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<NodeGroup>("workers").await;
    nothing_is_left(fixture).await;
}

pub async fn a_machine_that_is_a_group(fixture: &Fixture) {
    fixture.template("group", GROUP).await;
    let spec = |size: i32| {
        json!({
            "workspaceTemplateRef": {"name": "group"},
            "nodeGroupConfig": {
                "name": "pool", "instanceType": "small",
                "scaling": {"minSize": 1, "maxSize": 5, "desiredSize": size},
            },
        })
    };
    fixture.put("CaptMachine", "m", spec(2)).await;
    let ready = fixture.machine("m", "ready", is_ready).await;
    assert_eq!(ready.status.unwrap().node_group.as_deref(), Some("pool"));
    fixture.put("CaptMachine", "m", spec(3)).await;
    let scaled = until("scaled", SOON, async || {
        let outputs = fixture.get("m-machine").await.status?.outputs;
        (outputs.get("network")? == "net-3").then_some(())
    });
    scaled.await.unwrap();
    fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("m").await;
    nothing_is_left(fixture).await;
}
