//! WorkspaceTemplateApply: the next thing to do for one, and its phase.
//!
//! Runs are the engine's; here is what a decision needs to know of them. State is a word of Terraform, so what a
//! workspace is at is its phase.

mod requests;

use std::time::Duration;

use capt_api::workspace::{Approval, DriftPolicy};
use jiff::Timestamp;

pub use requests::{Approved, Requests};

#[cfg(test)]
mod tests;

/// Operation of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RunOperation {
    /// Makes a plan, and keeps it.
    Plan,
    /// Makes a plan, and applies it.
    Apply,
    /// Applies the kept plan of this id.
    ApplyPlan(String),
    /// Destroys everything.
    Destroy,
    /// Looks for drift.
    Refresh,
    /// Takes something that exists into the state.
    Import,
}

impl RunOperation {
    /// One word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply | Self::ApplyPlan(_) => "apply",
            Self::Destroy => "destroy",
            Self::Refresh => "refresh",
            Self::Import => "import",
        }
    }

    /// Returns true for an apply, of a kept plan or not.
    pub const fn is_apply(&self) -> bool {
        matches!(self, Self::Apply | Self::ApplyPlan(_))
    }
}

/// Failure of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunFailure {
    /// Another try of the same would fail the same way.
    pub terminal: bool,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
}

/// A run that is queued or under way.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ActiveRun {
    /// Its operation.
    pub operation: RunOperation,
    /// The revision that it works towards, once known.
    pub revision: Option<String>,
    /// It has not begun.
    pub queued: bool,
}

/// The run that ended last.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedRun {
    /// Its operation.
    pub operation: RunOperation,
    /// The revision that it worked towards.
    pub revision: Option<String>,
    /// Time of its end.
    pub ended: Timestamp,
    /// Its failure, where it did not end well.
    pub failure: Option<RunFailure>,
    /// The binary was too old for it. It is another one by now, or nothing could be prepared.
    pub lacked_a_binary: bool,
    /// It found drift, or could not look for it; of a refresh that was interrupted nothing is known.
    pub drift: Drift,
    /// Time of the next try, should it have failed.
    pub retry_at: Timestamp,
}

/// A kept plan, while it can still be applied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeptPlan {
    /// Its id.
    pub id: String,
    /// The revision that it was made from.
    pub revision: String,
    /// The owner of the current inputs may apply it.
    pub trusted: bool,
    /// Number of objects that it destroys.
    pub destroy: u32,
    /// It changes nothing.
    pub empty: bool,
}

/// Reason why a workspace cannot run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Blocked {
    /// Only a person can change that.
    pub terminal: bool,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
}

impl Blocked {
    /// Something is not there yet.
    pub fn waiting(reason: &'static str, message: impl Into<String>) -> Self {
        Self { terminal: false, reason, message: message.into() }
    }

    /// Something is wrong.
    pub fn terminal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { terminal: true, reason, message: message.into() }
    }
}

/// Observation of one workspace.
#[derive(Clone, Debug)]
pub struct WorkspaceObservation<'a> {
    /// Since when it is on its way out.
    pub deleting: Option<Timestamp>,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// The reason that it is paused.
    pub paused: Option<&'a str>,
    /// Its infrastructure outlives it.
    pub retain: bool,
    /// Revision of the current inputs, or the reason why there are none.
    pub inputs: Result<&'a str, &'a Blocked>,
    /// Unmet condition of the next run.
    pub gate: Option<&'a Blocked>,
    /// Requests of users.
    pub requests: &'a Requests,
    /// Secret with a state to take over before the first run.
    pub import: Option<&'a str>,
    /// Approval that plans need.
    pub approval: Approval,
    /// Number of resources that a run may destroy without approval.
    pub destroy_limit: Option<u32>,
    /// Policy for drift that was found.
    pub drift_policy: DriftPolicy,
    /// Time of the next look for drift.
    pub next_look: Option<Timestamp>,
    /// Workspaces that depend on it and have infrastructure: they go first.
    pub dependents: &'a [String],
    /// The run that is queued or under way.
    pub run: Option<ActiveRun>,
    /// The run that ended last.
    pub last: Option<EndedRun>,
    /// Revision of the last apply that succeeded.
    pub applied: Option<&'a str>,
    /// An apply was ever started, or the state holds resources.
    pub touched: bool,
    /// The kept plan.
    pub plan: Option<KeptPlan>,
    /// State or record are damaged or gone.
    pub trouble: Option<RunFailure>,
}

/// Time until the next look at what waits for the world outside.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Decision for one workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceDecision {
    /// The next step.
    pub step: WorkspaceStep,
    /// The phase, for status and events.
    pub phase: WorkspacePhase,
    /// Time of the next reconcile, though nothing changed.
    pub wake: Option<Timestamp>,
}

/// The one thing to do for a workspace.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceStep {
    /// Nothing.
    Rest,
    /// Starts a run.
    Run(RunOperation),
    /// Interrupts the run.
    Cancel,
    /// Stops a run that has not begun: its inputs are old.
    Supersede,
    /// Takes over a state from this Secret.
    TakeOver(String),
    /// Restores a kept copy of the state: the one with that serial, or the newest.
    Restore(Option<u64>),
    /// Takes our finalizer off.
    Release {
        /// State and folder go too.
        forget: bool,
    },
}

/// Phase of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspacePhase {
    /// Switched off; the text says by what.
    Paused(String),
    /// The inputs are not there or make no sense.
    Blocked(Blocked),
    /// The inputs are there, but something else must happen first.
    Waiting(Blocked),
    /// A run is queued or under way.
    Running(RunOperation),
    /// The kept plan waits for a person.
    AwaitsApproval {
        /// It destroys more than allowed.
        too_destructive: bool,
        /// An approval that is not for this plan.
        stale_approval: Option<String>,
    },
    /// The last run failed; the next one comes by itself.
    Retrying(RunFailure, Timestamp),
    /// The last run failed, or was cancelled; only a change or `capt retry` goes on.
    Stalled(RunFailure),
    /// As it should be.
    Ready {
        /// Result of the last look for drift.
        drift: Drift,
    },
    /// On its way out; the text says what happens or what it waits for.
    Deleting(String),
}

/// Knowledge about drift.
#[derive(Clone, Debug, PartialEq)]
pub enum Drift {
    /// Nobody looks.
    NotWatched,
    /// Nobody has looked since the last apply.
    None,
    /// Something differs.
    Found,
    /// The last look failed.
    Unknown(RunFailure),
}

/// Decides for one workspace.
pub fn decide(observed: &WorkspaceObservation<'_>, now: Timestamp) -> WorkspaceDecision {
    if observed.deleting.is_some() { leave(observed, now) } else { live(observed, now) }
}

fn rest(phase: WorkspacePhase) -> WorkspaceDecision {
    WorkspaceDecision { step: WorkspaceStep::Rest, phase, wake: None }
}

fn start(operation: RunOperation) -> WorkspaceDecision {
    let phase = WorkspacePhase::Running(operation.clone());
    WorkspaceDecision { step: WorkspaceStep::Run(operation), phase, wake: None }
}

/// An object that should be there.
fn live(observed: &WorkspaceObservation<'_>, now: Timestamp) -> WorkspaceDecision {
    if let Some(by) = observed.paused {
        return rest(WorkspacePhase::Paused(by.to_owned()));
    }
    if let Some(run) = &observed.run {
        return follow(observed, run);
    }
    if let Some(decision) = damaged(observed) {
        return decision;
    }
    let revision = match observed.inputs {
        Ok(revision) => revision,
        Err(blocked) => {
            // Objects that change wake us; a program that somebody installs does not.
            let wake = (!blocked.terminal).then_some(now + LOOK_AGAIN);
            return WorkspaceDecision {
                step: WorkspaceStep::Rest,
                phase: WorkspacePhase::Blocked(blocked.clone()),
                wake,
            };
        }
    };
    if let Some(secret) = observed.requests.import_state.as_deref().or(observed.import) {
        let (secret, phase) = (secret.to_owned(), WorkspacePhase::Running(RunOperation::Plan));
        return WorkspaceDecision { step: WorkspaceStep::TakeOver(secret), phase, wake: None };
    }
    let drift = drift(observed.drift_policy, observed.last.as_ref());
    let correct = drift == Drift::Found && observed.drift_policy == DriftPolicy::Correct;
    if in_step(observed, revision) && !correct && !observed.requests.retry {
        return at_rest(observed, drift, now);
    }
    if let Some(gate) = observed.gate {
        return rest(WorkspacePhase::Waiting(gate.clone()));
    }
    bring_in_step(observed, revision, now)
}

/// State or record are damaged or gone: nothing is built, changed or destroyed until they are back. `capt retry` lets the engine look
/// again; of what nobody knows anything any more it cannot.
fn damaged(observed: &WorkspaceObservation<'_>) -> Option<WorkspaceDecision> {
    let restored = WorkspacePhase::Running(RunOperation::Plan);
    if let Some(wanted) = &observed.requests.restore_state {
        let step = WorkspaceStep::Restore(wanted.parse().ok());
        return Some(WorkspaceDecision { step, phase: restored, wake: None });
    }
    let trouble = observed.trouble.as_ref()?;
    let looks_again = observed.requests.retry && observed.last.is_some();
    if looks_again || observed.requests.import_state.is_some() || observed.import.is_some() {
        return None;
    }
    Some(rest(WorkspacePhase::Stalled(trouble.clone())))
}

/// A run is queued or under way.
fn follow(observed: &WorkspaceObservation<'_>, run: &ActiveRun) -> WorkspaceDecision {
    // What has not begun need not begin with inputs that are old already.
    let outdated = run.queued
        && observed.inputs.is_ok_and(|current| run.revision.as_deref().is_some_and(|old| old != current));
    let step = match (observed.requests.cancel, outdated) {
        (true, _) => WorkspaceStep::Cancel,
        (false, true) => WorkspaceStep::Supersede,
        (false, false) => WorkspaceStep::Rest,
    };
    WorkspaceDecision { step, phase: WorkspacePhase::Running(run.operation.clone()), wake: None }
}

/// Returns true if what exists was made from the current inputs.
fn in_step(observed: &WorkspaceObservation<'_>, revision: &str) -> bool {
    let spoiled =
        observed.last.as_ref().is_some_and(|last| last.operation.is_apply() && last.failure.is_some());
    observed.applied == Some(revision) && !spoiled
}

/// Returns the drift that the last look found; an apply since then has undone it.
pub fn drift(policy: DriftPolicy, last: Option<&EndedRun>) -> Drift {
    match last {
        _ if policy == DriftPolicy::Off => Drift::NotWatched,
        Some(last) if last.operation == RunOperation::Refresh => last.drift.clone(),
        _ => Drift::None,
    }
}

/// Nothing to do, but to look for drift from time to time.
fn at_rest(observed: &WorkspaceObservation<'_>, drift: Drift, now: Timestamp) -> WorkspaceDecision {
    let due = observed.next_look;
    let phase = WorkspacePhase::Ready { drift };
    match due {
        Some(due) if due <= now => {
            WorkspaceDecision { step: WorkspaceStep::Run(RunOperation::Refresh), phase, wake: None }
        }
        Some(due) => WorkspaceDecision { step: WorkspaceStep::Rest, phase, wake: Some(due) },
        None => rest(phase),
    }
}

/// Changes infrastructure that exists to the current inputs.
fn bring_in_step(observed: &WorkspaceObservation<'_>, revision: &str, now: Timestamp) -> WorkspaceDecision {
    let manual = observed.approval == Approval::Manual;
    let plan = observed.plan.as_ref().filter(|plan| plan.revision == revision && plan.trusted);
    if let Some(plan) = plan
        && !observed.requests.retry
    {
        // An apply of this very plan that failed and left the state as it was is not repeated without a pause.
        let of_it = |last: &EndedRun| last.operation == RunOperation::ApplyPlan(plan.id.clone());
        let paused = failure_of(observed, of_it).and_then(|failed| after_failure(failed, now));
        return paused.unwrap_or_else(|| approve(observed, plan, manual));
    }
    if !observed.requests.retry
        && let Some(failed) =
            failure_of(observed, |last| last.revision.as_deref() == Some(revision) && !last.lacked_a_binary)
        && let Some(decision) = after_failure(failed, now)
    {
        return decision;
    }
    start(if manual { RunOperation::Plan } else { RunOperation::Apply })
}

/// A plan lies there, because a person must approve it.
fn approve(observed: &WorkspaceObservation<'_>, plan: &KeptPlan, manual: bool) -> WorkspaceDecision {
    let approved = observed.requests.approve.as_deref();
    let limit = observed.destroy_limit;
    // A plan that changes nothing needs nobody; nor does one that is no longer over the limit.
    let allowed = !manual && limit.is_none_or(|limit| plan.destroy <= limit);
    if observed.requests.approves(&plan.id) || plan.empty || allowed {
        return start(RunOperation::ApplyPlan(plan.id.clone()));
    }
    rest(WorkspacePhase::AwaitsApproval {
        too_destructive: !manual,
        stale_approval: approved.map(str::to_owned),
    })
}

/// The last run, if it failed and is one that counts.
fn failure_of<'a>(
    observed: &'a WorkspaceObservation<'_>,
    counts: impl Fn(&EndedRun) -> bool,
) -> Option<&'a EndedRun> {
    let failed =
        |last: &&EndedRun| last.failure.is_some() && last.operation != RunOperation::Refresh && counts(last);
    observed.last.as_ref().filter(failed)
}

/// Waits or stops after a failure; nothing when it is time to try again.
fn after_failure(last: &EndedRun, now: Timestamp) -> Option<WorkspaceDecision> {
    let failure = last.failure.clone()?;
    if failure.terminal {
        return Some(rest(WorkspacePhase::Stalled(failure)));
    }
    let due = last.retry_at;
    (due > now).then_some(WorkspaceDecision {
        step: WorkspaceStep::Rest,
        phase: WorkspacePhase::Retrying(failure, due),
        wake: Some(due),
    })
}

/// An object that is on its way out.
fn leave(observed: &WorkspaceObservation<'_>, now: Timestamp) -> WorkspaceDecision {
    let deleting = |text: &str| WorkspacePhase::Deleting(text.to_owned());
    if !observed.finalizer {
        return rest(deleting("waits for others"));
    }
    if let Some(by) = observed.paused {
        return rest(WorkspacePhase::Deleting(format!("{by}: nothing is destroyed until that ends")));
    }
    if let Some(run) = &observed.run {
        return match run.operation {
            RunOperation::Destroy => rest(WorkspacePhase::Running(run.operation.clone())),
            _ if observed.retain => rest(deleting("waits for the run that is under way")),
            _ => WorkspaceDecision {
                step: WorkspaceStep::Cancel,
                phase: deleting("stops the run that is under way"),
                wake: None,
            },
        };
    }
    if observed.retain {
        let phase = deleting("leaves the infrastructure as it is");
        return WorkspaceDecision { step: WorkspaceStep::Release { forget: false }, phase, wake: None };
    }
    if let Some(decision) = damaged(observed) {
        return decision;
    }
    if !observed.touched {
        let phase = deleting("nothing is left to destroy");
        return WorkspaceDecision { step: WorkspaceStep::Release { forget: true }, phase, wake: None };
    }
    if !observed.dependents.is_empty() {
        let who = observed.dependents.join(", ");
        let text =
            format!("waits for {who}, which depends on it: delete that first, or take its reference out");
        return rest(WorkspacePhase::Deleting(text));
    }
    // One of an object that had this name before says nothing about this one.
    let since = observed.deleting.unwrap_or(Timestamp::MIN);
    if !observed.requests.retry
        && let Some(failed) =
            failure_of(observed, |last| last.operation == RunOperation::Destroy && last.ended >= since)
        && let Some(decision) = after_failure(failed, now)
    {
        return decision;
    }
    start(RunOperation::Destroy)
}
