//! Machines that are the infrastructure of Cluster API's own Machines.

use capt_api::machine::CaptMachine;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::core;
use crate::fixture::{Fixture, condition};
use crate::fleet::{Fleet, is_ready, nothing_is_left, reason};

const DATA: &str = "#cloud-config\nruncmd: [join --token hush-hush]";

/// The variables of a Machine; what is secret is shown by its length alone.
const BOOT: &str = r#"
variable "bootstrap_data" {
  type      = string
  sensitive = true
}
variable "bootstrap_format" { type = string }
variable "failure_domain" { type = string }
variable "kubernetes_version" { type = string }
variable "cluster_name" { type = string }
output "boot" {
  value = {
    length = nonsensitive(length(var.bootstrap_data)), format = var.bootstrap_format, zone = var.failure_domain,
    version = var.kubernetes_version, cluster = var.cluster_name
  }
}
output "private_dns" { value = "m.internal" }
"#;

/// A CaptMachine as a MachineSet of Cluster API clones it, and as a Machine owns it later.
async fn clone(fixture: &Fixture, owner: Option<&str>) {
    let owners = owner.map(|uid| {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    });
    let body = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachine",
        "metadata": {
            "name": "m", "labels": {"cluster.x-k8s.io/cluster-name": "demo"},
            "annotations": {
                "cluster.x-k8s.io/cloned-from-name": "workers",
                "cluster.x-k8s.io/cloned-from-groupkind": "CaptMachineTemplate.infrastructure.cluster.x-k8s.io",
            },
            "ownerReferences": owners.into_iter().collect::<Vec<_>>(),
        },
        "spec": {
            "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"},
            "instanceType": "small",
        },
    });
    let force = PatchParams::apply("core").force();
    fixture.api::<CaptMachine>().patch("m", &force, &Patch::Apply(&body)).await.unwrap();
}

fn machine(bootstrap: &Value) -> Value {
    json!({
        "clusterName": "demo", "bootstrap": bootstrap, "failureDomain": "zone-a", "version": "v1.34.1",
        "infrastructureRef": {"kind": "CaptMachine", "name": "m"},
    })
}

async fn waits(fixture: &Fixture, why: &str) {
    fixture.machine("m", why, |machine| reason(machine, "Ready") == why).await;
}

pub async fn a_machine_of_cluster_api(fixture: &Fixture) {
    fixture.template("machine", &format!("{}{BOOT}", fixture.machine_module())).await;
    clone(fixture, None).await;
    waits(fixture, "WaitingForMachine").await;
    assert!(fixture.applies().get_opt("m-machine").await.unwrap().is_none(), "nobody has taken it");

    let config = json!({"kind": "KubeadmConfig", "name": "m", "apiGroup": "bootstrap.cluster.x-k8s.io"});
    let uid = core::put(fixture, "Machine", "m", machine(&json!({"configRef": config})), json!({})).await;
    clone(fixture, Some(&uid)).await;
    waits(fixture, "ClusterNotFound").await;
    let cluster = json!({"infrastructureRef": {"kind": "CAPTCluster", "name": "demo"}});
    core::put(fixture, "Cluster", "demo", cluster.clone(), json!({})).await;
    waits(fixture, "WaitingForClusterInfrastructure").await;
    let provisioned = json!({"initialization": {"infrastructureProvisioned": true}});
    core::put(fixture, "Cluster", "demo", cluster, provisioned).await;
    waits(fixture, "WaitingForBootstrapData").await;
    fixture.event("m", "Waiting").await;
    assert!(fixture.applies().get_opt("m-machine").await.unwrap().is_none() && fixture.traces().is_empty());

    let boot = json!({"configRef": config, "dataSecretName": "m-boot"});
    core::put(fixture, "Machine", "m", machine(&boot), json!({})).await;
    waits(fixture, "SecretNotFound").await;
    let secret =
        json!({"metadata": {"name": "m-boot"}, "stringData": {"value": DATA, "format": "cloud-config"}});
    let secret = serde_json::from_value(secret).unwrap();
    fixture.secrets().create(&PostParams::default(), &secret).await.unwrap();

    let ready = fixture.machine("m", "ready", |one| is_ready(one) && one.spec.provider_id.is_some()).await;
    assert_eq!(fixture.traces(), ["created m small"]);
    assert_eq!(ready.spec.provider_id.as_deref(), Some("test:///m"));
    let status = ready.status.as_ref().unwrap();
    assert_eq!(status.initialization.as_ref().unwrap().provisioned, Some(true));
    assert_eq!(status.failure_domain.as_deref(), Some("zone-a"));
    let addresses: Vec<&str> = status.addresses.iter().map(|one| one.address.as_str()).collect();
    assert_eq!(addresses, ["10.0.0.7", "m.internal"]);

    let workspace = fixture.get("m-machine").await;
    assert_eq!(workspace.labels()["cluster.x-k8s.io/cluster-name"], "demo");
    assert_eq!(condition(&workspace, "Synced").0, "Ready");
    let told = json!({
        "length": DATA.len(), "format": "cloud-config", "zone": "zone-a", "version": "v1.34.1", "cluster": "demo",
    });
    assert_eq!(workspace.status.as_ref().unwrap().outputs["boot"], told);
    let shown = serde_json::to_string(&(&workspace, &ready)).unwrap();
    assert!(!shown.contains("hush-hush"), "{shown}");

    // Where a Machine owns it, core drains: nothing is said about that here.
    fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("m").await;
    // What would be said of a drain is said before this.
    fixture.event("m-machine", "DeletedWorkspace").await;
    assert!(!fixture.event_reasons("m").await.iter().any(|known| known.contains("Drain")));
    nothing_is_left(fixture).await;
}

/// A Machine whose image brings all it needs, and a module that asks for nothing of it.
pub async fn a_machine_without_bootstrap_data(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    core::put(fixture, "Cluster", "demo", json!({}), json!({})).await;
    let config = json!({"configRef": {"kind": "Any", "name": "m"}, "dataSecretName": ""});
    let uid = core::put(fixture, "Machine", "m", machine(&config), json!({})).await;
    clone(fixture, Some(&uid)).await;
    fixture.machine("m", "ready", is_ready).await;
    assert_eq!(condition(&fixture.get("m-machine").await, "Synced").0, "Ready", "nothing is missed");
    fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("m").await;
    nothing_is_left(fixture).await;
}
