//! Status of a deployment: counters, conditions, the progress deadline.

use capt_api::conditions::{reasons, types};
use capt_api::machine::{CaptMachineDeployment, CaptMachineDeploymentStatus, StrategyKind};
use capt_api::names::annotations;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{DeploymentAction, DeploymentPlan, DeploymentStep, Set};
use crate::availability::{after, earlier};
use crate::budget::Budget;
use crate::cause;
use crate::conditions::{self, Finding};
use crate::owner::Matcher;
use crate::reason::{Count, Reason, Share, exist};
use crate::revision;

/// Replica counts, summed over the sets.
struct Counters {
    replicas: i32,
    updated: i32,
    ready: i32,
    available: i32,
    terminating: i32,
}

impl Counters {
    fn of(sets: &[Set<'_>], current: Option<&str>) -> Self {
        let live = |set: &&Set<'_>| !set.deleting;
        let status = |set: &Set<'_>| set.object.status.as_ref().map_or(0, |status| status.replicas);
        let sum = |value: &dyn Fn(&Set<'_>) -> i32| sets.iter().filter(live).map(value).sum::<i32>();
        Self {
            replicas: sum(&status),
            updated: sets.iter().filter(|set| Some(set.name) == current).map(status).sum(),
            ready: sum(&|set| set.ready),
            available: sum(&|set| set.object.status.as_ref().map_or(0, |status| status.available_replicas)),
            // Machines of a set that is being deleted go with it.
            terminating: sets
                .iter()
                .map(|set| set.terminating + if set.deleting { set.replicas } else { 0 })
                .sum(),
        }
    }
}

/// Completes a plan with the status, and with the moment of the progress deadline.
pub(super) fn finish(
    plan: &mut DeploymentPlan,
    deployment: &CaptMachineDeployment,
    sets: &[Set<'_>],
    current: Option<&str>,
    now: Timestamp,
) {
    let old = deployment.status.clone().unwrap_or_default();
    let counters = Counters::of(sets, current);
    let wanted = deployment.spec.replicas.max(0);
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    let revision = planned_revision(plan)
        .or_else(|| sets.iter().find(|set| Some(set.name) == current).map(|set| set.revision))
        .or(old.current_revision);
    let complete = current.is_some()
        && counters.updated == wanted
        && counters.replicas == wanted
        && counters.available >= wanted
        // Where nothing is left to do, nothing is held up.
        && plan.waits.iter().all(|wait| *wait == Reason::Paused);
    // The set that should grow knows best why it does not.
    let own = sets.iter().filter(|set| Some(set.name) == current);
    let others = sets.iter().filter(|set| Some(set.name) != current);
    let cause = own.chain(others).find_map(|set| set.cause);
    let mut findings = findings(deployment, &counters, complete, cause, plan);
    let waits_for_people = !complete && waits_for_people(deployment, sets, current, &counters);
    let progress = progress(deployment, &old, &counters, (complete, waits_for_people, cause), plan, now);
    let (restarts, deadline) = (progress.restarts, progress.deadline);
    if !deleting {
        findings.push(progress.finding);
        plan.wake_at = earlier(plan.wake_at, deadline);
    }
    let mut merged = conditions::merge(&old.conditions, findings, deployment.metadata.generation, now);
    if restarts {
        // The time of Progressing is that of the last progress: the deadline counts from it.
        for condition in &mut merged {
            if condition.type_ == types::PROGRESSING {
                condition.last_transition_time = Time(now);
            }
        }
    }
    let status = CaptMachineDeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: counters.replicas,
        updated_replicas: counters.updated,
        ready_replicas: counters.ready,
        available_replicas: counters.available,
        unavailable_replicas: (wanted - counters.available).max(0),
        up_to_date_replicas: counters.updated,
        terminating_replicas: counters.terminating,
        current_revision: revision,
        selector: Matcher::new(&deployment.spec.selector).text(),
        collision_count: old.collision_count,
        conditions: merged,
    };
    if deployment.status.as_ref() != Some(&status) {
        plan.status = Some(status);
    }
}

fn planned_revision(plan: &DeploymentPlan) -> Option<i64> {
    plan.actions.iter().find_map(|action| match action {
        DeploymentAction::CreateSet { revision, .. } => Some(*revision),
        DeploymentAction::ChangeSet { change, .. } => change.revision,
        _ => None,
    })
}

fn findings(
    deployment: &CaptMachineDeployment,
    counters: &Counters,
    complete: bool,
    cause: Option<&str>,
    plan: &DeploymentPlan,
) -> Vec<Finding> {
    let wanted = deployment.spec.replicas.max(0);
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    let strategy = &deployment.spec.strategy;
    let budget = match strategy.kind {
        StrategyKind::RollingUpdate => Budget::of(&strategy.rolling_update, wanted).max_unavailable,
        StrategyKind::Recreate | StrategyKind::OnDelete => 0,
    };
    let floor = wanted - budget;
    let enough = counters.available >= floor;
    let of_wanted = format!("{} available, at least {floor} must be", Share(counters.available, wanted));
    let of_wanted = cause::with(of_wanted, cause.filter(|_| !enough));
    let old = counters.replicas - counters.updated;
    let flag = |kind, holds, message: String| {
        let reason = if holds { reasons::IN_PROGRESS } else { reasons::NOT_IN_PROGRESS };
        Finding::new(kind, holds, reason, message)
    };
    let existing =
        format!("{} of {} {}", counters.replicas, Count(wanted, "machine"), exist(counters.replicas));
    let all = |kind, some: i32, reason, word| {
        let holds = some == counters.replicas;
        let reason = if holds { reasons::READY } else { reason };
        let counts = format!("{} {word}", Share(some, counters.replicas));
        let told = cause.filter(|_| !holds && kind == types::MACHINES_READY);
        Finding::new(kind, holds, reason, cause::with(counts, told))
    };
    let mut findings = vec![
        Finding::new(
            types::AVAILABLE,
            enough,
            if enough { reasons::MINIMUM_AVAILABLE } else { reasons::MINIMUM_UNAVAILABLE },
            of_wanted,
        ),
        flag(types::ROLLING_OUT, old > 0, rolling_message(old, plan)),
        flag(types::SCALING_UP, counters.replicas < wanted, existing.clone()),
        flag(types::SCALING_DOWN, counters.replicas > wanted, existing),
        all(types::MACHINES_READY, counters.ready, reasons::MACHINES_NOT_READY, "ready"),
        all(types::MACHINES_UP_TO_DATE, counters.updated, reasons::MACHINES_NOT_UP_TO_DATE, "up to date"),
    ];
    let paused = deployment.spec.paused;
    let (ready, reason) = match (deleting, complete) {
        (true, _) => (false, reasons::DELETING),
        (false, true) => (true, reasons::READY),
        (false, false) if paused => (false, reasons::PAUSED),
        (false, false) => (false, reasons::IN_PROGRESS),
    };
    let message =
        format!("{} available and {} up to date", Share(counters.available, wanted), counters.updated);
    let message = cause::with(message, cause.filter(|_| !ready));
    findings.push(Finding::new(types::READY, ready, reason, message));
    let was_paused = deployment
        .status
        .as_ref()
        .is_some_and(|status| conditions::find(&status.conditions, types::PAUSED).is_some());
    if paused || was_paused {
        let (reason, message) = if paused {
            (reasons::PAUSED, "paused by a person")
        } else {
            (reasons::NOT_IN_PROGRESS, "not paused")
        };
        findings.push(Finding::new(types::PAUSED, paused, reason, message));
    }
    if deleting {
        let message = plan.waits.first().map_or_else(|| "nothing is left".to_owned(), ToString::to_string);
        let message = cause::with(message, cause);
        findings.push(Finding::new(types::DELETING, true, reasons::DELETING, message));
    }
    findings
}

fn rolling_message(old: i32, plan: &DeploymentPlan) -> String {
    let are = if old == 1 { "is" } else { "are" };
    let words = format!("{} {are} of an old revision", Count(old, "machine"));
    match plan.waits.first() {
        Some(wait) if old > 0 => format!("{words}; {wait}"),
        _ => words,
    }
}

/// Returns true if nothing is missing but the machines that people delete.
fn waits_for_people(
    deployment: &CaptMachineDeployment,
    sets: &[Set<'_>],
    current: Option<&str>,
    counters: &Counters,
) -> bool {
    let fine = |set: &Set<'_>| set.available >= set.spec && set.acted;
    deployment.spec.strategy.kind == StrategyKind::OnDelete
        && counters.replicas > counters.updated
        && counters.replicas >= deployment.spec.replicas.max(0)
        && sets.iter().filter(|set| Some(set.name) == current).all(fine)
}

struct Progress {
    finding: Finding,
    /// True if the deadline counts anew from now.
    restarts: bool,
    deadline: Option<Timestamp>,
}

fn progress(
    deployment: &CaptMachineDeployment,
    old: &CaptMachineDeploymentStatus,
    counters: &Counters,
    (complete, waits_for_people, cause): (bool, bool, Option<&str>),
    plan: &DeploymentPlan,
    now: Timestamp,
) -> Progress {
    let earlier = conditions::find(&old.conditions, types::PROGRESSING);
    let finding =
        |holds, reason, message: String| Finding { kind: types::PROGRESSING, holds, reason, message };
    let here = format!("{} up to date", Share(counters.updated, deployment.spec.replicas.max(0)));
    if deployment.spec.paused {
        return Progress { finding: finding(None, reasons::PAUSED, here), restarts: false, deadline: None };
    }
    if waits_for_people {
        // Nobody is late, however long that takes.
        let wait = Reason::AwaitPeople { left: counters.replicas - counters.updated };
        let message = format!("{here}; {wait}");
        return Progress {
            finding: finding(Some(true), reasons::AWAITING_DELETION, message),
            restarts: false,
            deadline: None,
        };
    }
    let started = earlier.is_none_or(|condition| {
        condition.status == "Unknown" || condition.reason == reasons::AWAITING_DELETION
    }) || old.observed_generation != deployment.metadata.generation
        || plan.actions.iter().any(|action| matches!(action, DeploymentAction::CreateSet { .. }));
    if complete {
        // A finished rollout stays finished: a machine that fails later is the set's matter.
        let restarts = earlier.is_none_or(|condition| condition.reason != reasons::NEW_SET_AVAILABLE);
        return Progress {
            finding: finding(Some(true), reasons::NEW_SET_AVAILABLE, here),
            restarts,
            deadline: None,
        };
    }
    let finished = earlier.is_some_and(|condition| condition.reason == reasons::NEW_SET_AVAILABLE);
    if finished && !started {
        return Progress {
            finding: finding(Some(true), reasons::NEW_SET_AVAILABLE, here),
            restarts: false,
            deadline: None,
        };
    }
    // That a new machine exists is none yet: one that fails is replaced, again and again.
    let moved = counters.replicas - counters.updated < old.replicas - old.updated_replicas
        || counters.ready > old.ready_replicas
        || counters.available > old.available_replicas;
    let restarts = started || moved;
    let since =
        if restarts { now } else { earlier.map_or(now, |condition| condition.last_transition_time.0) };
    let deadline = after(since, deployment.spec.progress_deadline_seconds);
    if deadline <= now {
        let undone = if super::is_undone(deployment) { "; an undo went back to this revision" } else { "" };
        let seconds = Count(deployment.spec.progress_deadline_seconds, "second");
        let message = cause::with(format!("no progress for {seconds}; {here}{undone}"), cause);
        return Progress {
            finding: finding(Some(false), reasons::PROGRESS_DEADLINE_EXCEEDED, message),
            restarts: false,
            deadline: None,
        };
    }
    // Once missed, only progress clears it.
    let missed = earlier.is_some_and(|condition| condition.status == "False") && !restarts;
    if missed {
        let message = earlier.map(|condition| condition.message.clone()).unwrap_or_default();
        return Progress {
            finding: finding(Some(false), reasons::PROGRESS_DEADLINE_EXCEEDED, message),
            restarts: false,
            deadline: None,
        };
    }
    let message = cause::with(here, cause);
    Progress {
        finding: finding(Some(true), reasons::SET_UPDATED, message),
        restarts,
        deadline: Some(deadline),
    }
}

/// The way back, where the deadline was missed and the deployment asks for it.
pub(super) fn falls_back(
    deployment: &CaptMachineDeployment,
    step: &DeploymentStep<'_>,
    now: Timestamp,
) -> Option<DeploymentAction> {
    let asked = deployment
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::UNDO_ON_FAILURE))
        .is_some_and(|value| value == "true");
    let status = deployment.status.as_ref()?;
    let progressing = conditions::find(&status.conditions, types::PROGRESSING)?;
    let missed = progressing.reason == reasons::PROGRESS_DEADLINE_EXCEEDED
        && progressing.status == "False"
        && status.observed_generation == deployment.metadata.generation
        && progressing.last_transition_time.0 <= now;
    if !asked || !missed || deployment.spec.paused || super::is_undone(deployment) {
        return None;
    }
    let current = step.current()?;
    let target = revision::to_fall_back_to(&step.sets, Some(current.name))?;
    Some(DeploymentAction::Undo {
        revision: revision::of(target),
        template: Box::new(revision::without_hash(&target.spec.template)),
        reason: Reason::DeadlineExceeded { revision: current.revision },
    })
}
