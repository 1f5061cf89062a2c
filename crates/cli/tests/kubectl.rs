//! What a person sees of the API with the real kubectl on a real kube-apiserver: explain, apply, get, refusals.

use std::path::Path;
use std::process::Command;

use capt_e2e::{KubeApiserver, Peer, Peers};

struct Kubectl {
    peers: Peers,
    server: KubeApiserver,
}

impl Kubectl {
    async fn start() -> Option<Self> {
        if !capt_e2e::runs_on("kube-apiserver") {
            return None;
        }
        let peers = Peers::find_or_skip(&[KubeApiserver::NEEDS, &[Peer::Kubectl]].concat())?;
        let server = KubeApiserver::start(&peers).await.expect("kube-apiserver starts");
        let kubectl = Self { peers, server };
        kubectl.good(&["apply", "--server-side", "-f", &in_project("config/crd")]);
        kubectl.good(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
        Some(kubectl)
    }

    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(self.peers.path(Peer::Kubectl))
            .arg("--kubeconfig")
            .arg(self.server.kubeconfig_path())
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
}

fn in_project(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).display().to_string()
}

#[tokio::test]
async fn a_person_can_read_apply_see_and_scale() {
    let Some(kubectl) = Kubectl::start().await else { return };

    let explained =
        kubectl.good(&["explain", "captmachinedeployment.spec.strategy.rollingUpdate.maxUnavailable"]);
    assert!(explained.contains("How many machines may be missing"), "{explained}");
    let kinds = kubectl.good(&["api-resources", "--categories=capt", "-o", "name"]);
    assert_eq!(kinds.lines().count(), 12, "{kinds}");

    // Kinds of Cluster API core are not installed here; everything of ours is applied.
    for example in [
        "examples/machine-deployment.yaml",
        "examples/machine-set.yaml",
        "examples/machine-node-group-config.yaml",
    ] {
        kubectl.good(&["apply", "-f", &in_project(example)]);
    }
    let seen = kubectl.good(&["get", "captmachinedeployments"]);
    let header: Vec<&str> = seen.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["NAME", "DESIRED", "CURRENT", "READY", "AVAILABLE", "UPDATED", "AGE"]);
    let name = seen.lines().nth(1).and_then(|line| line.split_whitespace().next()).expect("a deployment");

    kubectl.good(&["scale", "captmachinedeployment", name, "--replicas=5"]);
    let replicas = kubectl.good(&["get", "captmachinedeployment", name, "-o", "jsonpath={.spec.replicas}"]);
    assert_eq!(replicas, "5");
    let strategy = kubectl.good(&["get", "captmachinedeployment", name, "-o", "jsonpath={.spec.strategy}"]);
    assert_eq!(strategy, r#"{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0},"type":"RollingUpdate"}"#);

    let (good, said) = kubectl.run(&["apply", "-f", &in_project("docs/demo/mistakes.yaml")]);
    assert!(!good);
    assert!(
        said.contains("set exactly one of vpcTemplateRef (CAPT builds the VPC) or existingVpcId"),
        "{said}"
    );
    assert!(said.contains(r#"unknown field "spec.replica""#), "{said}");
}
