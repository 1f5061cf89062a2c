//! Events for what changed since the last report. Pure.

use capt_api::conditions::{reasons, types};
use capt_api::workspace::WorkspaceTemplateApplyStatus;
use capt_planner::workspace::{Drift, WorkspacePhase};
use capt_terraform::order::Operation;
use capt_terraform::view::{Finished, Outcome, Plan};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::observe::ObservedWorkspace;
use super::report::named;
use crate::runtime::conditions::{find, seconds};
use crate::runtime::events::Note;

/// Events for what changed since the last report.
pub fn news(
    observed: &ObservedWorkspace,
    old: &WorkspaceTemplateApplyStatus,
    new: &WorkspaceTemplateApplyStatus,
    phase: &WorkspacePhase,
) -> Vec<Note> {
    let mut notes: Vec<Note> = applied(observed, old, new).into_iter().collect();
    notes.extend(standing(old, new, phase));
    if let WorkspacePhase::Retrying(failure, _) | WorkspacePhase::Stalled(failure) = phase
        && (old.last_failed_revision != new.last_failed_revision
            || old.last_failure_message != new.last_failure_message
            || word(old, types::READY) != word(new, types::READY))
    {
        // Without the time of the next attempt: the same failure is the same event, counted.
        notes.push(Note::warning(failure.reason, "Run", failure.message.clone()));
    }
    if let WorkspacePhase::Ready { drift: Drift::Found } = phase
        && said(old, types::DRIFTED) != said(new, types::DRIFTED)
    {
        notes.push(Note::warning(reasons::DRIFT_FOUND, "Refresh", named(observed.drifted())));
    }
    let warned = [
        (types::SYNCED, reasons::UNDECLARED_VARIABLES, "Resolve"),
        (types::SYNCED, reasons::UNKNOWN_KEYS, "Resolve"),
        (types::CONNECTION_SECRET_READY, reasons::SECRET_ERROR, "Write"),
    ];
    for (kind, reason, action) in warned {
        if let Some(condition) = find(&new.conditions, kind).filter(|condition| condition.reason == reason)
            && said(old, kind) != said(new, kind)
        {
            notes.push(Note::warning(reason, action, condition.message.clone()));
        }
    }
    notes
}

/// An event where `Ready` changes. Of what waits or is wrong other words are news: another plan under the same reason is another
/// plan.
fn standing(
    old: &WorkspaceTemplateApplyStatus,
    new: &WorkspaceTemplateApplyStatus,
    phase: &WorkspacePhase,
) -> Option<Note> {
    let message = find(&new.conditions, types::READY)?.message.clone();
    let turned = word(old, types::READY) != word(new, types::READY);
    let worded = turned || said(old, types::READY) != said(new, types::READY);
    match phase {
        WorkspacePhase::Ready { .. } if turned => {
            Some(Note::normal(reasons::WORKSPACE_READY, "Apply", message))
        }
        WorkspacePhase::Ready { .. } => None,
        _ if !worded => None,
        WorkspacePhase::Blocked(blocked) if blocked.terminal => {
            Some(Note::warning(blocked.reason, "Resolve", message))
        }
        WorkspacePhase::Blocked(blocked) | WorkspacePhase::Waiting(blocked) => {
            Some(Note::normal(blocked.reason, "Wait", message))
        }
        WorkspacePhase::AwaitsApproval { too_destructive: true, .. } => {
            Some(Note::warning(reasons::PLAN_TOO_DESTRUCTIVE, "Plan", message))
        }
        WorkspacePhase::AwaitsApproval { .. } => {
            Some(Note::normal(reasons::WAITING_FOR_APPROVAL, "Plan", message))
        }
        WorkspacePhase::Paused(_) => Some(Note::normal(reasons::PAUSED, "Wait", message)),
        WorkspacePhase::Running { .. }
        | WorkspacePhase::Retrying(..)
        | WorkspacePhase::Stalled(_)
        | WorkspacePhase::Deleting(_) => None,
    }
}

/// An apply that has ended well since the last report: what it did, and who approved it.
fn applied(
    observed: &ObservedWorkspace,
    old: &WorkspaceTemplateApplyStatus,
    new: &WorkspaceTemplateApplyStatus,
) -> Option<Note> {
    let last = observed.view.last.as_ref().filter(|last| {
        matches!(last.operation, Operation::Apply | Operation::ApplyPlan(_)) && last.outcome == Outcome::Done
    })?;
    let plan = last.plan.as_ref()?;
    let id = |status: &WorkspaceTemplateApplyStatus| status.plan.as_ref().and_then(|plan| plan.id.clone());
    let is_new = old.last_applied_time != Some(Time(seconds(last.ended)))
        || old.last_applied_revision != new.last_applied_revision
        || id(old) != id(new);
    let note = Note::normal("Applied", "Apply", did(observed, last, plan));
    is_new.then(|| if plan.destroy > 0 { note.always() } else { note })
}

fn did(observed: &ObservedWorkspace, last: &Finished, plan: &Plan) -> String {
    let Plan { add, change, destroy, changes, .. } = plan;
    let what = match named(changes) {
        none if none.is_empty() => "changed no resource".to_owned(),
        names => format!("added {add}, changed {change}, destroyed {destroy}: {names}"),
    };
    let of =
        if plan.id.as_str() == last.id.as_str() { String::new() } else { format!(" with plan {}", plan.id) };
    let approved = observed.asked.approved.as_ref().filter(|approved| approved.plan == plan.id.as_str());
    let by = approved.map_or_else(String::new, |approved| format!("; approved by {}", approved.by));
    format!("run {}{of} {what}{by}", last.id)
}

/// A condition's status and reason.
fn word<'a>(status: &'a WorkspaceTemplateApplyStatus, kind: &str) -> Option<(&'a str, &'a str)> {
    find(&status.conditions, kind).map(|Condition { status, reason, .. }| (status.as_str(), reason.as_str()))
}

/// The same with its message.
fn said<'a>(status: &'a WorkspaceTemplateApplyStatus, kind: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let condition = find(&status.conditions, kind)?;
    Some((&condition.status, &condition.reason, &condition.message))
}

#[cfg(test)]
#[path = "news/tests.rs"]
mod tests;
