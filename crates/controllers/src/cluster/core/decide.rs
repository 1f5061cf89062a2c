//! What to do next for a Cluster, and why. Pure.

use capt_api::conditions::reasons;
use capt_api::refs::Endpoint;
use serde_json::Value;

use super::contract_ref::{Belongs, Part, There};
use super::observe::Observed;
use super::workers::{self, Worker, WorkerKind};
use crate::runtime::clusters;
use capt_planner::reason::few;

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Put the finalizer on.
    Hold,
    /// Make an object a part of the Cluster, by this metadata.
    Adopt(Box<There>, Value),
    /// Write where the API is.
    Endpoint(Endpoint),
    /// Delete machines, or what makes them.
    DeleteWorkers(Vec<Worker>),
    /// Delete a part.
    Delete(Box<There>),
    /// Let the Cluster go.
    Release,
}

/// How the Cluster stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Nothing is done, and why.
    Paused(String),
    /// It lives.
    Alive,
    /// It is on its way out: a word and a sentence for what it waits for.
    Deleting(&'static str, String),
    /// There is nothing to be said of it any more.
    Gone,
}

/// What to do, and how things stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do, in this order.
    pub steps: Vec<Step>,
    /// The phase.
    pub standing: Standing,
}

/// Decides.
pub fn decide(observed: &Observed) -> Decision {
    if let Some(by) = &observed.paused {
        return Decision { steps: Vec::new(), standing: Standing::Paused(by.clone()) };
    }
    if observed.deleting {
        return end(observed);
    }
    let mut steps = Vec::new();
    if !observed.finalizer {
        steps.push(Step::Hold);
    }
    for part in [&observed.infrastructure, &observed.control_plane] {
        if let Some(there) = part.there()
            && let Belongs::Free(metadata) = &there.belongs
            && !there.deleting
        {
            steps.push(Step::Adopt(Box::new(there.clone()), metadata.clone()));
        }
    }
    if let Some(endpoint) = endpoint(observed) {
        steps.push(Step::Endpoint(endpoint));
    }
    Decision { steps, standing: Standing::Alive }
}

/// Whether the Cluster says where its API is.
pub fn has_endpoint(observed: &Observed) -> bool {
    let at = &observed.object.spec.control_plane_endpoint;
    at.as_ref().is_some_and(|at| !at.host.is_empty() && at.port > 0)
}

/// Where the API is, where the Cluster does not say so yet: the infrastructure knows first, then the control plane.
fn endpoint(observed: &Observed) -> Option<Endpoint> {
    if has_endpoint(observed) {
        return None;
    }
    let parts = [&observed.infrastructure, &observed.control_plane];
    let ours =
        |there: &&There| there.begun && !there.deleting && !matches!(there.belongs, Belongs::Elsewhere(_));
    parts.into_iter().filter_map(Part::there).filter(ours).find_map(|there| there.endpoint.clone())
}

/// Machines go first, then their groups, then the control plane, then the infrastructure, then the Cluster.
fn end(observed: &Observed) -> Decision {
    if !observed.finalizer {
        return Decision { steps: Vec::new(), standing: Standing::Gone };
    }
    if observed.orphans {
        return Decision { steps: vec![Step::Release], standing: Standing::Gone };
    }
    let all = &observed.workers.all;
    let (groups, machines): (Vec<&Worker>, Vec<&Worker>) =
        all.iter().partition(|worker| worker.kind == WorkerKind::Group);
    let due = workers::due(all);
    let steps = if due.is_empty() { Vec::new() } else { vec![Step::DeleteWorkers(due)] };
    for stage in [machines, groups] {
        if stage.is_empty() {
            continue;
        }
        let names: Vec<String> =
            stage.iter().map(|worker| format!("{} {}", worker.kind.as_str(), worker.name)).collect();
        let message = format!("waits for {} to go", few(&names));
        return Decision {
            steps,
            standing: Standing::Deleting(reasons::WAITING_FOR_WORKERS_DELETION, message),
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
        let steps = if there.deleting { Vec::new() } else { vec![Step::Delete(Box::new(there.clone()))] };
        let said = there.conditions.get("Deleting").or_else(|| there.conditions.get("Ready"));
        let how = said.filter(|said| there.deleting && !said.message.is_empty());
        let how = how.map_or_else(String::new, |said| format!(": {}", said.message));
        let message = format!("waits for {} to go{how}", there.title());
        return Decision { steps, standing: Standing::Deleting(reason, message) };
    }
    Decision { steps: vec![Step::Release], standing: Standing::Gone }
}

/// The endpoint that a Cluster has, or gets by these steps.
pub fn endpoint_after(observed: &Observed, steps: &[Step]) -> Option<Endpoint> {
    let set = steps.iter().find_map(|step| match step {
        Step::Endpoint(endpoint) => Some(endpoint.clone()),
        _ => None,
    });
    let value = || serde_json::to_value(&observed.object.spec.control_plane_endpoint).unwrap_or_default();
    set.or_else(|| clusters::endpoint(&value()))
}

#[cfg(test)]
pub(super) mod tests;
