//! Plans that wait for a person.

use capt_api::names::annotations;
use kube::ResourceExt;
use serde_json::json;

use crate::fixture::{Fixture, condition, truth};

pub async fn a_plan_waits_for_a_person(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let spec = |size: i32| json!({"variables": {"name": "a", "size": size}, "approval": "Manual"});
    fixture.apply("a", "thing", spec(1)).await;
    let planned = fixture.reason("a", "WaitingForApproval").await;
    let first = planned.status.as_ref().unwrap().plan.clone().unwrap();
    assert_eq!((first.add, first.change, first.destroy), (1, 0, 0));
    assert_eq!((truth(&planned, "Planned"), truth(&planned, "Applied")), ("True".into(), "False".into()));
    let message = condition(&planned, "Ready").1;
    assert!(message.contains("terraform_data.thing") && message.contains("capt approve a"), "{message}");
    assert!(fixture.traces().is_empty());
    fixture.event("a", "WaitingForApproval").await;

    // Meanwhile the inputs change: another plan, and the first approval is void.
    fixture.apply("a", "thing", spec(2)).await;
    let other = fixture.when("a", "another plan", |object| {
        let plan = object.status.as_ref().unwrap().plan.as_ref();
        condition(object, "Ready").0 == "WaitingForApproval" && plan.is_some_and(|plan| plan.id != first.id)
    });
    let second = other.await.status.unwrap().plan.unwrap();
    // Each plan is announced by itself, not as the older one again.
    for plan in [&first, &second] {
        let id = plan.id.clone().unwrap();
        fixture
            .event_text("a", "WaitingForApproval", |text| text.starts_with(&format!("plan {id} would")))
            .await;
    }
    fixture.annotate("a", annotations::APPROVE, first.id.as_deref().unwrap()).await;
    fixture
        .when("a", "refused", |object| condition(object, "Ready").1.contains("is not for this plan"))
        .await;
    assert!(fixture.traces().is_empty());

    fixture.annotate("a", annotations::APPROVE, second.id.as_deref().unwrap()).await;
    let ready = fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created a 2"]);
    assert_eq!(truth(&ready, "Planned"), "absent");
    let id = second.id.as_deref().unwrap();
    told_of_approval(fixture, id).await;
    let gone = fixture.when("a", "the approval is used up", |object| {
        !object.annotations().contains_key(annotations::APPROVE)
    });
    let kept = gone.await.annotations()[annotations::APPROVED].clone();
    assert!(kept.starts_with(&format!("{id} by ")), "{kept}");
    fixture.delete("a").await;
    fixture.gone("a").await;
    assert_eq!(fixture.traces(), ["created a 2", "destroyed a 2"], "deleting the object is an approval");
}

/// Which plan was approved by whom, and what its apply did.
async fn told_of_approval(fixture: &Fixture, id: &str) {
    let approved = fixture.event_text("a", "PlanApproved", |text| text.contains(id)).await;
    assert!(approved.contains("was approved by field manager "), "{approved}");
    let applied = fixture.event_text("a", "Applied", |text| text.contains(id)).await;
    assert!(applied.contains("approved by field manager "), "{applied}");
}

pub async fn too_much_destruction_waits_for_a_person(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let spec = |size: i32| json!({"variables": {"name": "a", "size": size}, "maxDestroy": 0});
    fixture.apply("a", "thing", spec(1)).await;
    fixture.ready("a").await;
    fixture.apply("a", "thing", spec(2)).await;
    let held = fixture.reason("a", "PlanTooDestructive").await;
    let plan = held.status.as_ref().unwrap().plan.clone().unwrap();
    assert_eq!((plan.add, plan.destroy), (1, 1));
    assert_eq!(fixture.traces(), ["created a 1"]);
    fixture.event("a", "PlanTooDestructive").await;
    // Whose approval a note is, the note does not decide.
    let forged = format!("{} by alice with capt approve", plan.id.as_deref().unwrap());
    fixture.annotate("a", annotations::APPROVED, &forged).await;
    fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created a 1", "destroyed a 1", "created a 2"]);
    told_of_approval(fixture, plan.id.as_deref().unwrap()).await;
    let destroyed =
        |text: &str| text.contains("added 1, changed 0, destroyed 1: replace terraform_data.thing");
    fixture.event_text("a", "Applied", destroyed).await;
}
