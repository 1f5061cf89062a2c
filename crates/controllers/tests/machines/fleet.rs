//! A deployment of machines whose modules leave traces, and how to drive and watch it.

use std::collections::BTreeSet;
use std::fmt::Debug;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use capt_e2e::until;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::{Fixture, SOON};

/// What tests do with machines on a fixture.
pub trait Fleet {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>;
    fn machine_module(&self) -> String;
    /// Existing machines by the trace, and the most and fewest there ever were.
    fn standing(&self) -> BTreeSet<String>;
    async fn put(&self, kind: &str, name: &str, spec: Value);
    async fn scale(&self, replicas: i32);
    async fn rolled_out(&self) -> CaptMachineDeployment;
    async fn machine_names(&self) -> BTreeSet<String>;
    async fn when_gone<K>(&self, name: &str)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned;
    async fn delete_all(&self);
    async fn machine(&self, name: &str, what: &str, done: impl Fn(&CaptMachine) -> bool) -> CaptMachine;
}

impl Fleet for Fixture {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A module that leaves a trace of each machine that it builds and destroys. A type "broken" fails after the machine
    /// was built.
    fn machine_module(&self) -> String {
        r#"
variable "machine_name" { type = string }
variable "instance_type" { type = string }
variable "node_group" { type = string }
variable "labels" { type = map(string) }
variable "tags" { type = map(string) }
variable "network" {
  type    = string
  default = "none"
}
resource "terraform_data" "machine" {
  input = { name = var.machine_name, type = var.instance_type, trace = "TRACE" }
  provisioner "local-exec" {
    command = "echo created ${self.input.name} ${self.input.type} >> ${self.input.trace}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroyed ${self.input.name} ${self.input.type} >> ${self.input.trace}"
  }
}
resource "terraform_data" "check" {
  depends_on = [terraform_data.machine]
  provisioner "local-exec" {
    command = "if [ ${var.instance_type} = broken ]; then echo no such machine type >&2; exit 1; fi"
  }
}
output "instance_id" { value = "i-${var.machine_name}" }
output "private_ip" { value = "10.0.0.7" }
output "provider_id" { value = "test:///${var.machine_name}" }
output "told" { value = { group = var.node_group, labels = var.labels, tags = var.tags, network = var.network } }
"#
        .replace("TRACE", &self.trace.display().to_string())
    }

    fn standing(&self) -> BTreeSet<String> {
        let mut standing = BTreeSet::new();
        for line in self.traces() {
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == "created" {
                assert!(standing.insert(words[1].to_owned()), "{} was built twice", words[1]);
            } else {
                assert!(standing.remove(words[1]), "{} was not there", words[1]);
            }
        }
        standing
    }

    async fn put(&self, kind: &str, name: &str, spec: Value) {
        put(self, kind, name, json!({}), spec).await;
    }

    async fn scale(&self, replicas: i32) {
        let body = json!({"spec": {"replicas": replicas}});
        let api = self.api::<CaptMachineDeployment>();
        api.patch("web", &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    }

    /// Waits until the deployment is what it should be, and no machine too many is left.
    async fn rolled_out(&self) -> CaptMachineDeployment {
        let mut last = None;
        let done = until("rolled out", SOON, async || {
            let object = self.api::<CaptMachineDeployment>().get("web").await.unwrap();
            let status = object.status.clone()?;
            last = Some(status.clone());
            let current = status.observed_generation == object.metadata.generation;
            let ready = truth(&status.conditions, "Ready") == "True" && status.terminating_replicas == 0;
            (current && ready).then_some(object)
        })
        .await;
        done.unwrap_or_else(|error| panic!("{error}: {last:#?}; traces: {:#?}", self.traces()))
    }

    async fn machine_names(&self) -> BTreeSet<String> {
        let list = self.api::<CaptMachine>().list(&ListParams::default()).await.unwrap();
        list.items.iter().map(ResourceExt::name_any).collect()
    }

    async fn when_gone<K>(&self, name: &str)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api = self.api::<K>();
        let gone =
            until("gone", SOON, async || api.get_opt(name).await.unwrap().is_none().then_some(())).await;
        if gone.is_err() {
            let machines = self.api::<CaptMachine>().list(&ListParams::default()).await.unwrap().items;
            let left: Vec<_> = machines.iter().map(|one| (one.name_any(), &one.status)).collect();
            panic!("{name} is not gone: {:#?}; machines: {left:#?}", api.get_opt(name).await.unwrap());
        }
    }

    /// Deletes the deployment; nothing of it is left.
    async fn delete_all(&self) {
        let api = self.api::<CaptMachineDeployment>();
        api.delete("web", &DeleteParams::background()).await.unwrap();
        self.when_gone::<CaptMachineDeployment>("web").await;
        nothing_is_left(self).await;
    }

    async fn machine(&self, name: &str, what: &str, done: impl Fn(&CaptMachine) -> bool) -> CaptMachine {
        let mut last = None;
        let found = until(what, SOON, async || {
            let object = self.api::<CaptMachine>().get_opt(name).await.unwrap()?;
            last = Some(object.clone());
            let current = object.status.as_ref().and_then(|status| status.observed_generation);
            (current == object.metadata.generation && done(&object)).then_some(object)
        })
        .await;
        found.unwrap_or_else(|error| panic!("{name}: {error}: {last:#?}"))
    }
}

/// Makes an object what its user says, with these labels and annotations.
pub async fn put(fixture: &Fixture, kind: &str, name: &str, mut metadata: Value, spec: Value) {
    metadata["name"] = json!(name);
    let body = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec,
    });
    let force = PatchParams::apply("user").force();
    let kind =
        ApiResource::from_gvk(&GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(fixture.client.clone(), &fixture.namespace, &kind);
    api.patch(name, &force, &Patch::Apply(&body)).await.unwrap();
}

/// No set, machine, workspace or piece of infrastructure is left.
pub async fn nothing_is_left(fixture: &Fixture) {
    let all = ListParams::default();
    assert!(fixture.api::<CaptMachineSet>().list(&all).await.unwrap().items.is_empty());
    assert!(fixture.api::<CaptMachine>().list(&all).await.unwrap().items.is_empty());
    let workspaces = fixture.applies().list(&all).await.unwrap().items;
    assert!(workspaces.is_empty(), "{workspaces:#?}");
    assert_eq!(fixture.standing(), BTreeSet::new());
}

/// A deployment named web.
pub fn deployment(replicas: i32, kind: &str, strategy: &Value) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": strategy,
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"},
                "instanceType": kind, "labels": {"role": "web"}, "tags": {"team": "blue"},
            },
        },
    })
}

/// One surplus machine at most, none missing.
pub fn rolling() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
}

/// A deployment that is rolled out.
pub async fn started(fixture: &Fixture, replicas: i32, strategy: &Value) {
    fixture.template("machine", &fixture.machine_module()).await;
    fixture.put("CaptMachineDeployment", "web", deployment(replicas, "small", strategy)).await;
    fixture.rolled_out().await;
    assert_eq!(i32::try_from(fixture.standing().len()).unwrap(), replicas);
    assert_eq!(fixture.standing(), fixture.machine_names().await);
}

pub fn truth(conditions: &[Condition], kind: &str) -> String {
    conditions
        .iter()
        .find(|condition| condition.type_ == kind)
        .map_or_else(|| "absent".to_owned(), |condition| condition.status.clone())
}

pub fn reason(machine: &CaptMachine, kind: &str) -> String {
    let list = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    list.iter().find(|one| one.type_ == kind).map_or_else(String::new, |one| one.reason.clone())
}

pub fn is_ready(machine: &CaptMachine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.ready)
}
