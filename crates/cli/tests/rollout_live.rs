//! `capt rollout status|history|undo|restart|pause|resume` on machines that are really built.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking; a skip must not be silent"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use capt_api::machine::CaptMachineDeployment;
use capt_e2e::until;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(300);

/// A process that is ended whatever happens to the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `capt` and waits for its first line.
fn start(arguments: &[&str], folder: &Path, kubeconfig: &Path) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capt"));
    command.args(arguments).arg("--data-dir").arg(folder).env("KUBECONFIG", kubeconfig);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "{arguments:?} ended");
    Process(child)
}

/// What `capt rollout …` says, and whether it was content.
fn rollout(kubeconfig: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_capt"))
        .arg("rollout")
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

async fn install(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let force = PatchParams::apply("test").force();
    for crd in capt_api::crds() {
        crds.patch(&crd.name_any(), &force, &Patch::Apply(&crd)).await.unwrap();
    }
}

/// Applies a manifest, with other machines in it.
async fn apply(client: &Client, text: &str, instance_type: &str) {
    for document in capt_yaml::documents(text) {
        let mut value = document.unwrap().root.to_json();
        if let Some(kind) = value.pointer_mut("/spec/template/spec/instanceType") {
            *kind = instance_type.into();
        }
        let object: DynamicObject = serde_json::from_value(value.clone()).unwrap();
        let types = object.types.clone().unwrap();
        let plural = format!("{}s", types.kind.to_lowercase());
        let kind = kube::api::ApiResource::from_gvk_with_plural(&(&types).try_into().unwrap(), &plural);
        let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
        let force = PatchParams::apply("user").force();
        let name = object.name_any();
        let done =
            until("applied", SOON, async || api.patch(&name, &force, &Patch::Apply(&value)).await.ok());
        done.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_look_at_rollouts_and_go_back() {
    if !capt_e2e::runs_on("embedded") || !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("server/kubeconfig");
    let _server = start(&["server"], &folder.path().join("server"), &kubeconfig);
    let read = until("the kubeconfig", SOON, async || Kubeconfig::read_from(&kubeconfig).ok()).await.unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    install(&client).await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/machine-deployment.yaml");
    let text = std::fs::read_to_string(example).unwrap();
    apply(&client, &text, "small").await;
    let (content, said) = rollout(&kubeconfig, &["status", "worker-deployment", "--no-wait"]);
    assert!(content && said.contains("waiting for the controller"), "{said}");
    let _controller = start(&["controller"], &folder.path().join("controller"), &kubeconfig);

    let name = "worker-deployment";
    let rolled_out = |revision: i64| {
        let (content, said) = rollout(&kubeconfig, &["status", name]);
        let last = format!("rolled out: 3 machines of revision {revision} are available\n");
        assert!(content && said.ends_with(&last), "{said}");
    };
    rolled_out(1);
    apply(&client, &text, "large").await;
    rolled_out(2);
    let (_, listed) = rollout(&kubeconfig, &["history", name, "-o", "json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed[0]["revision"], &listed[0]["current"]), (&1.into(), &false.into()));
    assert_eq!((&listed[1]["revision"], &listed[1]["current"]), (&2.into(), &true.into()));
    let (_, shown) = rollout(&kubeconfig, &["history", name, "--revision", "1"]);
    assert!(shown.contains("instanceType: small") && !shown.contains("template-hash"), "{shown}");

    assert_eq!(rollout(&kubeconfig, &["undo", name]), (true, format!("{name} goes back to revision 1\n")));
    rolled_out(3);
    let (content, said) = rollout(&kubeconfig, &["undo", name, "--to-revision", "9"]);
    assert!(!content && said.contains("there is no revision 9; there are: 2, 3"), "{said}");

    assert!(rollout(&kubeconfig, &["pause", name]).0);
    let (content, said) = rollout(&kubeconfig, &["pause", name]);
    assert!(!content && said.contains("is paused already"), "{said}");
    apply(&client, &text, "huge").await;
    let api: Api<CaptMachineDeployment> = Api::default_namespaced(client);
    let seen = until("the edit is seen", SOON, async || {
        let object = api.get(name).await.unwrap();
        (object.status?.observed_generation == object.metadata.generation).then_some(())
    });
    seen.await.unwrap();
    let (content, said) = rollout(&kubeconfig, &["status", name]);
    assert!(!content && said.starts_with("paused: "), "{said}");
    assert!(rollout(&kubeconfig, &["resume", name]).0);
    rolled_out(4);
    assert!(rollout(&kubeconfig, &["restart", name]).0);
    let (content, said) = rollout(&kubeconfig, &["status", "nobody"]);
    assert!(!content && said.contains("no CaptMachineDeployment nobody"), "{said}");
}
