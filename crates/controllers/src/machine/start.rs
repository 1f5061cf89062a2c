//! Starts the machine controllers, and connects them: who wakes whom.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use capt_api::names::labels;
use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt};
use kube::{Resource, ResourceExt};
use tokio::task::JoinSet;

use super::context::Context;
use super::{deployment, group, set, single};
use crate::manager::interested;
use crate::runtime::{Cache, Kind, Name, queue};

/// Starts them.
pub fn start(context: &Arc<Context>, concurrency: u16, tasks: &mut JoinSet<()>) {
    run_deployments(context, concurrency, tasks);
    run_sets(context, concurrency, tasks);
    run_machines(context, concurrency, tasks);
    run_groups(context, concurrency, tasks);
}

fn run_deployments(context: &Arc<Context>, concurrency: u16, tasks: &mut JoinSet<()>) {
    let triggers: Vec<BoxStream<'static, Name>> = vec![
        context.deployments.changes().boxed(),
        parents(&context.sets, &context.deployments, "CaptMachineDeployment"),
        of_clusters(context, &context.deployments),
    ];
    let work = Arc::clone(context);
    tasks.spawn(async move {
        futures::join!(work.deployments.ready(), work.sets.ready());
        let (cache, metrics) = (work.deployments.clone(), Arc::clone(&work.metrics));
        let reconcile = move |object| deployment::reconcile(Arc::clone(&work), object);
        let triggers = select_all(triggers);
        queue::run("captmachinedeployment", &cache, triggers, concurrency, metrics, reconcile).await;
    });
}

fn run_sets(context: &Arc<Context>, concurrency: u16, tasks: &mut JoinSet<()>) {
    let triggers: Vec<BoxStream<'static, Name>> = vec![
        context.sets.changes().boxed(),
        parents(&context.machines, &context.sets, "CaptMachineSet"),
        of_clusters(context, &context.sets),
    ];
    let work = Arc::clone(context);
    tasks.spawn(async move {
        futures::join!(work.sets.ready(), work.machines.ready());
        let (cache, metrics) = (work.sets.clone(), Arc::clone(&work.metrics));
        let reconcile = move |object| set::reconcile(Arc::clone(&work), object);
        queue::run("captmachineset", &cache, select_all(triggers), concurrency, metrics, reconcile).await;
    });
}

fn run_machines(context: &Arc<Context>, concurrency: u16, tasks: &mut JoinSet<()>) {
    let triggers: Vec<BoxStream<'static, Name>> = vec![
        context.machines.changes().boxed(),
        without_suffix(context.applies.changes(), single::SUFFIX),
        interested(context.groups.changes(), "NodeGroup", &context.interests),
        of_clusters(context, &context.machines),
    ];
    let work = Arc::clone(context);
    tasks.spawn(async move {
        // A group that is only not listed yet is not one that exists elsewhere.
        futures::join!(work.machines.ready(), work.applies.ready(), work.groups.ready());
        let (cache, metrics) = (work.machines.clone(), Arc::clone(&work.metrics));
        let reconcile = move |object| single::reconcile(Arc::clone(&work), object);
        queue::run("captmachine", &cache, select_all(triggers), concurrency, metrics, reconcile).await;
    });
}

fn run_groups(context: &Arc<Context>, concurrency: u16, tasks: &mut JoinSet<()>) {
    let triggers: Vec<BoxStream<'static, Name>> = vec![
        context.groups.changes().boxed(),
        without_suffix(context.applies.changes(), group::SUFFIX),
        groups_of_members(context),
        of_clusters(context, &context.groups),
    ];
    let work = Arc::clone(context);
    tasks.spawn(async move {
        futures::join!(work.groups.ready(), work.machines.ready(), work.applies.ready());
        let (cache, metrics) = (work.groups.clone(), Arc::clone(&work.metrics));
        let reconcile = move |object| group::reconcile(Arc::clone(&work), object);
        queue::run("nodegroup", &cache, select_all(triggers), concurrency, metrics, reconcile).await;
    });
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
        let all = all.all();
        let near = all.iter().filter(|parent| parent.meta().namespace.as_ref() == Some(&child.namespace));
        near.map(|parent| Name::of(parent.as_ref())).collect::<Vec<_>>()
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

/// Groups whose members came or went.
fn groups_of_members(context: &Arc<Context>) -> BoxStream<'static, Name> {
    let known: Mutex<HashMap<Name, Name>> = Mutex::default();
    let (machines, groups) = (context.machines.clone(), context.groups.clone());
    let touched = move |name: Name| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = match machines.get(&name) {
            // A member that only changed is still a member.
            Some(machine) => match group::group_of(&machine) {
                Some(group) => match known.insert(name, group.clone()) {
                    Some(before) if before == group => Vec::new(),
                    before => before.into_iter().chain([group]).collect(),
                },
                None => Vec::new(),
            },
            None => known.remove(&name).map_or_else(
                || groups.all().iter().map(|group| Name::of(group.as_ref())).collect(),
                |group| vec![group],
            ),
        };
        futures::stream::iter(touched)
    };
    context.machines.changes().flat_map(touched).boxed()
}

/// Objects of a Cluster that was paused, or is not any more.
fn of_clusters<K: Kind>(context: &Arc<Context>, cache: &Cache<K>) -> BoxStream<'static, Name> {
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
