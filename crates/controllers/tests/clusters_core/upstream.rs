//! Beside Cluster API: its CRD of Cluster is left alone, and takes what CAPT writes for its own.

use capt_api::cluster::core::Cluster;
use capt_controllers::cluster::core::install::{self, Installed};
use capt_e2e::{KubeApiserver, Peer, Peers, until};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
    ValidationDirective,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::SOON;

/// Upstream's CRD. Nobody answers its conversion webhook here.
fn upstream(peers: &Peers) -> CustomResourceDefinition {
    let file = peers.path(Peer::ClusterApiCrds).join("cluster.x-k8s.io_clusters.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let value: Value = serde_saphyr::from_str(&text).unwrap();
    let mut crd: CustomResourceDefinition = serde_json::from_value(value).unwrap();
    crd.spec.conversion = Some(CustomResourceConversion { strategy: "None".into(), webhook: None });
    crd
}

fn clusters(client: &Client, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", version, "Cluster");
    Api::namespaced_with(client.clone(), "n", &ApiResource::from_gvk(&kind))
}

async fn install_upstream(client: &Client, peers: &Peers) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &upstream(peers)).await.unwrap();
    let served = until("a served CRD", SOON, async || {
        crds.get(install::NAME).await.ok().filter(install::is_served).map(drop)
    });
    served.await.unwrap();
    assert_eq!(install::install(client).await.unwrap(), Installed::Theirs);
    let labels = crds.get(install::NAME).await.unwrap().metadata.labels.unwrap_or_default();
    assert!(labels.is_empty(), "it is left as it is: {labels:?}");
}

/// What CAPT's controller writes, as the tests of the other file see it.
fn status() -> Value {
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 1});
    json!({
        "observedGeneration": 1,
        "phase": "Provisioned",
        "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
        "failureDomains": [{"name": "a", "controlPlane": true, "attributes": {"k": "v"}}],
        "workers": {"desiredReplicas": 1, "replicas": 1, "upToDateReplicas": 1, "readyReplicas": 1, "availableReplicas": 1},
        "deprecated": {"v1beta1": {"failureReason": "Broken", "failureMessage": "it broke"}},
        "conditions": [
            condition("Available", "True", "Available"),
            condition("InfrastructureReady", "False", "InvalidReference"),
            condition("ControlPlaneInitialized", "Unknown", "ObjectDoesNotExist"),
            condition("WorkersAvailable", "True", "NoWorkers"),
            condition("Deleting", "True", "WaitingForWorkersDeletion"),
            condition("Paused", "False", "NotPaused"),
        ],
    })
}

async fn agrees(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let body = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    namespaces.create(&PostParams::default(), &body).await.unwrap();
    let part = |group: &str, kind: &str| json!({"apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": kind, "name": "c"});
    let manifest = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {
            "paused": false,
            "controlPlaneEndpoint": {"host": "api.example", "port": 6443},
            "clusterNetwork": {"apiServerPort": 6443, "pods": {"cidrBlocks": ["10.0.0.0/8"]}, "serviceDomain": "cluster.local"},
            "infrastructureRef": part("infrastructure", "CAPTCluster"),
            "controlPlaneRef": part("controlplane", "CAPTControlPlane"),
        },
    });
    let mut strict = PatchParams::apply("test").force();
    strict.field_validation = Some(ValidationDirective::Strict);
    let api = clusters(client, "v1beta2");
    // A kube-apiserver says that it serves a kind a moment before it does.
    let answers = until("an answer", SOON, async || api.list(&ListParams::default()).await.ok());
    answers.await.unwrap();
    api.patch("c", &strict, &Patch::Apply(&manifest)).await.unwrap();
    let mut body =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"}});
    body["status"] = status();
    api.patch_status("c", &strict, &Patch::Apply(&body)).await.unwrap();
    let mut stored = api.get("c").await.unwrap();
    assert_eq!(stored.data["spec"], manifest["spec"]);
    for own in ["infrastructureReady", "controlPlaneReady"] {
        // v1beta1's fields; they have a place in CAPT's CRD alone.
        let kept = stored.data["status"].as_object_mut().unwrap().remove(own);
        assert!(kept.is_none_or(|kept| kept == false), "{own}");
    }
    assert_eq!(stored.data["status"], status());
    // And CAPT's own type holds all of it.
    let typed: Cluster = serde_json::from_value(serde_json::to_value(&stored).unwrap()).unwrap();
    let mut again = serde_json::to_value(typed.status.unwrap()).unwrap();
    for own in ["infrastructureReady", "controlPlaneReady"] {
        assert_eq!(again.as_object_mut().unwrap().remove(own), Some(json!(false)));
    }
    assert_eq!(again, status());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_schema_takes_what_capt_writes() {
    if capt_e2e::runs_on("embedded")
        && let Some(peers) = Peers::find_or_skip(&[Peer::ClusterApiCrds])
    {
        let server = capt_apiserver::Server::in_memory().await.unwrap();
        let client = server.client("default");
        install_upstream(&client, &peers).await;
        agrees(&client).await;
    }
    if capt_e2e::runs_on("kube-apiserver") {
        let mut needed = KubeApiserver::NEEDS.to_vec();
        needed.push(Peer::ClusterApiCrds);
        let Some(peers) = Peers::find_or_skip(&needed) else { return };
        let server = KubeApiserver::start(&peers).await.unwrap();
        install_upstream(&server.client(), &peers).await;
        agrees(&server.client()).await;
    }
}

/// The same manifests and status on CAPT's own CRD.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capts_own_schema_takes_them_too() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    assert_eq!(install::install(&client).await.unwrap(), Installed::Ours);
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let served =
        until("a served CRD", SOON, async || crds.get(install::NAME).await.ok().filter(install::is_served));
    let mut crd = served.await.unwrap();
    assert!(install::is_ours(&crd));
    assert_eq!(install::install(&client).await.unwrap(), Installed::Ours, "again is the same");
    let again = crds.get(install::NAME).await.unwrap();
    assert_eq!(again.resource_version(), crd.resource_version(), "and writes nothing");
    agrees(&client).await;
    // Upstream's applied over it: the label may stay, the conversion tells.
    crd.spec.conversion = Some(CustomResourceConversion { strategy: "Webhook".into(), webhook: None });
    assert!(!install::is_ours(&crd));
}
