//! Observation of one machine.

use std::sync::Arc;
use std::time::Duration;

use capt_api::conditions::{reasons, types};
use capt_api::machine::{CaptMachine, CaptMachineStatus, MachineAddressKind, NodeGroup};
use capt_api::names::annotations;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::machine::{MachineObservation, NodeDeparture, NodeWork, workspace_of};
use capt_planner::owned_workspace::{OwnedWorkspace, WantedWorkspace};
use capt_planner::{Why, inputs};
use kube::ResourceExt;

use super::super::context::MachineContext;
use super::super::drain::DrainSubject;
use super::owner::{self, Ownership};
use super::variables;
use crate::owned_workspace;
use crate::runtime::clusters::ClusterFacts;
use crate::runtime::conditions::find;
use crate::runtime::{Error, Looker, Name, Referrer, Refused};

/// A machine, with everything that its next step depends on.
#[derive(Clone, Debug)]
pub struct FoundMachine {
    /// The object.
    pub object: Arc<CaptMachine>,
    /// Its name.
    pub name: Name,
    /// Its status: what was written last, though the cache may not show it yet.
    pub status: Option<CaptMachineStatus>,
    /// Another system takes care of it.
    pub external: bool,
    /// The reason that it is paused.
    paused: Option<String>,
    /// Reason why it cannot be built yet, besides its group.
    pub waits: Option<Why>,
    /// The failure domain that its Machine names.
    pub failure_domain: Option<String>,
    /// Name of its workspace.
    pub child: Name,
    /// The object of that name.
    pub existing: Option<Arc<WorkspaceTemplateApply>>,
    /// Its workspace as it should be.
    pub wanted: WantedWorkspace,
    /// The group that it joins, where that is an object.
    group: Option<Arc<NodeGroup>>,
    /// Name of the group that it joins or is.
    pub group_name: Option<String>,
    /// Its Node, where CAPT has to look after that.
    pub node: Option<(DrainSubject, NodeDeparture)>,
}

impl FoundMachine {
    /// As the planner wants it.
    pub fn observed(&self) -> MachineObservation<'_> {
        let before = self.status.as_ref().and_then(|status| status.failure_reason.as_deref());
        let read = |apply: &Arc<WorkspaceTemplateApply>| {
            let (meta, template) = (&self.object.metadata, &self.wanted.template);
            OwnedWorkspace::read(apply, meta, template, Some(&self.wanted), before)
        };
        MachineObservation {
            object: self.object.as_ref(),
            external: self.external,
            paused: self.paused.as_deref(),
            waits: self.waits.as_ref(),
            group: self.group.as_deref(),
            workspace: self.existing.as_ref().map(read),
            node: self.node.as_ref().map(|(_, departure)| departure),
        }
    }

    /// Returns true if what it built is left alone when it goes.
    pub fn leaves_all(&self) -> bool {
        self.external || self.object.finalizers().iter().any(|known| known == "orphan")
    }
}

/// Observes; nothing while the cache is behind our own writes.
pub async fn observe(
    context: &MachineContext,
    object: Arc<CaptMachine>,
) -> Result<Option<FoundMachine>, Error> {
    let name = Name::of(object.as_ref());
    if !context.apply_writes.caught_up(&name, &context.applies, &context.writer).await? {
        return Ok(None);
    }
    let mut looker = context.dependents.looker(name.clone());
    let (group, refused) = match group(context, &mut looker, &object, &name) {
        Ok(group) => (group, None),
        Err(refused) => (None, Some(Why::new(refused.reason, refused.message))),
    };
    let ownership = ownership(context, &mut looker, &object, &name);
    let cluster_name = ownership.cluster(&object);
    let cluster = cluster_name.as_ref().and_then(|cluster| {
        let cluster = Name::new(name.namespace.clone(), cluster);
        if ownership != Ownership::Own {
            looker.at("Cluster", &cluster);
        }
        context.clusters.get(&cluster)
    });
    let child = Name::new(name.namespace.clone(), workspace_of(&name.name));
    let wanted = WantedWorkspace {
        namespace: child.namespace.clone(),
        name: child.name.clone(),
        template: object.spec.workspace_template_ref.clone(),
        variables: variables::variables(&object, group.as_deref(), &ownership),
        defaults: inputs::machine_defaults(&object),
        secrets: variables::secrets(&ownership),
        cluster: cluster_name.clone(),
        owner: owned_workspace::owner(object.as_ref()),
        terms: None,
    };
    let own = object.spec.paused.then(|| "spec.paused is true".to_owned());
    let paused = own.or_else(|| context.paused(object.as_ref())).or_else(|| {
        let paused = cluster.as_ref().is_some_and(|cluster| cluster.paused);
        cluster_name.as_ref().filter(|_| paused).map(|name| format!("Cluster {name} is paused"))
    });
    let status = context.machine_status.current(object.as_ref(), object.status.as_ref());
    let node = cluster_name.as_deref().filter(|_| ownership == Ownership::Own).and_then(|cluster_name| {
        departure(context, &object, status.as_ref(), cluster_name, cluster.as_ref())
    });
    let waits = ownership.waits_for(cluster_name.as_deref().map(|name| (name, cluster.as_ref())));
    let waits = waits.or(refused);
    Ok(Some(FoundMachine {
        external: object.annotations().contains_key(annotations::MANAGED_BY),
        existing: context.applies.get(&child),
        child,
        group_name: inputs::group_name(&object, group.as_deref()),
        failure_domain: ownership.machine().and_then(|owner| owner.failure_domain.clone()),
        waits,
        paused,
        wanted,
        group,
        node,
        status,
        name,
        object,
    }))
}

/// The group that a machine joins, where that is an object.
fn group(
    context: &MachineContext,
    looker: &mut Looker,
    object: &CaptMachine,
    name: &Name,
) -> Result<Option<Arc<NodeGroup>>, Refused> {
    let Some(reference) = &object.spec.node_group_ref else { return Ok(None) };
    let mentioned = Name::mentioned(reference, &name.namespace);
    let from = Referrer::of::<CaptMachine>(&name.namespace);
    let group = context.grants.read::<NodeGroup>(looker, from, mentioned)?;
    looker.at("NodeGroup", &group);
    Ok(context.groups.get(&group))
}

fn ownership(context: &MachineContext, looker: &mut Looker, object: &CaptMachine, name: &Name) -> Ownership {
    if let Some(reference) = owner::machine_reference(object) {
        looker.at("Machine", &Name::new(name.namespace.clone(), reference.name.clone()));
    }
    let ownership =
        Ownership::of(object, |owner| context.owners.get(&Name::new(name.namespace.clone(), owner)));
    match &ownership {
        Ownership::Unseen(_) => context.owners.miss(),
        Ownership::Machine(_) => context.clusters.miss(),
        Ownership::Own | Ownership::Unclaimed => {}
    }
    ownership
}

/// Its Node, where CAPT has to look after that: a machine that was built for a cluster, on its way out of it. The Node of
/// a cluster that goes as a whole goes with it.
fn departure(
    context: &MachineContext,
    object: &CaptMachine,
    status: Option<&CaptMachineStatus>,
    cluster_name: &str,
    cluster: Option<&ClusterFacts>,
) -> Option<(DrainSubject, NodeDeparture)> {
    let status = status?;
    let was_built = status.initialization.as_ref().and_then(|done| done.provisioned) == Some(true);
    let is_node = !object.spec.is_group();
    let excluded = object.annotations().contains_key(annotations::EXCLUDE_NODE_DRAINING);
    let cluster_goes = cluster.is_some_and(|cluster| cluster.deleting);
    object.metadata.deletion_timestamp.as_ref()?;
    if !was_built || !is_node || excluded || cluster_goes {
        return None;
    }
    let name = Name::of(object);
    let known = |address: &&capt_api::machine::MachineAddress| {
        matches!(address.kind, MachineAddressKind::InternalDNS | MachineAddressKind::Hostname)
    };
    let names = status.addresses.iter().filter(known).map(|address| address.address.clone());
    let draining = find(&status.conditions, types::DRAINED).filter(|one| one.reason == reasons::DRAINING);
    let since = draining.map(|one| context.clock.now().duration_since(one.last_transition_time.0));
    let removal = status.node_ref.clone().map(NodeWork::Remove);
    let subject = DrainSubject {
        cluster: Name::new(name.namespace.clone(), cluster_name),
        provider_id: object.spec.provider_id.clone(),
        names: names.chain([name.name.clone()]).collect(),
    };
    let departure = NodeDeparture {
        cluster: cluster_name.to_owned(),
        drain: context.drains.progress(&name, &NodeWork::Drain),
        removal: removal.map(|work| {
            let progress = context.drains.progress(&name, &work);
            (work, progress)
        }),
        since: since.and_then(|since| Duration::try_from(since).ok()).unwrap_or_default(),
        limit: limit(object.spec.node_drain_timeout_seconds),
        settings: context.drains.settings(),
    };
    Some((subject, departure))
}

/// As Cluster API has it, zero is no limit.
fn limit(seconds: Option<i32>) -> Option<Duration> {
    const USUAL: i32 = 600;
    let seconds = u64::try_from(seconds.unwrap_or(USUAL)).unwrap_or_default();
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
