//! Clusters whose modules leave traces, and how to drive and watch them.

use std::fmt::Debug;

use capt_api::cluster::core::Cluster;
use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_controllers::cluster::core::install;
use capt_controllers::runtime::conditions::find;
use capt_e2e::until;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Harness, SOON};

/// A well-formed certificate whose key was thrown away.
pub const CA: &str = "-----BEGIN CERTIFICATE-----
MIIBUTCCAQOgAwIBAgIUZaxrZv5CFF3+guZekMo/NoaS3yIwBQYDK2VwMBUxEzAR
BgNVBAMMCm9mZmxpbmUtY2EwIBcNMjYxMTE1MDcxMjIxWhgPMjEyNjEwMjIwNzEy
MjFaMBUxEzARBgNVBAMMCm9mZmxpbmUtY2EwKjAFBgMrZXADIQDuwXTRe4DfIrBt
TURECgSs7yd5e07XhmmZGDpn3U9mH6NjMGEwHQYDVR0OBBYEFKQsJmNu2n9tri6S
rAto7EbjlxZgMB8GA1UdIwQYMBaAFKQsJmNu2n9tri6SrAto7EbjlxZgMA8GA1Ud
EwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgIEMAUGAytlcANBAIDbskJPTQ+oFhXH
cGAF5Cx2EiTs4zSeYfbG+fDNkqwoJlCUzKsFHDekMsnYrMY6v7DTa/S7K8lRfSbs
72gSvA8=
-----END CERTIFICATE-----
";

/// Brings CAPT's own Cluster, and starts the controllers anew so that they find it.
pub async fn open(mut harness: Harness) -> Harness {
    harness.controllers = None;
    assert_eq!(install::install(&harness.client).await.unwrap(), install::Installed::Ours);
    let crds: Api<CustomResourceDefinition> = Api::all(harness.client.clone());
    let served = until("Clusters are served", SOON, async || {
        crds.get(install::NAME).await.ok().filter(install::is_served).map(drop)
    });
    served.await.unwrap();
    let folder = harness.folder.path().join("engine");
    harness.restart(&folder, None).await;
    harness
}

/// A namespaced kind with a status and conditions.
pub trait Told:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize
{
    fn conditions(&self) -> &[Condition];
    fn observed(&self) -> Option<i64>;
}

impl Told for CAPTCluster {
    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
    }
    fn observed(&self) -> Option<i64> {
        self.status.as_ref().and_then(|status| status.observed_generation)
    }
}

impl Told for CAPTControlPlane {
    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default()
    }
    fn observed(&self) -> Option<i64> {
        self.status.as_ref().and_then(|status| status.observed_generation)
    }
}

/// Status and reason of a condition, or "absent".
pub fn said(object: &impl Told, kind: &str) -> String {
    find(object.conditions(), kind)
        .map_or_else(|| "absent".into(), |one| format!("{} {}", one.status, one.reason))
}

/// Message of a condition.
pub fn message(object: &impl Told, kind: &str) -> String {
    find(object.conditions(), kind).map(|one| one.message.clone()).unwrap_or_default()
}

pub fn cluster_spec(network: &str, plane: &str) -> Value {
    json!({
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "CAPTCluster", "name": network},
        "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CAPTControlPlane", "name": plane},
    })
}

pub fn network_spec() -> Value {
    json!({"region": "eu-west-1", "vpcTemplateRef": {"name": "network"}})
}

pub fn plane_spec(version: &str) -> Value {
    json!({
        "version": version, "workspaceTemplateRef": {"name": "plane"},
        "controlPlaneConfig": {"addons": [{"name": "coredns"}], "endpointAccess": {"public": true, "publicCIDRs": ["203.0.113.0/24"]}},
        "additionalTags": {"team": "blue", "example.com/cost": "7"},
    })
}

impl Fixture {
    pub fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A module that leaves a trace of the network that it builds and destroys.
    pub fn network_module(&self) -> String {
        r#"
variable "cluster_name" { type = string }
variable "vpc_name" { type = string }
variable "region" { type = string }
variable "environment" { type = string }
resource "terraform_data" "vpc" {
  input = { name = var.vpc_name, trace = "TRACE" }
  provisioner "local-exec" {
    command = "echo created ${self.input.name} >> ${self.input.trace}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroyed ${self.input.name} >> ${self.input.trace}"
  }
}
output "vpc_id" { value = "vpc-${var.cluster_name}" }
output "private_subnets" { value = ["subnet-1", "subnet-2"] }
output "public_subnets" { value = ["subnet-3"] }
output "availability_zones" { value = ["${var.region}a", "${var.region}b"] }
output "environment" { value = var.environment }
"#
        .replace("TRACE", &self.trace.display().to_string())
    }

    /// A module that leaves a trace of the control plane that it builds and destroys, and of its version.
    pub fn plane_module(&self) -> String {
        r#"
variable "cluster_name" { type = string }
variable "kubernetes_version" { type = string }
variable "kubernetes_full_version" { type = string }
variable "region" { type = string }
variable "endpoint_public_access" { type = bool }
variable "endpoint_private_access" { type = bool }
variable "public_cidrs" { type = list(string) }
variable "addons" { type = list(object({ name = string, version = optional(string) })) }
variable "tags" { type = map(string) }
variable "tags_team" {
  type    = string
  default = ""
}
variable "vpc_id" {
  type    = string
  default = "none"
}
variable "private_subnets" {
  type    = list(string)
  default = []
}
resource "terraform_data" "plane" {
  input = { name = var.cluster_name, trace = "TRACE" }
  provisioner "local-exec" {
    command = "echo created plane ${self.input.name} >> ${self.input.trace}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroyed plane ${self.input.name} >> ${self.input.trace}"
  }
}
resource "terraform_data" "version" {
  triggers_replace = var.kubernetes_version
  depends_on       = [terraform_data.plane]
  provisioner "local-exec" {
    command = "echo version ${var.kubernetes_version} >> TRACE; test ${var.kubernetes_version} != 1.32 || while test ! -e TRACE.open; do sleep 0.1; done"
  }
}
output "cluster_endpoint" { value = "https://${var.cluster_name}.example:6443/" }
output "cluster_version" { value = var.kubernetes_version }
output "cluster_certificate_authority_data" { value = base64encode(<<EOT
CERTIFICATE
EOT
) }
output "cluster_token" {
  value     = "token-of-${var.cluster_name}"
  sensitive = true
}
output "told" {
  value = {
    region = var.region, public = var.endpoint_public_access, private = var.endpoint_private_access, cidrs = var.public_cidrs,
    addons = var.addons, tags = var.tags, team = var.tags_team, vpc = var.vpc_id, subnets = var.private_subnets,
    full = var.kubernetes_full_version,
  }
}
"#
        .replace("TRACE", &self.trace.display().to_string())
        .replace("CERTIFICATE", CA.trim())
    }

    /// Lets a control plane of version 1.32, whose run waits at a gate, go on.
    pub fn open_gate(&self) {
        std::fs::write(format!("{}.open", self.trace.display()), "").unwrap();
    }

    /// Waits for a line of the trace.
    pub async fn traced(&self, line: &str) {
        let seen = until(line, SOON, async || self.traces().iter().any(|known| known == line).then_some(()));
        seen.await.unwrap_or_else(|error| panic!("{error}: {:#?}", self.traces()));
    }

    pub async fn templates_of_both(&self) {
        self.template("network", &self.network_module()).await;
        self.template("plane", &self.plane_module()).await;
    }

    pub async fn put<K: Told>(&self, name: &str, spec: Value) -> K {
        self.put_with(json!({"name": name}), spec).await
    }

    pub async fn put_with<K: Told>(&self, metadata: Value, spec: Value) -> K {
        let name = metadata["name"].as_str().unwrap().to_owned();
        let body = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata, "spec": spec,
        });
        let force = PatchParams::apply("user").force();
        self.api::<K>().patch(&name, &force, &Patch::Apply(&body)).await.unwrap()
    }

    pub async fn put_cluster(&self, metadata: Value, spec: Value) {
        let name = metadata["name"].as_str().unwrap().to_owned();
        let body = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "spec": spec,
        });
        let force = PatchParams::apply("user").force();
        self.api::<Cluster>().patch(&name, &force, &Patch::Apply(&body)).await.unwrap();
    }

    /// The cluster `demo` as a whole.
    pub async fn demo(&self, version: &str) {
        self.put_cluster(json!({"name": "demo"}), cluster_spec("demo", "demo")).await;
        self.put::<CAPTCluster>("demo", network_spec()).await;
        self.put::<CAPTControlPlane>("demo", plane_spec(version)).await;
    }

    /// Waits until an object says of its current generation what `done` wants.
    pub async fn told<K: Told>(&self, name: &str, what: &str, done: impl Fn(&K) -> bool) -> K {
        let mut last = None;
        let found = until(what, SOON, async || {
            let object = self.api::<K>().get_opt(name).await.unwrap()?;
            let found = object.observed() == object.meta().generation && done(&object);
            last = Some(object.clone());
            found.then_some(object)
        })
        .await;
        found.unwrap_or_else(|error| {
            panic!("{} {name}: {error}; {}", K::kind(&()), serde_json::to_string_pretty(&last).unwrap())
        })
    }

    pub async fn network(&self, what: &str) -> CAPTCluster {
        self.told::<CAPTCluster>("demo", what, |network| said(network, "Ready") == what).await
    }

    pub async fn plane(&self, what: &str) -> CAPTControlPlane {
        self.told::<CAPTControlPlane>("demo", what, |plane| said(plane, "Ready") == what).await
    }

    /// Waits until both are ready.
    pub async fn both_ready(&self) -> (CAPTCluster, CAPTControlPlane) {
        let plane = self.plane("True Ready").await;
        let network = self
            .told::<CAPTCluster>("demo", "ready with the endpoint", |network| {
                said(network, "Ready") == "True Ready" && network.status.as_ref().unwrap().endpoint.is_some()
            })
            .await;
        (network, plane)
    }

    pub async fn remove<K: Told>(&self, name: &str) {
        self.api::<K>().delete(name, &DeleteParams::background()).await.unwrap();
    }

    pub async fn remove_cluster(&self) {
        self.api::<Cluster>().delete("demo", &DeleteParams::background()).await.unwrap();
    }

    pub async fn absent<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let mut last = None;
        let gone = until("gone", SOON, async || {
            last = self.api::<K>().get_opt(name).await.unwrap();
            last.is_none().then_some(())
        })
        .await;
        assert!(gone.is_ok(), "{name} is not gone: {}", serde_json::to_string_pretty(&last).unwrap());
    }

    /// Everything of the cluster `demo` is gone, the workspaces included.
    pub async fn nothing_is_left(&self) {
        self.absent::<Cluster>("demo").await;
        self.absent::<CAPTControlPlane>("demo").await;
        self.absent::<CAPTCluster>("demo").await;
        self.gone("demo-eks-controlplane-apply").await;
        self.gone("demo-vpc").await;
    }

    /// Makes the controllers look at an object: a clock that was turned wakes nobody.
    pub async fn nudge<K: Told>(&self, name: &str) {
        let body =
            json!({"metadata": {"annotations": {"nudged": format!("{:?}", std::time::Instant::now())}}});
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    }

    pub async fn merge<K: Told>(&self, name: &str, body: Value) {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    }

    pub async fn merge_cluster(&self, body: Value) {
        self.api::<Cluster>().patch("demo", &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    }
}

/// Name of an object that owns another.
pub fn owner_of(object: &impl ResourceExt) -> String {
    object
        .owner_references()
        .iter()
        .map(|owner| format!("{} {}", owner.kind, owner.name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// What `kubectl get` prints of an object: the columns of the API's table.
pub async fn columns<K: Told>(fixture: &Fixture, name: &str) -> Vec<(String, Value)> {
    let path = K::url_path(&(), Some(&fixture.namespace));
    let mut request = kube::api::Request::new(path).get(name, &GetParams::default()).unwrap();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    request.headers_mut().insert("accept", accept.parse().unwrap());
    let table: Value = fixture.client.request(request).await.unwrap();
    let names = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned());
    names.zip(table["rows"][0]["cells"].as_array().unwrap().iter().cloned()).collect()
}
