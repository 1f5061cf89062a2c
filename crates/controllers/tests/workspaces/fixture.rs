//! An API, an engine and the controllers on it, with what tests need to drive and watch them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use capt_api::grant::ReferenceGrant;
use capt_api::workspace::{WorkspaceTemplate, WorkspaceTemplateApply};
use capt_controllers::runtime::backoff::Backoff;
use capt_controllers::runtime::conditions;
use capt_controllers::workspace::state_secrets::SecretStateBackend;
use capt_controllers::{ClusterApi, Controllers, CrossNamespace, Options};
use capt_e2e::until;
use capt_terraform::Engine;
use capt_terraform::engine::StartError;
use capt_terraform::state_backend::StateBackend;
use k8s_openapi::api::core::v1::{Event, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// For what takes a moment on an idle machine; the rest is for machines that compile at the same time.
pub const SOON: Duration = Duration::from_secs(300);

/// What keeps an API running.
pub enum Home {
    Embedded(#[expect(dead_code, reason = "dropping it stops it")] capt_apiserver::Server),
    Real(Box<capt_e2e::KubeApiserver>),
}

/// Everything that runs, to be used by several tests.
pub struct Harness {
    pub client: Client,
    pub engine: Engine,
    pub folder: tempfile::TempDir,
    pub controllers: Option<Controllers>,
    /// The controllers' clock.
    pub clock: Arc<Shifted>,
    /// Who takes care of Clusters; counts when the controllers start.
    pub cluster_api: ClusterApi,
    /// Which references across namespaces are followed; counts then, too.
    pub cross_namespace: CrossNamespace,
    /// The engine's state backend, where the controllers are to know it; counts then, too.
    pub state_backend: Option<Arc<SecretStateBackend>>,
    /// How often every object is reconciled though nothing changed; counts then, too.
    pub resync: Duration,
    home: Home,
}

/// The real time, and what a test puts on top.
#[derive(Default)]
pub struct Shifted(std::sync::atomic::AtomicI64);

impl Shifted {
    pub fn turn(&self, minutes: i64) {
        self.0.fetch_add(minutes * 60, std::sync::atomic::Ordering::SeqCst);
    }
}

impl capt_controllers::runtime::Clock for Shifted {
    fn now(&self) -> jiff::Timestamp {
        let shift = self.0.load(std::sync::atomic::Ordering::SeqCst);
        jiff::Timestamp::now() + jiff::SignedDuration::from_secs(shift)
    }
}

impl Harness {
    pub async fn embedded() -> Self {
        let server = capt_apiserver::Server::in_memory().await.unwrap();
        Self::on(server.client("default"), Home::Embedded(server)).await
    }

    pub async fn real(server: capt_e2e::KubeApiserver) -> Self {
        Self::on(server.client().clone(), Home::Real(Box::new(server))).await
    }

    async fn on(client: Client, home: Home) -> Self {
        if let Some(level) = std::env::var("CAPT_LOG")
            .ok()
            .and_then(|text| text.parse::<tracing_subscriber::filter::LevelFilter>().ok())
        {
            // The second test of a process finds the first one's.
            let _ = tracing_subscriber::fmt().with_max_level(level).with_test_writer().try_init();
        }
        install(&client).await;
        let folder = tempfile::tempdir().unwrap();
        let engine = start_engine(&folder.path().join("engine"), None).await;
        let (clock, cluster_api) = (Arc::default(), ClusterApi::default());
        let cross_namespace = CrossNamespace::default();
        let (controllers, state_backend, resync) = (None, None, options().resync);
        let mut harness = Self {
            client,
            engine,
            folder,
            controllers,
            clock,
            cluster_api,
            cross_namespace,
            state_backend,
            resync,
            home,
        };
        harness.start_controllers();
        harness
    }

    /// Whether something deletes what an owner leaves behind; beside a bare kube-apiserver nothing does.
    pub fn collects_garbage(&self) -> bool {
        matches!(self.home, Home::Embedded(_))
    }

    /// A kubeconfig of the API, where that is a real kube-apiserver.
    pub fn kubeconfig(&self) -> Option<String> {
        match &self.home {
            Home::Embedded(_) => None,
            Home::Real(server) => std::fs::read_to_string(server.kubeconfig_path()).ok(),
        }
    }

    fn start_controllers(&mut self) {
        let clock: Arc<dyn capt_controllers::runtime::Clock> = Arc::clone(&self.clock) as _;
        let options = Options {
            clock,
            cluster_api: self.cluster_api,
            cross_namespace: self.cross_namespace,
            state_backend: self.state_backend.clone(),
            resync: self.resync,
            ..options()
        };
        self.controllers = Some(Controllers::start(&self.client, Arc::new(self.engine.clone()), &options));
    }

    /// Stops controllers and engine.
    pub async fn stop(&mut self) {
        self.controllers = None;
        self.engine.clone().stop().await;
    }

    /// What the first runs of a workspace printed: what failed first is the cause of what failed later.
    fn logs(&self, workspace: &str) -> String {
        let listed = |folder: &Path| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            paths.sort();
            paths
        };
        let named =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(workspace));
        let folders = listed(&self.folder.path().join("engine/workspaces")).into_iter().filter(named);
        let runs = folders.flat_map(|folder| listed(&folder.join("runs")).into_iter().take(6));
        let logs = runs.filter_map(|run| {
            let log = std::fs::read_to_string(run.join("log")).ok()?;
            Some(format!("{}:\n{}", run.display(), log.chars().take(4_000).collect::<String>()))
        });
        logs.collect::<Vec<_>>().join("\n")
    }

    /// Stops everything but the API, and starts it again: on `folder`, with `state backend`.
    pub async fn restart(&mut self, folder: &Path, state_backend: Option<Arc<dyn StateBackend>>) {
        self.stop().await;
        self.engine = start_engine(folder, state_backend).await;
        self.start_controllers();
    }
}

pub async fn start_engine(folder: &Path, state_backend: Option<Arc<dyn StateBackend>>) -> Engine {
    let mut options = capt_terraform::Options::new(folder.to_owned());
    options.guard = env!("CARGO_BIN_EXE_capt-controllers-guard").into();
    options.grace = Duration::from_secs(5);
    options.state_backend = state_backend;
    options.allow_paths =
        capt_e2e::aws_mirror().into_iter().chain([folder.with_file_name("modules")]).collect();
    // The folder of an engine that was just stopped is free a moment later: a process that another test is starting has
    // its lock until it has become another program.
    let started = until("the folder is free", SOON, async || match Engine::start(options.clone()).await {
        Err(StartError::InUse(_)) => None,
        started => Some(started.unwrap()),
    });
    started.await.unwrap()
}

fn options() -> Options {
    let backoff = Backoff { first: Duration::from_millis(300), longest: Duration::from_secs(2) };
    let machines = capt_planner::set::Settings {
        failed_grace: jiff::SignedDuration::from_secs(1),
        ..capt_planner::set::Settings::default()
    };
    let drain = capt_planner::machine::DrainSettings {
        poll: Duration::from_millis(200),
        pass: Duration::from_secs(10),
        unreachable: Duration::from_secs(2),
    };
    Options { backoff, machines, drain, ..Options::default() }
}

async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in capt_api::crds() {
        let apply = PatchParams::apply("test").force();
        crds.patch(&crd.name_any(), &apply, &Patch::Apply(&crd)).await.unwrap();
    }
    for crd in capt_api::crds() {
        let (names, version) = (&crd.spec.names, &crd.spec.versions[0].name);
        let gvk = GroupVersionKind::gvk(&crd.spec.group, version, &names.kind);
        let kind = ApiResource::from_gvk_with_plural(&gvk, &names.plural);
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let served = until("a served CRD", SOON, async || {
            let found = crds.get(&crd.name_any()).await.ok()?;
            assert!(capt_api::crd::is_installed(&found, &crd), "{found:?}");
            let conditions = found.status?.conditions?;
            conditions.iter().any(|c| c.type_ == "Established" && c.status == "True").then_some(())?;
            // A kube-apiserver says so a moment before it answers.
            objects.list(&ListParams::default().limit(1)).await.ok().map(drop)
        });
        served.await.unwrap();
    }
}

async fn make_namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let body = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    namespaces.create(&PostParams::default(), &body).await.unwrap();
}

/// One test's own corner: a namespace, and a file in which its modules leave traces.
pub struct Fixture {
    pub harness: Arc<Harness>,
    pub client: Client,
    pub namespace: String,
    pub trace: PathBuf,
}

impl Fixture {
    pub async fn new(harness: Arc<Harness>, name: &str) -> Self {
        let namespace = name.replace('_', "-");
        make_namespace(&harness.client, &namespace).await;
        let trace = harness.folder.path().join(format!("{namespace}.trace"));
        Self { client: harness.client.clone(), harness, namespace, trace }
    }

    /// A namespace beside its own.
    pub async fn another_namespace(&self) -> String {
        let name = format!("{}-too", self.namespace);
        make_namespace(&self.client, &name).await;
        name
    }

    /// Lets objects of a kind in this namespace refer to those that `to` lists in another.
    pub async fn grant(&self, there: &str, from: &str, to: Value) {
        let grants: Api<ReferenceGrant> = Api::namespaced(self.client.clone(), there);
        let from =
            json!({"group": "infrastructure.cluster.x-k8s.io", "kind": from, "namespace": self.namespace});
        let body = json!({"metadata": {"name": "for-tests"}, "spec": {"from": [from], "to": [to]}});
        grants.create(&PostParams::default(), &serde_json::from_value(body).unwrap()).await.unwrap();
    }

    pub fn applies(&self) -> Api<WorkspaceTemplateApply> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn templates(&self) -> Api<WorkspaceTemplate> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A module that leaves a trace of each thing it creates and destroys. A change of `size` replaces the thing.
    pub fn module(&self) -> String {
        r#"
variable "name" { type = string }
variable "size" {
  type    = number
  default = 1
}
variable "token" {
  type      = string
  default   = "none"
  sensitive = true
}
resource "terraform_data" "thing" {
  input            = { name = var.name, size = var.size, trace = "TRACE" }
  triggers_replace = var.size
  provisioner "local-exec" {
    command = "echo created ${self.input.name} ${self.input.size} >> ${self.input.trace}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroyed ${self.input.name} ${self.input.size} >> ${self.input.trace}"
  }
}
output "label" { value = "${var.name}-${var.size}" }
output "password" {
  value     = "pw-${var.name}-${var.token}"
  sensitive = true
}
"#
        .replace("TRACE", &self.trace.display().to_string())
    }

    pub async fn template(&self, name: &str, module: &str) {
        self.put_template(name, json!({"module": module})).await;
    }

    pub async fn put_template(&self, name: &str, spec: Value) {
        let body = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
            "metadata": {"name": name}, "spec": {"template": {"spec": spec}},
        });
        let force = PatchParams::apply("user").force();
        self.templates().patch(name, &force, &Patch::Apply(&body)).await.unwrap();
    }

    /// Applies an instance as its user.
    pub async fn apply(&self, name: &str, template: &str, rest: Value) {
        let mut spec = json!({"templateRef": {"name": template}});
        spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let body = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": name}, "spec": spec,
        });
        let force = PatchParams::apply("user").force();
        self.applies().patch(name, &force, &Patch::Apply(&body)).await.unwrap();
    }

    pub async fn annotate(&self, name: &str, key: &str, value: &str) {
        let body = json!({"metadata": {"annotations": {key: value}}});
        self.applies().patch_metadata(name, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    }

    pub async fn get(&self, name: &str) -> WorkspaceTemplateApply {
        self.applies().get(name).await.unwrap()
    }

    /// Waits until the status of the current generation satisfies `done`.
    pub async fn when(
        &self,
        name: &str,
        what: &str,
        done: impl Fn(&WorkspaceTemplateApply) -> bool,
    ) -> WorkspaceTemplateApply {
        let mut last = None;
        let found = until(what, SOON, async || {
            let object = self.applies().get_opt(name).await.unwrap()?;
            let current = object.status.as_ref().and_then(|status| status.observed_generation);
            let found = current == object.metadata.generation && done(&object);
            last = Some(object.clone());
            found.then_some(object)
        })
        .await;
        found.unwrap_or_else(|error| {
            let status = last.map(|object| serde_json::to_string_pretty(&object.status).unwrap());
            panic!("{name}: {error}; status: {}\n{}", status.unwrap_or_default(), self.harness.logs(name))
        })
    }

    pub async fn ready(&self, name: &str) -> WorkspaceTemplateApply {
        self.when(name, "ready", |object| truth(object, "Ready") == "True").await
    }

    pub async fn reason(&self, name: &str, reason: &str) -> WorkspaceTemplateApply {
        self.when(name, reason, |object| condition(object, "Ready").0 == reason).await
    }

    pub async fn delete(&self, name: &str) {
        self.applies().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn gone(&self, name: &str) {
        let gone =
            until("gone", SOON, async || self.applies().get_opt(name).await.unwrap().is_none().then_some(()));
        let left = if gone.await.is_ok() { None } else { self.applies().get_opt(name).await.unwrap() };
        assert!(left.is_none(), "{name} is not gone: {}", serde_json::to_string_pretty(&left).unwrap());
    }

    /// Lines of the trace.
    pub fn traces(&self) -> Vec<String> {
        std::fs::read_to_string(&self.trace).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub async fn event_reasons(&self, name: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let of = ListParams::default().fields(&format!("involvedObject.name={name}"));
        events.list(&of).await.unwrap().items.into_iter().filter_map(|event| event.reason).collect()
    }

    /// Waits for an event whose text satisfies `done`.
    pub async fn event_text(&self, name: &str, reason: &str, done: impl Fn(&str) -> bool) -> String {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let of = ListParams::default().fields(&format!("involvedObject.name={name},reason={reason}"));
        let mut texts = Vec::new();
        let seen = until(reason, SOON, async || {
            let found = events.list(&of).await.unwrap().items;
            texts = found.into_iter().filter_map(|event| event.message).collect();
            texts.iter().find(|text| done(text)).cloned()
        });
        let seen = seen.await;
        seen.unwrap_or_else(|error| panic!("{name}: {error}; {texts:?}"))
    }

    /// Waits for an event: it is written after the status that it tells of.
    pub async fn event(&self, name: &str, reason: &str) {
        let seen = until(reason, SOON, async || {
            self.event_reasons(name).await.iter().any(|known| known == reason).then_some(())
        });
        seen.await.unwrap();
    }

    /// Pauses what a test leaves behind: in a harness that others use as well, a retry or a check for drift would count as theirs.
    pub async fn leave(&self) {
        for object in self.applies().list(&ListParams::default()).await.unwrap() {
            let name = object.name_any();
            let pause = json!({"metadata": {"annotations": {capt_api::names::annotations::PAUSED: "test"}}});
            let asked =
                self.applies().patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&pause)).await;
            // It may go by itself meanwhile.
            if matches!(&asked, Err(kube::Error::Api(status)) if status.is_not_found()) {
                continue;
            }
            asked.unwrap();
            let paused = until("paused", SOON, async || {
                let object = self.applies().get_opt(&name).await.unwrap();
                object.is_none_or(|object| truth(&object, "Paused") == "True").then_some(())
            });
            paused.await.unwrap();
        }
    }

    /// Processes that the engine started, for whomever.
    pub fn processes(&self) -> u64 {
        self.harness.engine.metrics().processes
    }
}

pub fn truth(object: &WorkspaceTemplateApply, kind: &str) -> String {
    let list = object.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::find(list, kind).map_or_else(|| "absent".to_owned(), |condition| condition.status.clone())
}

/// Reason and message of a condition.
pub fn condition(object: &WorkspaceTemplateApply, kind: &str) -> (String, String) {
    let list = object.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::find(list, kind)
        .map_or_else(Default::default, |condition| (condition.reason.clone(), condition.message.clone()))
}
