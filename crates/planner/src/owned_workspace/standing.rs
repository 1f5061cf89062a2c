//! State of a workspace, as its own status tells it to its owner.

use capt_api::conditions::{reasons, types};
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

use super::Variables;
use crate::conditions::find;

/// State of a workspace, as it says itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkspaceStanding {
    /// Its current inputs are applied.
    pub built: bool,
    /// It is on its way out.
    pub deleting: bool,
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Its last run failed, and it was the module's or the provider's doing.
    pub failure: Option<WorkspaceFailure>,
    /// Something was built.
    pub stands: bool,
    /// Outputs that are not sensitive.
    pub outputs: Variables,
}

/// Failure of the last run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkspaceFailure {
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Nothing happens until a person changes something.
    pub stalled: bool,
}

/// Faults of the world around a run: they pass, and say nothing about what is being built.
const PASSING: [&str; 9] = [
    "Network",
    "Throttled",
    "Credentials",
    "StateLocked",
    "StateNotKept",
    "DiskFull",
    "Killed",
    "PlanStale",
    "Cancelled",
];
/// Reasons of a workspace between two runs that fail.
const UNDER_WAY: [&str; 5] =
    [reasons::QUEUED, reasons::PLANNING, reasons::APPLYING, reasons::REFRESHING, reasons::DESTROYING];

impl WorkspaceStanding {
    /// Reads a workspace. `before` is the failure that was reported last: it counts until a run has succeeded, also
    /// while the next one is under way.
    pub fn of(apply: &WorkspaceTemplateApply, before: Option<&str>) -> Self {
        let deleting = apply.metadata.deletion_timestamp.is_some();
        let Some(status) = &apply.status else {
            return Self {
                deleting,
                reason: reasons::CREATING.into(),
                message: format!("workspace {} is new", apply.name_any()),
                ..Self::default()
            };
        };
        let current = status.observed_generation == apply.metadata.generation;
        let ready = find(&status.conditions, types::READY);
        let reason = ready.map_or_else(String::new, |ready| ready.reason.clone());
        let message = ready.map_or_else(String::new, |ready| ready.message.clone());
        let built = current && !deleting && ready.is_some_and(|ready| ready.status == "True");
        let stalled = find(&status.conditions, types::STALLED);
        let failed = |reason: &str, message: &str, stalled| WorkspaceFailure {
            reason: reason.to_owned(),
            message: message.to_owned(),
            stalled,
        };
        let failure = match (stalled, &status.last_failure_message) {
            _ if built => None,
            (Some(stalled), _) => Some(failed(&stalled.reason, &stalled.message, true)),
            (None, None) => None,
            (None, Some(_)) if PASSING.contains(&reason.as_str()) => None,
            (None, Some(failure)) if UNDER_WAY.contains(&reason.as_str()) => {
                before.map(|before| failed(before, failure, false))
            }
            (None, Some(failure)) => Some(failed(&reason, failure, false)),
        };
        Self {
            built,
            deleting,
            failure,
            // The revision is unknown while another one is being applied.
            stands: status.last_applied_revision.is_some() || status.last_applied_time.is_some(),
            outputs: status.outputs.clone(),
            reason: if reason.is_empty() { reasons::CREATING.to_owned() } else { reason },
            message,
        }
    }

    /// Returns true while a run is under way: its progress is in the status of the workspace itself.
    pub fn under_way(&self) -> bool {
        self.reason == reasons::CREATING || UNDER_WAY.contains(&self.reason.as_str())
    }

    /// An output that is text.
    pub fn text(&self, output: &str) -> Option<String> {
        self.outputs.get(output)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }
}
