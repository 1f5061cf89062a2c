//! Groups that machines join.

use capt_api::machine::{CaptMachine, NodeGroup};
use capt_e2e::until;
use kube::api::DeleteParams;
use serde_json::json;

use crate::fleet::{Fleet, is_ready, nothing_is_left, reason};
use crate::stage::{SOON, Stage};

const GROUP: &str = r#"
variable "node_group_name" { type = string }
variable "desired_size" { type = number }
output "node_group_name" { value = "built-${var.node_group_name}" }
output "network" { value = "net-${var.desired_size}" }
"#;

async fn group(stage: &Stage, what: &str, done: impl Fn(&NodeGroup) -> bool) -> NodeGroup {
    let mut last = None;
    let found = until(what, SOON, async || {
        let object = stage.api::<NodeGroup>().get_opt("workers").await.unwrap()?;
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

pub async fn machines_wait_for_their_group(stage: &Stage) {
    stage.template("machine", &stage.machine_module()).await;
    let spec = json!({
        "workspaceTemplateRef": {"name": "group"},
        "scaling": {"minSize": 1, "maxSize": 5, "desiredSize": 2},
    });
    stage.put("NodeGroup", "workers", spec).await;
    group(stage, "it waits for its template", |group| group.status.is_some()).await;
    let machine = json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"}, "instanceType": "small",
    });
    stage.put("CaptMachine", "m", machine).await;
    stage.machine("m", "waits", |machine| reason(machine, "Ready") == "WaitingForNodeGroup").await;
    let waiting = group(stage, "a member that waits", |group| members(group) == 1).await;
    assert_eq!(ready_members(&waiting), 0, "it is not ready");
    stage.template("group", GROUP).await;
    let ready = stage.machine("m", "ready", is_ready).await;
    assert_eq!(ready.status.unwrap().node_group.as_deref(), Some("built-workers"));
    let told = stage.get("m-machine").await.status.unwrap().outputs["told"].clone();
    assert_eq!((&told["group"], &told["network"]), (&json!("built-workers"), &json!("net-2")));
    group(stage, "one ready member", |group| members(group) == 1 && ready_members(group) == 1).await;

    // A group in use stays.
    stage.api::<NodeGroup>().delete("workers", &DeleteParams::background()).await.unwrap();
    let held = group(stage, "it is held", |group| {
        let list = group.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        list.iter().any(|one| one.type_ == "Deleting" && one.reason == "InUse" && one.message.contains(" m "))
    });
    held.await;
    stage.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    stage.when_gone::<CaptMachine>("m").await;
    stage.when_gone::<NodeGroup>("workers").await;
    nothing_is_left(stage).await;
}

pub async fn an_existing_group(stage: &Stage) {
    stage.template("machine", &stage.machine_module()).await;
    stage.put("NodeGroup", "workers", json!({"external": {"name": "ng-old"}})).await;
    group(stage, "ready", |group| group.status.as_ref().is_some_and(|status| status.ready)).await;
    let machine = json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"}, "instanceType": "small",
    });
    stage.put("CaptMachine", "m", machine).await;
    let ready = stage.machine("m", "ready", is_ready).await;
    assert_eq!(ready.status.unwrap().node_group.as_deref(), Some("ng-old"));
    stage.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    stage.when_gone::<CaptMachine>("m").await;
    group(stage, "no member", |group| members(group) == 0).await;
    stage.api::<NodeGroup>().delete("workers", &DeleteParams::background()).await.unwrap();
    stage.when_gone::<NodeGroup>("workers").await;
    nothing_is_left(stage).await;
}

pub async fn a_machine_that_is_a_group(stage: &Stage) {
    stage.template("group", GROUP).await;
    let spec = |size: i32| {
        json!({
            "workspaceTemplateRef": {"name": "group"},
            "nodeGroupConfig": {
                "name": "pool", "instanceType": "small",
                "scaling": {"minSize": 1, "maxSize": 5, "desiredSize": size},
            },
        })
    };
    stage.put("CaptMachine", "m", spec(2)).await;
    let ready = stage.machine("m", "ready", is_ready).await;
    assert_eq!(ready.status.unwrap().node_group.as_deref(), Some("pool"));
    stage.put("CaptMachine", "m", spec(3)).await;
    let scaled = until("scaled", SOON, async || {
        let outputs = stage.get("m-machine").await.status?.outputs;
        (outputs.get("network")? == "net-3").then_some(())
    });
    scaled.await.unwrap();
    stage.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    stage.when_gone::<CaptMachine>("m").await;
    nothing_is_left(stage).await;
}
