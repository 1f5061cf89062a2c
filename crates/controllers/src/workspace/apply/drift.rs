//! Drift as a condition: `Drifted`.

use capt_api::conditions::{reasons, types};
use capt_planner::workspace::{Drift, WorkspacePhase};
use capt_terraform::order::Operation;

use super::observe::ObservedWorkspace;
use super::report::named;
use crate::runtime::conditions::{Conditions, Truth};

/// Tells what the last check of the infrastructure found.
pub fn condition(conditions: &mut Conditions, observed: &ObservedWorkspace, phase: &WorkspacePhase) {
    match phase {
        WorkspacePhase::Ready { drift: Drift::NotWatched } => conditions.clear(types::DRIFTED),
        WorkspacePhase::Ready { drift: Drift::None } => {
            let looked = observed.view.last.as_ref().is_some_and(|last| last.operation == Operation::Refresh);
            let message =
                if looked { "the last check found no drift" } else { "applied, and not checked since" };
            conditions.set(types::DRIFTED, false, reasons::IN_STEP, message);
        }
        WorkspacePhase::Ready { drift: Drift::Found } => {
            conditions.set(types::DRIFTED, true, reasons::DRIFT_FOUND, named(observed.drifted()));
        }
        WorkspacePhase::Ready { drift: Drift::Unknown(failure) } => {
            let message = format!("the last look failed: {}", failure.message);
            conditions.set(types::DRIFTED, Truth::Unknown, failure.reason, message);
        }
        _ if observed.object.spec.drift_detection.is_none() => conditions.clear(types::DRIFTED),
        _ => {}
    }
}
