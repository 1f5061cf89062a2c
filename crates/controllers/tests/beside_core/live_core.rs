//! One kube-apiserver with core and CAPT on it, and how to drive and watch them.

use std::path::Path;
use std::sync::Arc;

use capt_controllers::ClusterApi;
use capt_e2e::{ClusterApiCore, KubeApiserver, Peers, until};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::{Fixture, Harness, SOON};

pub const CORE: &str = "cluster.x-k8s.io/v1beta2";
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta1";

/// Everything of which nothing may be left when a cluster is gone.
const KINDS: [(&str, &str); 11] = [
    (CORE, "Cluster"),
    (CORE, "MachineDeployment"),
    (CORE, "MachineSet"),
    (CORE, "Machine"),
    (INFRASTRUCTURE, "CAPTCluster"),
    (CONTROL_PLANE, "CAPTControlPlane"),
    (INFRASTRUCTURE, "CaptMachineDeployment"),
    (INFRASTRUCTURE, "CaptMachineSet"),
    (INFRASTRUCTURE, "CaptMachine"),
    (INFRASTRUCTURE, "NodeGroup"),
    (INFRASTRUCTURE, "WorkspaceTemplateApply"),
];

/// What runs.
pub struct LiveCore {
    harness: Arc<Harness>,
    core: ClusterApiCore,
}

impl LiveCore {
    pub async fn open(peers: &Peers) -> Self {
        let server = KubeApiserver::start(peers).await.unwrap();
        let core = ClusterApiCore::start(peers, &server).await.unwrap();
        let mut harness = Harness::real(server).await;
        harness.cluster_api = ClusterApi::Core;
        let folder = harness.folder.path().join("engine");
        harness.restart(&folder, None).await;
        Self { harness: Arc::new(harness), core }
    }

    pub async fn fixture(&self, name: &str) -> Fixture {
        Fixture::new(Arc::clone(&self.harness), name).await
    }

    /// What core said last, for a test that fails.
    fn log(&self) -> String {
        self.core.process().log_tail(40)
    }

    /// Waits until an object is what `done` wants.
    pub async fn when(
        &self,
        fixture: &Fixture,
        (version, kind): (&str, &str),
        name: &str,
        what: &str,
        done: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let api = api(fixture, version, kind);
        let mut last = None;
        let found = until(what, SOON, async || {
            last = api.get_opt(name).await.unwrap();
            last.clone().filter(&done)
        });
        let found = found.await;
        found.unwrap_or_else(|error| {
            panic!("{kind} {name}: {error}; {}\n{}", serde_json::to_string_pretty(&last).unwrap(), self.log())
        })
    }

    /// Waits until there are as many of a kind as wanted, and each is what `done` wants.
    pub async fn all(
        &self,
        fixture: &Fixture,
        (version, kind): (&str, &str),
        count: usize,
        what: &str,
        done: impl Fn(&DynamicObject) -> bool,
    ) -> Vec<DynamicObject> {
        let api = api(fixture, version, kind);
        let mut last = Vec::new();
        let found = until(what, SOON, async || {
            last = api.list(&ListParams::default()).await.unwrap().items;
            (last.len() == count && last.iter().all(&done)).then(|| last.clone())
        });
        let found = found.await;
        found.unwrap_or_else(|error| {
            let shown = serde_json::to_string_pretty(&last).unwrap();
            panic!("{count} of {kind}: {error}; {shown}\n{}", self.log())
        })
    }

    /// Deletes a Cluster, and waits until nothing of it is left. The network stays while the control plane does.
    pub async fn delete_cluster(&self, fixture: &Fixture, name: &str) {
        api(fixture, CORE, "Cluster").delete(name, &DeleteParams::default()).await.unwrap();
        let (networks, planes) =
            (api(fixture, INFRASTRUCTURE, "CAPTCluster"), api(fixture, CONTROL_PLANE, "CAPTControlPlane"));
        let all = ListParams::default();
        let mut left = Vec::new();
        let gone = until("nothing is left", SOON, async || {
            // In this order: a control plane that is there now was there then.
            let going = networks.list(&all).await.unwrap().items;
            let going = going.iter().any(|network| network.metadata.deletion_timestamp.is_some());
            let plane = !planes.list(&all).await.unwrap().items.is_empty();
            assert!(!(going && plane), "the network goes before the control plane is gone");
            left = self.left(fixture).await;
            left.is_empty().then_some(())
        });
        if let Err(error) = gone.await {
            panic!("{error}: {}\n{}", serde_json::to_string_pretty(&left).unwrap(), self.log());
        }
        self.only_garbage(fixture).await;
    }

    async fn left(&self, fixture: &Fixture) -> Vec<DynamicObject> {
        let mut left = Vec::new();
        for (version, kind) in KINDS {
            left.extend(api(fixture, version, kind).list(&ListParams::default()).await.unwrap().items);
        }
        left
    }

    /// No garbage collector runs here: Secrets may be left, but only those whose owner is gone.
    async fn only_garbage(&self, fixture: &Fixture) {
        for secret in fixture.secrets().list(&ListParams::default()).await.unwrap() {
            let owners: Vec<&str> =
                secret.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
            assert!(
                matches!(owners[..], ["CAPTControlPlane" | "WorkspaceTemplateApply"]),
                "Secret {} would stay: {owners:?}",
                secret.name_any()
            );
        }
    }
}

pub fn api(fixture: &Fixture, version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(fixture.client.clone(), &fixture.namespace, &resource)
}

/// The objects of a file of `examples`.
pub fn example(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Applies objects as their user.
pub async fn apply(fixture: &Fixture, objects: Vec<Value>) {
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let force = PatchParams::apply("user").force();
        let stored = api(fixture, &version, &kind).patch(&name, &force, &Patch::Apply(&object)).await;
        stored.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }
}

/// Changes an object as its user.
pub async fn change(fixture: &Fixture, (version, kind): (&str, &str), name: &str, body: Value) {
    let merge = PatchParams { field_manager: Some("user".into()), ..PatchParams::default() };
    api(fixture, version, kind).patch(name, &merge, &Patch::Merge(&body)).await.unwrap();
}

/// The offline modules, with a control plane that can be reached: it is this kube-apiserver.
pub async fn apply_templates(fixture: &Fixture) {
    let kubeconfig = json!(fixture.harness.kubeconfig().unwrap()).to_string();
    let mut templates = example("cluster/00-templates.yaml");
    for template in &mut templates {
        let module = template.pointer_mut("/spec/template/spec/forProvider/module").unwrap();
        let text = module.as_str().unwrap();
        if text.contains(r#"output "cluster_endpoint""#) {
            let output =
                format!("output \"kubeconfig\" {{\n  value     = {kubeconfig}\n  sensitive = true\n}}\n");
            *module = json!(format!("{text}\n{output}"));
        }
    }
    apply(fixture, templates).await;
}

/// Status of a condition, or "absent".
pub fn condition(object: &DynamicObject, kind: &str) -> String {
    let all = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|one| one["type"] == kind);
    found.map_or_else(|| "absent".into(), |one| one["status"].as_str().unwrap().to_owned())
}

/// Does a kubelet's part: a Node that is ready, by the id that the provider gave its machine.
pub async fn join(fixture: &Fixture, name: &str, provider_id: &str) {
    let nodes: Api<Node> = Api::all(fixture.client.clone());
    let body = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": provider_id},
    });
    let kubelet = PatchParams::apply("kubelet").force();
    nodes.patch(name, &kubelet, &Patch::Apply(&body)).await.unwrap();
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "Kubelet", "message": "",
            "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    let pressures = ["MemoryPressure", "DiskPressure", "PIDPressure"].map(|kind| condition(kind, "False"));
    let conditions: Vec<Value> = pressures.into_iter().chain([condition("Ready", "True")]).collect();
    let status = json!({"status": {"conditions": conditions, "nodeInfo": {
        "kubeletVersion": "v1.35.0", "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
        "containerRuntimeVersion": "", "kubeProxyVersion": "", "operatingSystem": "", "architecture": "",
    }}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}
