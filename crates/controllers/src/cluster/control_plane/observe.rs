//! Observation of one control plane.

use std::collections::BTreeMap;
use std::sync::Arc;

use capt_api::cluster::{CAPTControlPlane, CAPTControlPlaneStatus};
use capt_api::names::{annotations, finalizers};
use capt_api::refs::ObjectRef;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::cluster::Owner;
use capt_planner::cluster::control_plane::{self, CONNECTION_SUFFIX, ControlPlaneObservation, Network};
use capt_planner::owned_workspace::{OwnedWorkspace, WantedWorkspace, WorkspaceTerms};
use kube::ResourceExt;

use super::super::act::ClusterPartActions;
use super::super::context::{ClusterPartContext, cluster_of};
use crate::owned_workspace::{self, OwnerActions};
use crate::runtime::Name;

/// A control plane, with everything that its next step depends on.
pub struct Found {
    pub object: Arc<CAPTControlPlane>,
    pub name: Name,
    pub status: Option<CAPTControlPlaneStatus>,
    pub owner: Owner,
    pub workspace: Option<OwnedWorkspace>,
    /// The Secret with all outputs of the workspace.
    pub connection: Name,
    network: Network,
    child: Name,
    wanted: Option<WantedWorkspace>,
    /// Its workspace as it is.
    pub existing: Option<Arc<WorkspaceTemplateApply>>,
    workers: Vec<String>,
    undismissed: bool,
    paused: Option<String>,
    external: bool,
}

/// Observes.
pub fn observe(context: &ClusterPartContext, object: Arc<CAPTControlPlane>, name: Name) -> Found {
    let owner = context.owner(object.as_ref());
    let child = Name::new(name.namespace.clone(), control_plane::workspace_of(&name.name));
    let existing = context.applies.get(&child);
    let cluster = cluster_of(object.as_ref());
    let going = object.metadata.deletion_timestamp.is_some();
    let mut found = Found {
        status: context.plane_status.current(object.as_ref(), object.status.as_ref()),
        network: network(context, &owner, &name.namespace),
        undismissed: going && cluster.as_ref().is_some_and(|cluster| !context.due(cluster).is_empty()),
        workers: cluster.map(|cluster| context.workers(&cluster)).unwrap_or_default(),
        paused: context.paused(object.as_ref()),
        external: object.annotations().contains_key(annotations::MANAGED_BY),
        connection: Name::new(name.namespace.clone(), format!("{}{CONNECTION_SUFFIX}", name.name)),
        wanted: None,
        workspace: None,
        object,
        name,
        owner,
        child,
        existing,
    };
    found.wanted = found.wish();
    found.workspace = found.read();
    found
}

fn network(context: &ClusterPartContext, owner: &Owner, namespace: &str) -> Network {
    let Some(cluster) = owner.cluster() else { return Network::Awaited("its Cluster is not there".into()) };
    let named = cluster.infrastructure.as_ref().map(|reference| Name::new(namespace, reference.name.clone()));
    let there = named.and_then(|named| context.networks.get(&named));
    control_plane::network_of(cluster, |_| there.as_deref())
}

impl Found {
    /// Its workspace as it should be; none while that is not known.
    fn wish(&self) -> Option<WantedWorkspace> {
        if matches!(self.network, Network::Awaited(_)) {
            return None;
        }
        let object = self.object.as_ref();
        let cluster = self.owner.name()?.to_owned();
        let after = match &self.network {
            Network::Ready(facts) => facts.workspace.clone(),
            Network::None | Network::Awaited(_) => None,
        };
        let beside = |name: String| ObjectRef { name, namespace: None };
        Some(WantedWorkspace {
            namespace: self.child.namespace.clone(),
            name: self.child.name.clone(),
            template: object.spec.workspace_template_ref.clone(),
            variables: control_plane::variables(&self.observed()),
            defaults: control_plane::defaults(&object.spec),
            secrets: Vec::new(),
            cluster: Some(cluster),
            owner: owned_workspace::owner(object),
            terms: Some(WorkspaceTerms {
                connection: Some(beside(self.connection.name.clone())),
                after: after.into_iter().map(beside).collect(),
                retain: false,
            }),
        })
    }

    fn read(&self) -> Option<OwnedWorkspace> {
        let apply = self.existing.as_ref()?;
        let before = self.status.as_ref().and_then(|status| status.failure_reason.as_deref());
        let template = &self.object.spec.workspace_template_ref;
        Some(OwnedWorkspace::read(apply, &self.object.metadata, template, self.wanted.as_ref(), before))
    }

    /// As the planner wants it; nobody has looked after the Secrets yet.
    pub fn observed(&self) -> ControlPlaneObservation<'_> {
        ControlPlaneObservation {
            object: &self.object,
            status: self.status.as_ref(),
            external: self.external,
            paused: self.paused.clone(),
            owner: self.owner.clone(),
            network: self.network.clone(),
            workspace: self.workspace.clone(),
            workers: self.workers.clone(),
            undismissed: self.undismissed,
            access: None,
            probe: None,
        }
    }

    /// Actions that carry out its steps.
    pub fn actions<'a>(
        &'a self,
        context: &'a ClusterPartContext,
    ) -> ClusterPartActions<'a, CAPTControlPlane> {
        let owner = OwnerActions {
            writer: &context.writer,
            events: &context.events,
            writes: &context.plane_writes,
            object: self.object.as_ref(),
            name: &self.name,
            finalizer: finalizers::CONTROL_PLANE,
            labels: BTreeMap::new(),
            child: &self.child,
            wanted: self.wanted.as_ref(),
            existing: self.existing.as_ref(),
            leaves: self.external,
        };
        ClusterPartActions { context, owner }
    }
}
