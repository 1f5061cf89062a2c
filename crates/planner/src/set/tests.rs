//! Tables over single decisions of a set.

use std::collections::BTreeMap;

use capt_api::machine::{
    Allocation, CaptMachine, CaptMachineSet, CaptMachineSetSpec, CaptMachineSetStatus, CaptMachineStatus,
    DeletePolicy, MachinePhase,
};
use capt_api::names::annotations;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{SetAction, SetObservation, SetPlan, Settings, batches, machine, plan};
use crate::reason::{Priority, Reason};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn set(replicas: i32) -> CaptMachineSet {
    let mut spec = CaptMachineSetSpec { replicas, ..CaptMachineSetSpec::default() };
    spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    spec.template.metadata.labels = [("app".to_owned(), "web".to_owned())].into();
    let mut set = CaptMachineSet::new("web", spec);
    set.metadata.uid = Some("set".to_owned());
    set.metadata.generation = Some(1);
    set
}

fn ready(set: &CaptMachineSet, number: i64) -> CaptMachine {
    let mut object = machine(set, number);
    object.metadata.uid = Some(format!("uid-{number}"));
    object.metadata.creation_timestamp = Some(Time(at(number)));
    object.status = Some(CaptMachineStatus {
        ready: true,
        phase: Some(MachinePhase::Running),
        last_transition_time: Some(Time(at(number))),
        ..CaptMachineStatus::default()
    });
    object
}

fn decide(set: &CaptMachineSet, machines: &[CaptMachine]) -> SetPlan {
    plan(SetObservation { set, machines, absent: &[] }, &Settings::default(), at(10_000))
}

fn deleted(plan: &SetPlan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            SetAction::Delete { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

fn created(plan: &SetPlan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            SetAction::Create { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

/// The set as it is after the plan's status was written.
fn written(mut set: CaptMachineSet, plan: &SetPlan) -> CaptMachineSet {
    set.status = plan.status.clone().or(set.status);
    set
}

#[test]
fn a_name_is_given_out_before_its_machine_is_made() {
    let set = set(3);
    let first = decide(&set, &[]);
    assert_eq!(created(&first), ["web-0", "web-1", "web-2"]);
    assert!(first.fence);
    let allocation = first.status.as_ref().unwrap().allocation.clone().unwrap();
    assert_eq!(allocation, Allocation { next: 3, pending: vec![0, 1, 2] });

    // Nothing was seen yet: the same creates, and no other.
    let set = written(set, &first);
    let again = decide(&set, &[]);
    assert_eq!(created(&again), ["web-0", "web-1", "web-2"]);
    assert!(again.fence);

    // One was seen.
    let some = decide(&set, &[ready(&set, 1)]);
    assert_eq!(created(&some), ["web-0", "web-2"]);
}

#[test]
fn at_rest_nothing_is_written() {
    let mut set = set(2);
    let machines = [ready(&set, 0), ready(&set, 1)];
    set = written(set.clone(), &decide(&set, &machines));
    assert_eq!(decide(&set, &machines), SetPlan::default());
}

#[test]
fn a_replacement_has_a_new_name_while_the_old_one_goes() {
    let set = set(2);
    let mut going = ready(&set, 0);
    going.metadata.deletion_timestamp = Some(Time(at(5)));
    let plan = decide(&set, &[going, ready(&set, 1)]);
    assert_eq!(created(&plan), ["web-2"]);
    let status = plan.status.unwrap();
    assert_eq!((status.replicas, status.available_replicas, status.terminating_replicas), (1, 1, 1));
}

#[test]
fn without_a_status_numbers_go_on_where_machines_are() {
    // A move to another cluster loses the status.
    let set = set(3);
    assert_eq!(created(&decide(&set, &[ready(&set, 7), ready(&set, 2)])), ["web-8"]);
}

#[test]
fn who_goes_first() {
    let mut set = set(1);
    set.spec.delete_policy = DeletePolicy::Oldest;
    let marked = |mut machine: CaptMachine| {
        machine
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(annotations::DELETE_MACHINE.into(), String::new());
        machine
    };
    let in_phase = |mut machine: CaptMachine, phase| {
        machine.status = Some(CaptMachineStatus { phase: Some(phase), ..CaptMachineStatus::default() });
        machine
    };
    let machines = [
        ready(&set, 0),
        ready(&set, 1),
        in_phase(ready(&set, 2), MachinePhase::Provisioning),
        in_phase(ready(&set, 3), MachinePhase::Failed),
        marked(ready(&set, 4)),
    ];
    assert_eq!(deleted(&decide(&set, &machines)), ["web-4", "web-3", "web-2", "web-0"]);
    set.spec.delete_policy = DeletePolicy::Newest;
    assert_eq!(deleted(&decide(&set, &machines)), ["web-4", "web-3", "web-2", "web-1"]);
    let firsts: Vec<Priority> = decide(&set, &machines)
        .actions
        .iter()
        .filter_map(|action| match action.reason() {
            Reason::TooMany { first, .. } => Some(*first),
            _ => None,
        })
        .collect();
    assert_eq!(firsts, [Priority::Annotated, Priority::Failed, Priority::NotReady, Priority::Policy]);
}

#[test]
fn random_is_the_same_for_the_same_seed_alone() {
    let mut set = set(5);
    set.spec.delete_policy = DeletePolicy::Random;
    let machines: Vec<CaptMachine> = (0..50).map(|number| ready(&set, number)).collect();
    let with = |seed| {
        let settings = Settings { seed, ..Settings::default() };
        let plan =
            plan(SetObservation { set: &set, machines: &machines, absent: &[] }, &settings, at(10_000));
        deleted(&plan).into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn orphans_that_match_are_adopted_and_others_released() {
    let set = set(2);
    let mut orphan = ready(&set, 0);
    orphan.metadata.owner_references = None;
    orphan.metadata.name = Some("by-hand".into());
    let mut stranger = ready(&set, 1);
    stranger.metadata.owner_references.as_mut().unwrap()[0].uid = "another".into();
    let mut lost = ready(&set, 2);
    lost.metadata.labels = Some(BTreeMap::new());
    let plan = decide(&set, &[orphan, stranger, lost]);
    let words: Vec<String> = plan.actions.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "adopted by-hand: nobody owns it and the selector matches",
            "released web-2: the selector does not match any more",
            "created web-3: 1 of 2 exists",
        ]
    );
}

#[test]
fn a_burst_is_the_most_at_once() {
    let set = set(100_000);
    let plan = decide(&set, &[]);
    assert_eq!(created(&plan).len(), Settings::default().burst);
    let sizes: Vec<usize> = batches(&plan.actions).map(<[SetAction]>::len).collect();
    assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 37]);
    // What is pending counts for the burst: a set whose creates are refused does not go on and on.
    let set = written(set, &plan);
    assert_eq!(created(&decide(&set, &[])).len(), Settings::default().burst);
}

#[test]
fn a_refused_name_is_given_up() {
    let mut set = set(1);
    set.status = Some(CaptMachineSetStatus {
        allocation: Some(Allocation { next: 4, pending: vec![3] }),
        ..CaptMachineSetStatus::default()
    });
    let none: [CaptMachine; 0] = [];
    let plan = plan(SetObservation { set: &set, machines: &none, absent: &[3] }, &Settings::default(), at(0));
    assert_eq!(created(&plan), ["web-4"]);
}

#[test]
fn failed_machines_are_replaced_one_at_a_time_and_not_at_once() {
    let mut set = set(3);
    let failed = |number| {
        let mut machine = ready(&set, number);
        let status = machine.status.as_mut().unwrap();
        (status.ready, status.phase) = (false, Some(MachinePhase::Failed));
        status.last_transition_time = Some(Time(at(9_950)));
        machine
    };
    let machines = [failed(0), failed(1), ready(&set, 2)];
    set = written(set.clone(), &decide(&set, &machines));
    let early = decide(&set, &machines);
    assert_eq!(deleted(&early), [""; 0]);
    assert_eq!(early.wake_at, Some(at(10_010)));
    let due = plan(
        SetObservation { set: &set, machines: &machines, absent: &[] },
        &Settings::default(),
        at(10_010),
    );
    assert_eq!(deleted(&due), ["web-1"]);
}

#[test]
fn labels_reach_machines_in_place() {
    let mut set = set(1);
    let machines = [ready(&set, 0)];
    set.spec.template.metadata.labels.insert("team".into(), "a".into());
    let plan = decide(&set, &machines);
    assert!(matches!(plan.actions[..], [SetAction::Update { .. }]), "{plan:?}");
    // A label that the template dropped shows in the hash alone.
    let machines = [ready(&set, 0)];
    set.spec.template.metadata.labels.remove("team");
    assert!(matches!(decide(&set, &machines).actions[..], [SetAction::Update { .. }]));
}

#[test]
fn a_deleted_set_goes_after_its_machines() {
    let mut set = set(2);
    set.metadata.deletion_timestamp = Some(Time(at(1)));
    let plan = decide(&set, &[ready(&set, 0)]);
    assert_eq!(deleted(&plan), ["web-0"]);
    assert_eq!(plan.waits, [Reason::AwaitChildren { left: 1 }]);
    assert!(matches!(decide(&set, &[]).actions[..], [SetAction::Finish { .. }]));
    // What was given out and not seen is looked for first: nothing is forgotten.
    set.status = Some(CaptMachineSetStatus {
        allocation: Some(Allocation { next: 1, pending: vec![0] }),
        ..CaptMachineSetStatus::default()
    });
    assert!(matches!(decide(&set, &[]).actions[..], [SetAction::Probe { .. }]));
    set.metadata.finalizers = Some(vec!["orphan".into()]);
    assert!(matches!(decide(&set, &[ready(&set, 0)]).actions[..], [SetAction::Finish { .. }]));
}

#[test]
fn a_paused_set_does_nothing_but_count() {
    let mut set = set(2);
    set.metadata.annotations = Some([(annotations::PAUSED.to_owned(), String::new())].into());
    let plan = decide(&set, &[]);
    assert!(plan.actions.is_empty());
    let status = plan.status.unwrap();
    assert_eq!(crate::conditions::find(&status.conditions, "Ready").unwrap().reason, "Paused");
}

#[test]
fn a_selector_that_says_nothing_matches_nothing() {
    let mut set = set(1);
    set.spec.selector.match_labels = None;
    let mut orphan = ready(&set, 0);
    orphan.metadata.owner_references = None;
    let plan = decide(&set, &[orphan]);
    assert!(!plan.actions.iter().any(|action| matches!(action, SetAction::Adopt { .. })));
}

#[test]
fn plans_are_json_and_back() {
    let set = set(2);
    let plan = decide(&set, &[ready(&set, 5)]);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<SetPlan>(&text).unwrap(), plan);
}

/// Ten thousand machines cost no more plan than a burst.
#[test]
fn ten_thousand_machines_go_in_bursts() {
    let mut set = set(10_000);
    let machines: Vec<CaptMachine> = (0..10_000).map(|number| ready(&set, number)).collect();
    set = written(set.clone(), &decide(&set, &machines));
    assert_eq!(decide(&set, &machines), SetPlan::default());
    set.spec.replicas = 1;
    assert_eq!(deleted(&decide(&set, &machines)).len(), Settings::default().burst);
    assert_eq!(deleted(&decide(&set, &machines[..50])).len(), 49);
}

/// A machine that could not be built, since then.
fn failed(set: &CaptMachineSet, number: i64, since: i64) -> CaptMachine {
    let mut object = ready(set, number);
    let status = object.status.as_mut().unwrap();
    (status.ready, status.phase) = (false, Some(MachinePhase::Failed));
    status.failure_reason = Some("ApplyError".into());
    status.failure_message = Some(format!("Error: no capacity for {number}"));
    status.last_transition_time = Some(Time(at(since)));
    object
}

#[test]
fn each_replacement_that_fails_waits_twice_as_long() {
    let mut set = set(1);
    let mut now = 10_000;
    let mut delays = Vec::new();
    for number in 0..9 {
        let machine = failed(&set, number, now);
        // Planned again and again meanwhile: it counts once.
        let mut waited = 0;
        let plan = loop {
            let observed =
                SetObservation { set: &set, machines: std::slice::from_ref(&machine), absent: &[] };
            let plan = plan(observed, &Settings::default(), at(now + waited));
            set = written(set, &plan);
            match plan.wake_at {
                Some(due) => waited = due.as_second() - now,
                None => break plan,
            }
        };
        assert_eq!(deleted(&plan), [format!("web-{number}")]);
        let known = set.status.as_ref().unwrap().last_failure.clone().unwrap();
        assert_eq!(known.machine, format!("web-{number}"));
        assert_eq!(known.workspace, format!("web-{number}-machine"));
        assert_eq!(i64::from(known.failures), number + 1);
        assert_eq!(known.message, Some(format!("Error: no capacity for {number}")));
        delays.push(waited);
        now += waited + 100;
    }
    assert_eq!(delays, [60, 120, 240, 480, 960, 1800, 1800, 1800, 1800]);
}

#[test]
fn the_delay_starts_anew_once_a_replacement_is_ready() {
    let set = set(2);
    let first = written(set.clone(), &decide(&set, &[ready(&set, 0), failed(&set, 1, 1)]));
    let second = written(first.clone(), &decide(&first, &[ready(&set, 0), failed(&set, 2, 2)]));
    let failures =
        |set: &CaptMachineSet| set.status.as_ref().unwrap().last_failure.as_ref().unwrap().failures;
    assert_eq!((failures(&first), failures(&second)), (1, 2));
    // An older one that is ready says nothing about the replacement.
    let mended = written(second.clone(), &decide(&second, &[ready(&set, 0), ready(&set, 3)]));
    assert_eq!(failures(&mended), 0);
    let known = mended.status.as_ref().unwrap().last_failure.clone().unwrap();
    assert_eq!(known.machine, "web-2", "what failed last can still be read");
    let again = written(mended.clone(), &decide(&mended, &[ready(&set, 3), failed(&set, 4, 4)]));
    assert_eq!(failures(&again), 1);
}

#[test]
fn machines_that_fail_side_by_side_count_as_one() {
    let set = set(3);
    let all: Vec<CaptMachine> = (0..3).map(|number| failed(&set, number, 1)).collect();
    let mut known = written(set.clone(), &decide(&set, &all));
    // The newest goes; those beside it do not count up, nor does the replacement while it is built.
    for some in [&all[..2], &all[..1]] {
        known = written(known.clone(), &decide(&known, some));
        let last = known.status.as_ref().unwrap().last_failure.clone().unwrap();
        assert_eq!((last.machine.as_str(), last.failures), ("web-2", 1));
    }
}

fn message(set: &CaptMachineSet, kind: &str) -> String {
    let status = set.status.as_ref().unwrap();
    crate::conditions::find(&status.conditions, kind).unwrap().message.clone()
}

#[test]
fn a_set_tells_the_deepest_cause() {
    let set = set(3);
    let says = |machines: &[CaptMachine]| message(&written(set.clone(), &decide(&set, machines)), "Ready");
    let with = |mut machine: CaptMachine, reason: &str, text: &str| {
        let condition = crate::conditions::Finding {
            kind: "Ready",
            holds: Some(false),
            reason: "",
            message: text.into(),
        };
        let status = machine.status.as_mut().unwrap();
        status.ready = false;
        status.conditions = crate::conditions::merge(&[], vec![condition], None, at(1));
        status.conditions[0].reason = reason.into();
        machine
    };
    let broken = with(failed(&set, 2, 9_990), "ApplyError", "workspace web-2-machine: Error: no capacity");
    let waits = with(ready(&set, 1), "WaitingForNodeGroup", "NodeGroup g is not ready: Error: no subnet");
    let builds = with(ready(&set, 1), "Creating", "workspace web-1-machine builds it");
    let counts = "1 of 3 machines is available";
    let rows = [
        (
            vec![ready(&set, 0), builds.clone(), broken.clone()],
            "; CaptMachine web-2: workspace web-2-machine: Error: no capacity",
        ),
        (
            vec![ready(&set, 0), waits.clone(), broken],
            "; CaptMachine web-2: workspace web-2-machine: Error: no capacity",
        ),
        (
            vec![ready(&set, 0), waits, builds.clone()],
            "; CaptMachine web-1: NodeGroup g is not ready: Error: no subnet",
        ),
        (vec![ready(&set, 0), builds], ""),
    ];
    for (machines, cause) in rows {
        assert_eq!(says(&machines), format!("{counts}{cause}"));
    }
    // It was replaced, and its replacement is being built.
    let known =
        written(set.clone(), &decide(&set, &[ready(&set, 0), ready(&set, 1), failed(&set, 2, 9_000)]));
    let builds = with(ready(&set, 3), "Creating", "");
    let later = written(known.clone(), &decide(&known, &[ready(&set, 0), ready(&set, 1), builds]));
    let told = message(&later, "Ready");
    assert_eq!(
        told,
        "2 of 3 machines are available; CaptMachine web-2, which was replaced: Error: no capacity for 2"
    );
}
