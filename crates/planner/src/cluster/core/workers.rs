//! Workers of a Cluster: machines that are not its control plane's, what makes them, and their groups.

use capt_api::cluster::core::WorkersStatus;
use capt_api::names::annotations;
use kube::{Resource, ResourceExt};

use super::ReportedCondition;
use crate::owner::is_controlled;

/// Kinds of workers of a Cluster, in the order in which they go.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum WorkerKind {
    /// CaptMachineDeployment.
    Deployment,
    /// CaptMachineSet.
    Set,
    /// CaptMachine.
    Machine,
    /// NodeGroup: goes when the machines that joined it are gone.
    Group,
}

impl WorkerKind {
    /// As manifests have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "CaptMachineDeployment",
            Self::Set => "CaptMachineSet",
            Self::Machine => "CaptMachine",
            Self::Group => "NodeGroup",
        }
    }
}

/// One worker of a Cluster: machines, what makes them, and their groups.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Worker {
    /// Its kind.
    pub kind: WorkerKind,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// It is on its way out.
    pub deleting: bool,
    /// Nobody controls it: it goes only when somebody deletes it.
    pub top: bool,
}

impl Worker {
    /// Reads an object.
    pub fn read<K: Resource>(object: &K, kind: WorkerKind) -> Self {
        // One that Cluster API cloned goes with its Machine, though that may not have taken it yet.
        let cloned = object.annotations().contains_key(annotations::CLONED_FROM_NAME);
        Self {
            kind,
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            deleting: object.meta().deletion_timestamp.is_some(),
            top: !is_controlled(object.meta()) && !cloned,
        }
    }
}

/// All workers of a Cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workers {
    /// Everything that is there; looked for only where the Cluster goes.
    pub all: Vec<Worker>,
    /// Counters.
    pub counts: WorkersStatus,
    /// Condition Available of each deployment.
    pub deployments: Vec<(String, Option<ReportedCondition>)>,
    /// Condition Ready of groups, and of sets and machines without a controller: kind and name first.
    pub others: Vec<(String, Option<ReportedCondition>)>,
}

/// Those that should be deleted now: groups when no machine is left.
pub fn due(all: &[Worker]) -> Vec<Worker> {
    let groups_only = all.iter().all(|worker| worker.kind == WorkerKind::Group);
    let due = |worker: &&Worker| {
        worker.top && !worker.deleting && (groups_only || worker.kind != WorkerKind::Group)
    };
    all.iter().filter(due).cloned().collect()
}
