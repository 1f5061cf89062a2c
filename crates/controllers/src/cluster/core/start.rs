//! Starts the controller where the CRD of Cluster is CAPT's, and stops it where it is not any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capt_api::cluster::core::Cluster;
use capt_api::names::labels;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;

use super::contract_refs::Parts;
use super::install::{self, Installed};
use super::{ClusterApi, ClusterContext, MANAGER};
use crate::machines;
use crate::runtime::cache::no_index;
use crate::runtime::metrics::Metrics;
use crate::runtime::owners::controller_uid;
use crate::runtime::queue::{Pace, Round, Starter};
use crate::runtime::status::StatusWriter;
use crate::runtime::{Cache, Kind, Name, Writer, queue};

/// Delay before the CRD is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Starts it, as far as `mode` wants it.
pub fn start(
    machines: &Arc<machines::MachineContext>,
    mode: ClusterApi,
    pace: Pace,
    metrics: &Arc<Metrics>,
    tasks: &mut JoinSet<()>,
) {
    if mode == ClusterApi::Core {
        return;
    }
    let (machines, metrics) = (Arc::clone(machines), Arc::clone(metrics));
    tasks.spawn(async move {
        if mode == ClusterApi::Own {
            put_crd(machines.writer.client()).await;
        }
        supervise(&machines, pace, &metrics).await;
    });
}

async fn put_crd(client: &Client) {
    loop {
        match install::install(client).await {
            Ok(Installed::Ours) => return,
            Ok(Installed::Theirs) => {
                tracing::error!(
                    crd = install::NAME,
                    "is not CAPT's: its Clusters are left to Cluster API core"
                );
                return;
            }
            Err(error) => tracing::warn!(error = queue::chain(&error), "again later"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Follows the CRD, which may come, go, or become somebody else's at any time.
async fn supervise(machines: &Arc<machines::MachineContext>, pace: Pace, metrics: &Arc<Metrics>) {
    let client = machines.writer.client();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let events = watcher::watch_object(crds, install::NAME).default_backoff();
    futures::pin_mut!(events);
    let (mut running, mut left) = (None::<JoinSet<()>>, false);
    while let Some(event) = events.next().await {
        let ours = match event {
            Ok(crd) => crd.is_some_and(|crd| install::is_ours(&crd) && install::is_served(&crd)),
            Err(error) => {
                tracing::debug!(%error, "watch of the CRD of Cluster failed, goes on");
                continue;
            }
        };
        if ours && running.is_none() {
            tracing::info!("Cluster API core is not installed: CAPT takes care of Clusters");
            running = Some(run(machines, pace, metrics));
        } else if !ours && (running.take().is_some() || !left) {
            tracing::info!(crd = install::NAME, "is not there, or not CAPT's: Clusters are left alone");
        }
        left = !ours;
    }
}

/// The controller, until what is given back is dropped.
fn run(machines: &Arc<machines::MachineContext>, pace: Pace, metrics: &Arc<Metrics>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let client = machines.writer.client();
    let (clusters, work) = Cache::<Cluster>::new(Api::all(client.clone()), no_index);
    tasks.spawn(work);
    let context = Arc::new(ClusterContext {
        writer: Writer::new(client.clone(), MANAGER),
        clock: Arc::clone(&machines.clock),
        events: machines.events.clone(),
        status: StatusWriter::with_details(MANAGER, super::report::gist),
        parts: Parts::new(client.clone()),
        deployments: machines.deployments.clone(),
        sets: machines.sets.clone(),
        machines: machines.machines.clone(),
        groups: machines.groups.clone(),
        clusters,
    });
    let triggers: Vec<BoxStream<'static, Name>> = vec![
        context.clusters.changes().boxed(),
        context.parts.changes(&context.clusters).boxed(),
        of_workers(&context.deployments, &context.clusters, true),
        of_workers(&context.sets, &context.clusters, false),
        of_workers(&context.machines, &context.clusters, false),
        of_workers(&context.groups, &context.clusters, false),
    ];
    let ClusterContext { clusters, deployments, sets, machines, groups, .. } = context.as_ref();
    let listed =
        vec![clusters.listed(), deployments.listed(), sets.listed(), machines.listed(), groups.listed()];
    let mut starter = Starter { tasks: &mut tasks, pace, metrics, round: &Round::default() };
    starter.start("cluster", &context, clusters, listed, triggers, super::reconcile);
    tasks
}

/// Clusters whose workers changed. Of those that somebody controls only their coming and going matters, and only to a
/// Cluster that waits for the end of them: many machines change often.
fn of_workers<K: Kind>(
    workers: &Cache<K>,
    clusters: &Cache<Cluster>,
    always: bool,
) -> BoxStream<'static, Name> {
    // Whose it is, and whether nobody controls it.
    let known: Mutex<HashMap<Name, (Name, bool)>> = Mutex::default();
    let (cache, clusters) = (workers.clone(), clusters.clone());
    let touched = move |name: Name| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = match cache.get(&name) {
            Some(object) => {
                let cluster = object.labels().get(labels::CLUSTER_NAME);
                let now = cluster.map(|cluster| Name::new(name.namespace.clone(), cluster.clone()));
                let matters = always || controller_uid(object.as_ref()).is_none();
                let before = match &now {
                    Some(now) => known.insert(name, (now.clone(), matters)),
                    None => known.remove(&name),
                };
                let moved = before.map(|(before, _)| before).filter(|before| Some(before) != now.as_ref());
                let now = now.filter(|now| matters || is_going(&clusters, now));
                moved.into_iter().chain(now).collect::<Vec<_>>()
            }
            None => known
                .remove(&name)
                .into_iter()
                .filter(|(cluster, matters)| *matters || is_going(&clusters, cluster))
                .map(|(cluster, _)| cluster)
                .collect(),
        };
        futures::stream::iter(touched)
    };
    workers.changes().flat_map(touched).boxed()
}

fn is_going(clusters: &Cache<Cluster>, name: &Name) -> bool {
    clusters.get(name).is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some())
}
