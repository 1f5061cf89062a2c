//! `Cluster` of Cluster API, where Cluster API core is not installed: its state, and the next things to do for it.

mod part;
mod workers;

use std::sync::Arc;

use capt_api::cluster::core::{Cluster, ClusterStatus};
use capt_api::conditions::reasons;
use capt_api::refs::Endpoint;
use serde_json::Value;

use super::endpoint;
use crate::Why;
use crate::reason::few;
pub use part::{Belongs, ClusterPart, PresentPart, ReportedCondition, title};
pub use workers::{Worker, WorkerKind, Workers, due};

/// Observation of one Cluster.
#[derive(Clone, Debug)]
pub struct ClusterObservation {
    /// The object.
    pub object: Arc<Cluster>,
    /// Its status: what was written last, though a cache may not show it yet.
    pub status: Option<ClusterStatus>,
    /// The reason that it is paused.
    pub paused: Option<String>,
    /// It is on its way out.
    pub deleting: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// It was deleted with `--cascade=orphan`: its parts stay.
    pub orphans: bool,
    /// Its infrastructure.
    pub infrastructure: ClusterPart,
    /// Its control plane.
    pub control_plane: ClusterPart,
    /// Its workers.
    pub workers: Workers,
}

/// One thing to do for a Cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterStep {
    /// Puts our finalizer on.
    Hold,
    /// Makes an object a part of the Cluster, by this metadata.
    Adopt(Box<PresentPart>, Value),
    /// Writes the endpoint of the API.
    SetEndpoint(Endpoint),
    /// Deletes workers.
    DeleteWorkers(Vec<Worker>),
    /// Deletes a part.
    Delete(Box<PresentPart>),
    /// Takes our finalizer off.
    Release,
}

/// State of a Cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterState {
    /// Nothing is done, for this reason.
    Paused(String),
    /// It lives.
    Alive,
    /// It is on its way out, and waits for something.
    Deleting(Why),
    /// PresentPart is nothing to be said of it any more.
    Gone,
}

/// Decision for one Cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterDecision {
    /// The next steps, in this order.
    pub steps: Vec<ClusterStep>,
    /// Its state.
    pub state: ClusterState,
}

/// Decides for one Cluster.
pub fn decide(observed: &ClusterObservation) -> ClusterDecision {
    if let Some(by) = &observed.paused {
        return ClusterDecision { steps: Vec::new(), state: ClusterState::Paused(by.clone()) };
    }
    if observed.deleting {
        return end(observed);
    }
    let mut steps = Vec::new();
    if !observed.finalizer {
        steps.push(ClusterStep::Hold);
    }
    for part in [&observed.infrastructure, &observed.control_plane] {
        if let Some(there) = part.there()
            && let Belongs::Free(metadata) = &there.belongs
            && !there.deleting
        {
            steps.push(ClusterStep::Adopt(Box::new(there.clone()), metadata.clone()));
        }
    }
    if let Some(endpoint) = new_endpoint(observed) {
        steps.push(ClusterStep::SetEndpoint(endpoint));
    }
    ClusterDecision { steps, state: ClusterState::Alive }
}

/// Returns true if the Cluster has the endpoint of its API.
pub fn has_endpoint(observed: &ClusterObservation) -> bool {
    let at = &observed.object.spec.control_plane_endpoint;
    at.as_ref().is_some_and(|at| !at.host.is_empty() && at.port > 0)
}

/// Endpoint of the API, where the Cluster does not have it yet: the infrastructure knows first, then the control plane.
fn new_endpoint(observed: &ClusterObservation) -> Option<Endpoint> {
    if has_endpoint(observed) {
        return None;
    }
    let parts = [&observed.infrastructure, &observed.control_plane];
    let ours = |there: &&PresentPart| {
        there.begun && !there.deleting && !matches!(there.belongs, Belongs::Elsewhere(_))
    };
    parts.into_iter().filter_map(ClusterPart::there).filter(ours).find_map(|there| there.endpoint.clone())
}

/// Machines go first, then their groups, then the control plane, then the infrastructure, then the Cluster.
fn end(observed: &ClusterObservation) -> ClusterDecision {
    if !observed.finalizer {
        return ClusterDecision { steps: Vec::new(), state: ClusterState::Gone };
    }
    if observed.orphans {
        return ClusterDecision { steps: vec![ClusterStep::Release], state: ClusterState::Gone };
    }
    let all = &observed.workers.all;
    let (groups, machines): (Vec<&Worker>, Vec<&Worker>) =
        all.iter().partition(|worker| worker.kind == WorkerKind::Group);
    let deleted = due(all);
    let steps = if deleted.is_empty() { Vec::new() } else { vec![ClusterStep::DeleteWorkers(deleted)] };
    for stage in [machines, groups] {
        if stage.is_empty() {
            continue;
        }
        let names: Vec<String> =
            stage.iter().map(|worker| format!("{} {}", worker.kind.as_str(), worker.name)).collect();
        let message = format!("waits for {} to go", few(&names));
        return ClusterDecision {
            steps,
            state: ClusterState::Deleting(Why::new(reasons::WAITING_FOR_WORKERS_DELETION, message)),
        };
    }
    let stages = [
        (&observed.control_plane, reasons::WAITING_FOR_CONTROL_PLANE_DELETION),
        (&observed.infrastructure, reasons::WAITING_FOR_INFRASTRUCTURE_DELETION),
    ];
    for (part, reason) in stages {
        let Some(there) = part.there() else { continue };
        if matches!(there.belongs, Belongs::Elsewhere(_)) {
            continue;
        }
        let steps =
            if there.deleting { Vec::new() } else { vec![ClusterStep::Delete(Box::new(there.clone()))] };
        let said = there.conditions.get("Deleting").or_else(|| there.conditions.get("Ready"));
        let how = said.filter(|said| there.deleting && !said.message.is_empty());
        let how = how.map_or_else(String::new, |said| format!(": {}", said.message));
        let message = format!("waits for {} to go{how}", there.title());
        return ClusterDecision { steps, state: ClusterState::Deleting(Why::new(reason, message)) };
    }
    ClusterDecision { steps: vec![ClusterStep::Release], state: ClusterState::Gone }
}

/// The endpoint that a Cluster has, or gets by these steps.
pub fn endpoint_after(observed: &ClusterObservation, steps: &[ClusterStep]) -> Option<Endpoint> {
    let set = steps.iter().find_map(|step| match step {
        ClusterStep::SetEndpoint(endpoint) => Some(endpoint.clone()),
        _ => None,
    });
    let value = || serde_json::to_value(&observed.object.spec.control_plane_endpoint).unwrap_or_default();
    set.or_else(|| endpoint::of_spec(&value()))
}

#[cfg(test)]
mod tests;
