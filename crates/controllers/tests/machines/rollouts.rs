//! Rollouts, by their traces.

use std::collections::BTreeSet;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use capt_e2e::until;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fixture::{Fixture, SOON};
use crate::fleet::{Fleet, deployment, rolling, started};

/// How many machines there were after each line of the trace.
pub fn sizes(fixture: &Fixture) -> Vec<i32> {
    let mut size = 0;
    let step = |line: &String| {
        size += if line.starts_with("created") { 1 } else { -1 };
        size
    };
    fixture.traces().iter().map(step).collect()
}

fn all_of(fixture: &Fixture, kind: &str) -> bool {
    let standing = fixture.standing();
    let traces = fixture.traces();
    standing.iter().all(|name| traces.contains(&format!("created {name} {kind}")))
}

pub async fn rolling_update(fixture: &Fixture) {
    started(fixture, 3, &rolling()).await;
    let first = fixture.standing();
    fixture.put("CaptMachineDeployment", "web", deployment(3, "large", &rolling())).await;
    let object = fixture.rolled_out().await;
    assert_eq!(object.status.unwrap().current_revision, Some(2));
    assert!(fixture.standing().is_disjoint(&first) && all_of(fixture, "large"));
    assert_eq!(sizes(fixture), [1, 2, 3, 4, 3, 4, 3, 4, 3], "{:#?}", fixture.traces());
    fixture.event("web", "ScaledSet").await;

    // Back again: the old set is taken up under a new number.
    fixture.put("CaptMachineDeployment", "web", deployment(3, "small", &rolling())).await;
    let object = fixture.rolled_out().await;
    assert_eq!(object.status.unwrap().current_revision, Some(3));
    assert!(all_of(fixture, "small"));
    assert!(sizes(fixture)[3..].iter().all(|size| (3..=4).contains(size)), "{:?}", sizes(fixture));
    let sets = fixture.api::<CaptMachineSet>().list(&ListParams::default()).await.unwrap();
    assert_eq!(sets.items.len(), 2);
    fixture.delete_all().await;
}

pub async fn recreate(fixture: &Fixture) {
    let strategy = json!({"type": "Recreate"});
    started(fixture, 3, &strategy).await;
    fixture.put("CaptMachineDeployment", "web", deployment(3, "large", &strategy)).await;
    fixture.rolled_out().await;
    assert_eq!(sizes(fixture), [1, 2, 3, 2, 1, 0, 1, 2, 3], "{:#?}", fixture.traces());
    assert!(all_of(fixture, "large"));
    fixture.delete_all().await;
}

pub async fn on_delete(fixture: &Fixture) {
    let strategy = json!({"type": "OnDelete"});
    started(fixture, 2, &strategy).await;
    let first = fixture.standing();
    fixture.put("CaptMachineDeployment", "web", deployment(2, "large", &strategy)).await;
    let seen = until("the edit is seen", SOON, async || {
        let object = fixture.api::<CaptMachineDeployment>().get("web").await.unwrap();
        let status = object.status?;
        (status.observed_generation == object.metadata.generation && status.current_revision == Some(2))
            .then_some(())
    });
    seen.await.unwrap();
    assert_eq!(fixture.standing(), first, "nothing happens by itself");
    for (number, victim) in first.iter().enumerate() {
        fixture.api::<CaptMachine>().delete(victim, &DeleteParams::background()).await.unwrap();
        fixture.when_gone::<CaptMachine>(victim).await;
        let filled = until("filled", SOON, async || {
            let standing = fixture.standing();
            let new = standing.difference(&first).count();
            (standing.len() == 2 && new == number + 1).then_some(())
        });
        filled.await.unwrap();
    }
    fixture.rolled_out().await;
    assert!(all_of(fixture, "large"));
    fixture.delete_all().await;
}

pub async fn a_rollout_fails_and_is_undone(fixture: &Fixture) {
    started(fixture, 2, &rolling()).await;
    let first = fixture.standing();
    fixture.put("CaptMachineDeployment", "web", deployment(2, "broken", &rolling())).await;
    let failed = until("a machine fails", SOON, async || {
        let all = fixture.api::<CaptMachine>().list(&ListParams::default()).await.unwrap().items;
        all.into_iter().find_map(|machine| {
            let status = machine.status?;
            status.failure_reason.clone().zip(status.failure_message)
        })
    });
    let (reason, message) = failed.await.unwrap();
    assert_eq!(reason, "ApplyFailed");
    assert!(message.contains("no such machine type"), "{message}");
    assert!(fixture.standing().is_superset(&first), "what serves is not touched");

    let deployments = fixture.api::<CaptMachineDeployment>();
    let object = deployments.get("web").await.unwrap();
    let sets = fixture.api::<CaptMachineSet>().list(&ListParams::default()).await.unwrap().items;
    let sets: Vec<&CaptMachineSet> = sets.iter().collect();
    let (revision, template) = capt_planner::revision::undo(&object, &sets, None).unwrap();
    assert_eq!(revision, 1);
    let body = json!({"spec": {"template": template}});
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    fixture.rolled_out().await;
    assert_eq!(fixture.standing(), first);
    assert_eq!(fixture.machine_names().await, first);
    // A machine that failed does not count for the ceiling: a slow run may have seen one replaced.
    let traces = fixture.traces();
    assert!(traces[2..].iter().all(|line| line.ends_with(" broken")), "{traces:#?}");
    fixture.delete_all().await;
}

pub async fn in_place(fixture: &Fixture) {
    started(fixture, 2, &rolling()).await;
    let first = fixture.standing();
    let mut spec = deployment(2, "small", &rolling());
    spec["template"]["spec"]["tags"] = json!({"owner": "ops"});
    spec["template"]["spec"]["labels"] = json!({"role": "db"});
    spec["template"]["metadata"]["labels"]["tier"] = json!("back");
    fixture.put("CaptMachineDeployment", "web", spec.clone()).await;
    let told = |name: &str| {
        let name = format!("{name}-machine");
        async move { fixture.get(&name).await.status.unwrap().outputs.get("told").cloned() }
    };
    let reached = until("the change reaches both", SOON, async || {
        for name in &first {
            let told: Value = told(name).await?;
            (told["tags"] == json!({"owner": "ops"}) && told["labels"] == json!({"role": "db"}))
                .then_some(())?;
        }
        Some(())
    });
    reached.await.unwrap();
    let object = fixture.rolled_out().await;
    assert_eq!(object.status.unwrap().current_revision, Some(1), "no rollout");
    for name in &first {
        let machine = fixture.api::<CaptMachine>().get(name).await.unwrap();
        assert_eq!(machine.metadata.labels.as_ref().unwrap()["tier"], "back");
        assert!(machine.status.unwrap().ready);
    }
    assert_eq!(fixture.traces().len(), 2, "{:#?}", fixture.traces());

    // What the template drops goes, too.
    spec["template"]["metadata"]["labels"].as_object_mut().unwrap().remove("tier");
    fixture.put("CaptMachineDeployment", "web", spec).await;
    let dropped = until("the label goes", SOON, async || {
        let all = fixture.api::<CaptMachine>().list(&ListParams::default()).await.unwrap().items;
        all.iter().all(|one| !one.metadata.labels.as_ref().unwrap().contains_key("tier")).then_some(())
    });
    dropped.await.unwrap();
    assert_eq!(fixture.standing(), BTreeSet::from_iter(first));
    fixture.delete_all().await;
}
