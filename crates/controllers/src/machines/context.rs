//! Context of the machine controllers.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use capt_api::machine::{
    CaptMachine, CaptMachineDeployment, CaptMachineSet, CaptMachineStatus, NodeGroup, NodeGroupStatus,
};
use capt_api::names::{annotations, labels};
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::set::Settings;
use kube::{Resource, ResourceExt};

use super::drain::Drains;
use crate::runtime::events::Events;
use crate::runtime::queue::Next;
use crate::runtime::status::StatusWriter;
use crate::runtime::{Cache, Clock, Clusters, DependencyIndex, Expectations, Grants, Name, Owners, Writer};

/// Field manager of what these controllers write.
pub const MANAGER: &str = "capt-machines";

/// A cache that is behind wakes us when it has caught up.
pub const CATCH_UP: Next = Next::CatchUp;

/// Clients, caches and writers of the machine controllers.
pub struct MachineContext {
    /// Talks to the API.
    pub writer: Writer,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Writes events.
    pub events: Events,
    /// Settings of the controller of machine sets.
    pub settings: Settings,
    /// All Clusters.
    pub clusters: Clusters,
    /// All Machines of Cluster API.
    pub owners: Owners,
    /// Nodes on their way out.
    pub drains: Drains,
    /// All deployments.
    pub deployments: Cache<CaptMachineDeployment>,
    /// All sets.
    pub sets: Cache<CaptMachineSet>,
    /// All machines.
    pub machines: Cache<CaptMachine>,
    /// All node groups.
    pub groups: Cache<NodeGroup>,
    /// All workspaces.
    pub applies: Cache<WorkspaceTemplateApply>,
    /// Writes of deployments to themselves that the cache does not show yet.
    pub own_deployments: Expectations<CaptMachineDeployment>,
    /// Writes of sets to themselves that the cache does not show yet.
    pub own_sets: Expectations<CaptMachineSet>,
    /// Writes of deployments to sets that the cache does not show yet.
    pub set_writes: Expectations<CaptMachineSet>,
    /// Writes of sets to machines that the cache does not show yet.
    pub machine_writes: Expectations<CaptMachine>,
    /// Writes of machines to workspaces that the cache does not show yet.
    pub apply_writes: Expectations<WorkspaceTemplateApply>,
    /// Writes of groups to workspaces that the cache does not show yet.
    pub group_writes: Expectations<WorkspaceTemplateApply>,
    /// Names that sets gave out and that will have no machine.
    pub absent: Absent,
    /// Grants for references to other namespaces.
    pub grants: Grants,
    /// Objects that each machine depends on.
    pub dependents: Arc<DependencyIndex>,
    /// Writes the status of machines.
    pub machine_status: StatusWriter<CaptMachineStatus>,
    /// Writes the status of groups.
    pub group_status: StatusWriter<NodeGroupStatus>,
}

impl MachineContext {
    /// Returns the reason outside of its spec why all work on an object is paused, if there is one.
    pub fn paused<K: Resource>(&self, object: &K) -> Option<String> {
        if object.annotations().contains_key(annotations::PAUSED) {
            return Some(format!("the annotation {} is set", annotations::PAUSED));
        }
        let cluster = object.labels().get(labels::CLUSTER_NAME)?;
        let name = Name::new(object.namespace().unwrap_or_default(), cluster);
        self.clusters.is_paused(&name).then(|| format!("Cluster {cluster} is paused"))
    }
}

/// Numbers of machines that a set gave out and that the API refused, or that belong to another.
#[derive(Debug, Default)]
pub struct Absent(Mutex<HashMap<Name, BTreeSet<i64>>>);

impl Absent {
    /// A number will have no machine.
    pub fn note(&self, set: &Name, number: i64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(set.clone()).or_default().insert(number);
    }

    /// Those of a set that it still has as pending; the others need not be known any more.
    pub fn of(&self, set: &Name, pending: &[i64]) -> Vec<i64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = all.get_mut(set) else { return Vec::new() };
        known.retain(|number| pending.contains(number));
        let left: Vec<i64> = known.iter().copied().collect();
        if left.is_empty() {
            all.remove(set);
        }
        left
    }

    /// Drops what is known of a set that is gone.
    pub fn forget(&self, set: &Name) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(set);
    }
}
