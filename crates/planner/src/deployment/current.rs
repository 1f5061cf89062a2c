//! Sets in numbers, and which of them is current.

use std::cmp::Reverse;

use capt_api::conditions::{reasons, types};
use capt_api::machine::{CaptMachineDeployment, CaptMachineSet};
use capt_api::names::{annotations, labels};
use jiff::Timestamp;

use crate::cause;
use crate::conditions::find as find_condition;
use crate::template::{relevant, same_machine};
use crate::{hash as hashes, revision};

/// A set as a deployment counts it.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(crate) struct Set<'a> {
    pub(crate) object: &'a CaptMachineSet,
    pub(crate) name: &'a str,
    pub(crate) hash: &'a str,
    pub(crate) created: Timestamp,
    pub(crate) revision: i64,
    pub(crate) deleting: bool,
    /// True if the set has acted on its last change.
    pub(crate) acted: bool,
    pub(crate) create_disabled: bool,
    pub(crate) unavailable_first: bool,
    /// Replicas of the deployment that it was last scaled for.
    pub(crate) desired: Option<i32>,
    /// Machines it should have.
    pub(crate) spec: i32,
    /// Machines it has, those it has given a name to included.
    pub(crate) replicas: i32,
    pub(crate) ready: i32,
    /// Machines that will still be available when what is too many is gone: which ones go is the set's choice, so each
    /// counts as an available one.
    pub(crate) available: i32,
    pub(crate) terminating: i32,
    /// Why it is not ready, from the bottom.
    pub(crate) cause: Option<&'a str>,
}

impl<'a> Set<'a> {
    pub(crate) fn new(object: &'a CaptMachineSet) -> Self {
        let meta = &object.metadata;
        let status = object.status.as_ref();
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let observed = status.and_then(|status| status.observed_generation);
        let pending = status
            .and_then(|status| status.allocation.as_ref())
            .map_or(0, |given| crate::set::count(given.pending.len()));
        let deleting = meta.deletion_timestamp.is_some();
        let spec = if deleting { 0 } else { object.spec.replicas.max(0) };
        let replicas = status.map_or(0, |status| status.replicas) + pending;
        let going = (replicas - spec).max(0);
        let terminating = status.map_or(0, |status| status.terminating_replicas);
        let said = status.and_then(|status| find_condition(&status.conditions, types::DELETING));
        Self {
            object,
            name: meta.name.as_deref().unwrap_or_default(),
            hash: meta
                .labels
                .as_ref()
                .and_then(|all| all.get(labels::TEMPLATE_HASH))
                .map(String::as_str)
                .unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
            revision: revision::of(object),
            deleting,
            acted: if deleting {
                said.is_some()
            } else {
                // The size that a set is created with is the only one it has ever had.
                observed == meta.generation || meta.generation.unwrap_or(1) <= 1
            },
            create_disabled: annotation(annotations::DISABLE_CREATE).is_some(),
            unavailable_first: annotation(annotations::UNAVAILABLE_FIRST).is_some(),
            desired: annotation(annotations::DESIRED_REPLICAS).and_then(|text| text.parse().ok()),
            spec,
            replicas,
            ready: status.map_or(0, |status| status.ready_replicas),
            available: (status.map_or(0, |status| status.available_replicas) - going).max(0),
            terminating,
            cause: status
                .and_then(|status| find_condition(&status.conditions, types::READY))
                .filter(|ready| ready.status != "True")
                .and_then(|ready| cause::of(&ready.message)),
        }
    }

    /// Machines that exist or may come to exist without another decision; one that is being destroyed still costs.
    pub(crate) fn existing(&self) -> i32 {
        self.spec.max(self.replicas) + self.terminating
    }

    /// Returns true if its name will soon be free, with machines that only a set of that name can adopt: it is being deleted, and orphans
    /// its machines, or has none, or has not reported yet that it destroys them. A set that was orphaning, and has not observed yet that it
    /// is done, counts machines that it does not destroy.
    pub(crate) fn vacates(&self) -> bool {
        let status = self.object.status.as_ref();
        let said = status.and_then(|status| find_condition(&status.conditions, types::DELETING));
        let mut finalizers = self.object.metadata.finalizers.iter().flatten();
        let orphans = finalizers.any(|finalizer| finalizer == "orphan")
            || said.is_some_and(|said| said.reason == reasons::ORPHANING);
        let destroys = said.is_some() && self.replicas == 0 && self.terminating > 0;
        self.deleting && (orphans || !destroys)
    }
}

/// The set that makes the machines that the deployment wants; after a restart, one that is younger than that. Of several,
/// the largest, then the oldest.
pub(crate) fn find(
    deployment: &CaptMachineDeployment,
    sets: &[Set<'_>],
    restarted: Option<Timestamp>,
) -> Option<usize> {
    sets.iter()
        .enumerate()
        .filter(|(_, set)| same_machine(&set.object.spec.template, &deployment.spec.template))
        .filter(|(_, set)| restarted.is_none_or(|restarted| set.created.as_second() >= restarted.as_second()))
        .min_by_key(|(_, set)| (Reverse(set.spec), set.created, set.name))
        .map(|(index, _)| index)
}

/// Hash in the name and labels of a new set.
pub(crate) fn hash(
    deployment: &CaptMachineDeployment,
    restarted: Option<Timestamp>,
    collisions: i32,
) -> String {
    hashes::text(&(relevant(&deployment.spec.template.spec), restarted.map(Timestamp::as_second), collisions))
}
