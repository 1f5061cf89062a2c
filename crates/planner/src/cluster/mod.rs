//! Networks (`CAPTCluster`) and control planes (`CAPTControlPlane`) as small state machines.
//!
//! ```text
//! NetworkObservation, ControlPlaneObservation (the object, its Cluster, its workspace, its dependents) + the time
//!     -> state, ClusterPartStep (the one thing to do), status (all of it), news (an event)
//! ```
//!
//! Nothing but the status carries over from one decision to the next, and of it only what a restart may lose without
//! harm: since when something is waited for, and whether it was ready before. `docs/status.md` has the tables of both
//! machines; `tests/status_tables.rs` makes them from this code.

pub mod control_plane;
pub mod core;
pub mod endpoint;
mod facts;
pub mod network;
pub mod region;
pub mod version;

pub use facts::{Cluster, Owner, Reference};

use capt_api::conditions::{reasons, types};
use capt_api::refs::Endpoint;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use crate::conditions::find;
use crate::owned_workspace::{OwnedWorkspace, OwnerStep};
use crate::reason::Why;

/// The one thing to do for a network or a control plane. What follows is decided again, from what is then observed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClusterPartStep {
    /// A step of the owner of a workspace.
    Workspace(OwnerStep),
    /// Writes the endpoint to the object's own spec.
    HandEndpoint(Endpoint),
    /// Deletes the workers of its cluster, which nobody else will.
    DismissWorkers,
}

impl ClusterPartStep {
    /// Nothing to do.
    pub const REST: Self = Self::Workspace(OwnerStep::Rest);

    /// Returns the fields that the step writes, for documentation.
    pub fn writes(&self) -> &'static str {
        match self {
            Self::Workspace(step) => step.writes(),
            Self::HandEndpoint(_) => "own `spec.controlPlaneEndpoint`",
            Self::DismissWorkers => "workers: deleted",
        }
    }

    /// This step, or another where there is nothing to do.
    fn or(self, other: impl FnOnce() -> Option<Self>) -> Self {
        if self == Self::REST { other().unwrap_or(self) } else { self }
    }
}

impl From<OwnerStep> for ClusterPartStep {
    fn from(step: OwnerStep) -> Self {
        Self::Workspace(step)
    }
}

/// An event to publish.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct News {
    /// It asks for a person.
    pub warning: bool,
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

/// News of a status: the condition Ready changed its status or its reason.
fn news(old: &[Condition], new: &[Condition], warning: bool) -> Option<News> {
    let ready = find(new, types::READY)?;
    let before = find(old, types::READY);
    if before.is_some_and(|before| before.status == ready.status && before.reason == ready.reason) {
        return None;
    }
    Some(News { warning, reason: ready.reason.clone(), message: ready.message.clone() })
}

/// The time since when a condition has a status; none where it has another, or is not there.
fn since(conditions: &[Condition], kind: &str, status: &str) -> Option<Timestamp> {
    find(conditions, kind).filter(|known| known.status == status).map(|known| known.last_transition_time.0)
}

/// The reason why an object without a Cluster that lives waits; none where there is one.
fn awaits_cluster(owner: &Owner) -> Option<Why> {
    match owner {
        Owner::Awaited => Some(Why::new(
            reasons::WAITING_FOR_CLUSTER,
            "no Cluster owns it yet: it starts when one names it and sets the owner reference",
        )),
        Owner::Missing(name) => {
            Some(Why::new(reasons::CLUSTER_NOT_FOUND, format!("Cluster {name}, its owner, does not exist")))
        }
        Owner::Found(cluster) if cluster.deleting => Some(Why::new(
            reasons::CLUSTER_DELETING,
            format!("Cluster {} is being deleted: nothing new is built", cluster.name),
        )),
        Owner::Found(_) => None,
    }
}

/// Age until which an object says nothing of awaiting its owner: that mostly comes a moment later, and what is told
/// and taken back at once is noise.
const YOUNG: SignedDuration = SignedDuration::from_secs(2);

/// The time until which an object that awaits its owner says nothing; `told` is what it said before.
fn silent_until<S>(owner: &Owner, meta: &ObjectMeta, told: Option<&S>, now: Timestamp) -> Option<Timestamp> {
    let made = meta.creation_timestamp.as_ref()?.0;
    let until = made.checked_add(YOUNG).ok()?;
    let young = made <= now && now < until;
    (matches!(owner, Owner::Awaited) && told.is_none() && young).then_some(until)
}

/// Step for those that go before an object. Cluster API core deletes Machines of its own kinds with a Cluster, and
/// knows no others; who deletes the object alone has to see to its workers.
fn dismiss(owner: &Owner, undismissed: bool) -> ClusterPartStep {
    let with_cluster = owner.cluster().is_some_and(|cluster| cluster.deleting);
    if with_cluster && undismissed { ClusterPartStep::DismissWorkers } else { ClusterPartStep::REST }
}

/// Returns true if a workspace is the object's: it is owned by it, or was left behind and a Cluster waits for it.
fn takes(owner: &Owner, workspace: &OwnedWorkspace) -> bool {
    workspace.ours() || (workspace.usable() && awaits_cluster(owner).is_none())
}

/// Names of those that an object waits for when it goes: a few, and the number of the others.
fn left(names: &[String]) -> String {
    const NAMED: usize = 5;
    let mut shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMED);
    let rest = format!("{more} more");
    if more > 0 {
        shown.push(&rest);
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn only_a_young_object_without_an_owner_says_nothing() {
        let made: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let meta = ObjectMeta { creation_timestamp: Some(Time(made)), ..ObjectMeta::default() };
        let after = |milliseconds| made + SignedDuration::from_millis(milliseconds);
        let until = Some(after(2000));
        let awaited = Owner::Awaited;
        let missing = Owner::Missing("demo".to_owned());
        let table = [
            (&awaited, None, 0, until),
            (&awaited, None, 1999, until),
            (&awaited, None, 2000, None),
            // Another's clock is ahead.
            (&awaited, None, -1, None),
            // It said so before.
            (&awaited, Some(&()), 0, None),
            (&missing, None, 0, None),
        ];
        for (owner, told, milliseconds, expected) in table {
            let silent = silent_until(owner, &meta, told, after(milliseconds));
            assert_eq!(silent, expected, "{owner:?} {told:?} {milliseconds}");
        }
        assert_eq!(silent_until::<()>(&awaited, &ObjectMeta::default(), None, made), None);
    }
}
