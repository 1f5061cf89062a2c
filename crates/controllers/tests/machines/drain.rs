//! Nodes of machines that go: drained before, removed after, and never a reason to stay for ever.

use std::sync::Arc;

use capt_api::machine::CaptMachine;
use capt_apiserver::Server;
use capt_apiserver::authn::{Identity, write_kubeconfig};
use capt_apiserver::secure_serving::{SecureServer, Settings};
use capt_e2e::until;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::fixture::{Fixture, SOON};
use crate::fleet::{Fleet, is_ready, nothing_is_left, reason};

/// The cluster that machines join. Beside kube-apiserver it is that one, which has pods; beside the embedded API another
/// of its kind, which has Nodes alone.
struct Workload {
    client: Client,
    kubeconfig: String,
    pods: bool,
    _embedded: Option<(SecureServer, Server)>,
}

impl Workload {
    async fn of(fixture: &Fixture) -> Self {
        if let Some(kubeconfig) = fixture.harness.kubeconfig() {
            return Self { client: fixture.client.clone(), kubeconfig, pods: true, _embedded: None };
        }
        let server = Server::in_memory().await.unwrap();
        let identity = Identity::in_memory(&[], std::time::SystemTime::now()).unwrap();
        let serving =
            SecureServer::open(Arc::clone(server.api()), &identity, Settings::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        write_kubeconfig(&path, &serving.url(), &identity).unwrap();
        let kubeconfig = std::fs::read_to_string(&path).unwrap();
        let read = Kubeconfig::from_yaml(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        Self { client, kubeconfig, pods: false, _embedded: Some((serving, server)) }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    async fn node(&self, name: &str, provider_id: Option<&str>) {
        let body = json!({"metadata": {"name": name}, "spec": {"providerID": provider_id}});
        let node = serde_json::from_value(body).unwrap();
        self.nodes().create(&PostParams::default(), &node).await.unwrap();
    }

    /// A pod that runs on a node; it goes at once when it has to.
    async fn pod(&self, namespace: &str, name: &str, node: &str, owners: Value) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let body = json!({
            "metadata": {"name": name, "labels": {"app": name}, "ownerReferences": owners},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "main"}],
            },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(body).unwrap()).await.unwrap();
        let running = json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        }});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&running)).await.unwrap();
    }

    /// How many pods of an app may go now.
    async fn budget(&self, namespace: &str, app: &str, allowed: i32) {
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), namespace);
        let body = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        });
        let force = PatchParams::apply("test").force();
        let stored = budgets.patch(app, &force, &Patch::Apply(&body)).await.unwrap();
        let status = json!({"status": {
            "observedGeneration": stored.metadata.generation, "disruptionsAllowed": allowed,
            "currentHealthy": 1 + allowed, "desiredHealthy": 1, "expectedPods": 1 + allowed,
        }});
        budgets.patch_status(app, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
}

/// The kubeconfig as Cluster API keeps it.
async fn keep(fixture: &Fixture, kubeconfig: &str) {
    let body = json!({
        "metadata": {"name": "demo-kubeconfig", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}},
        "type": "cluster.x-k8s.io/secret", "stringData": {"value": kubeconfig},
    });
    fixture.secrets().create(&PostParams::default(), &serde_json::from_value(body).unwrap()).await.unwrap();
}

/// A machine that has joined the cluster demo.
async fn joined(fixture: &Fixture, name: &str, rest: Value) {
    fixture.template("machine", &fixture.machine_module()).await;
    let mut spec = json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"}, "instanceType": "small",
    });
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    let body = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachine",
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": "demo"}}, "spec": spec,
    });
    let force = PatchParams::apply("user").force();
    fixture.api::<CaptMachine>().patch(name, &force, &Patch::Apply(&body)).await.unwrap();
    fixture.machine(name, "ready", |one| is_ready(one) && one.spec.provider_id.is_some()).await;
}

async fn delete(fixture: &Fixture, name: &str) {
    fixture.api::<CaptMachine>().delete(name, &DeleteParams::background()).await.unwrap();
}

pub async fn a_node_is_drained_first(fixture: &Fixture) {
    let workload = Workload::of(fixture).await;
    keep(fixture, &workload.kubeconfig).await;
    joined(fixture, "drainee", json!({})).await;
    // Found by its providerID, whatever its name; a namesake of the machine that is another's is left alone.
    workload.node("ip-10-0-0-7", Some("test:///drainee")).await;
    workload.node("drainee", Some("test:///other")).await;
    if workload.pods {
        workload.pod(&fixture.namespace, "app", "ip-10-0-0-7", json!([])).await;
        workload.budget(&fixture.namespace, "app", 0).await;
        let daemon = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
        workload.pod(&fixture.namespace, "daemon", "ip-10-0-0-7", daemon).await;
    }
    delete(fixture, "drainee").await;
    if workload.pods {
        let draining = |one: &CaptMachine| {
            let list = &one.status.as_ref().unwrap().conditions;
            list.iter().any(|one| one.type_ == "Drained" && one.message.contains("/app (Cannot evict pod"))
        };
        fixture.machine("drainee", "the budget refuses", draining).await;
        let node = workload.nodes().get("ip-10-0-0-7").await.unwrap();
        assert_eq!(node.spec.unwrap().unschedulable, Some(true), "it is cordoned");
        assert!(fixture.get("drainee-machine").await.metadata.deletion_timestamp.is_none());
        assert_eq!(fixture.traces(), ["created drainee small"]);
        workload.budget(&fixture.namespace, "app", 1).await;
    }
    fixture.when_gone::<CaptMachine>("drainee").await;
    fixture.event("drainee", "Drained").await;
    assert!(workload.nodes().get_opt("ip-10-0-0-7").await.unwrap().is_none(), "its Node is gone");
    let namesake = workload.nodes().get("drainee").await.unwrap();
    assert_eq!(namesake.spec.unwrap().unschedulable, None);
    if workload.pods {
        let pods: Api<Pod> = Api::namespaced(workload.client.clone(), &fixture.namespace);
        assert!(pods.get_opt("app").await.unwrap().is_none());
        assert!(pods.get_opt("daemon").await.unwrap().is_some(), "daemons stay until the Node's end");
        pods.delete("daemon", &DeleteParams::default()).await.unwrap();
    }
    workload.nodes().delete("drainee", &DeleteParams::default()).await.unwrap();
    nothing_is_left(fixture).await;
}

/// A Node without a providerID is known by the machine's name.
pub async fn a_node_is_found_by_name(fixture: &Fixture) {
    let workload = Workload::of(fixture).await;
    keep(fixture, &workload.kubeconfig).await;
    joined(fixture, "by-name", json!({})).await;
    workload.node("by-name", None).await;
    delete(fixture, "by-name").await;
    fixture.when_gone::<CaptMachine>("by-name").await;
    fixture.event("by-name", "Drained").await;
    assert!(workload.nodes().get_opt("by-name").await.unwrap().is_none());
    nothing_is_left(fixture).await;
}

/// What is left after the timeout is destroyed with the machine. Only where there are pods.
pub async fn a_drain_ends_in_time(fixture: &Fixture) {
    let workload = Workload::of(fixture).await;
    if !workload.pods {
        return;
    }
    keep(fixture, &workload.kubeconfig).await;
    joined(fixture, "stubborn", json!({"nodeDrainTimeoutSeconds": 1})).await;
    workload.node("stubborn-node", Some("test:///stubborn")).await;
    workload.pod(&fixture.namespace, "app", "stubborn-node", json!([])).await;
    workload.budget(&fixture.namespace, "app", 0).await;
    delete(fixture, "stubborn").await;
    fixture.when_gone::<CaptMachine>("stubborn").await;
    fixture.event("stubborn", "DrainTimeout").await;
    assert!(workload.nodes().get_opt("stubborn-node").await.unwrap().is_none());
    nothing_is_left(fixture).await;
}

/// A cluster that cannot be reached does not keep machines: no kubeconfig, one that nobody answers, one that would run
/// a command here.
pub async fn a_cluster_out_of_reach(fixture: &Fixture) {
    joined(fixture, "alone", json!({})).await;
    delete(fixture, "alone").await;
    fixture.when_gone::<CaptMachine>("alone").await;
    fixture.event("alone", "NotDrained").await;

    let kubeconfig = |user: Value| {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": user}],
        })
        .to_string()
    };
    keep(fixture, &kubeconfig(json!({"token": "t"}))).await;
    joined(fixture, "silent", json!({})).await;
    delete(fixture, "silent").await;
    let told = until("it says so, or is gone", SOON, async || {
        let Some(machine) = fixture.api::<CaptMachine>().get_opt("silent").await.unwrap() else {
            return Some(());
        };
        (reason(&machine, "Drained") == "Draining").then_some(())
    });
    told.await.unwrap();
    fixture.when_gone::<CaptMachine>("silent").await;
    fixture.event("silent", "NotDrained").await;

    fixture.secrets().delete("demo-kubeconfig", &DeleteParams::default()).await.unwrap();
    let marker = fixture.harness.folder.path().join("ran");
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [marker],
        "interactiveMode": "Never",
    });
    keep(fixture, &kubeconfig(json!({"exec": exec}))).await;
    joined(fixture, "commanded", json!({})).await;
    delete(fixture, "commanded").await;
    fixture.when_gone::<CaptMachine>("commanded").await;
    fixture.event("commanded", "NotDrained").await;
    assert!(!marker.exists(), "the command was run");
    nothing_is_left(fixture).await;
}
