//! Starts the controllers, and connects them: who wakes whom.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capt_api::workspace::{WorkspaceProviderConfig, WorkspaceTemplate};
use capt_planner::set::Settings;
use capt_terraform::Executor;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, ResourceExt};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::cluster::{self, core::ClusterApi};
use crate::machines;
use crate::runtime::backoff::Backoff;
use crate::runtime::cache::{Cache, Index, by_owner, metadata_changes, no_index, same_but_status};
use crate::runtime::dependency_index::interested;
use crate::runtime::events::Events;
use crate::runtime::metrics::Metrics;
use crate::runtime::queue::{Pace, Round, Starter};
use crate::runtime::status::StatusWriter;
use crate::runtime::{
    Clock, Clusters, CrossNamespace, Expectations, FirstList, Grants, Kind, Name, Owners, SystemClock,
    Writer, grants,
};
use crate::workspace::context::{MANAGER, WorkspaceContext, instance_of};
use crate::workspace::state_secrets::SecretStateBackend;
use crate::workspace::{apply, provider_config, template};

/// Options of the controllers.
#[derive(Clone)]
pub struct Options {
    /// Objects of one kind that are looked at at the same time.
    pub concurrency: u16,
    /// The least time between two looks at one object that changes bring.
    pub pause: Duration,
    /// Interval at which every object is looked at though nothing changed.
    pub resync: Duration,
    /// Delay before a run that failed is tried again.
    pub backoff: Backoff,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// The state backend that the engine has, where it has one.
    pub state_backend: Option<Arc<SecretStateBackend>>,
    /// Settings of the controller of machine sets.
    pub machines: Settings,
    /// Choice of the controller that reconciles Clusters.
    pub cluster_api: ClusterApi,
    /// Policy for references across namespaces.
    pub cross_namespace: CrossNamespace,
    /// Settings for draining Nodes.
    pub drain: capt_planner::machine::DrainSettings,
    /// Settings for probing control planes.
    pub probe: cluster::probe::ProbeSettings,
    /// Name of this process in events.
    pub instance: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrency: 16,
            pause: Duration::from_millis(100),
            resync: Duration::from_secs(10 * 60),
            backoff: Backoff::RUN,
            clock: Arc::new(SystemClock),
            state_backend: None,
            machines: Settings::default(),
            cluster_api: ClusterApi::default(),
            cross_namespace: CrossNamespace::default(),
            drain: capt_planner::machine::DrainSettings::default(),
            probe: cluster::probe::ProbeSettings::default(),
            instance: None,
        }
    }
}

impl Options {
    /// Returns the concurrency and the intervals of each controller.
    fn pace(&self) -> Pace {
        Pace { concurrency: usize::from(self.concurrency.max(1)), pause: self.pause, resync: self.resync }
    }
}

/// Running controllers. They stop when this is dropped; runs of Terraform go on.
pub struct Controllers {
    tasks: JoinSet<()>,
    metrics: Arc<Metrics>,
    caches: Vec<FirstList>,
    events: Events,
    round: Round,
    /// Writes the events of all the others, and ends after them.
    _writer: JoinSet<()>,
}

impl Controllers {
    /// Starts all controllers.
    pub fn start(client: &Client, executor: Arc<dyn Executor>, options: &Options) -> Self {
        let mut tasks = JoinSet::new();
        let metrics = Arc::new(Metrics::default());
        let (events, work) = Events::new(client.clone(), "capt", options.instance.clone());
        let mut writer = JoinSet::new();
        writer.spawn(work);
        let context = Arc::new(context(client, executor, (events.clone(), &metrics), options, &mut tasks));
        let machines = Arc::new(machine_context(&context, options, &mut tasks));
        let access = cluster::access::AccessContext::new(Arc::clone(&context));
        let (networks, planes) = (cached(client, no_index, &mut tasks), cached(client, no_index, &mut tasks));
        let probes = cluster::probe::Probes::new(options.probe);
        let clusters =
            Arc::new(cluster::ClusterPartContext::new(&machines, networks, planes, access, probes));
        let caches = caches(&context, &machines, &clusters);
        let round = Round::default();
        let mut starter =
            Starter { tasks: &mut tasks, pace: options.pace(), metrics: &metrics, round: &round };
        start_workspaces(&context, &mut starter);
        machines::start(&machines, &mut starter);
        cluster::start(&clusters, &mut starter);
        cluster::core::start(&machines, options.cluster_api, options.pace(), &metrics, &mut tasks);
        Self { tasks, metrics, caches, events, round, _writer: writer }
    }

    /// Returns the counters of the controllers.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The caches that they decide by.
    pub fn caches(&self) -> &[FirstList] {
        &self.caches
    }

    /// Ends when each of them has looked once at everything that was there when it began, and has told what it found. Clusters
    /// are left out: what they say follows from what they are made of.
    pub fn looked(&self) -> impl Future<Output = ()> + Send + use<> {
        self.round.over()
    }

    /// Stops them, and writes what they told.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.events.flush().await;
    }

    /// Waits until one of them ends, which none should.
    pub async fn ended(&mut self) {
        self.tasks.join_next().await;
    }
}

fn cached<K: Kind>(client: &Client, index: Index<K>, tasks: &mut JoinSet<()>) -> Cache<K> {
    let (cache, work) = Cache::new(Api::all(client.clone()), index);
    tasks.spawn(work);
    cache
}

/// Lists the caches that they all decide by. The Clusters that CAPT takes care of itself are among those that everybody follows.
fn caches(
    context: &WorkspaceContext,
    machines: &machines::MachineContext,
    clusters: &cluster::ClusterPartContext,
) -> Vec<FirstList> {
    let mut caches = vec![
        context.templates.first_list(),
        context.applies.first_list(),
        context.configs.first_list(),
        machines.clusters.first_list(),
        machines.owners.first_list(),
        machines.deployments.first_list(),
        machines.sets.first_list(),
        machines.machines.first_list(),
        machines.groups.first_list(),
        clusters.networks.first_list(),
        clusters.planes.first_list(),
    ];
    caches.extend(context.grants.first_list());
    caches
}

fn context(
    client: &Client,
    executor: Arc<dyn Executor>,
    (events, metrics): (Events, &Arc<Metrics>),
    options: &Options,
    tasks: &mut JoinSet<()>,
) -> WorkspaceContext {
    let (applies, work) = Cache::packed(Api::all(client.clone()), apply::dependencies::index);
    tasks.spawn(work);
    WorkspaceContext {
        client: client.clone(),
        executor,
        state_backend: options.state_backend.clone(),
        clock: Arc::clone(&options.clock),
        backoff: options.backoff,
        events,
        metrics: Arc::clone(metrics),
        templates: cached::<WorkspaceTemplate>(client, no_index, tasks),
        applies,
        configs: cached::<WorkspaceProviderConfig>(client, no_index, tasks),
        grants: Grants::new(client, options.cross_namespace, tasks),
        dependents: Arc::default(),
        config_interests: Arc::default(),
        history: apply::history::RunHistory::default(),
        backends: apply::backends::Backends::default(),
        apply_status: StatusWriter::new(MANAGER),
        template_status: StatusWriter::with_details(MANAGER, template::gist),
        config_status: StatusWriter::new(MANAGER),
    }
}

fn machine_context(
    workspaces: &WorkspaceContext,
    options: &Options,
    tasks: &mut JoinSet<()>,
) -> machines::MachineContext {
    let client = &workspaces.client;
    let (clusters, work) = Clusters::new(client.clone());
    tasks.spawn(work);
    let (owners, work) = Owners::new(client.clone());
    tasks.spawn(work);
    machines::MachineContext {
        writer: Writer::new(client.clone(), machines::context::MANAGER),
        clock: Arc::clone(&options.clock),
        events: workspaces.events.clone(),
        settings: options.machines,
        clusters,
        owners,
        drains: machines::drain::Drains::new(options.drain),
        deployments: cached(client, no_index, tasks),
        sets: cached(client, by_owner, tasks),
        machines: cached(client, machines::index, tasks),
        groups: cached(client, no_index, tasks),
        applies: workspaces.applies.clone(),
        own_deployments: Expectations::default(),
        own_sets: Expectations::default(),
        set_writes: Expectations::default(),
        machine_writes: Expectations::default(),
        apply_writes: Expectations::default(),
        group_writes: Expectations::default(),
        absent: machines::context::Absent::default(),
        grants: workspaces.grants.clone(),
        dependents: Arc::default(),
        machine_status: StatusWriter::new(machines::context::MANAGER),
        group_status: StatusWriter::with_details(machines::context::MANAGER, machines::group::report::gist),
    }
}

fn start_workspaces(context: &Arc<WorkspaceContext>, starter: &mut Starter<'_>) {
    let WorkspaceContext {
        client, templates, applies, configs, grants, dependents, config_interests, ..
    } = context.as_ref();
    // An instance is looked at when it changes, when what it looked at changes, and when its run moves on.
    starter.start(
        "workspacetemplateapply",
        context,
        applies,
        vec![templates.listed(), configs.listed(), applies.listed(), grants.listed()],
        vec![
            applies.changes().boxed(),
            interested(applies.changes(), "WorkspaceTemplateApply", dependents),
            interested(templates.news(same_but_status), "WorkspaceTemplate", dependents),
            interested(configs.news(same_but_status), "WorkspaceProviderConfig", dependents),
            interested(metadata_changes::<Secret>(client), "Secret", dependents),
            interested(metadata_changes::<ConfigMap>(client), "ConfigMap", dependents),
            interested(grants.changes(), grants::WATCHED, dependents),
            run_changes(context),
        ],
        apply::reconcile,
    );
    starter.start_large(
        "workspacetemplate",
        context,
        templates,
        vec![templates.listed(), applies.listed(), grants.listed()],
        vec![templates.changes().boxed(), templates_of_users(context), grants.beside(templates)],
        template::pauses,
        template::reconcile,
    );
    starter.start(
        "workspaceproviderconfig",
        context,
        configs,
        vec![configs.listed(), grants.listed()],
        vec![
            configs.changes().boxed(),
            interested(metadata_changes::<Secret>(client), "Secret", config_interests),
            interested(grants.changes(), grants::WATCHED, config_interests),
        ],
        provider_config::reconcile,
    );
}

/// Instances whose run moved on; all of them after falling behind.
fn run_changes(context: &Arc<WorkspaceContext>) -> BoxStream<'static, Name> {
    let applies = context.applies.clone();
    let receiver = context.executor.changes();
    futures::stream::unfold((receiver, applies), |(mut receiver, applies)| async move {
        let batch = match receiver.recv().await {
            Ok(workspace) => instance_of(&workspace).into_iter().collect(),
            Err(broadcast::error::RecvError::Lagged(_)) => applies.names(),
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        Some((futures::stream::iter(batch), (receiver, applies)))
    })
    .flatten()
    .boxed()
}

/// Templates whose users came or went. A user that only changed is still a user.
fn templates_of_users(context: &Arc<WorkspaceContext>) -> BoxStream<'static, Name> {
    let known = Mutex::new(HashSet::new());
    let (applies, templates) = (context.applies.clone(), context.templates.clone());
    let touched = move |name: Name| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = if known.contains(&name) && applies.has(&name) {
            Vec::new()
        } else if let Some(user) = applies.get(&name) {
            known.insert(name);
            vec![Name::mentioned(&user.spec.template_ref, &user.namespace().unwrap_or_default())]
        } else {
            known.remove(&name);
            templates.names()
        };
        futures::stream::iter(touched)
    };
    context.applies.changes().flat_map(touched).boxed()
}
