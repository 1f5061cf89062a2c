//! What a person sees of CAPT's kinds with the real kubectl, on a real kube-apiserver and on `capt server`.
//! `CAPT_TEST_API=embedded` or `=kube-apiserver` runs one of them alone.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use capt_e2e::{KubeApiserver, Peer, Peers};

/// kubectl with a kubeconfig.
struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            // Discovery of another server must not answer for this one.
            .arg("--cache-dir")
            .arg(self.kubeconfig.with_extension("cache"))
            .args(arguments)
            .output()
            .expect("kubectl runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    fn good(&self, arguments: &[&str]) -> String {
        let (good, said) = self.run(arguments);
        assert!(good, "kubectl {}: {said}", arguments.join(" "));
        said
    }

    fn refused(&self, arguments: &[&str], why: &str) {
        let (good, said) = self.run(arguments);
        assert!(!good && said.contains(why), "kubectl {} should say {why:?}: {said}", arguments.join(" "));
    }
}

fn in_project(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).display().to_string()
}

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
        eprintln!("skipped: kubectl is neither built (make peers) nor installed");
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

/// What people do with kubectl, from installing the CRDs to deleting what they made.
fn a_day_of_work(kubectl: &Kubectl) {
    kubectl.good(&["apply", "--server-side", "-f", &in_project("config/crd")]);
    kubectl.good(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
    let explained =
        kubectl.good(&["explain", "captmachinedeployment.spec.strategy.rollingUpdate.maxUnavailable"]);
    assert!(explained.contains("How many machines may be missing"), "{explained}");
    let kinds = kubectl.good(&["api-resources", "--categories=capt", "-o", "name"]);
    assert_eq!(kinds.lines().count(), 12, "{kinds}");

    // Kinds of Cluster API core are not installed here; everything of ours is applied.
    for example in ["machine-deployment.yaml", "machine-set.yaml", "machine-node-group-config.yaml"] {
        kubectl.good(&["apply", "-f", &in_project(&format!("examples/{example}"))]);
    }
    let seen = kubectl.good(&["get", "captmachinedeployments"]);
    let header: Vec<&str> = seen.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["NAME", "DESIRED", "CURRENT", "READY", "AVAILABLE", "UPDATED", "AGE"]);

    let deployment = "captmachinedeployment/worker-deployment";
    kubectl.good(&["scale", deployment, "--replicas=5"]);
    let one = |path: &str| kubectl.good(&["get", deployment, "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(one(".spec.replicas"), "5");
    assert_eq!(
        one(".spec.strategy"),
        r#"{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0},"type":"RollingUpdate"}"#
    );
    kubectl.good(&["label", deployment, "team=platform"]);
    kubectl.good(&["annotate", deployment, "note=hello"]);
    kubectl.good(&["patch", deployment, "--type=merge", "-p", r#"{"spec":{"paused":true}}"#]);
    kubectl.good(&[
        "patch",
        deployment,
        "--type=json",
        "-p",
        r#"[{"op":"replace","path":"/spec/paused","value":false}]"#,
    ]);
    assert_eq!(one(".metadata.labels.team"), "platform");
    assert_eq!(kubectl.good(&["get", "cmd", "-l", "team=platform", "-o", "name"]).lines().count(), 1);
    assert_eq!(kubectl.good(&["get", "cmd", "--field-selector", "metadata.name=nobody", "-o", "name"]), "");
    let described = kubectl.good(&["describe", deployment]);
    assert!(described.contains("worker-deployment") && described.contains("Max Surge"), "{described}");
    kubectl.good(&["wait", deployment, "--for=jsonpath={.spec.replicas}=5", "--timeout=30s"]);
    let (same, said) = kubectl.run(&["diff", "-f", &in_project("examples/machine-set.yaml")]);
    assert!(same, "{said}");
    assert_eq!(kubectl.good(&["auth", "can-i", "create", "captmachines"]).trim(), "yes");

    kubectl.refused(
        &["apply", "-f", &in_project("docs/demo/mistakes.yaml")],
        "set exactly one of vpcTemplateRef (CAPT builds the VPC) or existingVpcId",
    );
    kubectl
        .refused(&["apply", "-f", &in_project("docs/demo/mistakes.yaml")], r#"unknown field "spec.replica""#);
    kubectl.refused(
        &["get", "captmachines", "nobody"],
        r#"captmachines.infrastructure.cluster.x-k8s.io "nobody" not found"#,
    );
    kubectl.good(&["delete", "captmachineset", "--all", "--timeout=30s"]);
    assert_eq!(kubectl.good(&["get", "captmachinesets", "-o", "name"]), "");
}
