//! Tables over single decisions of a deployment; whole rollouts are in `tests/golden`.

use capt_api::machine::{
    CaptMachineDeployment, CaptMachineDeploymentSpec, CaptMachineSet, CaptMachineSetStatus, RollingUpdate,
};
use capt_api::names::annotations;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{DeploymentAction, DeploymentObservation, DeploymentPlan, is_same_set, plan, set};
use crate::reason::Reason;
use crate::revision::{UndoError, history, undo};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn deployment(replicas: i32, instance_type: &str) -> CaptMachineDeployment {
    let mut spec = CaptMachineDeploymentSpec { replicas, ..CaptMachineDeploymentSpec::default() };
    spec.progress_deadline_seconds = 600;
    spec.revision_history_limit = 10;
    spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    spec.template.metadata.labels = [("app".to_owned(), "web".to_owned())].into();
    spec.template.spec.instance_type = Some(instance_type.to_owned());
    let mut deployment = CaptMachineDeployment::new("web", spec);
    deployment.metadata.uid = Some("deployment".to_owned());
    deployment.metadata.generation = Some(1);
    deployment
}

/// A set of a revision, with all its machines available.
fn steady(instance_type: &str, revision: i64, replicas: i32) -> CaptMachineSet {
    let parent = deployment(replicas, instance_type);
    let mut set = set(&parent, &format!("hash{revision}"), revision, replicas);
    set.metadata.uid = Some(format!("set-{revision}"));
    set.metadata.generation = Some(2);
    set.metadata.creation_timestamp = Some(Time(at(revision)));
    set.status = Some(CaptMachineSetStatus {
        observed_generation: Some(2),
        replicas,
        ready_replicas: replicas,
        available_replicas: replicas,
        ..CaptMachineSetStatus::default()
    });
    set
}

fn decide(deployment: &CaptMachineDeployment, sets: &[CaptMachineSet]) -> DeploymentPlan {
    plan(DeploymentObservation { deployment, sets }, at(10_000))
}

fn words(plan: &DeploymentPlan) -> Vec<String> {
    plan.actions.iter().map(ToString::to_string).collect()
}

#[test]
fn a_step_says_what_the_design_says() {
    let mut deployment = deployment(3, "large");
    deployment.spec.strategy.rolling_update =
        RollingUpdate { max_surge: IntOrString::Int(0), max_unavailable: IntOrString::Int(1) };
    let mut old = steady("small", 1, 3);
    old.status.as_mut().unwrap().available_replicas = 2;
    let new = steady("large", 2, 0);
    let step = decide(&deployment, &[old, new]);
    assert_eq!(words(&step)[0], "scaled web-hash1 3->2: 1 unavailable old replica; budget 1");
}

#[test]
fn no_step_until_every_set_has_acted_on_the_last() {
    let deployment = deployment(3, "large");
    let mut old = steady("small", 1, 2);
    old.metadata.generation = Some(3);
    let new = steady("large", 2, 1);
    let step = decide(&deployment, &[old, new]);
    assert!(!words(&step).iter().any(|word| word.starts_with("scaled")), "{step:?}");
    assert_eq!(step.waits, [Reason::AwaitSet { set: "web-hash1".into() }]);
}

/// Availability first, as long as machines go that a rollout decided to take: a mark must not choose one that the floor needs.
#[test]
fn what_a_rollout_takes_goes_unavailable_first_though_it_is_undone() {
    let clears = |set: &CaptMachineSet, paused: bool| {
        let mut deployment = deployment(3, "small");
        deployment.spec.paused = paused;
        let undone = decide(&deployment, &[set.clone(), steady("large", 2, 1)]);
        undone.actions.iter().any(|action| {
            matches!(action, DeploymentAction::ChangeSet { change, .. } if change.unavailable_first == Some(false))
        })
    };
    let mut taken = steady("small", 1, 2);
    let all = taken.metadata.annotations.get_or_insert_default();
    all.insert(annotations::UNAVAILABLE_FIRST.to_owned(), String::new());
    let mut slow = taken.clone();
    slow.metadata.generation = Some(3);
    let mut surplus = taken.clone();
    surplus.status.as_mut().unwrap().replicas = 3;
    for paused in [false, true] {
        assert!(!clears(&slow, paused), "it has not acted on its size");
        assert!(!clears(&surplus, paused), "it has too many");
        assert!(clears(&taken, paused), "they are gone");
    }
}

#[test]
fn a_deletion_whose_victim_is_not_known_counts_as_an_available_one() {
    let deployment = deployment(3, "large");
    // Two wanted, three there and all available: one of them is as good as gone.
    let mut old = steady("small", 1, 2);
    let status = old.status.as_mut().unwrap();
    (status.replicas, status.available_replicas) = (3, 3);
    assert_eq!(super::Set::new(&old).available, 2);
    let step = decide(&deployment, &[old, steady("large", 2, 1)]);
    assert!(!words(&step).iter().any(|word| word.contains("web-hash1 2->1")), "{step:?}");
}

#[test]
fn machines_that_are_going_count_for_the_ceiling() {
    let deployment = deployment(3, "large");
    let mut old = steady("small", 1, 2);
    old.status.as_mut().unwrap().terminating_replicas = 1;
    let step = decide(&deployment, &[old, steady("large", 2, 1)]);
    assert!(step.waits.contains(&Reason::AwaitRoom { total: 4, ceiling: 4, terminating: 1 }), "{step:?}");
}

#[test]
fn a_name_that_is_taken_is_passed_over() {
    let deployment = deployment(1, "large");
    let first = decide(&deployment, &[]);
    let [DeploymentAction::CreateSet { hash, .. }] = &first.actions[..] else { panic!("{first:?}") };
    let mut taken = set(&deployment, hash, 1, 0);
    taken.spec.template.spec.instance_type = Some("another".into());
    assert!(!is_same_set(&deployment, &taken));
    let second = decide(&deployment, &[taken]);
    let other = second.actions.iter().find_map(|action| match action {
        DeploymentAction::CreateSet { hash, .. } => Some(hash.clone()),
        _ => None,
    });
    assert_ne!(other.as_ref(), Some(hash));
    assert!(other.is_some());
    assert_eq!(second.status.unwrap().collision_count, Some(1));
}

#[test]
fn an_old_set_becomes_current_again_with_the_next_revision() {
    let deployment = deployment(1, "small");
    let step = decide(&deployment, &[steady("small", 1, 0), steady("large", 2, 1)]);
    assert!(words(&step)[0].contains("current again, as revision 3"), "{step:?}");
    assert_eq!(step.status.unwrap().current_revision, Some(3));
}

#[test]
fn ties_go_to_the_largest_then_the_oldest() {
    let deployment = deployment(2, "large");
    let sets = [steady("large", 1, 0), steady("large", 2, 2), steady("large", 3, 0)];
    let step = decide(&deployment, &sets);
    assert_eq!(step.status.unwrap().updated_replicas, 2);
}

#[test]
fn at_rest_nothing_is_written() {
    let mut deployment = deployment(2, "large");
    let sets = [steady("small", 1, 0), steady("large", 2, 2)];
    let first = decide(&deployment, &sets);
    // Sets scaled for another size learn the new one once.
    assert!(!words(&first).iter().any(|word| word.starts_with("scaled")), "{first:?}");
    deployment.status = first.status;
    let second = decide(&deployment, &sets);
    assert_eq!(second.status, None);
    assert_eq!(second.wake_at, None);
}

#[test]
fn undo_finds_its_revision_or_says_what_there_is() {
    let current = deployment(1, "large");
    let sets = [steady("small", 1, 0), steady("medium", 2, 0), steady("large", 3, 1)];
    let all: Vec<&CaptMachineSet> = sets.iter().collect();
    let back = |to| {
        undo(&current, &all, to).map(|(revision, template)| (revision, template.spec.instance_type.unwrap()))
    };
    assert_eq!(back(None), Ok((2, "medium".into())));
    assert_eq!(back(Some(1)), Ok((1, "small".into())));
    let unknown = back(Some(9)).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no revision 9; there are: 1, 2, 3");
    assert_eq!(undo(&current, &all[2..], None), Err(UndoError::NoEarlier));
    let mut paused = current.clone();
    paused.spec.paused = true;
    assert_eq!(undo(&paused, &all, None), Err(UndoError::Paused));
    let (_, template) = undo(&current, &all, Some(1)).unwrap();
    assert_eq!(
        template.metadata, current.spec.template.metadata,
        "the label that keeps sets apart stays with the set"
    );
    assert_eq!(
        history(&current, &all).iter().map(|entry| entry.current).collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[test]
fn a_terminating_set_is_never_current() {
    let deployment = deployment(1, "large");
    let mut gone = steady("large", 1, 1);
    gone.metadata.deletion_timestamp = Some(Time(at(5)));
    let step = decide(&deployment, &[gone]);
    assert!(words(&step)[0].starts_with("created web-"), "{step:?}");
}

#[test]
fn plans_are_json_and_back() {
    let step = decide(&deployment(3, "large"), &[steady("small", 1, 3)]);
    let text = serde_json::to_string(&step).unwrap();
    assert_eq!(serde_json::from_str::<DeploymentPlan>(&text).unwrap(), step);
}

#[test]
fn a_set_that_leaves_its_machines_behind_is_waited_for() {
    let deployment = deployment(2, "large");
    let first = decide(&deployment, &[]);
    let DeploymentAction::CreateSet { hash, .. } = &first.actions[0] else { panic!("{first:?}") };
    let mut going = set(&deployment, hash, 1, 2);
    going.metadata.deletion_timestamp = Some(Time(at(1)));
    let creates = |set: &CaptMachineSet| {
        let plan = decide(&deployment, std::slice::from_ref(set));
        plan.actions.iter().any(|action| matches!(action, DeploymentAction::CreateSet { .. }))
    };
    assert!(!creates(&going), "it has not said what becomes of its machines");
    let said = |reason: &str, replicas, terminating| {
        let mut going = going.clone();
        let condition = serde_json::from_value(serde_json::json!({
            "type": "Deleting", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }));
        let status = going.status.get_or_insert_default();
        (status.replicas, status.terminating_replicas) = (replicas, terminating);
        status.conditions = vec![condition.unwrap()];
        going
    };
    assert!(creates(&said("Deleting", 0, 2)), "another does not wait for machines to be destroyed");
    assert!(!creates(&said("Deleting", 1, 1)), "some are not being destroyed yet");
    assert!(!creates(&said("Deleting", 2, 0)), "they may be orphans that it has not missed yet");
    assert!(!creates(&said("Orphaning", 2, 0)), "only a set of the same name can take them up");
    assert!(!creates(&said("Deleting", 0, 0)), "its name is free in a moment");
}

#[test]
fn a_deployment_hands_on_the_cause_of_its_sets() {
    let deployment = deployment(3, "large");
    let cause = "CaptMachine web-hash2-0: workspace web-hash2-0-machine: Error: no capacity; in any zone";
    let not_ready = |mut set: CaptMachineSet, text: &str| {
        let message = crate::cause::with("0 of 1 machine is available", Some(text));
        let finding = crate::conditions::Finding::new("Ready", false, "Failed", message);
        let status = set.status.as_mut().unwrap();
        status.conditions = crate::conditions::merge(&[], vec![finding], None, at(1));
        (status.ready_replicas, status.available_replicas) = (0, 0);
        set
    };
    let sets = [not_ready(steady("small", 1, 3), "another"), not_ready(steady("large", 2, 1), cause)];
    let status = decide(&deployment, &sets).status.unwrap();
    for kind in ["Available", "Ready", "MachinesReady", "Progressing"] {
        let told = &crate::conditions::find(&status.conditions, kind).unwrap().message;
        assert_eq!(crate::cause::of(told), Some(cause), "{kind}: {told}");
    }
    let fine = decide(&deployment, &[steady("large", 2, 3)]).status.unwrap();
    assert!(fine.conditions.iter().all(|condition| !condition.message.contains("CaptMachine ")), "{fine:?}");
}

#[test]
fn a_wait_for_room_tells_the_true_numbers() {
    let rows = [
        ((4, 4, 0), "waiting for room: 4 of at most 4 exist"),
        ((4, 4, 1), "waiting for room: 4 of at most 4 exist, 1 terminating"),
        ((5, 4, 1), "waiting for room: 5 exist, 1 of them terminating, and at most 4 may before one is made"),
    ];
    for ((total, ceiling, terminating), words) in rows {
        assert_eq!(Reason::AwaitRoom { total, ceiling, terminating }.to_string(), words);
    }
}

/// `kubectl get` shows the reason of Ready: nothing is in progress while somebody holds it up.
#[test]
fn a_paused_deployment_says_so() {
    let reason = |paused: bool, sets: &[CaptMachineSet]| {
        let mut deployment = deployment(3, "large");
        deployment.spec.paused = paused;
        let status = decide(&deployment, sets).status.unwrap();
        crate::conditions::find(&status.conditions, "Ready").unwrap().reason.clone()
    };
    let rows = [
        (false, steady("small", 1, 3), "InProgress"),
        (true, steady("small", 1, 3), "Paused"),
        (true, steady("large", 1, 2), "Paused"),
        (true, steady("large", 1, 3), "Ready"),
    ];
    for (paused, set, expected) in rows {
        assert_eq!(reason(paused, std::slice::from_ref(&set)), expected, "{paused} {set:?}");
    }
}
