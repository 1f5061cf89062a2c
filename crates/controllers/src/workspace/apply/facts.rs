//! An observation as the planner wants it: what the engine tells, as plain data.

use capt_planner::workspace::{
    self, ActiveRun, Drift, EndedRun, KeptPlan, RunFailure, RunOperation, WorkspaceObservation,
};
use capt_terraform::failure::{Class, Failure, Reason};
use capt_terraform::inputs::Revision;
use capt_terraform::order::{Operation, PlanId};
use capt_terraform::stream::Change;
use capt_terraform::view::{Finished, Outcome, Phase, Plan, Running};

use super::observe::ObservedWorkspace;

impl ObservedWorkspace {
    /// As the planner wants it.
    pub fn facts(&self) -> WorkspaceObservation<'_> {
        let view = &self.view;
        WorkspaceObservation {
            deleting: self.object.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            finalizer: self.finalizer,
            paused: self.paused.as_deref(),
            retain: self.retain,
            inputs: self.prepared.as_ref().map(|prepared| prepared.revision.as_str()),
            gate: self.gate.as_ref(),
            requests: &self.asked,
            import: self.import.as_ref().map(|import| import.secret.name.as_str()),
            approval: self.approval,
            destroy_limit: self.destroy_limit(),
            drift_policy: self.drift_policy(),
            next_look: self.next_look,
            dependents: &self.dependents,
            run: view.run.as_ref().map(active),
            last: view.last.as_ref().map(|last| ended(self, last)),
            applied: view.applied.as_ref().map(Revision::as_str),
            touched: view.touched,
            plan: view.plan.as_ref().map(|plan| kept(self, plan)),
            trouble: view.trouble.as_ref().map(failed),
        }
    }

    /// Returns the drift that is known now.
    pub fn drift(&self) -> Drift {
        let last = self.view.last.as_ref().map(|last| ended(self, last));
        workspace::drift(self.drift_policy(), last.as_ref())
    }

    /// Returns the changes that the last look for drift found.
    pub fn drifted(&self) -> &[Change] {
        self.view.last.as_ref().map_or(&[], |last| &last.drift)
    }
}

fn active(run: &Running) -> ActiveRun {
    ActiveRun {
        operation: operation(&run.operation),
        revision: run.revision.as_ref().map(ToString::to_string),
        queued: run.phase == Phase::Queued,
    }
}

fn ended(observed: &ObservedWorkspace, last: &Finished) -> EndedRun {
    let drift = match &last.outcome {
        Outcome::Done if !last.drift.is_empty() => Drift::Found,
        Outcome::Failed(failure) => Drift::Unknown(failed(failure)),
        _ => Drift::None,
    };
    let lacked_a_binary = matches!(&last.outcome, Outcome::Failed(failure)
        if failure.reason == Reason::BinaryTooOld && failure.class == Class::Transient);
    EndedRun {
        operation: operation(&last.operation),
        revision: last.revision.as_ref().map(ToString::to_string),
        ended: last.ended,
        failure: failure(last),
        lacked_a_binary,
        drift,
        retry_at: observed.retry_at(last),
    }
}

fn kept(observed: &ObservedWorkspace, plan: &Plan) -> KeptPlan {
    let trusted = |inputs: &capt_terraform::inputs::Inputs| inputs.may_apply(plan.origin.as_deref());
    KeptPlan {
        id: plan.id.to_string(),
        revision: plan.revision.to_string(),
        trusted: observed.prepared.as_ref().is_ok_and(|prepared| trusted(&prepared.inputs)),
        destroy: plan.destroy,
        empty: plan.changes.is_empty(),
    }
}

fn failed(failure: &Failure) -> RunFailure {
    RunFailure {
        terminal: failure.class == Class::Terminal,
        reason: failure.reason.as_str(),
        message: failure.message.clone(),
    }
}

/// The failure of a run that did not end well.
pub fn failure(last: &Finished) -> Option<RunFailure> {
    match &last.outcome {
        Outcome::Failed(failure) => Some(failed(failure)),
        Outcome::TimedOut => {
            let took = seconds(last.ended.duration_since(last.started));
            let message = format!("the run took longer than its timeout, and was interrupted after {took}");
            Some(failed(&Failure::new(Reason::Timeout, message)))
        }
        // Who cancels does not want it tried again by itself.
        Outcome::Cancelled => {
            let failure = failed(&Failure::new(Reason::Cancelled, "the run was cancelled"));
            Some(RunFailure { terminal: true, ..failure })
        }
        Outcome::Done | Outcome::Planned | Outcome::Held => None,
    }
}

/// As people write it: `90s`, `30m`, `1h30m`.
fn seconds(time: jiff::SignedDuration) -> String {
    let all = time.as_secs().max(1);
    let part = |number: i64, unit: &str| if number > 0 { format!("{number}{unit}") } else { String::new() };
    part(all / 3600, "h") + &part(all / 60 % 60, "m") + &part(all % 60, "s")
}

fn operation(operation: &Operation) -> RunOperation {
    match operation {
        Operation::Plan => RunOperation::Plan,
        Operation::Apply => RunOperation::Apply,
        Operation::ApplyPlan(plan) => RunOperation::ApplyPlan(plan.to_string()),
        Operation::Destroy => RunOperation::Destroy,
        Operation::Refresh => RunOperation::Refresh,
        Operation::Import { .. } => RunOperation::Import,
    }
}

/// The operation that the engine knows by this name; none for an import, which needs an address and is never decided here.
pub fn ordered(operation: &RunOperation) -> Option<Operation> {
    Some(match operation {
        RunOperation::Plan => Operation::Plan,
        RunOperation::Apply => Operation::Apply,
        RunOperation::ApplyPlan(plan) => Operation::ApplyPlan(PlanId::from(plan.as_str())),
        RunOperation::Destroy => Operation::Destroy,
        RunOperation::Refresh => Operation::Refresh,
        RunOperation::Import => return None,
    })
}
