//! `Cluster` of Cluster API, for an API where Cluster API itself is not installed: the shape of upstream's v1beta2, as
//! far as CAPT serves it.
//!
//! v1beta1 is served too, without conversion: both versions share what is stored. So both have one schema, which takes
//! either form: a reference has `apiGroup` (v1beta2) or `apiVersion` (v1beta1), an endpoint may be the empty one that
//! v1beta1 writes, and the status has the words of both. `failureDomains` is v1beta2's list in both.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::FailureDomain;
use crate::fragments;

/// Desired state of a cluster.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Cluster",
    plural = "clusters",
    singular = "cluster",
    shortname = "cl",
    namespaced,
    status = "ClusterStatus",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "A cluster: its infrastructure, its control plane, and their combined status. Served by CAPT where Cluster API core is not installed.",
    printcolumn(name = "AVAILABLE", type_ = "string", json_path = ".status.conditions[?(@.type==\"Available\")].status"),
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "ENDPOINT", type_ = "string", json_path = ".spec.controlPlaneEndpoint.host"),
    printcolumn(name = "W DESIRED", type_ = "integer", json_path = ".status.workers.desiredReplicas"),
    printcolumn(name = "W AVAILABLE", type_ = "integer", json_path = ".status.workers.availableReplicas"),
    printcolumn(name = "PAUSED", type_ = "string", json_path = ".status.conditions[?(@.type==\"Paused\")].status", priority = 10),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name becomes a label value: at most 63 characters"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.topology)")
    .message("a topology is made of a ClusterClass by Cluster API core, which is not installed: name infrastructureRef and controlPlaneRef instead")
    .field_path(".topology"))]
pub struct ClusterSpec {
    /// Stops all work on the cluster and on everything that belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The infrastructure, for example a CAPTCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ClusterPartRef>,
    /// The control plane, for example a CAPTControlPlane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ClusterPartRef>,
    /// Address of the Kubernetes API. Set from the infrastructure, else from the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ClusterEndpoint>,
    /// Networks inside the cluster. Informational: CAPT does not act on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_network: Option<ClusterNetwork>,
    /// Not served: needs Cluster API core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub topology: Option<Value>,
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A part of a cluster, in its namespace.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.apiGroup) || (has(self.apiVersion) && self.apiVersion.contains('/'))")
    .message("name the apiGroup, for example infrastructure.cluster.x-k8s.io; v1beta1 manifests name group and version in apiVersion"))]
pub struct ClusterPartRef {
    /// API group of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub api_group: Option<String>,
    /// API group and version of the object, as v1beta1 has it; only the group counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub api_version: Option<String>,
    /// Kind of the object.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"))]
    pub kind: String,
    /// Name of the object.
    #[schemars(schema_with = "fragments::object_name")]
    pub name: String,
    /// Namespace of the object, as v1beta1 has it: must be that of the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Accepted from v1beta1 and without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub uid: Option<String>,
    /// Accepted from v1beta1 and without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub resource_version: Option<String>,
    /// Accepted from v1beta1 and without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub field_path: Option<String>,
}

impl ClusterPartRef {
    /// The API group, in whichever form it was given.
    pub fn group(&self) -> &str {
        let old = || {
            self.api_version.as_deref().and_then(|version| version.split_once('/')).map(|(group, _)| group)
        };
        self.api_group.as_deref().or_else(old).unwrap_or_default()
    }
}

/// Address of the Kubernetes API. An empty host means that it is not known yet.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEndpoint {
    /// Host name or address.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub host: String,
    /// Port.
    #[serde(default)]
    #[schemars(range(min = 0, max = 65_535))]
    pub port: i32,
}

/// Networks inside of a cluster.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// Port of the API on machines of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65_535))]
    pub api_server_port: Option<i32>,
    /// Networks of services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<NetworkRanges>,
    /// Networks of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<NetworkRanges>,
    /// Domain name of services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_domain: Option<String>,
}

/// Address blocks.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRanges {
    /// The blocks, for example 10.0.0.0/16.
    #[schemars(length(max = 100), inner(length(min = 1, max = 43)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub cidr_blocks: Vec<String>,
}

/// Observed state of a cluster.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Current phase of the cluster's lifecycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClusterPhase>,
    /// Initialization steps that have completed at least once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ClusterInitialization>,
    /// Zones that machines can be spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub failure_domains: Vec<FailureDomain>,
    /// Counters of the worker machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersStatus>,
    /// Fields that v1beta2 keeps for clients of v1beta1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<ClusterDeprecated>,
    /// Deprecated v1beta1 field: initialization.infrastructureProvisioned.
    #[serde(default)]
    pub infrastructure_ready: bool,
    /// Deprecated v1beta1 field: whether the control plane takes requests now.
    #[serde(default)]
    pub control_plane_ready: bool,
    /// Machine-readable reason for a problem that needs user action, where v1beta1 has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Human-readable message for that problem, with the name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}

/// Phases of a cluster's lifecycle.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ClusterPhase {
    /// Nothing has been started.
    Pending,
    /// Its parts are being built.
    Provisioning,
    /// Its infrastructure is complete, and its API has an address.
    Provisioned,
    /// The cluster is being deleted.
    Deleting,
    /// A part reports a problem that needs user action.
    Failed,
    /// The phase is not known.
    Unknown,
}

impl ClusterPhase {
    /// The phase as the status spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Provisioning => "Provisioning",
            Self::Provisioned => "Provisioned",
            Self::Deleting => "Deleting",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

/// Initialization steps that have completed at least once.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterInitialization {
    /// The infrastructure was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// The control plane took requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

/// Counters of machines.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkersStatus {
    /// Number of desired machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// Number of machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Number of machines of the current revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// Number of ready machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Number of machines that have been ready for minReadySeconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
}

/// Deprecated fields of older versions.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDeprecated {
    /// Fields of v1beta1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<ClusterV1beta1>,
}

/// Deprecated fields of v1beta1.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterV1beta1 {
    /// Machine-readable reason for a problem that needs user action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Human-readable message for that problem, with the name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10_240))]
    pub failure_message: Option<String>,
}
