//! Starts the controllers, and connects them: who wakes whom.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use capt_api::workspace::{WorkspaceProviderConfig, WorkspaceTemplate, WorkspaceTemplateApply};
use capt_planner::set::Settings;
use capt_terraform::Engine;
use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, ResourceExt};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::cluster::{self, core::ClusterApi};
use crate::machine;
use crate::runtime::backoff::Backoff;
use crate::runtime::cache::{Cache, metadata_changes};
use crate::runtime::events::Events;
use crate::runtime::interests::{Interests, Watched};
use crate::runtime::metrics::Metrics;
use crate::runtime::status::StatusWriter;
use crate::runtime::{Clock, Clusters, Name, OwnWrites, SystemClock, Writer, queue};
use crate::workspace::context::{Context, MANAGER, instance_of};
use crate::workspace::keeper::SecretKeeper;
use crate::workspace::{apply, provider_config, template};

/// How the controllers work.
#[derive(Clone)]
pub struct Options {
    /// Objects of one kind that are looked at at the same time.
    pub concurrency: u16,
    /// How long to wait after a run that failed.
    pub backoff: Backoff,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// The keeper that the engine has, where it has one.
    pub keeper: Option<Arc<SecretKeeper>>,
    /// How sets of machines work.
    pub machines: Settings,
    /// Who takes care of Clusters.
    pub cluster_api: ClusterApi,
    /// Name of this process in events.
    pub instance: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrency: 16,
            backoff: Backoff::RUN,
            clock: Arc::new(SystemClock),
            keeper: None,
            machines: Settings::default(),
            cluster_api: ClusterApi::default(),
            instance: None,
        }
    }
}

/// Running controllers. They stop when this is dropped; runs of Terraform go on.
#[derive(Debug)]
pub struct Controllers {
    tasks: JoinSet<()>,
    metrics: Arc<Metrics>,
}

impl Controllers {
    /// Starts all controllers.
    pub fn start(client: &Client, engine: &Engine, options: &Options) -> Self {
        let mut tasks = JoinSet::new();
        let metrics = Arc::new(Metrics::default());
        let context = Arc::new(context(client, engine, options, &metrics, &mut tasks));
        run_applies(&context, options, &mut tasks);
        run_templates(&context, options, &mut tasks);
        run_configs(&context, options, &mut tasks);
        let machines = Arc::new(machine_context(&context, options, &mut tasks));
        machine::start(&machines, options.concurrency, &mut tasks);
        let access = cluster::access::AccessContext::new(Arc::clone(&context));
        let (networks, planes) = (cached(client, &mut tasks), cached(client, &mut tasks));
        let clusters = Arc::new(cluster::Context::new(&machines, networks, planes, access));
        cluster::start(&clusters, options.concurrency, &mut tasks);
        cluster::core::start(&machines, options.cluster_api, options.concurrency, &mut tasks);
        Self { tasks, metrics }
    }

    /// What the controllers count.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Waits until one of them ends, which none should.
    pub async fn ended(&mut self) {
        self.tasks.join_next().await;
    }
}

fn cached<K>(client: &Client, tasks: &mut JoinSet<()>) -> Cache<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (cache, work) = Cache::new(Api::all(client.clone()));
    tasks.spawn(work);
    cache
}

fn context(
    client: &Client,
    engine: &Engine,
    options: &Options,
    metrics: &Arc<Metrics>,
    tasks: &mut JoinSet<()>,
) -> Context {
    Context {
        client: client.clone(),
        engine: engine.clone(),
        keeper: options.keeper.clone(),
        clock: Arc::clone(&options.clock),
        backoff: options.backoff,
        events: Events::new(client.clone(), "capt", options.instance.clone()),
        metrics: Arc::clone(metrics),
        templates: cached::<WorkspaceTemplate>(client, tasks),
        applies: cached::<WorkspaceTemplateApply>(client, tasks),
        configs: cached::<WorkspaceProviderConfig>(client, tasks),
        interests: Arc::default(),
        config_interests: Arc::default(),
        history: apply::history::RunHistory::default(),
        apply_status: StatusWriter::new(MANAGER),
        template_status: StatusWriter::new(MANAGER),
        config_status: StatusWriter::new(MANAGER),
    }
}

fn machine_context(workspaces: &Context, options: &Options, tasks: &mut JoinSet<()>) -> machine::Context {
    let client = &workspaces.client;
    let (clusters, work) = Clusters::new(client.clone());
    tasks.spawn(work);
    machine::Context {
        writer: Writer::new(client.clone(), machine::context::MANAGER),
        clock: Arc::clone(&options.clock),
        events: workspaces.events.clone(),
        metrics: Arc::clone(&workspaces.metrics),
        settings: options.machines,
        clusters,
        deployments: cached(client, tasks),
        sets: cached(client, tasks),
        machines: cached(client, tasks),
        groups: cached(client, tasks),
        applies: workspaces.applies.clone(),
        own_deployments: OwnWrites::default(),
        own_sets: OwnWrites::default(),
        set_writes: OwnWrites::default(),
        machine_writes: OwnWrites::default(),
        apply_writes: OwnWrites::default(),
        group_writes: OwnWrites::default(),
        absent: machine::context::Absent::default(),
        interests: Arc::default(),
        machine_status: StatusWriter::new(machine::context::MANAGER),
        group_status: StatusWriter::new(machine::context::MANAGER),
    }
}

/// An instance is looked at when it changes, when what it looked at changes, and when its run moves on.
fn run_applies(context: &Arc<Context>, options: &Options, tasks: &mut JoinSet<()>) {
    let interests = &context.interests;
    let client = &context.client;
    let triggers: Vec<BoxStream<'static, Name>> = vec![
        context.applies.changes().boxed(),
        interested(context.applies.changes(), "WorkspaceTemplateApply", interests),
        interested(context.templates.changes(), "WorkspaceTemplate", interests),
        interested(context.configs.changes(), "WorkspaceProviderConfig", interests),
        interested(metadata_changes::<Secret>(client), "Secret", interests),
        interested(metadata_changes::<ConfigMap>(client), "ConfigMap", interests),
        engine_changes(context),
    ];
    let (work, options) = (Arc::clone(context), options.clone());
    tasks.spawn(async move {
        // Decisions need all three kinds: a template that is only not listed yet is not missing.
        futures::join!(work.templates.ready(), work.configs.ready(), work.applies.ready());
        let (cache, metrics) = (work.applies.clone(), Arc::clone(&work.metrics));
        let reconcile = move |object| apply::reconcile(Arc::clone(&work), object);
        queue::run(
            "workspacetemplateapply",
            &cache,
            select_all(triggers),
            options.concurrency,
            metrics,
            reconcile,
        )
        .await;
    });
}

fn run_templates(context: &Arc<Context>, options: &Options, tasks: &mut JoinSet<()>) {
    let triggers: Vec<BoxStream<'static, Name>> =
        vec![context.templates.changes().boxed(), templates_of_users(context)];
    let (work, options) = (Arc::clone(context), options.clone());
    tasks.spawn(async move {
        futures::join!(work.templates.ready(), work.applies.ready());
        let (cache, metrics) = (work.templates.clone(), Arc::clone(&work.metrics));
        let reconcile = move |object| template::reconcile(Arc::clone(&work), object);
        queue::run(
            "workspacetemplate",
            &cache,
            select_all(triggers),
            options.concurrency,
            metrics,
            reconcile,
        )
        .await;
    });
}

fn run_configs(context: &Arc<Context>, options: &Options, tasks: &mut JoinSet<()>) {
    let secrets = metadata_changes::<Secret>(&context.client);
    let triggers: Vec<BoxStream<'static, Name>> =
        vec![context.configs.changes().boxed(), interested(secrets, "Secret", &context.config_interests)];
    let (work, options) = (Arc::clone(context), options.clone());
    tasks.spawn(async move {
        work.configs.ready().await;
        let (cache, metrics) = (work.configs.clone(), Arc::clone(&work.metrics));
        let reconcile = move |object| provider_config::reconcile(Arc::clone(&work), object);
        queue::run(
            "workspaceproviderconfig",
            &cache,
            select_all(triggers),
            options.concurrency,
            metrics,
            reconcile,
        )
        .await;
    });
}

/// Those who looked at what changed.
pub(crate) fn interested(
    changes: impl Stream<Item = Name> + Send + 'static,
    kind: &'static str,
    interests: &Arc<Interests>,
) -> BoxStream<'static, Name> {
    let interests = Arc::clone(interests);
    changes.flat_map(move |name| futures::stream::iter(interests.of(&Watched::new(kind, name)))).boxed()
}

/// Instances whose run moved on; all of them after falling behind.
fn engine_changes(context: &Arc<Context>) -> BoxStream<'static, Name> {
    let applies = context.applies.clone();
    let receiver = context.engine.changes();
    futures::stream::unfold((receiver, applies), |(mut receiver, applies)| async move {
        let batch = match receiver.recv().await {
            Ok(workspace) => instance_of(&workspace).into_iter().collect(),
            Err(broadcast::error::RecvError::Lagged(_)) => {
                applies.all().iter().map(|object| Name::of(object.as_ref())).collect::<Vec<_>>()
            }
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        Some((futures::stream::iter(batch), (receiver, applies)))
    })
    .flatten()
    .boxed()
}

/// Templates whose users came or went. A user that only changed is still a user.
fn templates_of_users(context: &Arc<Context>) -> BoxStream<'static, Name> {
    let known = Mutex::new(HashSet::new());
    let (applies, templates) = (context.applies.clone(), context.templates.clone());
    let touched = move |name: Name| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = match applies.get(&name) {
            Some(user) if known.insert(name.clone()) => {
                vec![Name::referred(&user.spec.template_ref, &user.namespace().unwrap_or_default())]
            }
            Some(_) => Vec::new(),
            None => {
                known.remove(&name);
                templates.all().iter().map(|template| Name::of(template.as_ref())).collect()
            }
        };
        futures::stream::iter(touched)
    };
    context.applies.changes().flat_map(touched).boxed()
}
