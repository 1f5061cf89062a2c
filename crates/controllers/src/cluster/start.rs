//! Starts the controllers of networks and control planes, and connects them: who wakes whom.

use std::sync::Arc;

use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use tokio::task::JoinSet;

use super::context::{Context, cluster_of};
use super::{control_plane, network};
use crate::machine::without_suffix;
use crate::manager::interested;
use crate::runtime::cache::metadata_changes;
use crate::runtime::{Cache, Kind, Name, queue};

/// Starts them.
pub fn start(context: &Arc<Context>, concurrency: u16, tasks: &mut JoinSet<()>) {
    run_networks(context, concurrency, tasks);
    run_planes(context, concurrency, tasks);
}

fn run_networks(context: &Arc<Context>, concurrency: u16, tasks: &mut JoinSet<()>) {
    let networks = &context.networks;
    let mut triggers: Vec<BoxStream<'static, Name>> = vec![
        networks.changes().boxed(),
        without_suffix(context.applies.changes(), capt_planner::cluster::network::SUFFIX),
        of_cluster(context.clusters.any_changes(), networks),
        beside(context.planes.changes(), networks, false),
    ];
    triggers.extend(leaving(context, networks));
    let work = Arc::clone(context);
    tasks.spawn(async move {
        everything(&work).await;
        let (cache, metrics) = (work.networks.clone(), Arc::clone(&work.metrics));
        let reconcile = move |object| network::reconcile(Arc::clone(&work), object);
        queue::run("captcluster", &cache, select_all(triggers), concurrency, metrics, reconcile).await;
    });
}

fn run_planes(context: &Arc<Context>, concurrency: u16, tasks: &mut JoinSet<()>) {
    let (planes, interests) = (&context.planes, &context.interests);
    let workspaces = &context.access.workspaces;
    let client = context.writer.client();
    let mut triggers: Vec<BoxStream<'static, Name>> = vec![
        planes.changes().boxed(),
        without_suffix(context.applies.changes(), capt_planner::cluster::control_plane::SUFFIX),
        of_cluster(context.clusters.any_changes(), planes),
        beside(context.networks.changes(), planes, false),
        interested(workspaces.templates.changes(), "WorkspaceTemplate", interests),
        interested(workspaces.configs.changes(), "WorkspaceProviderConfig", interests),
        interested(metadata_changes::<Secret>(client), "Secret", interests),
        interested(metadata_changes::<ConfigMap>(client), "ConfigMap", interests),
    ];
    triggers.extend(leaving(context, planes));
    let work = Arc::clone(context);
    tasks.spawn(async move {
        let workspaces = &work.access.workspaces;
        futures::join!(everything(&work), workspaces.templates.ready(), workspaces.configs.ready());
        let (cache, metrics) = (work.planes.clone(), Arc::clone(&work.metrics));
        let reconcile = move |object| control_plane::reconcile(Arc::clone(&work), object);
        queue::run("captcontrolplane", &cache, select_all(triggers), concurrency, metrics, reconcile).await;
    });
}

/// What is only not listed yet is neither missing nor gone.
async fn everything(context: &Context) {
    futures::join!(
        context.clusters.ready(),
        context.networks.ready(),
        context.planes.ready(),
        context.applies.ready(),
        context.deployments.ready(),
        context.sets.ready(),
        context.machines.ready(),
        context.groups.ready(),
    );
}

/// Objects of a Cluster that changed.
fn of_cluster<K: Kind>(
    changes: impl Stream<Item = Name> + Send + 'static,
    cache: &Cache<K>,
) -> BoxStream<'static, Name> {
    let cache = cache.clone();
    let members = move |cluster: Name| {
        let all = cache.all();
        let members = all.iter().filter(|object| cluster_of(object.as_ref()).as_ref() == Some(&cluster));
        futures::stream::iter(members.map(|object| Name::of(object.as_ref())).collect::<Vec<_>>())
    };
    changes.flat_map(members).boxed()
}

/// Objects in the namespace of what changed: there are few. `going`: only those that are on their way out.
fn beside<K: Kind>(
    changes: impl Stream<Item = Name> + Send + 'static,
    cache: &Cache<K>,
    going: bool,
) -> BoxStream<'static, Name> {
    let cache = cache.clone();
    let near = move |changed: Name| {
        let all = cache.all();
        let near = all.iter().filter(|object| {
            object.namespace().as_ref() == Some(&changed.namespace)
                && (!going || object.meta().deletion_timestamp.is_some())
        });
        futures::stream::iter(near.map(|object| Name::of(object.as_ref())).collect::<Vec<_>>())
    };
    changes.flat_map(near).boxed()
}

/// Objects that wait for the end of groups and machines.
fn leaving<K: Kind>(context: &Context, cache: &Cache<K>) -> Vec<BoxStream<'static, Name>> {
    vec![
        beside(context.deployments.changes(), cache, true),
        beside(context.sets.changes(), cache, true),
        beside(context.machines.changes(), cache, true),
        beside(context.groups.changes(), cache, true),
    ]
}
