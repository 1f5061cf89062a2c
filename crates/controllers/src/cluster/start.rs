//! Starts the controllers of networks and control planes, and connects them: who wakes whom.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;

use super::context::{ClusterPartContext, cluster_of};
use super::{control_plane, network};
use crate::machines::without_suffix;
use crate::runtime::cache::{metadata_changes, same_but_status};
use crate::runtime::dependency_index::interested;
use crate::runtime::queue::Starter;
use crate::runtime::{Cache, Kind, Name, grants};

/// Starts them.
pub fn start(context: &Arc<ClusterPartContext>, starter: &mut Starter<'_>) {
    let ClusterPartContext { networks, planes, clusters, applies, dependents, .. } = context.as_ref();
    let mut triggers: Vec<BoxStream<'static, Name>> = vec![
        networks.changes().boxed(),
        without_suffix(applies.changes(), capt_planner::cluster::network::SUFFIX),
        of_cluster(clusters.changes(), networks),
        beside(planes.changes(), networks, false),
    ];
    triggers.extend(leaving(context, networks));
    starter.start("captcluster", context, networks, everything(context), triggers, network::reconcile);

    let workspaces = &context.access.workspaces;
    let client = context.writer.client();
    let mut triggers: Vec<BoxStream<'static, Name>> = vec![
        planes.changes().boxed(),
        without_suffix(applies.changes(), capt_planner::cluster::control_plane::SUFFIX),
        of_cluster(clusters.changes(), planes),
        beside(networks.changes(), planes, false),
        interested(workspaces.templates.news(same_but_status), "WorkspaceTemplate", dependents),
        interested(workspaces.configs.news(same_but_status), "WorkspaceProviderConfig", dependents),
        interested(workspaces.grants.changes(), grants::WATCHED, dependents),
        context.probes.changes().boxed(),
        interested(metadata_changes::<Secret>(client), "Secret", dependents),
        interested(metadata_changes::<ConfigMap>(client), "ConfigMap", dependents),
    ];
    triggers.extend(leaving(context, planes));
    let mut listed = everything(context);
    listed.extend([workspaces.templates.listed(), workspaces.configs.listed(), workspaces.grants.listed()]);
    starter.start("captcontrolplane", context, planes, listed, triggers, control_plane::reconcile);
}

/// Futures of the first list of every kind: an object that is only not listed yet is neither missing nor gone.
fn everything(context: &ClusterPartContext) -> Vec<BoxFuture<'static, ()>> {
    vec![
        context.clusters.listed(),
        context.networks.listed(),
        context.planes.listed(),
        context.applies.listed(),
        context.deployments.listed(),
        context.sets.listed(),
        context.machines.listed(),
        context.groups.listed(),
    ]
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
fn leaving<K: Kind>(context: &ClusterPartContext, cache: &Cache<K>) -> Vec<BoxStream<'static, Name>> {
    vec![
        beside(context.deployments.changes(), cache, true),
        beside(context.sets.changes(), cache, true),
        beside(context.machines.changes(), cache, true),
        beside(context.groups.changes(), cache, true),
    ]
}
