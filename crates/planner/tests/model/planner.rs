//! The real planner on the model's data. Plans are pure, so each distinct one is made once.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use capt_api::conditions::{reasons, types};
use capt_api::machine::{
    Allocation, CaptMachine, CaptMachineDeployment, CaptMachineDeploymentSpec, CaptMachineDeploymentStatus,
    CaptMachineSet, CaptMachineSetStatus, CaptMachineStatus, MachinePhase, RollingUpdate, Strategy,
    StrategyKind,
};
use capt_api::names::annotations;
use capt_planner::{Reason, deployment, set};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::bounds::Bounds;
use crate::state::{Bond, Deployment, DeploymentWrite, Life, Machine, Set, SetWrite, Status, Told, Word};

/// Time passes for one machine after the other: those that were ready for less than this wait.
const MIN_READY: i32 = 10;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn long_ago() -> Timestamp {
    Timestamp::from_second(1).unwrap()
}

type DeploymentKey = (Bounds, Deployment, BTreeMap<u8, Set>);
type SetKey = (Bounds, Set, Vec<Machine>, Vec<i64>);

thread_local! {
    static DEPLOYMENTS: RefCell<HashMap<DeploymentKey, Vec<DeploymentWrite>>> = RefCell::default();
    static SETS: RefCell<HashMap<SetKey, Vec<SetWrite>>> = RefCell::default();
}

fn once<K: Eq + Hash, V: Clone>(memo: &RefCell<HashMap<K, V>>, key: K, make: impl FnOnce(&K) -> V) -> V {
    if let Some(known) = memo.borrow().get(&key) {
        return known.clone();
    }
    let made = make(&key);
    memo.borrow_mut().insert(key, made.clone());
    made
}

pub fn plan_deployment(bounds: Bounds, wanted: Deployment, sets: &BTreeMap<u8, Set>) -> Vec<DeploymentWrite> {
    DEPLOYMENTS.with(|memo| {
        once(memo, (bounds, wanted, sets.clone()), |_| {
            let object = deployment_object(bounds, wanted);
            let objects: Vec<CaptMachineSet> =
                sets.values().map(|set| set_object(bounds, wanted, set)).collect();
            let plan = deployment::plan(
                deployment::DeploymentObservation { deployment: &object, sets: &objects },
                now(),
            );
            let mut writes = Vec::new();
            for action in plan.actions {
                writes.extend(deployment_write(wanted, sets, action));
            }
            let told = plan.status.filter(|_| bounds.deadlines).map(|status| told(&status));
            if let Some(told) = told.filter(|told| wanted.told != Some(*told)) {
                writes.push(DeploymentWrite::Report(wanted, told));
            }
            writes
        })
    })
}

fn deployment_write(
    wanted: Deployment,
    sets: &BTreeMap<u8, Set>,
    action: deployment::DeploymentAction,
) -> Option<DeploymentWrite> {
    match action {
        deployment::DeploymentAction::CreateSet { revision, replicas, .. } => {
            Some(DeploymentWrite::Create(Set {
                id: 0,
                template: wanted.template,
                owned: true,
                deleting: false,
                replicas,
                generation: 1,
                revision,
                desired: wanted.replicas,
                create_disabled: false,
                unavailable_first: false,
                status: None,
                largest: replicas,
            }))
        }
        deployment::DeploymentAction::ChangeSet { uid, change, .. } => {
            let id: u8 = uid.parse().unwrap();
            let before = sets[&id].clone();
            let mut after = before.clone();
            if let Some((from, to)) = change.replicas {
                assert_eq!(from, before.replicas);
                after.replicas = to;
                after.largest = after.largest.max(to);
                after.generation += 1;
            }
            after.revision = change.revision.unwrap_or(after.revision);
            after.desired = change.desired_replicas.unwrap_or(after.desired);
            after.create_disabled = change.disable_create.unwrap_or(after.create_disabled);
            after.unavailable_first = change.unavailable_first.unwrap_or(after.unavailable_first);
            assert!(change.template.is_none(), "nothing changes in place in this model");
            Some(DeploymentWrite::Change(before, after))
        }
        deployment::DeploymentAction::DeleteSet { uid, reason: Reason::OwnerDeleting, .. } => {
            Some(DeploymentWrite::Delete(uid.parse().unwrap()))
        }
        // Old revisions do no harm here; without them every state would be there twice.
        deployment::DeploymentAction::DeleteSet { .. } => None,
        deployment::DeploymentAction::AdoptSet { uid, .. } => {
            let id: u8 = uid.parse().unwrap();
            Some(DeploymentWrite::Adopt(sets[&id].clone()))
        }
        deployment::DeploymentAction::Finish { .. } => Some(DeploymentWrite::Finish),
        deployment::DeploymentAction::Undo { template, .. } => {
            let size = template.spec.instance_type.unwrap();
            Some(DeploymentWrite::Undo(wanted, size.strip_prefix("size-").unwrap().parse().unwrap()))
        }
        other @ deployment::DeploymentAction::ReleaseSet { .. } => panic!("not in this model: {other:?}"),
    }
}

pub fn plan_set(bounds: Bounds, set: &Set, machines: &[Machine], absent: &[i64]) -> Vec<SetWrite> {
    let own: Vec<Machine> = machines.iter().filter(|machine| machine.set == set.id).copied().collect();
    SETS.with(|memo| {
        once(memo, (bounds, set.clone(), own, absent.to_vec()), |(_, set, own, absent)| {
            let wanted = Deployment::new(0, set.template);
            let object = set_object(bounds, wanted, set);
            let objects: Vec<CaptMachine> =
                own.iter().map(|machine| machine_object(&object, machine)).collect();
            let settings = set::Settings { failed_grace: SignedDuration::ZERO, ..set::Settings::default() };
            let plan =
                set::plan(set::SetObservation { set: &object, machines: &objects, absent }, &settings, now());
            let waits = own.iter().any(|machine| machine.life == Life::Warm && machine.bond == Bond::Owned);
            assert!(!waits || plan.wake_at.is_some(), "nobody would see that time has passed");
            set_writes(set, own, &object, plan)
        })
    })
}

fn set_writes(set: &Set, own: &[Machine], object: &CaptMachineSet, plan: set::SetPlan) -> Vec<SetWrite> {
    let mut writes = Vec::new();
    let planned = plan.status.as_ref().or(object.status.as_ref()).map(short);
    if let Some(status) = planned.filter(|status| plan.fence || set.status.as_ref() != Some(status)) {
        writes.push(SetWrite::Status(set.clone(), status));
    }
    for action in plan.actions {
        writes.push(match action {
            set::SetAction::Create { number, .. } => SetWrite::Create(number),
            set::SetAction::Delete { uid, reason, .. } => {
                let decided = matches!(reason, Reason::TooMany { .. } | Reason::OwnerDeleting);
                let number: i64 = uid.parse().unwrap();
                let seen = own.iter().find(|machine| machine.number == number).unwrap();
                SetWrite::Delete(*seen, decided)
            }
            set::SetAction::Adopt { uid, .. } => SetWrite::Adopt(uid.parse().unwrap()),
            set::SetAction::Release { uid, .. } => SetWrite::Release(uid.parse().unwrap()),
            set::SetAction::Probe { number, .. } => SetWrite::Probe(number),
            set::SetAction::Finish { .. } => SetWrite::Finish(set.clone()),
            other @ set::SetAction::Update { .. } => panic!("not in this model: {other:?}"),
        });
    }
    writes
}

fn short(status: &CaptMachineSetStatus) -> Status {
    let allocation = status.allocation.clone().unwrap_or_default();
    Status {
        observed: status.observed_generation.unwrap(),
        replicas: status.replicas,
        ready: status.ready_replicas,
        available: status.available_replicas,
        terminating: status.terminating_replicas,
        deleting: status.conditions.iter().any(|condition| condition.type_ == "Deleting"),
        next: allocation.next,
        pending: allocation.pending,
    }
}

fn deployment_object(bounds: Bounds, wanted: Deployment) -> CaptMachineDeployment {
    let mut spec =
        CaptMachineDeploymentSpec { replicas: wanted.replicas, ..CaptMachineDeploymentSpec::default() };
    spec.strategy = Strategy {
        kind: bounds.strategy,
        rolling_update: RollingUpdate {
            max_surge: IntOrString::Int(bounds.surge),
            max_unavailable: IntOrString::Int(bounds.unavailable),
        },
    };
    spec.progress_deadline_seconds = 600;
    spec.min_ready_seconds = if bounds.min_ready { MIN_READY } else { 0 };
    spec.revision_history_limit = 10;
    spec.selector.match_labels = Some([("app".to_owned(), "web".to_owned())].into());
    spec.template.metadata.labels = [("app".to_owned(), "web".to_owned())].into();
    spec.template.spec.instance_type = Some(format!("size-{}", wanted.template));
    let mut object = CaptMachineDeployment::new("web", spec);
    object.spec.paused = wanted.paused;
    object.metadata.uid = Some("deployment".to_owned());
    object.metadata.deletion_timestamp = wanted.deleting.then(|| Time(now()));
    if bounds.deadlines {
        object.metadata.generation = Some(wanted.generation);
        if let Some(undone_to) = wanted.undone_to {
            let now = object.spec.template.clone();
            let mut then = now.clone();
            then.spec.instance_type = Some(format!("size-{undone_to}"));
            deployment::undo(&mut object, &then);
            object.spec.template = now;
        }
        let all = object.metadata.annotations.get_or_insert_default();
        all.insert(annotations::UNDO_ON_FAILURE.to_owned(), "true".to_owned());
        object.status = wanted.told.map(deployment_status);
    }
    object
}

fn deployment_status(told: Told) -> CaptMachineDeploymentStatus {
    let reason = match told.word {
        Word::Moves => reasons::SET_UPDATED,
        Word::Done => reasons::NEW_SET_AVAILABLE,
        Word::Late => reasons::PROGRESS_DEADLINE_EXCEEDED,
        Word::AwaitsPeople => reasons::AWAITING_DELETION,
    };
    CaptMachineDeploymentStatus {
        observed_generation: told.observed,
        replicas: told.replicas,
        updated_replicas: told.updated,
        ready_replicas: told.ready,
        available_replicas: told.available,
        conditions: vec![Condition {
            type_: types::PROGRESSING.to_owned(),
            status: if told.word == Word::Late { "False" } else { "True" }.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: Time(if told.overdue { long_ago() } else { now() }),
            observed_generation: told.observed,
        }],
        ..CaptMachineDeploymentStatus::default()
    }
}

fn told(status: &CaptMachineDeploymentStatus) -> Told {
    let progressing = status.conditions.iter().find(|one| one.type_ == types::PROGRESSING).unwrap();
    Told {
        observed: status.observed_generation,
        replicas: status.replicas,
        updated: status.updated_replicas,
        ready: status.ready_replicas,
        available: status.available_replicas,
        word: match progressing.reason.as_str() {
            reasons::SET_UPDATED => Word::Moves,
            reasons::NEW_SET_AVAILABLE => Word::Done,
            reasons::PROGRESS_DEADLINE_EXCEEDED => Word::Late,
            reasons::AWAITING_DELETION => Word::AwaitsPeople,
            other => panic!("not in this model: {other}"),
        },
        overdue: progressing.last_transition_time.0 == long_ago(),
    }
}

fn set_object(bounds: Bounds, wanted: Deployment, set: &Set) -> CaptMachineSet {
    let parent = deployment_object(bounds, Deployment { template: set.template, ..wanted });
    let mut object = deployment::set(&parent, &format!("h{}", set.id), set.revision, set.replicas);
    object.metadata.uid = Some(set.id.to_string());
    object.metadata.deletion_timestamp = set.deleting.then(|| Time(now()));
    if !set.owned {
        object.metadata.owner_references = None;
    }
    object.metadata.generation = Some(set.generation);
    // Older revisions were created earlier.
    object.metadata.creation_timestamp = Some(Time(Timestamp::from_second(i64::from(set.id)).unwrap()));
    let all = object.metadata.annotations.get_or_insert_default();
    all.insert(annotations::DESIRED_REPLICAS.to_owned(), set.desired.to_string());
    for (key, flag) in [
        (annotations::DISABLE_CREATE, set.create_disabled),
        (annotations::UNAVAILABLE_FIRST, set.unavailable_first),
    ] {
        if flag {
            all.insert(key.to_owned(), String::new());
        }
    }
    object.status = set.status.as_ref().map(|status| CaptMachineSetStatus {
        observed_generation: Some(status.observed),
        replicas: status.replicas,
        ready_replicas: status.ready,
        available_replicas: status.available,
        terminating_replicas: status.terminating,
        allocation: Some(Allocation { next: status.next, pending: status.pending.clone() }),
        conditions: if status.deleting { vec![deleting_condition()] } else { Vec::new() },
        ..CaptMachineSetStatus::default()
    });
    object
}

fn deleting_condition() -> Condition {
    Condition {
        type_: "Deleting".to_owned(),
        status: "True".to_owned(),
        reason: "Deleting".to_owned(),
        message: String::new(),
        last_transition_time: Time(now()),
        observed_generation: None,
    }
}

fn machine_object(set: &CaptMachineSet, machine: &Machine) -> CaptMachine {
    let mut object = set::machine(set, machine.number);
    object.metadata.uid = Some(machine.number.to_string());
    match machine.bond {
        Bond::Owned => {}
        Bond::Stray => object.metadata.owner_references = None,
        Bond::Unlabelled => object.metadata.labels = None,
    }
    if machine.marked {
        let all = object.metadata.annotations.get_or_insert_default();
        all.insert(annotations::DELETE_MACHINE.to_owned(), String::new());
    }
    let phase = match machine.life {
        Life::Building => MachinePhase::Provisioning,
        Life::Warm | Life::Ready => MachinePhase::Running,
        Life::Failed => MachinePhase::Failed,
        Life::Going(_) => {
            object.metadata.deletion_timestamp = Some(Time(now()));
            MachinePhase::Deleting
        }
    };
    object.status = Some(CaptMachineStatus {
        ready: matches!(machine.life, Life::Warm | Life::Ready),
        phase: Some(phase),
        last_transition_time: Some(Time(if machine.life == Life::Warm { now() } else { long_ago() })),
        ..CaptMachineStatus::default()
    });
    object
}

/// Whether the strategy has a floor.
pub fn has_floor(strategy: StrategyKind) -> bool {
    strategy == StrategyKind::RollingUpdate
}
