//! State of one object, by its conditions and status: a state, a word, and a detail.

use capt_api::conditions::{reasons, types};
use capt_api::names::{annotations, finalizers};
use capt_planner::Count;

use super::State;
use super::object_summary::{Condition, Kind, ObjectSummary};

/// State of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub state: State,
    pub phase: String,
    pub detail: String,
    pub reason: String,
    pub message: String,
}

/// The condition that says whether an object of this kind is as it should be.
fn ready_type(kind: Kind) -> &'static str {
    if kind == Kind::Cluster { types::AVAILABLE } else { types::READY }
}

/// Returns true if an object matches its current spec.
pub fn is_ready(kind: Kind, thing: &ObjectSummary) -> bool {
    is_current(thing) && !thing.deleting() && thing.is_true(ready_type(kind))
}

/// Why an object cannot become ready before somebody changes something.
pub fn is_stalled(thing: &ObjectSummary) -> Option<&Condition> {
    thing.condition(types::STALLED).filter(|condition| condition.status == "True" && is_current(thing))
}

/// Returns true if the status is of the current spec.
fn is_current(thing: &ObjectSummary) -> bool {
    thing.status.observed_generation.is_none_or(|seen| Some(seen) == thing.metadata.generation)
}

/// Judges one object.
pub fn judge(kind: Kind, thing: &ObjectSummary) -> Verdict {
    let (state, said) = state(kind, thing);
    let (reason, message) =
        said.map_or_else(Default::default, |said| (said.reason.clone(), one_line(&said.message)));
    let message = match state {
        State::Failed => with_failures(thing, &reason, message),
        State::Deleting => held(thing).unwrap_or(message),
        _ => message,
    };
    Verdict { phase: phase(thing, state, &reason), detail: detail(kind, thing), state, reason, message }
}

fn state(kind: Kind, thing: &ObjectSummary) -> (State, Option<&Condition>) {
    let ready = thing.condition(ready_type(kind));
    let failing = thing.status.consecutive_failures.is_some_and(|count| count > 0);
    if thing.deleting() {
        let said = thing.condition(types::DELETING).or(ready);
        let failed = failing && said.is_some_and(|said| of_reason(&said.reason) == State::Failed);
        return (if failed { State::Failed } else { State::Deleting }, said);
    }
    if let Some(stalled) = is_stalled(thing) {
        return (State::Failed, Some(stalled));
    }
    let paused = thing.is_true(types::PAUSED) || ready.is_some_and(|ready| ready.reason == reasons::PAUSED);
    if paused {
        return (
            State::Paused,
            thing.condition(types::PAUSED).filter(|said| said.status == "True").or(ready),
        );
    }
    if let Some(failed) = failed(kind, thing) {
        return (State::Failed, Some(failed));
    }
    let Some(said) = ready else { return (State::Working, None) };
    if said.status == "True" {
        let beside = beside(kind, thing).filter(|_| is_current(thing));
        return beside.unwrap_or((if is_current(thing) { State::Ready } else { State::Working }, Some(said)));
    }
    if thing.status.failure_reason.is_some() || failing {
        return (State::Failed, Some(said));
    }
    (of_reason(&said.reason), Some(said))
}

/// Conditions that matter beside `Ready`: outputs that somebody waits for are not written, what exists is not what was applied, or
/// a control plane was asked and did not answer.
fn beside(kind: Kind, thing: &ObjectSummary) -> Option<(State, Option<&Condition>)> {
    if kind == Kind::CAPTControlPlane {
        let probed =
            thing.condition(types::REMOTE_CONNECTION_PROBE).filter(|probed| probed.status == "False");
        return probed.map(|said| (State::Blocked, Some(said)));
    }
    if kind != Kind::WorkspaceTemplateApply {
        return None;
    }
    let is = |name: &str, status: &str| thing.condition(name).filter(|condition| condition.status == status);
    let blocked = is(types::CONNECTION_SECRET_READY, "False").map(|said| (State::Blocked, Some(said)));
    blocked.or_else(|| is(types::DRIFTED, "True").map(|said| (State::Drifted, Some(said))))
}

/// A condition that speaks of a failure beside `Ready`, which may still be true from before.
fn failed(kind: Kind, thing: &ObjectSummary) -> Option<&Condition> {
    let is = |name: &str| thing.condition(name).filter(|condition| condition.status == "True");
    match kind {
        Kind::CAPTCluster => is(types::VPC_FAILED),
        Kind::CAPTControlPlane => is(types::FAILED),
        Kind::CaptMachineDeployment => thing
            .condition(types::PROGRESSING)
            .filter(|condition| condition.reason == reasons::PROGRESS_DEADLINE_EXCEEDED),
        _ => None,
    }
}

/// State for a reason of `Ready=False`.
fn of_reason(reason: &str) -> State {
    let absent = reason.ends_with("NotFound");
    let failed = reason.ends_with("Failed") || reason.ends_with("Error") || reason.ends_with("Timeout");
    match reason {
        reasons::WAITING_FOR_APPROVAL | reasons::PLAN_TOO_DESTRUCTIVE => State::Approval,
        reasons::WAITING_FOR_SECRETS
        | reasons::NAME_TAKEN
        | reasons::REFERENCE_NOT_GRANTED
        | reasons::BACKEND_IN_USE
        | reasons::STATE_REFUSED
        | reasons::INVALID
        | reasons::UNDECLARED_VARIABLES
        | reasons::UNKNOWN_KEYS => State::Blocked,
        _ if failed => State::Failed,
        _ if absent => State::Blocked,
        _ if reason.starts_with("WaitingFor") => State::Waiting,
        _ => State::Working,
    }
}

fn phase(thing: &ObjectSummary, state: State, reason: &str) -> String {
    let own = thing.status.phase.as_deref();
    match state {
        State::Deleting => "Deleting",
        State::Paused => "Paused",
        State::Drifted => "Drifted",
        State::Ready => own.unwrap_or("Ready"),
        _ if !reason.is_empty() => reason,
        _ => own.unwrap_or("Pending"),
    }
    .to_owned()
}

/// Reason why a deletion waits for the finalizers of other controllers: CAPT has nothing left to do.
fn held(thing: &ObjectSummary) -> Option<String> {
    let ours = |name: &String| name.contains(finalizers::DOMAIN) || !name.contains('/');
    let left = thing.metadata.finalizers.as_deref().unwrap_or_default();
    (!left.is_empty() && !left.iter().any(ours)).then(|| {
        format!("held by the finalizer{} {}", if left.len() > 1 { "s" } else { "" }, left.join(", "))
    })
}

fn with_failures(thing: &ObjectSummary, reason: &str, message: String) -> String {
    // While it is tried again the condition speaks of that.
    let message = match &thing.status.last_failure_message {
        Some(last) if of_reason(reason) == State::Working && !last.is_empty() => one_line(last),
        _ => message,
    };
    match thing.status.consecutive_failures {
        Some(count) if count > 1 => format!("failed {count} times: {message}"),
        _ => message,
    }
}

/// Terraform, a provider or an API may have said it in several.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn detail(kind: Kind, thing: &ObjectSummary) -> String {
    let (spec, status) = (&thing.spec, &thing.status);
    let number = |number: Option<i32>| number.unwrap_or_default();
    let mut parts: Vec<String> = Vec::new();
    match kind {
        Kind::Cluster => {}
        Kind::CAPTCluster => {
            parts.extend(spec.region.clone());
            parts.extend(status.vpc_id.clone());
        }
        Kind::CAPTControlPlane => {
            let (wanted, running) = (spec.version.as_deref(), status.version.as_deref());
            parts.extend(match (wanted, running) {
                (Some(wanted), Some(running)) if wanted != running => Some(format!("{running} -> {wanted}")),
                (wanted, running) => running.or(wanted).map(str::to_owned),
            });
            parts.extend(status.endpoint.clone());
        }
        Kind::NodeGroup => {
            parts.extend(spec.external.as_ref().map(|external| format!("existing group {}", external.name)));
            parts.push(Count(number(status.members), "member").to_string());
        }
        Kind::CaptMachineDeployment => {
            let wanted = number(spec.replicas);
            let updated = number(status.updated_replicas);
            parts.push(format!("{}/{wanted} available", number(status.available_replicas)));
            if updated < wanted {
                parts.push(format!("{updated} up to date"));
            }
            parts.extend(status.current_revision.map(|revision| format!("revision {revision}")));
        }
        Kind::CaptMachineSet => {
            parts.push(format!("{}/{} available", number(status.available_replicas), number(spec.replicas)));
            parts.extend(
                thing.annotation(annotations::REVISION).map(|revision| format!("revision {revision}")),
            );
        }
        Kind::CaptMachine => {
            parts.extend(spec.instance_type.clone());
            parts.extend(status.instance_id.clone());
        }
        Kind::WorkspaceTemplateApply => {
            parts.push(workspace(thing));
            let warned = thing.condition(types::SYNCED).map(|synced| synced.reason.as_str());
            match warned {
                Some(reasons::UNDECLARED_VARIABLES) => parts.push("with undeclared variables".to_owned()),
                Some(reasons::UNKNOWN_KEYS) => parts.push("with unknown keys in its variables".to_owned()),
                _ => {}
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Progress of a run; at rest, the number of resources.
fn workspace(thing: &ObjectSummary) -> String {
    let status = &thing.status;
    if let Some(progress) = status.progress.as_ref().filter(|progress| progress.total > 0) {
        let current = progress.current.as_deref().map_or_else(String::new, |address| format!(" {address}"));
        return format!("{}/{}{current}", progress.done, progress.total);
    }
    let pending = thing.condition(types::READY).is_some_and(|ready| {
        [reasons::WAITING_FOR_APPROVAL, reasons::PLAN_TOO_DESTRUCTIVE].contains(&ready.reason.as_str())
    });
    if thing.condition(types::READY).is_some_and(|ready| ready.reason == "StateLost") {
        // Nobody knows.
        return String::new();
    }
    match &status.plan {
        Some(plan) if pending => format!("plan: +{} ~{} -{}", plan.add, plan.change, plan.destroy),
        _ => status.resources.map_or_else(String::new, |count| Count(count, "resource").to_string()),
    }
}
