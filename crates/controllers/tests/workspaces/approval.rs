//! Plans that wait for a person.

use capt_api::names::annotations;
use serde_json::json;

use crate::stage::{Stage, condition, truth};

pub async fn a_plan_waits_for_a_person(stage: &Stage) {
    stage.template("thing", &stage.module()).await;
    let spec = |size: i32| json!({"variables": {"name": "a", "size": size}, "approval": "Manual"});
    stage.apply("a", "thing", spec(1)).await;
    let planned = stage.reason("a", "WaitingForApproval").await;
    let first = planned.status.as_ref().unwrap().plan.clone().unwrap();
    assert_eq!((first.add, first.change, first.destroy), (1, 0, 0));
    assert_eq!((truth(&planned, "Planned"), truth(&planned, "Applied")), ("True".into(), "False".into()));
    let message = condition(&planned, "Ready").1;
    assert!(message.contains("terraform_data.thing") && message.contains("capt approve a"), "{message}");
    assert!(stage.traces().is_empty());
    stage.event("a", "WaitingForApproval").await;

    // Meanwhile the inputs change: another plan, and the first approval is void.
    stage.apply("a", "thing", spec(2)).await;
    let other = stage.when("a", "another plan", |object| {
        let plan = object.status.as_ref().unwrap().plan.as_ref();
        condition(object, "Ready").0 == "WaitingForApproval" && plan.is_some_and(|plan| plan.id != first.id)
    });
    let second = other.await.status.unwrap().plan.unwrap();
    stage.annotate("a", annotations::APPROVE, first.id.as_deref().unwrap()).await;
    stage.when("a", "refused", |object| condition(object, "Ready").1.contains("is not for this plan")).await;
    assert!(stage.traces().is_empty());

    stage.annotate("a", annotations::APPROVE, second.id.as_deref().unwrap()).await;
    let ready = stage.ready("a").await;
    assert_eq!(stage.traces(), ["created a 2"]);
    assert_eq!(truth(&ready, "Planned"), "absent");
    stage.delete("a").await;
    stage.gone("a").await;
    assert_eq!(stage.traces(), ["created a 2", "destroyed a 2"], "deleting the object is an approval");
}

pub async fn too_much_destruction_waits_for_a_person(stage: &Stage) {
    stage.template("thing", &stage.module()).await;
    let spec = |size: i32| json!({"variables": {"name": "a", "size": size}, "maxDestroy": 0});
    stage.apply("a", "thing", spec(1)).await;
    stage.ready("a").await;
    stage.apply("a", "thing", spec(2)).await;
    let held = stage.reason("a", "PlanTooDestructive").await;
    let plan = held.status.as_ref().unwrap().plan.clone().unwrap();
    assert_eq!((plan.add, plan.destroy), (1, 1));
    assert_eq!(stage.traces(), ["created a 1"]);
    stage.event("a", "PlanTooDestructive").await;
    stage.annotate("a", annotations::APPROVE, plan.id.as_deref().unwrap()).await;
    stage.ready("a").await;
    assert_eq!(stage.traces(), ["created a 1", "destroyed a 1", "created a 2"]);
}
