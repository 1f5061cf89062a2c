//! CAPTCluster: the network of a cluster, with a workspace of its own, or one that exists.
//!
//! ```text
//! observe: the network, its Cluster, its workspace, those who need it   (here)
//! decide:  its state, and the next thing to do                           (capt_planner::cluster::network; pure)
//! act:     finalizer, workspace, endpoint, the end                       (owned_workspace, cluster::act)
//! report:  the status that was decided; one write                        (here)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capt_api::cluster::{CAPTCluster, CAPTClusterStatus};
use capt_api::names::{annotations, finalizers};
use capt_api::refs::Endpoint;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::cluster::Owner;
use capt_planner::cluster::network::{self, NetworkObservation, NetworkPlan, NetworkState};
use capt_planner::owned_workspace::{OwnedWorkspace, WantedWorkspace, WorkspaceTerms};
use kube::ResourceExt;

use super::act::ClusterPartActions;
use super::context::{ClusterPartContext, cluster_of};
use crate::machines::context::CATCH_UP;
use crate::owned_workspace::{self, OwnerActions, OwnerChanges};
use crate::runtime::queue::Next;
use crate::runtime::status::without_messages;
use crate::runtime::{Error, Name};

/// A network, with everything that its next step depends on.
struct Found {
    object: Arc<CAPTCluster>,
    name: Name,
    status: Option<CAPTClusterStatus>,
    owner: Owner,
    child: Name,
    wanted: Option<WantedWorkspace>,
    existing: Option<Arc<WorkspaceTemplateApply>>,
    workspace: Option<OwnedWorkspace>,
    users: Vec<String>,
    undismissed: bool,
    endpoint: Option<Endpoint>,
    paused: Option<String>,
    external: bool,
}

/// Reconciles one network.
pub async fn reconcile(context: Arc<ClusterPartContext>, object: Arc<CAPTCluster>) -> Result<Next, Error> {
    let name = Name::of(object.as_ref());
    if !context.network_writes.caught_up(&name, &context.applies, &context.writer).await? {
        return Ok(CATCH_UP);
    }
    let found = observe(&context, object, name);
    let now = context.clock.now();
    let plan = network::decide(&found.observed(), now);
    let wake = plan.wake;
    let actions = found.actions(&context);
    let acted = actions.act(&plan.step).await?;
    let held = report(&context, &found, &actions, plan, &acted).await?;
    Ok(super::next(wake, now, None, held))
}

fn observe(context: &ClusterPartContext, object: Arc<CAPTCluster>, name: Name) -> Found {
    let owner = context.owner(object.as_ref());
    let child = Name::new(name.namespace.clone(), network::workspace_of(&name.name));
    let wanted = wanted(&object, &owner, &child);
    let existing = context.applies.get(&child);
    let status = context.network_status.current(object.as_ref(), object.status.as_ref());
    let template = object.spec.vpc_template_ref.clone().unwrap_or_default();
    let workspace = existing.as_ref().map(|apply| {
        let before = network::told(status.as_ref());
        OwnedWorkspace::read(apply, &object.metadata, &template, wanted.as_ref(), before)
    });
    let cluster = cluster_of(object.as_ref());
    let mut users = Vec::new();
    let mut endpoint = owner.cluster().and_then(|cluster| cluster.endpoint.clone());
    if let Some(cluster) = &cluster {
        for plane in context.planes_of(cluster) {
            users.push(format!("CAPTControlPlane {}", plane.name_any()));
            endpoint = endpoint.or_else(|| plane.spec.control_plane_endpoint.clone());
        }
        users.extend(context.workers(cluster));
    }
    let going = object.metadata.deletion_timestamp.is_some();
    let undismissed = going && cluster.is_some_and(|cluster| !context.due(&cluster).is_empty());
    Found {
        undismissed,
        paused: context.paused(object.as_ref()),
        external: object.annotations().contains_key(annotations::MANAGED_BY),
        object,
        name,
        status,
        owner,
        child,
        wanted,
        existing,
        workspace,
        users,
        endpoint,
    }
}

fn wanted(object: &CAPTCluster, owner: &Owner, child: &Name) -> Option<WantedWorkspace> {
    let cluster = owner.name()?;
    Some(WantedWorkspace {
        namespace: child.namespace.clone(),
        name: child.name.clone(),
        template: object.spec.vpc_template_ref.clone()?,
        variables: network::variables(object, cluster),
        defaults: network::defaults(object),
        secrets: Vec::new(),
        cluster: Some(cluster.to_owned()),
        owner: owned_workspace::owner(object),
        terms: Some(WorkspaceTerms { retain: object.spec.retain_vpc_on_delete, ..WorkspaceTerms::default() }),
    })
}

impl Found {
    fn observed(&self) -> NetworkObservation<'_> {
        NetworkObservation {
            object: &self.object,
            status: self.status.as_ref(),
            external: self.external,
            paused: self.paused.clone(),
            owner: self.owner.clone(),
            workspace: self.workspace.clone(),
            users: self.users.clone(),
            undismissed: self.undismissed,
            endpoint: self.endpoint.clone(),
        }
    }

    fn actions<'a>(&'a self, context: &'a ClusterPartContext) -> ClusterPartActions<'a, CAPTCluster> {
        let owner = OwnerActions {
            writer: &context.writer,
            events: &context.events,
            writes: &context.network_writes,
            object: self.object.as_ref(),
            name: &self.name,
            finalizer: finalizers::CLUSTER,
            labels: BTreeMap::new(),
            child: &self.child,
            wanted: self.wanted.as_ref(),
            existing: self.existing.as_ref(),
            leaves: self.external || self.object.spec.retain_vpc_on_delete,
        };
        ClusterPartActions { context, owner }
    }
}

async fn report(
    context: &ClusterPartContext,
    found: &Found,
    actions: &ClusterPartActions<'_, CAPTCluster>,
    plan: NetworkPlan,
    acted: &OwnerChanges,
) -> Result<Option<Duration>, Error> {
    if acted.released {
        context.network_status.forget(&found.name);
        return Ok(None);
    }
    let Some(mut status) = plan.status else { return Ok(None) };
    if let Some(generation) = acted.generation {
        status.observed_generation = Some(generation);
        for condition in &mut status.conditions {
            condition.observed_generation = Some(generation);
        }
    }
    let client = context.writer.client();
    let held =
        context.network_status.write(client, found.object.as_ref(), found.status.as_ref(), status).await?;
    if let Some(news) = plan.news.as_ref().filter(|_| held.is_none()) {
        actions.publish(news);
    }
    let running = found.workspace.as_ref().is_some_and(|workspace| workspace.ours() && workspace.running);
    if !matches!(plan.state, NetworkState::Deleting(_)) {
        actions.guard_move(running).await?;
    }
    Ok(held)
}

/// A status without its details: how far its workspace is.
pub fn gist(status: &mut CAPTClusterStatus) {
    without_messages(&mut status.conditions);
    status.workspace_template_status.take_if(|workspace| !workspace.ready);
}
