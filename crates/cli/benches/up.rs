//! `capt up --demo --wait` beside the bare Terraform runs that it cannot do without, and `capt status` of ten thousand
//! machines beside `kubectl get` of the same.
//!
//! The bare runs are `apply` of the demo's six modules in folders that need no init, in the order in which they depend on
//! each other, as many at a time as there are cores: their critical path is the least that any tool can take. Rounds
//! alternate, and the best and the median of each are compared.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run should say where")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use capt_apiserver::Server;
use capt_apiserver::authn::{Identity, write_kubeconfig};
use capt_apiserver::secure_serving::{SecureServer, Settings};
use futures::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

const TEMPLATES: &str = include_str!("../../../examples/cluster/00-templates.yaml");
const ROUNDS: usize = 9;
const LOOKS: usize = 5;

fn main() {
    // `cargo test` runs benches too, with this argument and without wanting a measurement.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    up();
    let machines = std::env::var("MACHINES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(status(machines));
}

fn up() {
    let Some(binary) =
        ["tofu", "terraform"].into_iter().find(|name| quiet(name).arg("version").status().is_ok())
    else {
        println!("neither tofu nor terraform is installed: capt up is not measured");
        return;
    };
    let mut times = [const { Vec::new() }; 3];
    // Removed at the end: a file system passes over what was deleted a moment ago, and new files are slower to make.
    let labs: Vec<_> = (0..2 * ROUNDS).map(|_| tempfile::tempdir().unwrap()).collect();
    for lab in labs.chunks(2) {
        times[0].push(bare(binary, lab[0].path()));
        let [ready, end] = demo(&lab[1].path().join("data"));
        times[1].push(ready);
        times[2].push(end);
    }
    let of = |times: &[Duration], at: usize| {
        let mut times: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        times.sort_by(f64::total_cmp);
        times[at] * 1000.0
    };
    let [bare, ready, end] = times;
    println!("an offline cluster with three machines ({binary}), best of {ROUNDS}, and median");
    println!("  bare runs, critical path      {:>5.0} ms {:>5.0} ms", of(&bare, 0), of(&bare, ROUNDS / 2));
    for (name, times, aim) in [
        ("capt up --demo, to all Ready", ready, " (aim: at most 1.6x)"),
        ("  and to the end of --wait", end, ""),
    ] {
        let [best, median] = [0, ROUNDS / 2].map(|at| (of(&times, at), of(&times, at) / of(&bare, at)));
        println!(
            "  {name:28}  {:>5.0} ms {:>5.0} ms   {:.2}x {:.2}x{aim}",
            best.0, median.0, best.1, median.1
        );
    }
}

/// How long it takes until all is Ready, and until the process has ended.
fn demo(folder: &Path) -> [Duration; 2] {
    let begin = Instant::now();
    let mut child = quiet(env!("CARGO_BIN_EXE_capt"))
        .args(["up", "--demo", "--wait", "-o", "json", "--data-dir"])
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ready = None;
    for line in lines.map(Result::unwrap) {
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["type"] == "ready" {
            ready = Some(begin.elapsed());
        }
    }
    assert!(child.wait().unwrap().success());
    [ready.unwrap(), begin.elapsed()]
}

fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdout(Stdio::null()).stderr(Stdio::null()).env_remove("KUBECONFIG");
    command.env("CHECKPOINT_DISABLE", "1").env("TF_CLI_CONFIG_FILE", "/dev/null");
    command
}

/// Network, then control plane; node group, then machines: two chains, in as many lanes as there are cores.
fn bare(binary: &str, lab: &Path) -> Duration {
    let folder = |module: &str, name: &str| {
        let folder = lab.join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("main.tf"), module_of(module)).unwrap();
        folder
    };
    let (network, plane) = (folder("offline-network", "network"), folder("offline-control-plane", "plane"));
    let group = folder("offline-node-group", "group");
    let machines: Vec<PathBuf> =
        (0..3).map(|number| folder("offline-machine", &format!("machine-{number}"))).collect();
    let apply = |folder: &Path| {
        let done = quiet(binary)
            .args(["apply", "-json", "-auto-approve", "-input=false"])
            .current_dir(folder)
            .status();
        assert!(done.unwrap().success());
    };
    let lanes: Vec<Vec<&PathBuf>> = if std::thread::available_parallelism().map_or(2, usize::from) > 2 {
        vec![vec![&network, &plane], vec![&group, &machines[0]], vec![&machines[1]], vec![&machines[2]]]
    } else {
        vec![vec![&network, &plane, &machines[2]], vec![&group, &machines[0], &machines[1]]]
    };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for lane in &lanes {
            scope.spawn(move || lane.iter().for_each(|folder| apply(folder)));
        }
    });
    begin.elapsed()
}

/// The HCL of one of the demo's templates.
fn module_of(name: &str) -> String {
    let object = capt_yaml::documents(TEMPLATES)
        .map(|document| document.unwrap().root.to_json())
        .find(|object| object["metadata"]["name"] == name);
    object.unwrap()["spec"]["template"]["spec"]["forProvider"]["module"].as_str().unwrap().to_owned()
}

async fn status(machines: usize) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::open(&folder.path().join("data")).await.unwrap();
    let identity = Identity::in_folder(folder.path(), &[], SystemTime::now()).unwrap();
    let settings = Settings { metrics: Arc::clone(server.metrics()), ..Settings::default() };
    let serving = SecureServer::open(Arc::clone(server.api()), &identity, settings).await.unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    write_kubeconfig(&kubeconfig, &serving.url(), &identity).unwrap();
    fill(&server.client("default"), machines).await;

    let mut lines = 0;
    let mut best = [Duration::MAX; 2];
    for _ in 0..LOOKS {
        let begin = Instant::now();
        let command = Command::new(env!("CARGO_BIN_EXE_capt"))
            .args(["status", "--kubeconfig"])
            .arg(&kubeconfig)
            .output();
        best[0] = best[0].min(begin.elapsed());
        let output = command.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lines = String::from_utf8_lossy(&output.stdout).lines().count();
        let begin = Instant::now();
        let kubectl =
            quiet("kubectl").args(["get", "captmachines,wtapply", "--kubeconfig"]).arg(&kubeconfig).status();
        best[1] = best[1].min(if kubectl.is_ok() { begin.elapsed() } else { Duration::MAX });
    }
    println!("{machines} machines and their workspaces, best of {LOOKS}");
    println!(
        "  capt status                   {:>7.0} ms   {lines} lines (aim: under 1 s, a screen)",
        best[0].as_secs_f64() * 1000.0
    );
    if best[1] < Duration::MAX {
        let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
        println!("  kubectl get of the same       {:>7.0} ms   {ratio:.2}x", best[1].as_secs_f64() * 1000.0);
    }
    serving.close().await;
}

/// A deployment, a set, machines of which one in a hundred failed, and a workspace for each.
async fn fill(client: &Client, machines: usize) {
    let crds: Api<_> = Api::all(client.clone());
    for crd in capt_api::crds() {
        crds.create(&PostParams::default(), &crd).await.unwrap();
    }
    let deployment =
        make(client, "CaptMachineDeployment", "web", None, spec_of(machines), condition(true)).await;
    let set =
        make(client, "CaptMachineSet", "web-a", Some(&deployment), spec_of(machines), condition(true)).await;
    let (set, client) = (&set, &client);
    futures::stream::iter(0..machines)
        .map(Ok::<_, ()>)
        .try_for_each_concurrent(64, |number| async move {
            let well = number % 100 != 7;
            let name = format!("web-a-{number}");
            let spec = json!({"workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "g"}, "instanceType": "t3.medium"});
            let machine = make(client, "CaptMachine", &name, Some(set), spec, condition(well)).await;
            let spec = json!({"templateRef": {"name": "machine"}, "variables": {"machine_name": name, "instance_type": "t3.medium"}});
            make(client, "WorkspaceTemplateApply", &format!("{name}-machine"), Some(&machine), spec, condition(well)).await;
            Ok(())
        })
        .await
        .unwrap();
}

fn spec_of(replicas: usize) -> Value {
    let labels = json!({"app": "web"});
    json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "g"}, "instanceType": "t3.medium"}}})
}

fn condition(well: bool) -> Value {
    let (status, reason, message) = if well {
        ("True", "Ready", "3 resources as the template and the variables say")
    } else {
        ("False", "ApplyFailed", "InstanceLimitExceeded: no more of these (aws_instance.it, main.tf:12)")
    };
    json!([{"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

async fn make(
    client: &Client,
    kind: &str,
    name: &str,
    owner: Option<&DynamicObject>,
    spec: Value,
    conditions: Value,
) -> DynamicObject {
    let gvk = GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta1", kind);
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{}ies", stem.to_lowercase()),
        None => format!("{}s", kind.to_lowercase()),
    };
    let resource = ApiResource::from_gvk_with_plural(&gvk, &plural);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let mut object = DynamicObject::new(name, &resource).data(json!({ "spec": spec }));
    object.metadata.owner_references = owner.map(|owner| {
        let types = owner.types.clone().unwrap();
        vec![serde_json::from_value(json!({"apiVersion": types.api_version, "kind": types.kind, "name": owner.name_any(), "uid": owner.uid(), "controller": true})).unwrap()]
    });
    let made = api.create(&PostParams::default(), &object).await.unwrap();
    let status = json!({"status": {"conditions": conditions}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    made
}
