//! Status of a set: counters and conditions.

use capt_api::conditions::{reasons, types};
use capt_api::machine::{Allocation, CaptMachineSetStatus};
use capt_api::names::annotations;

use super::{Context, Settings, count, failures};
use crate::availability::MachineAvailability;
use crate::cause;
use crate::conditions::{self, Finding};
use crate::owner::Matcher;
use crate::reason::{Count, Share, exist};

pub(super) fn status(context: &Context<'_>, settings: &Settings) -> CaptMachineSetStatus {
    let set = context.set;
    let old = set.status.clone().unwrap_or_default();
    let counted = |holds: &dyn Fn(&super::Live<'_>) -> bool| {
        count(context.live.iter().filter(|live| holds(live)).count())
    };
    let replicas = context.live_count();
    let ready = counted(&|live| live.standing.is_ready());
    let available = counted(&|live| live.standing == MachineAvailability::Available);
    let failed = counted(&|live| matches!(live.standing, MachineAvailability::Failed(_)));
    let current = counted(&|live| live.up_to_date);
    let wanted = context.wanted();
    let cause = failures::cause(context, settings, &context.stuck);
    let cause = cause.as_deref();

    let mut findings = vec![
        of_all(
            types::MACHINES_READY,
            ready,
            replicas,
            reasons::MACHINES_NOT_READY,
            &cause::with(with_failed("ready", failed), cause.filter(|_| ready < replicas)),
        ),
        of_all(types::MACHINES_UP_TO_DATE, current, replicas, reasons::MACHINES_NOT_UP_TO_DATE, "up to date"),
        scaling(types::SCALING_UP, replicas < wanted, replicas, wanted),
        scaling(types::SCALING_DOWN, replicas > wanted, replicas, wanted),
    ];
    let paused = set.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::PAUSED));
    findings.push(if context.deleting() {
        let message = cause::with(deletion(context), context.stuck.first().map(String::as_str));
        Finding::new(types::READY, false, reasons::DELETING, message)
    } else if replicas == wanted && available >= wanted {
        Finding::new(types::READY, true, reasons::READY, format!("{} available", Share(available, wanted)))
    } else {
        let reason = match failed {
            1.. => reasons::FAILED,
            _ if paused => reasons::PAUSED,
            _ => reasons::CREATING,
        };
        let counts = format!("{} available", Share(available, wanted));
        Finding::new(types::READY, false, reason, cause::with(counts, cause))
    });
    if paused || conditions::find(&old.conditions, types::PAUSED).is_some() {
        let (reason, message) = if paused {
            (reasons::PAUSED, "paused by annotation")
        } else {
            (reasons::NOT_IN_PROGRESS, "not paused")
        };
        findings.push(Finding::new(types::PAUSED, paused, reason, message));
    }
    if context.deleting() {
        let reason = if context.orphans() { reasons::ORPHANING } else { reasons::DELETING };
        let message = cause::with(deletion(context), context.stuck.first().map(String::as_str));
        findings.push(Finding::new(types::DELETING, true, reason, message));
    }
    CaptMachineSetStatus {
        observed_generation: set.metadata.generation,
        replicas,
        fully_labeled_replicas: counted(&|live| live.fully_labeled),
        ready_replicas: ready,
        available_replicas: available,
        terminating_replicas: context.terminating,
        last_failure: failures::last(context),
        allocation: Some(Allocation {
            next: context.next,
            pending: context.pending.iter().copied().collect(),
        }),
        selector: Matcher::new(&set.spec.selector).text(),
        conditions: conditions::merge(&old.conditions, findings, set.metadata.generation, context.now),
    }
}

fn deletion(context: &Context<'_>) -> String {
    if context.orphans() {
        return "its machines are left behind".to_owned();
    }
    format!("waiting for {} to go", Count(context.have() + context.terminating, "machine"))
}

fn with_failed(word: &str, failed: i32) -> String {
    if failed == 0 { word.to_owned() } else { format!("{word}, {failed} failed") }
}

fn of_all(kind: &'static str, some: i32, all: i32, reason: &'static str, word: &str) -> Finding {
    let reason = if some == all { reasons::READY } else { reason };
    Finding::new(kind, some == all, reason, format!("{} {word}", Share(some, all)))
}

fn scaling(kind: &'static str, holds: bool, replicas: i32, wanted: i32) -> Finding {
    let reason = if holds { reasons::IN_PROGRESS } else { reasons::NOT_IN_PROGRESS };
    Finding::new(
        kind,
        holds,
        reason,
        format!("{replicas} of {} {}", Count(wanted, "machine"), exist(replicas)),
    )
}
