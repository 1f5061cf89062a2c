//! What to do next for one workspace. Pure: the same observation gives the same decision.

use std::time::Duration;

use capt_api::workspace::{Approval, DriftPolicy};
use capt_terraform::failure::{Class, Failure, Reason};
use capt_terraform::order::Operation;
use capt_terraform::stream::Change;
use capt_terraform::view::{Finished, Outcome, Phase as RunPhase, Plan, Running};
use jiff::Timestamp;

use super::observe::Observed;
use super::prepare::{Blocked, Prepared};

#[cfg(test)]
pub(super) mod tests;

/// How long until somebody looks again at what waits for the world outside.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What to do, and how things stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub step: Step,
    /// The phase, for status and events.
    pub phase: Phase,
    /// When to look again though nothing changed.
    pub wake: Option<Timestamp>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Start a run.
    Run(Operation),
    /// Interrupt the run.
    Cancel,
    /// Stop a run that has not begun: its inputs are old.
    Supersede,
    /// Take over a state from this Secret.
    TakeOver(String),
    /// Restore a kept copy of the state: the one with that serial, or the newest.
    Restore(Option<u64>),
    /// Let the object go.
    Release {
        /// Whether state and folder go too.
        forget: bool,
    },
}

/// The phase.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Switched off; the text says by what.
    Paused(String),
    /// The inputs are not there or make no sense.
    Blocked(Blocked),
    /// The inputs are there, but something else must happen first.
    Waiting(Blocked),
    /// A run is queued or under way.
    Running {
        /// What kind of run.
        operation: Operation,
        /// How far it is.
        phase: RunPhase,
    },
    /// A plan waits for a person.
    AwaitsApproval {
        /// The plan.
        plan: Plan,
        /// Whether it destroys more than allowed.
        too_destructive: bool,
        /// An approval that is not for this plan.
        stale_approval: Option<String>,
    },
    /// The last run failed; the next one comes by itself.
    Retrying(Failure, Timestamp),
    /// The last run failed, or was cancelled; only a change or `capt retry` goes on.
    Stalled(Failure),
    /// As it should be.
    Ready {
        /// What was found to differ, the last time somebody looked.
        drift: Drift,
    },
    /// On its way out; the text says what happens or what it waits for.
    Deleting(String),
}

/// What is known about drift.
#[derive(Clone, Debug, PartialEq)]
pub enum Drift {
    /// Nobody looks.
    NotWatched,
    /// Nobody has looked since the last apply.
    None,
    /// These differ.
    Found(Vec<Change>),
    /// The last look failed.
    Unknown(Failure),
}

/// Decides.
pub fn decide(observed: &Observed, now: Timestamp) -> Decision {
    if observed.deleting { leave(observed, now) } else { live(observed, now) }
}

fn rest(phase: Phase) -> Decision {
    Decision { step: Step::Rest, phase, wake: None }
}

fn running(run: &Running) -> Phase {
    Phase::Running { operation: run.operation.clone(), phase: run.phase }
}

fn start(operation: Operation) -> Decision {
    let phase = Phase::Running { operation: operation.clone(), phase: RunPhase::Queued };
    Decision { step: Step::Run(operation), phase, wake: None }
}

/// An object that should be there.
fn live(observed: &Observed, now: Timestamp) -> Decision {
    if let Some(by) = &observed.paused {
        return rest(Phase::Paused(by.clone()));
    }
    if let Some(run) = &observed.view.run {
        return follow(observed, run);
    }
    if let Some(decision) = damaged(observed) {
        return decision;
    }
    let prepared = match &observed.prepared {
        Ok(prepared) => prepared,
        Err(blocked) => {
            // Objects that change wake us; a program that somebody installs does not.
            let wake = (!blocked.terminal).then_some(now + LOOK_AGAIN);
            return Decision { step: Step::Rest, phase: Phase::Blocked(blocked.clone()), wake };
        }
    };
    let import = observed.import.as_ref().map(|import| import.secret.name.clone());
    if let Some(secret) = observed.asked.import_state.clone().or(import) {
        let phase = Phase::Running { operation: Operation::Plan, phase: RunPhase::Queued };
        return Decision { step: Step::TakeOver(secret), phase, wake: None };
    }
    let drift = drift(observed);
    let correct = matches!(drift, Drift::Found(_)) && observed.drift_policy() == DriftPolicy::Correct;
    if in_step(observed, prepared) && !correct && !observed.asked.retry {
        return at_rest(observed, drift, now);
    }
    if let Some(gate) = &observed.gate {
        return rest(Phase::Waiting(gate.clone()));
    }
    bring_in_step(observed, prepared, now)
}

/// State or record are damaged or gone: nothing is built, changed or destroyed until they are back. `capt retry` lets the engine look
/// again; of what nobody knows anything any more it cannot.
fn damaged(observed: &Observed) -> Option<Decision> {
    let restored = Phase::Running { operation: Operation::Plan, phase: RunPhase::Queued };
    if let Some(wanted) = &observed.asked.restore_state {
        let step = Step::Restore(wanted.parse().ok());
        return Some(Decision { step, phase: restored, wake: None });
    }
    let trouble = observed.view.trouble.as_ref()?;
    let looks_again = observed.asked.retry && observed.view.last.is_some();
    if looks_again || observed.asked.import_state.is_some() || observed.import.is_some() {
        return None;
    }
    Some(rest(Phase::Stalled(trouble.clone())))
}

/// A run is queued or under way.
fn follow(observed: &Observed, run: &Running) -> Decision {
    // What has not begun need not begin with inputs that are old already.
    let outdated = run.phase == RunPhase::Queued
        && observed.prepared.as_ref().is_ok_and(|prepared| {
            run.revision.as_ref().is_some_and(|revision| *revision != prepared.revision)
        });
    let step = match (observed.asked.cancel, outdated) {
        (true, _) => Step::Cancel,
        (false, true) => Step::Supersede,
        (false, false) => Step::Rest,
    };
    Decision { step, phase: running(run), wake: None }
}

/// Whether what exists was made from the current inputs.
fn in_step(observed: &Observed, prepared: &Prepared) -> bool {
    let spoiled = observed.view.last.as_ref().is_some_and(|last| {
        matches!(last.operation, Operation::Apply | Operation::ApplyPlan(_))
            && matches!(last.outcome, Outcome::Failed(_) | Outcome::TimedOut | Outcome::Cancelled)
    });
    observed.view.applied.as_ref() == Some(&prepared.revision) && !spoiled
}

/// What the last look for drift found; an apply since then has undone it.
pub fn drift(observed: &Observed) -> Drift {
    if observed.drift_policy() == DriftPolicy::Off {
        return Drift::NotWatched;
    }
    match &observed.view.last {
        Some(Finished { operation: Operation::Refresh, outcome: Outcome::Done, drift, .. })
            if !drift.is_empty() =>
        {
            Drift::Found(drift.clone())
        }
        Some(Finished { operation: Operation::Refresh, outcome: Outcome::Failed(failure), .. }) => {
            Drift::Unknown(failure.clone())
        }
        _ => Drift::None,
    }
}

/// Nothing to do, but to look for drift from time to time.
fn at_rest(observed: &Observed, drift: Drift, now: Timestamp) -> Decision {
    let due = observed.next_look;
    let phase = Phase::Ready { drift };
    match due {
        Some(due) if due <= now => Decision { step: Step::Run(Operation::Refresh), phase, wake: None },
        Some(due) => Decision { step: Step::Rest, phase, wake: Some(due) },
        None => rest(phase),
    }
}

/// What exists must change.
fn bring_in_step(observed: &Observed, prepared: &Prepared, now: Timestamp) -> Decision {
    let manual = observed.approval == Approval::Manual;
    let its = |plan: &&Plan| {
        plan.revision == prepared.revision && prepared.inputs.may_apply(plan.origin.as_deref())
    };
    let plan = observed.view.plan.as_ref().filter(its);
    if let Some(plan) = plan
        && !observed.asked.retry
    {
        // An apply of this very plan that failed and left the state as it was is not repeated without a pause.
        let of_it = |last: &Finished| last.operation == Operation::ApplyPlan(plan.id.clone());
        let paused = failure_of(observed, of_it).and_then(|failed| after_failure(observed, failed, now));
        return paused.unwrap_or_else(|| approve(observed, plan, manual));
    }
    if !observed.asked.retry
        && let Some(failed) = failure_of(observed, |last| {
            last.revision.as_ref() == Some(&prepared.revision) && !lacked_a_binary(last)
        })
        && let Some(decision) = after_failure(observed, failed, now)
    {
        return decision;
    }
    start(if manual { Operation::Plan } else { Operation::Apply })
}

/// A plan lies there, because a person must approve it.
fn approve(observed: &Observed, plan: &Plan, manual: bool) -> Decision {
    let approved = observed.asked.approve.as_deref();
    let limit = observed.destroy_limit();
    // A plan that changes nothing needs nobody; nor does one that is no longer over the limit.
    let allowed = !manual && limit.is_none_or(|limit| plan.destroy <= limit);
    if observed.asked.approves(plan.id.as_str()) || plan.changes.is_empty() || allowed {
        return start(Operation::ApplyPlan(plan.id.clone()));
    }
    rest(Phase::AwaitsApproval {
        plan: plan.clone(),
        too_destructive: !manual,
        stale_approval: approved.map(str::to_owned),
    })
}

/// How the last run failed, if it is one that counts.
fn failure_of(observed: &Observed, counts: impl Fn(&Finished) -> bool) -> Option<&Finished> {
    let failed = |last: &&Finished| {
        matches!(last.outcome, Outcome::Failed(_) | Outcome::TimedOut | Outcome::Cancelled)
            && last.operation != Operation::Refresh
            && counts(last)
    };
    observed.view.last.as_ref().filter(failed)
}

/// Whether the binary was too old. It is another one by now, or nothing could be prepared; what a module asks for beyond that
/// is terminal.
fn lacked_a_binary(last: &Finished) -> bool {
    matches!(&last.outcome, Outcome::Failed(failure)
        if failure.reason == Reason::BinaryTooOld && failure.class == Class::Transient)
}

/// Whether to wait or to stop after a failure; nothing when it is time to try again.
fn after_failure(observed: &Observed, last: &Finished, now: Timestamp) -> Option<Decision> {
    let failure = failure(last)?;
    if failure.class == Class::Terminal {
        return Some(rest(Phase::Stalled(failure)));
    }
    let due = observed.retry_at(last);
    (due > now).then_some(Decision {
        step: Step::Rest,
        phase: Phase::Retrying(failure, due),
        wake: Some(due),
    })
}

/// What a run that did not end well is to those who decide about the next one.
pub fn failure(last: &Finished) -> Option<Failure> {
    match &last.outcome {
        Outcome::Failed(failure) => Some(failure.clone()),
        Outcome::TimedOut => {
            let took = seconds(last.ended.duration_since(last.started));
            let message = format!("the run took longer than its timeout, and was interrupted after {took}");
            Some(Failure::new(Reason::Timeout, message))
        }
        // Who cancels does not want it tried again by itself.
        Outcome::Cancelled => Some(Failure {
            class: Class::Terminal,
            ..Failure::new(Reason::Cancelled, "the run was cancelled")
        }),
        Outcome::Done | Outcome::Planned | Outcome::Held => None,
    }
}

/// As people write it: `90s`, `30m`, `1h30m`.
fn seconds(time: jiff::SignedDuration) -> String {
    let all = time.as_secs().max(1);
    let part = |number: i64, unit: &str| if number > 0 { format!("{number}{unit}") } else { String::new() };
    part(all / 3600, "h") + &part(all / 60 % 60, "m") + &part(all % 60, "s")
}

/// An object that is on its way out.
fn leave(observed: &Observed, now: Timestamp) -> Decision {
    let deleting = |text: &str| Phase::Deleting(text.to_owned());
    if !observed.finalizer {
        return rest(deleting("waits for others"));
    }
    if let Some(by) = &observed.paused {
        return rest(Phase::Deleting(format!("{by}: nothing is destroyed until that ends")));
    }
    if let Some(run) = &observed.view.run {
        return match run.operation {
            Operation::Destroy => rest(running(run)),
            _ if observed.retain => rest(deleting("waits for the run that is under way")),
            _ => Decision {
                step: Step::Cancel,
                phase: deleting("stops the run that is under way"),
                wake: None,
            },
        };
    }
    if observed.retain {
        let phase = deleting("leaves the infrastructure as it is");
        return Decision { step: Step::Release { forget: false }, phase, wake: None };
    }
    if let Some(decision) = damaged(observed) {
        return decision;
    }
    if !observed.view.touched {
        let phase = deleting("nothing is left to destroy");
        return Decision { step: Step::Release { forget: true }, phase, wake: None };
    }
    if !observed.dependents.is_empty() {
        let who = observed.dependents.join(", ");
        let text =
            format!("waits for {who}, which depends on it: delete that first, or take its reference out");
        return rest(Phase::Deleting(text));
    }
    // One of an object that had this name before says nothing about this one.
    let since = observed.object.metadata.deletion_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0);
    if !observed.asked.retry
        && let Some(failed) =
            failure_of(observed, |last| last.operation == Operation::Destroy && last.ended >= since)
        && let Some(decision) = after_failure(observed, failed, now)
    {
        return decision;
    }
    start(Operation::Destroy)
}
