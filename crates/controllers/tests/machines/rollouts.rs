//! Rollouts, by their traces.

use std::collections::BTreeSet;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use capt_e2e::until;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fleet::{Fleet, deployment, rolling, started};
use crate::stage::{SOON, Stage};

/// How many machines there were after each line of the trace.
pub fn sizes(stage: &Stage) -> Vec<i32> {
    let mut size = 0;
    let step = |line: &String| {
        size += if line.starts_with("created") { 1 } else { -1 };
        size
    };
    stage.traces().iter().map(step).collect()
}

fn all_of(stage: &Stage, kind: &str) -> bool {
    let standing = stage.standing();
    let traces = stage.traces();
    standing.iter().all(|name| traces.contains(&format!("created {name} {kind}")))
}

pub async fn rolling_update(stage: &Stage) {
    started(stage, 3, &rolling()).await;
    let first = stage.standing();
    stage.put("CaptMachineDeployment", "web", deployment(3, "large", &rolling())).await;
    let object = stage.rolled_out().await;
    assert_eq!(object.status.unwrap().current_revision, Some(2));
    assert!(stage.standing().is_disjoint(&first) && all_of(stage, "large"));
    assert_eq!(sizes(stage), [1, 2, 3, 4, 3, 4, 3, 4, 3], "{:#?}", stage.traces());
    stage.event("web", "ScaledSet").await;

    // Back again: the old set is taken up under a new number.
    stage.put("CaptMachineDeployment", "web", deployment(3, "small", &rolling())).await;
    let object = stage.rolled_out().await;
    assert_eq!(object.status.unwrap().current_revision, Some(3));
    assert!(all_of(stage, "small"));
    assert!(sizes(stage)[3..].iter().all(|size| (3..=4).contains(size)), "{:?}", sizes(stage));
    let sets = stage.api::<CaptMachineSet>().list(&ListParams::default()).await.unwrap();
    assert_eq!(sets.items.len(), 2);
    stage.delete_all().await;
}

pub async fn recreate(stage: &Stage) {
    let strategy = json!({"type": "Recreate"});
    started(stage, 3, &strategy).await;
    stage.put("CaptMachineDeployment", "web", deployment(3, "large", &strategy)).await;
    stage.rolled_out().await;
    assert_eq!(sizes(stage), [1, 2, 3, 2, 1, 0, 1, 2, 3], "{:#?}", stage.traces());
    assert!(all_of(stage, "large"));
    stage.delete_all().await;
}

pub async fn on_delete(stage: &Stage) {
    let strategy = json!({"type": "OnDelete"});
    started(stage, 2, &strategy).await;
    let first = stage.standing();
    stage.put("CaptMachineDeployment", "web", deployment(2, "large", &strategy)).await;
    let seen = until("the edit is seen", SOON, async || {
        let object = stage.api::<CaptMachineDeployment>().get("web").await.unwrap();
        let status = object.status?;
        (status.observed_generation == object.metadata.generation && status.current_revision == Some(2))
            .then_some(())
    });
    seen.await.unwrap();
    assert_eq!(stage.standing(), first, "nothing happens by itself");
    for (number, victim) in first.iter().enumerate() {
        stage.api::<CaptMachine>().delete(victim, &DeleteParams::background()).await.unwrap();
        stage.when_gone::<CaptMachine>(victim).await;
        let filled = until("filled", SOON, async || {
            let standing = stage.standing();
            let new = standing.difference(&first).count();
            (standing.len() == 2 && new == number + 1).then_some(())
        });
        filled.await.unwrap();
    }
    stage.rolled_out().await;
    assert!(all_of(stage, "large"));
    stage.delete_all().await;
}

pub async fn a_rollout_fails_and_is_undone(stage: &Stage) {
    started(stage, 2, &rolling()).await;
    let first = stage.standing();
    stage.put("CaptMachineDeployment", "web", deployment(2, "broken", &rolling())).await;
    let failed = until("a machine fails", SOON, async || {
        let all = stage.api::<CaptMachine>().list(&ListParams::default()).await.unwrap().items;
        all.into_iter().find_map(|machine| {
            let status = machine.status?;
            status.failure_reason.clone().zip(status.failure_message)
        })
    });
    let (reason, message) = failed.await.unwrap();
    assert_eq!(reason, "ApplyFailed");
    assert!(message.contains("no such machine type"), "{message}");
    assert!(stage.standing().is_superset(&first), "what serves is not touched");

    let deployments = stage.api::<CaptMachineDeployment>();
    let object = deployments.get("web").await.unwrap();
    let sets = stage.api::<CaptMachineSet>().list(&ListParams::default()).await.unwrap().items;
    let sets: Vec<&CaptMachineSet> = sets.iter().collect();
    let (revision, template) = capt_planner::revision::undo(&object, &sets, None).unwrap();
    assert_eq!(revision, 1);
    let body = json!({"spec": {"template": template}});
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    stage.rolled_out().await;
    assert_eq!(stage.standing(), first);
    assert_eq!(stage.machine_names().await, first);
    // A machine that failed does not count for the ceiling: a slow run may have seen one replaced.
    let traces = stage.traces();
    assert!(traces[2..].iter().all(|line| line.ends_with(" broken")), "{traces:#?}");
    stage.delete_all().await;
}

pub async fn in_place(stage: &Stage) {
    started(stage, 2, &rolling()).await;
    let first = stage.standing();
    let mut spec = deployment(2, "small", &rolling());
    spec["template"]["spec"]["tags"] = json!({"owner": "ops"});
    spec["template"]["spec"]["labels"] = json!({"role": "db"});
    spec["template"]["metadata"]["labels"]["tier"] = json!("back");
    stage.put("CaptMachineDeployment", "web", spec.clone()).await;
    let told = |name: &str| {
        let name = format!("{name}-machine");
        async move { stage.get(&name).await.status.unwrap().outputs.get("told").cloned() }
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
    let object = stage.rolled_out().await;
    assert_eq!(object.status.unwrap().current_revision, Some(1), "no rollout");
    for name in &first {
        let machine = stage.api::<CaptMachine>().get(name).await.unwrap();
        assert_eq!(machine.metadata.labels.as_ref().unwrap()["tier"], "back");
        assert!(machine.status.unwrap().ready);
    }
    assert_eq!(stage.traces().len(), 2, "{:#?}", stage.traces());

    // What the template drops goes, too.
    spec["template"]["metadata"]["labels"].as_object_mut().unwrap().remove("tier");
    stage.put("CaptMachineDeployment", "web", spec).await;
    let dropped = until("the label goes", SOON, async || {
        let all = stage.api::<CaptMachine>().list(&ListParams::default()).await.unwrap().items;
        all.iter().all(|one| !one.metadata.labels.as_ref().unwrap().contains_key("tier")).then_some(())
    });
    dropped.await.unwrap();
    assert_eq!(stage.standing(), BTreeSet::from_iter(first));
    stage.delete_all().await;
}
