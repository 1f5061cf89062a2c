//! What a person sees with the real kubectl, on a real kube-apiserver and on `capt server`: a day of work with CAPT's
//! kinds, and every verb of kubectl on a few small objects. Where both servers run, what they say is compared.
//! `CAPT_TEST_API=embedded` or `=kube-apiserver` runs one of them alone.

mod objects;
mod tool;
mod verbs;
mod work;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use capt_e2e::{KubeApiserver, Peer, Peers};

use crate::tool::Kubectl;
use crate::verbs::Collector;
use crate::work::a_day_of_work;

#[tokio::test]
async fn a_person_works_with_a_real_kube_apiserver() {
    if !capt_e2e::runs_on("kube-apiserver") {
        return;
    }
    let Some(peers) = Peers::find_or_skip(&[KubeApiserver::NEEDS, &[Peer::Kubectl]].concat()) else { return };
    let server = KubeApiserver::start(&peers).await.expect("kube-apiserver starts");
    let kubectl =
        Kubectl { program: peers.path(Peer::Kubectl), kubeconfig: server.kubeconfig_path().to_owned() };
    a_day_of_work(&kubectl);
}

#[test]
fn every_verb_works_with_capt_server() {
    if !capt_e2e::runs_on("embedded") {
        return;
    }
    let Some(program) = kubectl_program() else { return };
    let served = Served::start();
    verbs::all(&Kubectl { program, kubeconfig: served.kubeconfig() }, Collector::Runs);
}

#[tokio::test]
async fn every_verb_says_the_same_with_a_real_kube_apiserver() {
    if !capt_e2e::runs_on("kube-apiserver") {
        return;
    }
    let Some(peers) = Peers::find_or_skip(&[KubeApiserver::NEEDS, &[Peer::Kubectl]].concat()) else { return };
    let program = peers.path(Peer::Kubectl);
    let server = KubeApiserver::start(&peers).await.expect("kube-apiserver starts");
    let kubeconfig = server.kubeconfig_path().to_owned();
    let real = verbs::all(&Kubectl { program: program.clone(), kubeconfig }, Collector::Absent);
    let served = Served::start();
    let ours = verbs::all(&Kubectl { program, kubeconfig: served.kubeconfig() }, Collector::Runs);
    let differ = real.iter().zip(&ours).filter(|(real, ours)| real != ours);
    let differ: Vec<String> = differ
        .map(|((line, real), (_, ours))| format!("kubectl {line}\n--- real\n{real}\n--- ours\n{ours}"))
        .collect();
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n=====\n"));
    assert_eq!(real.len(), ours.len());
}

/// The process is ended and its files are gone, whatever happens to the test.
struct Served {
    process: Child,
    folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let process = Self::process(folder.path());
        Self { process, folder }
    }

    fn process(folder: &Path) -> Child {
        let mut process = Command::new(env!("CARGO_BIN_EXE_capt"))
            .args(["server", "--data-dir"])
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("capt runs");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let said: Vec<String> = lines.by_ref().take(2).map(|line| line.expect("text")).collect();
        assert!(said[0].starts_with("listening on https://127.0.0.1:"), "{said:?}");
        assert!(said[1].starts_with("export KUBECONFIG=/"), "{said:?}");
        process
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/kubeconfig")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// kubectl as `make peers` built it, else the one that is installed.
fn kubectl_program() -> Option<PathBuf> {
    if let Ok(peers) = Peers::find(&[Peer::Kubectl]) {
        return Some(peers.path(Peer::Kubectl));
    }
    let installed = Command::new("kubectl").args(["version", "--client"]).output();
    installed.is_ok_and(|output| output.status.success()).then(|| "kubectl".into())
}

#[test]
fn a_person_works_with_capt_server() {
    if !capt_e2e::runs_on("embedded") {
        return;
    }
    let Some(program) = kubectl_program() else {
        assert!(!capt_e2e::required(), "kubectl is missing");
        capt_e2e::skip("kubectl is neither built (make peers) nor installed");
        return;
    };
    let mut served = Served::start();
    let kubectl = Kubectl { program, kubeconfig: served.kubeconfig() };
    a_day_of_work(&kubectl);

    // Killed without a word: what was answered is there afterwards.
    kubectl.good(&["annotate", "captmachinedeployment/worker-deployment", "kept=yes"]);
    served.process.kill().expect("the server is killed");
    served.process.wait().expect("the server is gone");
    served.process = Served::process(served.folder.path());
    let one = |path: &str| {
        kubectl.good(&["get", "cmd", "worker-deployment", "-o", &format!("jsonpath={{{path}}}")])
    };
    assert_eq!(one(".metadata.annotations.kept"), "yes");
    assert_eq!(one(".spec.replicas"), "5");
}
