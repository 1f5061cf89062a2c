//! `capt validate` beside what people do without it, and beside the least that can be done, in one run.
//!
//! 1,000 CaptMachineDeployments, one file each. The peer is `kubectl apply --dry-run=server` on a kube-apiserver
//! that has the CRDs; the bare minimum is reading the files and parsing their JSON. Prints a table of medians.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const MANIFESTS: usize = 1_000;
const ROUNDS: usize = 5;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    for index in 0..MANIFESTS {
        let path = folder.path().join(format!("{index:04}.json"));
        std::fs::write(path, manifest(index).to_string()).expect("a file");
    }
    let ours =
        median(|| run(Command::new(env!("CARGO_BIN_EXE_capt")).args(["validate", "-f"]).arg(folder.path())));
    let least = median(|| parse_all(folder.path()));
    println!("validate {MANIFESTS} manifests, median of {ROUNDS}");
    println!("  {:<44} {:>10}  {:>8}", "", "time", "ratio");
    row("capt validate", ours, ours);
    row("bare minimum: read and parse JSON", least, ours);
    match peer(folder.path()) {
        Some(peer) => row("kubectl apply --dry-run=server (one round)", peer, ours),
        None => println!("  kubectl and kube-apiserver: not built (make peers)"),
    }
}

fn row(name: &str, time: Duration, ours: Duration) {
    let ratio = time.as_secs_f64() / ours.as_secs_f64();
    println!("  {name:<44} {:>7.1} ms  {ratio:>7.2}x", time.as_secs_f64() * 1000.0);
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("the program runs");
    assert!(status.success(), "{command:?} failed");
}

fn parse_all(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file");
        let value: Value = serde_json::from_slice(&bytes).expect("JSON");
        std::hint::black_box(value);
    }
}

/// What the same costs with kubectl and an API server, once, where they are built.
fn peer(folder: &Path) -> Option<Duration> {
    use capt_e2e::{KubeApiserver, Peer, Peers};
    let peers = Peers::find(&[KubeApiserver::NEEDS, &[Peer::Kubectl]].concat()).ok()?;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(KubeApiserver::start(&peers)).expect("kube-apiserver starts");
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(peers.path(Peer::Kubectl));
        command.arg("--kubeconfig").arg(server.kubeconfig_path()).args(arguments);
        command
    };
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd");
    run(kubectl(&["apply", "--server-side", "-f"]).arg(crds));
    run(&mut kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]));
    let start = Instant::now();
    run(kubectl(&["apply", "--dry-run=server", "-f"]).arg(folder));
    Some(start.elapsed())
}

fn manifest(index: usize) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "CaptMachineDeployment",
        "metadata": {"name": format!("workers-{index}"), "namespace": "default", "labels": {"team": "platform"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"role": "worker"}},
            "strategy": {"rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}},
            "template": {
                "metadata": {"labels": {"role": "worker", "index": index.to_string()}},
                "spec": {
                    "workspaceTemplateRef": {"name": "machine-template"},
                    "nodeGroupRef": {"name": "managed-ng-1"},
                    "instanceType": "t3.medium",
                    "labels": {"role": "worker"},
                    "tags": {"Environment": "bench", "Index": index.to_string()},
                },
            },
        },
    })
}
