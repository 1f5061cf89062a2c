//! A server and a controller of a test's own, and `capt` beside them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use capt_api::workspace::WorkspaceTemplateApply;
use capt_e2e::until;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

pub const SOON: Duration = Duration::from_secs(300);

/// A process that is ended whatever happens to the test.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a command said, and how it ended.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// It ended well; what it printed.
    #[track_caller]
    pub fn good(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// It ended with 1, and said that.
    #[track_caller]
    pub fn bad(self, words: &str) -> String {
        let all = self.out + &self.err;
        assert_eq!(self.code, 1, "{all}");
        assert!(all.contains(words), "{words:?} is not in: {all}");
        all
    }
}

/// `capt`, with nothing of this machine's own settings.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capt"));
    command
        .env("HOME", folder.join("home"))
        .env("CAPT_DATA_DIR", folder.join("data"))
        .env_remove("KUBECONFIG")
        .env_remove("XDG_DATA_HOME")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::null());
    command
}

pub fn run(mut command: Command) -> Said {
    let output = command.output().expect("capt runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(!err.contains("panicked"), "{err}");
    Said { code: output.status.code().expect("an exit code"), out, err }
}

pub struct World {
    pub folder: tempfile::TempDir,
    pub client: Client,
    controller: Option<Process>,
    server: Option<Process>,
}

impl World {
    /// A server with CAPT's kinds, and a controller; nothing where a test cannot run.
    pub async fn start() -> Option<Self> {
        if !capt_e2e::runs_on("embedded") || !capt_e2e::has_terraform() {
            return None;
        }
        let mut world = Self::server().await;
        world.install().await;
        world.start_controller();
        Some(world)
    }

    pub fn start_controller(&mut self) {
        self.controller = Some(self.long(&["controller", "--cluster-api", "own", "--data-dir"]));
    }

    /// A server alone, without any kind of CAPT's. It logs every request into `audit.log` in its folder.
    pub async fn server() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        let log = folder.path().join("audit.log");
        let server = start(folder.path(), &["server", "--audit-log", log.to_str().unwrap(), "--data-dir"]);
        let kubeconfig = Kubeconfig::read_from(folder.path().join("data/kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        Self { folder, client, controller: None, server: Some(server) }
    }

    pub async fn install(&self) {
        install(&self.client).await;
    }

    fn long(&self, arguments: &[&str]) -> Process {
        start(self.folder.path(), arguments)
    }

    pub fn stop_server(&mut self) {
        self.server = None;
    }

    pub fn stop_controller(&mut self) {
        self.controller = None;
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/kubeconfig")
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = command(self.folder.path());
        command.args(line.split_whitespace());
        command
    }

    /// Runs `capt` with the words of a line.
    pub fn capt(&self, line: &str) -> Said {
        run(self.command(line))
    }

    /// Applies a manifest.
    pub async fn apply(&self, text: &str) {
        for document in capt_yaml::documents(text) {
            let value = document.unwrap().root.to_json();
            let object: DynamicObject = serde_json::from_value(value.clone()).unwrap();
            let api = self.api(&object.types.as_ref().unwrap().kind);
            let force = PatchParams::apply("user").force();
            let name = object.name_any();
            let done =
                until("applied", SOON, async || api.patch(&name, &force, &Patch::Apply(&value)).await.ok());
            done.await.unwrap();
        }
    }

    pub async fn apply_example(&self, path: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(path);
        self.apply(&std::fs::read_to_string(path).unwrap()).await;
    }

    /// Objects of a kind.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let cluster = std::iter::once(capt_api::crd::cluster_kind().crd);
        let crd = cluster.chain(capt_api::crds()).find(|crd| crd.spec.names.kind == kind).unwrap();
        let gvk = kube::api::GroupVersionKind::gvk(&crd.spec.group, &crd.spec.versions[0].name, kind);
        let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
        Api::default_namespaced_with(self.client.clone(), &resource)
    }

    pub async fn patch(&self, kind: &str, name: &str, body: Value) {
        let api = self.api(kind);
        api.patch(name, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    }

    /// Waits until a workspace is as it should be.
    pub async fn workspace(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&WorkspaceTemplateApply) -> bool,
    ) -> WorkspaceTemplateApply {
        let api: Api<WorkspaceTemplateApply> = Api::default_namespaced(self.client.clone());
        let seen =
            until(what, SOON, async || api.get_opt(name).await.unwrap().filter(|workspace| is(workspace)));
        seen.await.unwrap()
    }

    /// Waits until the Ready condition of a workspace has a reason.
    pub async fn ready_is(&self, name: &str, reason: &str) -> WorkspaceTemplateApply {
        self.workspace(name, reason, |workspace| ready(workspace).is_some_and(|(_, why)| why == reason)).await
    }

    pub async fn until_gone(&self, kind: &str, name: &str) {
        let api = self.api(kind);
        let gone = until("gone", SOON, async || api.get_opt(name).await.unwrap().is_none().then_some(()));
        gone.await.unwrap();
    }
}

/// Installs CAPT's kinds.
pub async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let force = PatchParams::apply("test").force();
    for crd in capt_api::crds() {
        crds.patch(&crd.name_any(), &force, &Patch::Apply(&crd)).await.unwrap();
    }
}

/// Status and reason of Ready, as of the current spec.
pub fn ready(workspace: &WorkspaceTemplateApply) -> Option<(String, String)> {
    let status = workspace.status.as_ref()?;
    if status.observed_generation != workspace.metadata.generation {
        return None;
    }
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status.clone(), ready.reason.clone()))
}

/// Starts `capt` for long, and waits for its first line.
fn start(folder: &Path, arguments: &[&str]) -> Process {
    let mut command = command(folder);
    command.args(arguments).arg(folder.join("data"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "{arguments:?} ended");
    Process(child)
}

/// A template with this module, and a workspace of it.
pub fn workspace(name: &str, module: &str, spec: Value) -> String {
    let mut spec = spec;
    spec["templateRef"] = json!({ "name": name });
    let api = "infrastructure.cluster.x-k8s.io/v1beta1";
    let template = json!({
        "apiVersion": api, "kind": "WorkspaceTemplate", "metadata": {"name": name},
        "spec": {"template": {"spec": {"module": module}}},
    });
    let apply = json!({"apiVersion": api, "kind": "WorkspaceTemplateApply", "metadata": {"name": name}, "spec": spec});
    format!("{template}\n---\n{apply}\n")
}
