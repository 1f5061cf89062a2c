//! Machines that could not be built: who is replaced when.
//!
//! A replacement mostly fails like the one before it, so each waits twice as long. What is known of that is in the set's
//! status: it outlives the machines.

use capt_api::machine::MachineFailure;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Context, Live, Settings, count};
use crate::availability::MachineAvailability;
use crate::conditions::seconds;
use crate::names;

/// Suffix of a workspace's name, after the name of its machine.
pub const WORKSPACE_SUFFIX: &str = "-machine";

/// Longest time until a replacement: whoever mended the template without a new revision is not kept for hours.
const LONGEST: SignedDuration = SignedDuration::from_mins(30);

/// The failed machine that is replaced first: the newest, and since when it is.
pub(super) fn newest<'c, 'a>(context: &'c Context<'a>) -> Option<(&'c Live<'a>, Timestamp)> {
    let failed = context.live.iter().filter_map(|live| match live.standing {
        MachineAvailability::Failed(since) => Some((live, since.unwrap_or(context.now))),
        _ => None,
    });
    failed.max_by_key(|(live, _)| {
        (live.machine.metadata.creation_timestamp.as_ref().map(|time| time.0), live.name())
    })
}

/// Returns the last failure of the set, as its status should tell it.
pub(super) fn last(context: &Context<'_>) -> Option<MachineFailure> {
    let number = |name: &str| names::machine_number(context.set_name(), name).unwrap_or(-1);
    let mut known = context.set.status.as_ref().and_then(|status| status.last_failure.clone());
    if let Some(known) = &mut known {
        let then = number(&known.machine);
        if context.live.iter().any(|live| live.standing.is_ready() && number(live.name()) >= then) {
            known.failures = 0;
        }
    }
    let Some((live, since)) = newest(context) else { return known };
    let (before, then) = known.as_ref().map_or((0, -1), |known| (known.failures, number(&known.machine)));
    // One that failed beside it, and not after it, is none of its replacements.
    if before > 0 && number(live.name()) < then {
        return known;
    }
    let again = known.is_some_and(|known| known.machine == live.name() && before > 0);
    let status = live.machine.status.as_ref();
    Some(MachineFailure {
        machine: live.name().to_owned(),
        workspace: format!("{}{WORKSPACE_SUFFIX}", live.name()),
        reason: status.and_then(|status| status.failure_reason.clone()),
        message: status.and_then(|status| status.failure_message.as_deref()).map(crate::cause::shortened),
        time: Some(Time(seconds(since))),
        failures: if again { before } else { before.saturating_add(1) },
    })
}

/// Returns the time that a machine must have failed before it is replaced, where so many have failed in a row.
pub(super) fn delay(failures: i32, settings: &Settings) -> SignedDuration {
    let doublings = u32::try_from(failures.clamp(1, 16) - 1).unwrap_or(0);
    let longest = LONGEST.max(settings.failed_grace);
    settings.failed_grace.checked_mul(1 << doublings).unwrap_or(longest).min(longest)
}

/// Why machines of the set are missing or not ready: the deepest cause there is.
pub(super) fn cause(context: &Context<'_>, settings: &Settings, terminating: &[String]) -> Option<String> {
    let failed = count(
        context.live.iter().filter(|live| matches!(live.standing, MachineAvailability::Failed(_))).count(),
    );
    let others = |many: i32| if many > 1 { format!("; {} more failed", many - 1) } else { String::new() };
    let last = last(context);
    if let (Some((live, _)), Some(last)) = (newest(context), &last) {
        let text = crate::cause::of_machine(live.machine)
            .unwrap_or_else(|| format!("CaptMachine {} failed", live.name()));
        let delay = delay(last.failures, settings).as_secs();
        let retry = match last.failures {
            ..=1 => String::new(),
            many => format!("; {many} failed in a row, it is replaced after {delay} s"),
        };
        return Some(text + &others(failed) + &retry);
    }
    // The oldest first, so that one and the same is told while others come and go.
    let mut waiting: Vec<&Live<'_>> =
        context.live.iter().filter(|live| live.standing == MachineAvailability::NotReady).collect();
    waiting.sort_by_key(|live| {
        (live.machine.metadata.creation_timestamp.as_ref().map(|time| time.0), live.name())
    });
    waiting
        .into_iter()
        .find_map(|live| crate::cause::of_machine(live.machine))
        .or_else(|| {
            let last = last.filter(|last| last.failures > 0)?;
            let message = last.message.unwrap_or_else(|| "it failed".to_owned());
            Some(format!("CaptMachine {}, which was replaced: {message}", last.machine))
        })
        .or_else(|| terminating.first().cloned())
}
