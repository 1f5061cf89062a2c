//! Context of the controllers of networks and control planes.

use std::sync::Arc;

use capt_api::cluster::{CAPTCluster, CAPTClusterStatus, CAPTControlPlane, CAPTControlPlaneStatus};
use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet, NodeGroup};
use capt_api::names::{CORE_GROUP, annotations, labels};
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::cluster::core::{Worker, WorkerKind, due};
use capt_planner::cluster::{Cluster, Owner, Reference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};

use super::access::AccessContext;
use super::probe::Probes;
use crate::machines;
use crate::runtime::events::Events;
use crate::runtime::status::StatusWriter;
use crate::runtime::{Cache, Clock, Clusters, DependencyIndex, Expectations, Kind, Name, Writer};

/// Field manager of what these controllers write.
pub const MANAGER: &str = "capt-cluster-parts";

/// Clients, caches and writers of the controllers of networks and control planes.
pub struct ClusterPartContext {
    /// Talks to the API.
    pub writer: Writer,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Writes events.
    pub events: Events,
    /// All Clusters.
    pub clusters: Clusters,
    /// All networks.
    pub networks: Cache<CAPTCluster>,
    /// All control planes.
    pub planes: Cache<CAPTControlPlane>,
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
    /// Writes of networks to workspaces that the cache does not show yet.
    pub network_writes: Expectations<WorkspaceTemplateApply>,
    /// Writes of control planes to workspaces that the cache does not show yet.
    pub plane_writes: Expectations<WorkspaceTemplateApply>,
    /// Writes the status of networks.
    pub network_status: StatusWriter<CAPTClusterStatus>,
    /// Writes the status of control planes.
    pub plane_status: StatusWriter<CAPTControlPlaneStatus>,
    /// Objects that each control plane depends on.
    pub dependents: Arc<DependencyIndex>,
    /// Keeps the Secrets of control planes.
    pub access: AccessContext,
    /// Asks control planes.
    pub probes: Probes,
}

impl ClusterPartContext {
    /// Beside the controllers of machines.
    pub fn new(
        machines: &machines::MachineContext,
        networks: Cache<CAPTCluster>,
        planes: Cache<CAPTControlPlane>,
        access: AccessContext,
        probes: Probes,
    ) -> Self {
        Self {
            writer: Writer::new(machines.writer.client().clone(), MANAGER),
            clock: Arc::clone(&machines.clock),
            events: machines.events.clone(),
            clusters: machines.clusters.clone(),
            networks,
            planes,
            deployments: machines.deployments.clone(),
            sets: machines.sets.clone(),
            machines: machines.machines.clone(),
            groups: machines.groups.clone(),
            applies: machines.applies.clone(),
            network_writes: Expectations::default(),
            plane_writes: Expectations::default(),
            network_status: StatusWriter::with_details(MANAGER, super::network::gist),
            plane_status: StatusWriter::with_details(MANAGER, super::control_plane::gist),
            dependents: Arc::default(),
            access,
            probes,
        }
    }

    /// The Cluster that owns an object.
    pub fn owner<K: Resource>(&self, object: &K) -> Owner {
        let Some(reference) = cluster_reference(object) else { return Owner::Awaited };
        let name = Name::new(object.namespace().unwrap_or_default(), reference.name.clone());
        // One of the same name that came later is another.
        let Some(facts) = self.clusters.get(&name).filter(|facts| facts.uid == reference.uid) else {
            // Its kind may have been installed a moment ago.
            self.clusters.miss();
            return Owner::Missing(name.name);
        };
        let read = |reference: crate::runtime::Reference| Reference {
            group: reference.group,
            kind: reference.kind,
            name: reference.name,
        };
        Owner::Found(Box::new(Cluster {
            name: name.name,
            deleting: facts.deleting,
            region: facts.region,
            infrastructure: facts.infrastructure.map(read),
            control_plane: facts.control_plane.map(read),
            endpoint: facts.endpoint,
            provisioned: facts.infrastructure_provisioned,
        }))
    }

    /// Returns the reason why all work on an object is paused, if it is.
    pub fn paused<K: Resource>(&self, object: &K) -> Option<String> {
        if object.annotations().contains_key(annotations::PAUSED) {
            return Some(format!("the annotation {} is set", annotations::PAUSED));
        }
        let cluster = cluster_of(object)?;
        self.clusters.is_paused(&cluster).then(|| format!("Cluster {} is paused", cluster.name))
    }

    /// Groups and machines of a cluster, and what makes them.
    pub fn workers(&self, cluster: &Name) -> Vec<String> {
        let mut all = members(&self.deployments, cluster);
        all.extend(members(&self.sets, cluster));
        all.extend(members(&self.machines, cluster));
        all.extend(members(&self.groups, cluster));
        all
    }

    /// Those of them that go only when they are told to, and nobody has; groups when no machine is left.
    pub fn due(&self, cluster: &Name) -> Vec<Worker> {
        let mut all = standing(&self.deployments, cluster, WorkerKind::Deployment);
        all.extend(standing(&self.sets, cluster, WorkerKind::Set));
        all.extend(standing(&self.machines, cluster, WorkerKind::Machine));
        all.extend(standing(&self.groups, cluster, WorkerKind::Group));
        due(&all)
    }

    /// Control planes of a cluster.
    pub fn planes_of(&self, cluster: &Name) -> Vec<Arc<CAPTControlPlane>> {
        let named = self.clusters.get(cluster).and_then(|facts| facts.control_plane);
        let mut all = self.planes.all();
        all.retain(|plane| {
            let is_named = named.as_ref().is_some_and(|named| {
                named.kind == "CAPTControlPlane"
                    && Name::of(plane.as_ref()) == Name::new(cluster.namespace.clone(), named.name.clone())
            });
            is_named || cluster_of(plane.as_ref()).as_ref() == Some(cluster)
        });
        all
    }
}

/// The reference to the Cluster that owns an object.
fn cluster_reference<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        owner.kind == "Cluster" && group == Some(CORE_GROUP)
    })
}

/// The Cluster that an object belongs to, by its owner reference or its label.
pub fn cluster_of<K: Resource>(object: &K) -> Option<Name> {
    let owner = cluster_reference(object).map(|owner| owner.name.clone());
    let cluster = owner.or_else(|| object.labels().get(labels::CLUSTER_NAME).cloned())?;
    Some(Name::new(object.namespace().unwrap_or_default(), cluster))
}

/// Objects of a cluster, as messages name them.
fn members<K: Kind>(cache: &Cache<K>, cluster: &Name) -> Vec<String> {
    let all = cache.all();
    let ours = all.iter().filter(|object| cluster_of(object.as_ref()).as_ref() == Some(cluster));
    let mut named: Vec<String> =
        ours.map(|object| format!("{} {}", K::kind(&()), object.name_any())).collect();
    named.sort();
    named
}

fn standing<K: Kind>(cache: &Cache<K>, cluster: &Name, kind: WorkerKind) -> Vec<Worker> {
    let all = cache.all();
    let ours = all.iter().filter(|object| cluster_of(object.as_ref()).as_ref() == Some(cluster));
    ours.map(|object| Worker::read(object.as_ref(), kind)).collect()
}
