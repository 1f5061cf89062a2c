//! Starts the machine controllers, and connects them: who wakes whom.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use capt_api::conditions::types;
use capt_api::machine::{CaptMachine, CaptMachineSet};
use capt_api::names::labels;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::{Resource, ResourceExt};

use super::context::MachineContext;
use super::{deployment, group, machine, set};
use crate::runtime::cache::{Key, by_owner};
use crate::runtime::conditions::find;
use crate::runtime::dependency_index::interested;
use crate::runtime::queue::Starter;
use crate::runtime::{Cache, Kind, Name, grants};

/// Starts them. None begins before it is known which Clusters are paused.
pub fn start(context: &Arc<MachineContext>, starter: &mut Starter<'_>) {
    let MachineContext { deployments, sets, machines, groups, applies, owners, clusters, .. } =
        context.as_ref();
    starter.start(
        "captmachinedeployment",
        context,
        deployments,
        vec![deployments.listed(), sets.listed(), clusters.listed()],
        vec![
            deployments.changes().boxed(),
            parents(sets, deployments, "CaptMachineDeployment"),
            of_clusters(context, deployments),
        ],
        deployment::reconcile,
    );
    starter.start_large(
        "captmachineset",
        context,
        sets,
        vec![sets.listed(), machines.listed(), clusters.listed()],
        vec![
            sets.changes().boxed(),
            parents(machines, sets, "CaptMachineSet"),
            overlapping(context),
            of_clusters(context, sets),
        ],
        set::pauses,
        set::reconcile,
    );
    starter.start(
        "captmachine",
        context,
        machines,
        // A group that is only not listed yet is not one that exists elsewhere.
        vec![
            machines.listed(),
            applies.listed(),
            groups.listed(),
            context.grants.listed(),
            owners.listed(),
            clusters.listed(),
        ],
        vec![
            machines.changes().boxed(),
            without_suffix(applies.changes(), capt_planner::machine::SUFFIX),
            interested(groups.news(group::same_to_members), "NodeGroup", &context.dependents),
            interested(context.grants.changes(), grants::WATCHED, &context.dependents),
            interested(owners.changes(), "Machine", &context.dependents),
            interested(clusters.changes(), "Cluster", &context.dependents),
            context.drains.changes().boxed(),
            of_clusters(context, machines),
        ],
        machine::reconcile,
    );
    starter.start_large(
        "nodegroup",
        context,
        groups,
        vec![
            groups.listed(),
            machines.listed(),
            applies.listed(),
            context.grants.listed(),
            clusters.listed(),
        ],
        vec![
            groups.changes().boxed(),
            without_suffix(applies.changes(), group::SUFFIX),
            groups_of_members(context),
            context.grants.beside(groups),
            of_clusters(context, groups),
        ],
        group::pauses,
        group::reconcile,
    );
}

/// Index of machines: by owner, by the group that they name, and by the same while they are ready.
pub fn index(machine: &CaptMachine) -> Vec<Key> {
    let group = group::group_of(machine);
    let ready = group.clone().filter(|_| group::is_ready_member(machine));
    let keys = group.map(|group| Key::Refers("NodeGroup", group));
    by_owner(machine)
        .into_iter()
        .chain(keys)
        .chain(ready.map(|group| Key::Ready("NodeGroup", group)))
        .collect()
}

/// Owners of workspaces that changed: their names tell.
pub(crate) fn without_suffix(
    changes: impl Stream<Item = Name> + Send + 'static,
    suffix: &'static str,
) -> BoxStream<'static, Name> {
    let owner = move |name: Name| {
        std::future::ready(
            name.name.strip_suffix(suffix).map(|owner| Name::new(name.namespace.clone(), owner)),
        )
    };
    changes.filter_map(owner).boxed()
}

/// Parents of children that changed: the one they have and the one they had; for a child that nobody owns, or whose
/// owner was never known, all that might take it.
fn parents<K: Kind, P: Kind>(
    children: &Cache<K>,
    parents: &Cache<P>,
    kind: &'static str,
) -> BoxStream<'static, Name> {
    let known: Mutex<HashMap<Name, Name>> = Mutex::default();
    let (cache, all) = (children.clone(), parents.clone());
    let beside = move |child: &Name| {
        let mut near = all.names();
        near.retain(|parent| parent.namespace == child.namespace);
        near
    };
    let touched = move |child: Name| {
        let owner = cache.get(&child).map(|object| owner_of(object.as_ref(), kind));
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = match owner {
            Some(Owner::Parent(parent)) => {
                let before = known.insert(child, parent.clone()).filter(|before| *before != parent);
                before.into_iter().chain([parent]).collect()
            }
            Some(Owner::Other) => known.remove(&child).into_iter().collect(),
            Some(Owner::Nobody) => {
                known.remove(&child);
                beside(&child)
            }
            None => known.remove(&child).map_or_else(|| beside(&child), |parent| vec![parent]),
        };
        futures::stream::iter(touched)
    };
    children.changes().flat_map(touched).boxed()
}

enum Owner {
    Parent(Name),
    Other,
    Nobody,
}

fn owner_of<K: Resource>(child: &K, kind: &str) -> Owner {
    let mut owners = child.meta().owner_references.iter().flatten();
    match owners.find(|owner| owner.controller == Some(true)) {
        None => Owner::Nobody,
        Some(owner) if owner.kind == kind => {
            Owner::Parent(Name::new(child.namespace().unwrap_or_default(), owner.name.clone()))
        }
        Some(_) => Owner::Other,
    }
}

/// Sets that a new set has machines in common with, or that one that went had.
fn overlapping(context: &Arc<MachineContext>) -> BoxStream<'static, Name> {
    let known: Mutex<HashSet<Name>> = Mutex::default();
    let sets = context.sets.clone();
    let touched = move |name: Name| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let touched: Vec<Name> = match sets.get(&name) {
            Some(new) if known.insert(name.clone()) => {
                let names = set::overlap::overlapping(&new, &sets.all()).into_iter();
                names.map(|other| Name::new(name.namespace.clone(), other)).collect()
            }
            Some(_) => Vec::new(),
            None => {
                known.remove(&name);
                let told = |set: &Arc<CaptMachineSet>| {
                    let status = set.status.as_ref();
                    status.is_some_and(|status| find(&status.conditions, types::SELECTOR_OVERLAPS).is_some())
                };
                sets.all().iter().filter(|set| told(set)).map(|set| Name::of(set.as_ref())).collect()
            }
        };
        futures::stream::iter(touched)
    };
    context.sets.changes().flat_map(touched).boxed()
}

/// Groups whose members came, went, or became ready or unready.
fn groups_of_members(context: &Arc<MachineContext>) -> BoxStream<'static, Name> {
    let known: Mutex<HashMap<Name, (Name, bool)>> = Mutex::default();
    let (machines, groups) = (context.machines.clone(), context.groups.clone());
    let touched = move |name: Name| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = match machines.get(&name) {
            // A member that changed in another way counts as before.
            Some(machine) => match group::group_of(&machine) {
                Some(group) => {
                    let ready = group::is_ready_member(&machine);
                    match known.insert(name, (group.clone(), ready)) {
                        Some(before) if before == (group.clone(), ready) => Vec::new(),
                        Some((before, _)) if before != group => vec![before, group],
                        _ => vec![group],
                    }
                }
                None => Vec::new(),
            },
            None => known.remove(&name).map_or_else(|| groups.names(), |(group, _)| vec![group]),
        };
        futures::stream::iter(touched)
    };
    context.machines.changes().flat_map(touched).boxed()
}

/// Objects of a Cluster that was paused, or is not any more.
fn of_clusters<K: Kind>(context: &Arc<MachineContext>, cache: &Cache<K>) -> BoxStream<'static, Name> {
    let cache = cache.clone();
    let members = move |cluster: Name| {
        let all = cache.all();
        let members = all.iter().filter(|object| {
            object.meta().namespace.as_ref() == Some(&cluster.namespace)
                && object.labels().get(labels::CLUSTER_NAME) == Some(&cluster.name)
        });
        futures::stream::iter(members.map(|object| Name::of(object.as_ref())).collect::<Vec<_>>())
    };
    context.clusters.changes().flat_map(members).boxed()
}
