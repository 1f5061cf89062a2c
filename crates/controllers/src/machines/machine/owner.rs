//! Ownership of a machine's infrastructure: CAPT's own, or that of a Machine of Cluster API, with what it waits for there.

use capt_api::conditions::reasons;
use capt_api::machine::CaptMachine;
use capt_api::names::{CORE_GROUP, annotations, labels};
use capt_planner::Why;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

use crate::runtime::clusters::ClusterFacts;
use crate::runtime::owners::{Bootstrap, Owner};

/// Ownership of a machine's infrastructure.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Ownership {
    /// CAPT's own: of a set, or of nobody.
    #[default]
    Own,
    /// Cluster API's; the Machine that it is meant for has not taken it yet.
    Unclaimed,
    /// That of a Machine of this name that is not seen: it is gone, or its kind is not served.
    Unseen(String),
    /// That of this Machine.
    Machine(Owner),
}

impl Ownership {
    /// Of a machine; `find` knows Machines by their name.
    pub fn of(machine: &CaptMachine, find: impl FnOnce(&str) -> Option<Owner>) -> Self {
        if let Some(reference) = machine_reference(machine) {
            let found = find(&reference.name).filter(|owner| owner.uid == reference.uid);
            return found.map_or_else(|| Self::Unseen(reference.name.clone()), Self::Machine);
        }
        let controlled = machine.owner_references().iter().any(|owner| owner.controller == Some(true));
        let cloned = machine.annotations().contains_key(annotations::CLONED_FROM_NAME)
            || machine.owner_references().iter().any(|owner| is_core(owner, "MachineSet"));
        if cloned && !controlled { Self::Unclaimed } else { Self::Own }
    }

    /// The Machine, where it is known.
    pub fn machine(&self) -> Option<&Owner> {
        match self {
            Self::Machine(owner) => Some(owner),
            Self::Own | Self::Unclaimed | Self::Unseen(_) => None,
        }
    }

    /// The Cluster that the machine belongs to.
    pub fn cluster(&self, machine: &CaptMachine) -> Option<String> {
        let owner = self.machine().and_then(|owner| owner.cluster.clone());
        owner.or_else(|| machine.labels().get(labels::CLUSTER_NAME).cloned())
    }

    /// Reason why the machine cannot be built yet; none where all is there.
    pub fn waits_for(&self, cluster: Option<(&str, Option<&ClusterFacts>)>) -> Option<Why> {
        let owner = match self {
            Self::Own => return None,
            Self::Unclaimed => {
                let message = "the Machine that it was made for has not taken it yet";
                return Some(Why::new(reasons::WAITING_FOR_MACHINE, message));
            }
            Self::Unseen(name) => {
                let message = format!("Machine {name}, which owns it, is not there");
                return Some(Why::new(reasons::WAITING_FOR_MACHINE, message));
            }
            Self::Machine(owner) => owner,
        };
        match cluster {
            None => {
                let message = "its Machine names no Cluster";
                return Some(Why::new(reasons::CLUSTER_NOT_FOUND, message));
            }
            Some((name, None)) => {
                return Some(Why::new(reasons::CLUSTER_NOT_FOUND, format!("Cluster {name} does not exist")));
            }
            Some((name, Some(cluster))) if cluster.awaits_infrastructure => {
                let message = format!("the infrastructure of Cluster {name} is not provisioned");
                return Some(Why::new(reasons::WAITING_FOR_CLUSTER_INFRASTRUCTURE, message));
            }
            Some(_) => {}
        }
        (owner.bootstrap == Bootstrap::Awaited).then(|| {
            let message = "the bootstrap provider has not written its data yet";
            Why::new(reasons::WAITING_FOR_BOOTSTRAP_DATA, message)
        })
    }
}

/// The reference to the Machine of Cluster API that owns a machine.
pub fn machine_reference(machine: &CaptMachine) -> Option<&OwnerReference> {
    machine.owner_references().iter().find(|owner| is_core(owner, "Machine"))
}

fn is_core(owner: &OwnerReference, kind: &str) -> bool {
    let group = owner.api_version.split('/').next();
    owner.kind == kind && group == Some(CORE_GROUP)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn machine(metadata: &Value) -> CaptMachine {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachine",
            "metadata": metadata, "spec": {"workspaceTemplateRef": {"name": "t"}},
        }))
        .unwrap()
    }

    fn owned_by(api: &str, kind: &str, controller: bool) -> Value {
        json!({"apiVersion": api, "kind": kind, "name": "o", "uid": "u", "controller": controller})
    }

    #[test]
    fn whose_it_is() {
        let known = Owner { uid: "u".into(), cluster: Some("c".into()), ..Owner::default() };
        let cloned = json!({"cluster.x-k8s.io/cloned-from-name": "t"});
        let of = |metadata: Value, found: Option<&Owner>| {
            Ownership::of(&machine(&metadata), |name| found.filter(|_| name == "o").cloned())
        };
        let (v1, v2) = ("cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2");
        let ours = owned_by("infrastructure.cluster.x-k8s.io/v1beta1", "CaptMachineSet", true);
        assert_eq!(of(json!({}), None), Ownership::Own);
        assert_eq!(of(json!({"ownerReferences": [ours]}), None), Ownership::Own);
        assert_eq!(of(json!({"annotations": cloned}), None), Ownership::Unclaimed);
        assert_eq!(of(json!({"annotations": cloned, "ownerReferences": [ours]}), None), Ownership::Own);
        let set = json!({"ownerReferences": [owned_by(v2, "MachineSet", false)]});
        assert_eq!(of(set, None), Ownership::Unclaimed);
        let theirs = json!({"annotations": cloned, "ownerReferences": [owned_by(v1, "Machine", true)]});
        assert_eq!(of(theirs.clone(), Some(&known)), Ownership::Machine(known.clone()));
        assert_eq!(of(theirs.clone(), None), Ownership::Unseen("o".into()));
        let another = Owner { uid: "x".into(), ..known };
        assert_eq!(of(theirs, Some(&another)), Ownership::Unseen("o".into()));
        let stranger = json!({"ownerReferences": [owned_by("example.com/v1", "Machine", true)]});
        assert_eq!(of(stranger, None), Ownership::Own);
    }

    #[test]
    fn what_it_waits_for() {
        let owner = |bootstrap| Ownership::Machine(Owner { bootstrap, ..Owner::default() });
        let done = ClusterFacts::default();
        let not_yet = ClusterFacts { awaits_infrastructure: true, ..ClusterFacts::default() };
        let why = |ownership: &Ownership, cluster| ownership.waits_for(cluster).map(|why| why.reason);
        let (there, nothing) = (Some(("c", Some(&done))), owner(Bootstrap::Nothing));
        assert_eq!(why(&Ownership::Own, None).as_deref(), None);
        assert_eq!(why(&Ownership::Unclaimed, there).as_deref(), Some("WaitingForMachine"));
        assert_eq!(why(&Ownership::Unseen("m".into()), there).as_deref(), Some("WaitingForMachine"));
        assert_eq!(why(&nothing, None).as_deref(), Some("ClusterNotFound"));
        assert_eq!(why(&nothing, Some(("c", None))).as_deref(), Some("ClusterNotFound"));
        assert_eq!(
            why(&nothing, Some(("c", Some(&not_yet)))).as_deref(),
            Some("WaitingForClusterInfrastructure")
        );
        assert_eq!(why(&owner(Bootstrap::Awaited), there).as_deref(), Some("WaitingForBootstrapData"));
        assert_eq!(why(&nothing, there).as_deref(), None);
        assert_eq!(why(&owner(Bootstrap::Secret("s".into())), there).as_deref(), None);
    }
}
