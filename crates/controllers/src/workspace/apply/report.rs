//! Builds status and events.

use std::collections::BTreeMap;
use std::time::Duration;

use capt_api::conditions::{reasons, types};
use capt_api::names::annotations;
use capt_api::workspace::{PlanSummary, RunProgress, WorkspaceTemplateApplyStatus};
use capt_planner::workspace::{Blocked, Drift, RunOperation, WorkspaceDecision, WorkspacePhase};
use capt_terraform::failure::Reason;
use capt_terraform::order::Operation;
use capt_terraform::stream::{Action, Change};
use capt_terraform::view::{Outcome, Phase as RunPhase, Plan};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::super::context::WorkspaceContext;
use super::act::WorkspaceChanges;
use super::facts::failure;
use super::observe::{Lost, ObservedWorkspace};
use super::{drift as drifted, fields, news};
use crate::runtime::conditions::{Conditions, Truth, find, seconds};
use crate::runtime::error::Error;

/// Progress is shown at most this often: each time is a write.
const PROGRESS: Duration = Duration::from_secs(3);
/// Time after its start, or after it was queued, a run is first reported: of a quick one only its end is news, and each
/// write is passed on to all that wait for this workspace.
const STARTED: Duration = Duration::from_millis(250);
/// Outputs larger than this stay out of the status: an object has a size limit.
const LARGEST_OUTPUTS: usize = 256 * 1024;
/// Changes that a message names one by one.
const NAMED: usize = 5;

/// Remaining work of a report.
#[derive(Debug, Default)]
pub struct Shown {
    /// Time until progress may be shown again.
    pub again: Option<Duration>,
}

/// Writes the status, if it says something new, and an event for what is news.
pub async fn report(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    decision: &WorkspaceDecision,
    acted: &WorkspaceChanges,
    now: Timestamp,
) -> Result<Shown, Error> {
    if acted.released {
        context.metrics.drifted(&observed.name, 0);
        return Ok(Shown::default());
    }
    context
        .metrics
        .drifted(&observed.name, if observed.drift() == Drift::Found { observed.drifted().len() } else { 0 });
    // How far the run is, and for a quick one how it ended, a later look tells: one write instead of several.
    if acted.started.is_some() {
        return Ok(Shown { again: Some(STARTED) });
    }
    let old = observed.status.clone().unwrap_or_default();
    if let Some(rest) = young(observed, now).filter(|_| may_wait(observed, &decision.phase, &old)) {
        return Ok(Shown { again: Some(rest) });
    }
    let mut new = status(observed, &decision.phase, now);
    let asked = observed.prepared.as_ref().map_or(true, |prepared| prepared.connection.is_some());
    note_connection(&mut new, asked, acted, observed.object.metadata.generation, now);
    if only_progress(&old, &new)
        && let Some(shown) = context.history.progress_shown(&observed.name)
    {
        let since = Duration::try_from(now.duration_since(shown)).unwrap_or(PROGRESS);
        if since < PROGRESS {
            return Ok(Shown { again: Some(PROGRESS.saturating_sub(since)) });
        }
    }
    if new.progress.is_some() {
        context.history.show_progress(&observed.name, now);
    }
    if observed.status.as_ref() == Some(&new) {
        return Ok(Shown::default());
    }
    new.observed_generation = observed.object.metadata.generation;
    let notes = news::news(observed, &old, &new, &decision.phase);
    context
        .apply_status
        .write(&context.client, observed.object.as_ref(), observed.status.as_ref(), new)
        .await?;
    for note in notes {
        context.events.publish(observed.object.as_ref(), &note);
    }
    Ok(Shown::default())
}

/// Time for which a run is still young.
fn young(observed: &ObservedWorkspace, now: Timestamp) -> Option<Duration> {
    let run = observed.view.run.as_ref()?;
    let age = Duration::try_from(now.duration_since(run.since)).unwrap_or(STARTED);
    STARTED.checked_sub(age).filter(|rest| !rest.is_zero())
}

/// Returns true if a young run need not be told: what was told before stays true meanwhile, or nobody goes by it. The name of a
/// workspace that is not its object's own must be written down before another object takes it.
pub(super) fn may_wait(
    observed: &ObservedWorkspace,
    phase: &WorkspacePhase,
    old: &WorkspaceTemplateApplyStatus,
) -> bool {
    let is_named = old.workspace_name.is_some() || observed.workspace_name == observed.name.name;
    (is_look(phase) || !is_settled(Some(old))) && is_named
}

/// Returns true if a status says that nothing is on its way.
pub(super) fn is_settled(status: Option<&WorkspaceTemplateApplyStatus>) -> bool {
    status.is_some_and(|status| is_ready(status) || find(&status.conditions, types::STALLED).is_some())
}

fn only_progress(old: &WorkspaceTemplateApplyStatus, new: &WorkspaceTemplateApplyStatus) -> bool {
    let without = |status: &WorkspaceTemplateApplyStatus| WorkspaceTemplateApplyStatus {
        progress: None,
        conditions: status
            .conditions
            .iter()
            .cloned()
            .map(|mut condition| {
                condition.message.clear();
                condition
            })
            .collect(),
        ..status.clone()
    };
    old.progress.is_some() && new.progress.is_some() && without(old) == without(new)
}

/// The whole status.
pub fn status(
    observed: &ObservedWorkspace,
    phase: &WorkspacePhase,
    now: Timestamp,
) -> WorkspaceTemplateApplyStatus {
    let old = observed.status.clone().unwrap_or_default();
    let view = &observed.view;
    let last = view.last.as_ref();
    let failed = last.and_then(failure);
    let applied = last.filter(|last| {
        matches!(last.operation, Operation::Apply | Operation::ApplyPlan(_)) && last.outcome == Outcome::Done
    });
    let plan = view.plan.as_ref().or_else(|| last.and_then(|last| last.plan.as_ref()));
    let is_applied = match (&observed.prepared, &view.applied) {
        (Ok(prepared), Some(applied)) => prepared.revision == *applied,
        (Err(_), applied) => applied.is_some() && old.applied,
        (Ok(_), None) => false,
    };
    // Who only looks for drift changes nothing: what was ready is ready, and others go on using it.
    let as_before = WorkspacePhase::Ready { drift: observed.drift() };
    let phase = if is_applied && is_look(phase) && is_ready(&old) { &as_before } else { phase };
    let conditions = conditions(observed, phase, is_applied, now);
    // Of what is damaged or lost, what was told last is all that is known.
    let (last_applied_revision, outputs, resources) = if view.trouble.is_some() {
        (old.last_applied_revision, old.outputs, old.resources)
    } else {
        let revision = view.applied.as_ref().map(ToString::to_string);
        (revision, outputs(observed), i32::try_from(view.resources).ok())
    };
    WorkspaceTemplateApplyStatus {
        observed_generation: observed.object.metadata.generation,
        workspace_name: Some(observed.workspace_name.clone()),
        // Of what was lost this may be all that keeps it from being built again.
        applied: is_applied || observed.lost != Lost::No && old.applied,
        template_revision: observed.template.revision.clone().or(old.template_revision),
        last_applied_time: applied.map(|last| Time(seconds(last.ended))).or(old.last_applied_time),
        last_applied_revision,
        last_failed_revision: failed.as_ref().and_then(|_| last?.revision.as_ref()).map(ToString::to_string),
        last_failure_message: failed.as_ref().map(|failure| failure.message.clone()),
        consecutive_failures: (observed.failures > 0)
            .then(|| i32::try_from(observed.failures).unwrap_or(i32::MAX)),
        backend_hash: match &observed.prepared {
            Ok(prepared) => prepared.backend.clone(),
            // Anybody may have written it, unless something was built.
            Err(_) => old.backend_hash.filter(|_| view.touched),
        },
        outputs,
        plan: plan.map(summary).or(old.plan),
        progress: progress(observed),
        resources,
        conditions,
    }
}

fn is_look(phase: &WorkspacePhase) -> bool {
    matches!(phase, WorkspacePhase::Running(RunOperation::Refresh))
}

/// Notes whether the connection Secret, if one is `asked` for, holds the outputs; as before where nobody looked.
pub(super) fn note_connection(
    new: &mut WorkspaceTemplateApplyStatus,
    asked: bool,
    acted: &WorkspaceChanges,
    generation: Option<i64>,
    now: Timestamp,
) {
    let mut conditions = Conditions::new(&new.conditions, generation, now);
    match &acted.connection {
        _ if !asked => conditions.clear(types::CONNECTION_SECRET_READY),
        Some(Ok(())) => {
            let message = "the Secret holds the outputs";
            conditions.set(types::CONNECTION_SECRET_READY, true, reasons::READY, message);
        }
        Some(Err(problem)) => {
            conditions.set(types::CONNECTION_SECRET_READY, false, reasons::SECRET_ERROR, problem.clone());
        }
        None => {}
    }
    new.conditions = conditions.into_list();
}

fn is_ready(status: &WorkspaceTemplateApplyStatus) -> bool {
    find(&status.conditions, types::READY).is_some_and(|ready| ready.status == "True")
}

/// Outputs that everybody may see.
fn outputs(observed: &ObservedWorkspace) -> BTreeMap<String, Value> {
    let open = observed.view.outputs.iter().filter(|(_, output)| !output.sensitive);
    let open: BTreeMap<String, Value> =
        open.map(|(name, output)| (name.to_owned(), output.value.clone())).collect();
    let size = serde_json::to_vec(&open).map_or(usize::MAX, |bytes| bytes.len());
    if size > LARGEST_OUTPUTS { BTreeMap::new() } else { open }
}

fn summary(plan: &Plan) -> PlanSummary {
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    PlanSummary {
        add: count(plan.add),
        change: count(plan.change),
        destroy: count(plan.destroy),
        id: Some(plan.id.to_string()),
    }
}

fn progress(observed: &ObservedWorkspace) -> Option<RunProgress> {
    let run = observed.view.run.as_ref().filter(|run| run.operation != Operation::Refresh)?;
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    Some(RunProgress {
        done: count(run.progress.done),
        total: count(run.progress.total),
        current: run.progress.current.clone(),
    })
}

fn conditions(
    observed: &ObservedWorkspace,
    phase: &WorkspacePhase,
    applied: bool,
    now: Timestamp,
) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    let old = observed.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut conditions = Conditions::new(old, observed.object.metadata.generation, now);
    conditions.clear(types::STALLED);
    conditions.clear(types::PAUSED);
    conditions.clear(types::PLANNED);
    synced(&mut conditions, observed);
    let (reason, message) = words(observed, phase);
    let ready = match phase {
        WorkspacePhase::Ready { .. } => Truth::True,
        // What is applied stays usable while something about its inputs is unclear.
        WorkspacePhase::Blocked(_) | WorkspacePhase::Paused(_) if applied => Truth::True,
        _ => Truth::False,
    };
    conditions.set(types::READY, ready, reason, message.clone());
    let in_step = if applied { reasons::READY } else { reason };
    let what = if applied { String::from("the current inputs are applied") } else { message.clone() };
    conditions.set(types::APPLIED, applied, in_step, what);
    match phase {
        WorkspacePhase::Paused(_) => conditions.set(types::PAUSED, true, reasons::PAUSED, message.clone()),
        WorkspacePhase::Stalled(_) => conditions.set(types::STALLED, true, reason, message.clone()),
        WorkspacePhase::Blocked(blocked) if blocked.terminal => {
            conditions.set(types::STALLED, true, reason, message.clone());
        }
        WorkspacePhase::AwaitsApproval { .. } => {
            conditions.set(types::PLANNED, true, reason, message.clone());
        }
        _ => {}
    }
    if observed.deleting {
        // One that is paused stays so, and whoever follows the deletion has to know.
        if let Some(by) = &observed.paused {
            conditions.set(types::PAUSED, true, reasons::PAUSED, by.clone());
        }
        conditions.set(types::DELETING, true, reasons::DESTROYING, message);
    }
    drifted::condition(&mut conditions, observed, phase);
    conditions.into_list()
}

fn synced(conditions: &mut Conditions, observed: &ObservedWorkspace) {
    match &observed.prepared {
        Err(blocked) => conditions.set(types::SYNCED, false, blocked.reason, blocked.message.clone()),
        Ok(prepared) => {
            let undeclared = fields::undeclared(prepared, observed.view.last.as_ref());
            let unfilled = fields::unfilled(prepared);
            if let Some(undeclared) = undeclared {
                let message =
                    [Some(undeclared), unfilled].into_iter().flatten().collect::<Vec<_>>().join("; ");
                conditions.set(types::SYNCED, true, reasons::UNDECLARED_VARIABLES, message);
            } else if let Some(unfilled) = unfilled {
                conditions.set(types::SYNCED, true, reasons::UNKNOWN_KEYS, unfilled);
            } else if prepared.kept.is_empty() {
                conditions.set(types::SYNCED, true, reasons::READY, "inputs are resolved");
            } else {
                let message = format!(
                    "the template sets {} itself: its values are passed, and not the defaults of the owner",
                    prepared.kept.join(", ")
                );
                conditions.set(types::SYNCED, true, reasons::TEMPLATE_VALUES_KEPT, message);
            }
        }
    }
}

/// The reason and the message of a phase.
fn words(observed: &ObservedWorkspace, phase: &WorkspacePhase) -> (&'static str, String) {
    match phase {
        WorkspacePhase::Paused(by) => (reasons::PAUSED, by.clone()),
        WorkspacePhase::Blocked(Blocked { reason, message, .. })
        | WorkspacePhase::Waiting(Blocked { reason, message, .. }) => (*reason, message.clone()),
        WorkspacePhase::Running(operation) => running(observed, operation),
        WorkspacePhase::AwaitsApproval { too_destructive, stale_approval } => {
            let plan = observed.view.plan.as_ref();
            let mut message = plan.map_or_else(String::new, |plan| {
                format!(
                    "plan {} would add {}, change {}, destroy {}: {}; approve it with capt approve {}",
                    plan.id,
                    plan.add,
                    plan.change,
                    plan.destroy,
                    named(&plan.changes),
                    observed.name.name,
                )
            });
            if *too_destructive && observed.object.spec.max_destroy.is_none() {
                message += "; what it destroys was there before the first apply: where the state does not fit the template, correct that";
            }
            if let Some(stale) = stale_approval {
                message = format!("{message}; the approval of {stale} is not for this plan");
            }
            let reason =
                if *too_destructive { reasons::PLAN_TOO_DESTRUCTIVE } else { reasons::WAITING_FOR_APPROVAL };
            (reason, message)
        }
        WorkspacePhase::Retrying(failure, at) => {
            (failure.reason, format!("{}; next attempt at {}", failure.message, seconds(*at)))
        }
        WorkspacePhase::Stalled(failure) => {
            (failure.reason, format!("{}; retried on the next change, or after capt retry", failure.message))
        }
        WorkspacePhase::Ready { .. } => (
            reasons::READY,
            format!(
                "{} as the template and the variables say{}",
                counted(observed.view.resources),
                masked(&observed.view.masked)
            ),
        ),
        WorkspacePhase::Deleting(what) => (types::DELETING, what.clone()),
    }
}

fn running(observed: &ObservedWorkspace, operation: &RunOperation) -> (&'static str, String) {
    if let Some(why) = observed.view.run.as_ref().and_then(|run| run.waits_for.as_ref()) {
        let what = format!("the {} waits until its state is kept: {why}", operation.as_str());
        return (Reason::StateNotKept.as_str(), what);
    }
    // One that is about to be ordered waits first.
    let phase = observed.view.run.as_ref().map_or(RunPhase::Queued, |run| run.phase);
    let progress = observed.view.run.as_ref().map(|run| &run.progress).filter(|progress| progress.total > 0);
    let far = progress.map_or_else(String::new, |progress| {
        let current =
            progress.current.as_deref().map_or_else(String::new, |address| format!(", at {address}"));
        format!(": {} of {} done{current}", progress.done, progress.total)
    });
    let (reason, what) = match phase {
        RunPhase::Queued => (reasons::QUEUED, format!("the {} waits for its turn", operation.as_str())),
        RunPhase::Initialising => (reasons::PLANNING, "modules and providers are fetched".to_owned()),
        RunPhase::Planning => (reasons::PLANNING, "a plan is made".to_owned()),
        RunPhase::Applying => (reasons::APPLYING, "the plan is carried out".to_owned()),
        RunPhase::Destroying => (reasons::DESTROYING, "the infrastructure is destroyed".to_owned()),
        RunPhase::Refreshing => (reasons::REFRESHING, "drift detection is running".to_owned()),
        RunPhase::Importing => {
            (reasons::APPLYING, "existing infrastructure is taken into the state".to_owned())
        }
    };
    (reason, what + &far)
}

/// The first few changes by name, the rest by number.
pub(super) fn named(changes: &[Change]) -> String {
    let mut list: Vec<String> = changes
        .iter()
        .take(NAMED)
        .map(|change| format!("{} {}", verb(change.action), change.address))
        .collect();
    if changes.len() > NAMED {
        list.push(format!("{} more", changes.len() - NAMED));
    }
    list.join(", ")
}

/// Sentence about outputs that are not shown, and how to show them on purpose.
fn masked(outputs: &[String]) -> String {
    if outputs.is_empty() {
        return String::new();
    }
    format!(
        "; not shown, since a value of a Secret is in it: output {}. The connection Secret has it; to show it, name the key in the \
         annotation {} of the Secret it came from, or take the value from a ConfigMap",
        outputs.join(", "),
        annotations::NOT_SECRET,
    )
}

fn counted(resources: usize) -> String {
    if resources == 1 { "1 resource is".to_owned() } else { format!("{resources} resources are") }
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::NoOp => "keep",
        Action::Create => "create",
        Action::Update => "update",
        Action::Delete => "destroy",
        Action::Replace => "replace",
        Action::Read => "read",
        Action::Move => "move",
        Action::Import => "import",
        Action::Forget => "forget",
        Action::Ephemeral => "open",
        Action::Unknown => "change",
    }
}

#[cfg(test)]
#[path = "report/tests.rs"]
mod tests;
