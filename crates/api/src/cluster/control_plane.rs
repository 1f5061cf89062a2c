//! `CAPTControlPlane`: a managed Kubernetes control plane, built from a template.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::WorkspaceSummary;
use crate::fragments;
use crate::refs::{Endpoint, ObjectRef};

/// Desired state of a control plane.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CAPTControlPlane",
    plural = "captcontrolplanes",
    singular = "captcontrolplane",
    namespaced,
    status = "CAPTControlPlaneStatus",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "A managed Kubernetes control plane that CAPT builds from a WorkspaceTemplate. The control plane of a Cluster API Cluster.",
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "VERSION", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "ENDPOINT", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name becomes a label value: at most 63 characters"),
    validation = Rule::new("self.spec.workspaceTemplateRef == oldSelf.spec.workspaceTemplateRef")
        .message("workspaceTemplateRef is immutable: the control plane that was built from it would be orphaned; edit the template, or create another CAPTControlPlane")
        .field_path(".spec.workspaceTemplateRef"),
)]
#[serde(rename_all = "camelCase")]
pub struct CAPTControlPlaneSpec {
    /// Kubernetes version, with or without a leading v, for example "1.33" or v1.33.2.
    #[schemars(schema_with = "fragments::kubernetes_version")]
    pub version: String,
    /// WorkspaceTemplate that builds the control plane. Its module gets the variables cluster_name,
    /// kubernetes_version, region, endpoint_public_access, endpoint_private_access, public_cidrs, addons
    /// and tags, and returns the output cluster_endpoint. Immutable.
    pub workspace_template_ref: ObjectRef,
    /// Details of the control plane.
    #[serde(default)]
    pub control_plane_config: ControlPlaneConfig,
    /// Tags for the resources that the module creates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::tags")]
    pub additional_tags: BTreeMap<String, String>,
    /// Address of the Kubernetes API. Set by CAPT.
    #[serde(default, deserialize_with = "Endpoint::read", skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<Endpoint>,
    /// Accepted from older manifests and without effect: the name follows from that of the CAPTControlPlane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_apply_name: Option<String>,
}

/// Details of a control plane.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneConfig {
    /// Region of the control plane. Defaults to that of the CAPTCluster, else the annotation
    /// cluster.x-k8s.io/region of the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::region")]
    pub region: Option<String>,
    /// Network access to the Kubernetes API.
    #[serde(default)]
    pub endpoint_access: EndpointAccess,
    /// Add-ons that the cloud installs and keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub addons: Vec<Addon>,
    /// Time limits after which a missing step is reported as too late.
    #[serde(default)]
    pub timeouts: Timeouts,
}

/// Network access to the Kubernetes API.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.public || self.private")
    .message("set public or private to true: with neither nobody can reach the API"))]
#[x_kube(validation = Rule::new("!has(self.publicCIDRs) || size(self.publicCIDRs) == 0 || self.public")
    .message("publicCIDRs narrows public access: set public to true, or leave publicCIDRs out").field_path(".publicCIDRs"))]
pub struct EndpointAccess {
    /// Allows access from the internet.
    #[serde(default = "yes")]
    pub public: bool,
    /// Allows access from inside the VPC.
    #[serde(default)]
    pub private: bool,
    /// Address blocks that may use public access, for example 203.0.113.0/24. Defaults to all.
    #[serde(default, rename = "publicCIDRs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::cidrs")]
    pub public_cidrs: Vec<String>,
}

fn yes() -> bool {
    true
}

impl Default for EndpointAccess {
    fn default() -> Self {
        Self { public: true, private: false, public_cidrs: Vec::new() }
    }
}

/// An add-on that the cloud installs and keeps.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Addon {
    /// Name of the add-on, for example coredns.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Version of the add-on. Defaults to the cloud's default for the Kubernetes version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub version: Option<String>,
    /// Configuration of the add-on, as its JSON or YAML text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_values: Option<String>,
}

/// Time limits, in minutes, after which a missing step is reported as too late. A step that completes later is
/// still accepted.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// Minutes until the control plane should be ready.
    #[serde(default = "Timeouts::control_plane")]
    #[schemars(range(min = 1, max = 10_080))]
    pub control_plane_timeout: i32,
    /// Minutes until the VPC should be ready.
    #[serde(default = "Timeouts::vpc_ready")]
    #[schemars(range(min = 1, max = 10_080))]
    pub vpc_ready_timeout: i32,
    /// Minutes until the Secrets of a ready workspace should be there.
    #[serde(default = "Timeouts::secret")]
    #[schemars(range(min = 1, max = 10_080))]
    pub secret_timeout: i32,
}

impl Timeouts {
    fn control_plane() -> i32 {
        30
    }
    fn vpc_ready() -> i32 {
        15
    }
    fn secret() -> i32 {
        5
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            control_plane_timeout: Self::control_plane(),
            vpc_ready_timeout: Self::vpc_ready(),
            secret_timeout: Self::secret(),
        }
    }
}

/// Observed state of a control plane.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CAPTControlPlaneStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// True if the control plane answers and matches the spec.
    #[serde(default)]
    pub ready: bool,
    /// True once the control plane has answered for the first time.
    #[serde(default)]
    pub initialized: bool,
    /// First-time initialization, as Cluster API's contract defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ControlPlaneInitialization>,
    /// Always true: the cloud runs the control plane, there are no machines for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_managed_control_plane: Option<bool>,
    /// Version that runs now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Versions that run now; a new one shows when it is applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["version".into()]))]
    pub versions: Vec<RunningVersion>,
    /// Current phase of the control plane's lifecycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ControlPlanePhase>,
    /// The endpoint as host:port, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Machine-readable reason for a problem that needs user action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Human-readable message for that problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// True if the CA and kubeconfig Secrets exist and are valid.
    #[serde(default)]
    pub secrets_ready: bool,
    /// Summary of the workspace that builds the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_status: Option<WorkspaceSummary>,
    /// The same summary, in the format that add-on tools read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_status: Option<WorkspaceStatus>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}

/// First-time initialization, as Cluster API's contract defines it.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneInitialization {
    /// True once the control plane accepted requests for the first time; never false again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

/// A Kubernetes version that runs now.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningVersion {
    /// The version.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// Number of instances of the control plane that run this version, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// Phases of a control plane's lifecycle.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ControlPlanePhase {
    /// It is being built.
    Creating,
    /// It answers and is what the spec says.
    Ready,
    /// A change is being applied.
    Updating,
    /// It could not be built or changed.
    Failed,
    /// It is being destroyed.
    Deleting,
}

/// Summary of the workspace in the format that add-on tools read.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// True if the workspace is applied and ready.
    #[serde(default)]
    pub ready: bool,
    /// Current state of the workspace, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Values that the provider returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_provider: Option<AtProvider>,
}

/// Values that the provider returned.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AtProvider {
    /// Outputs of the module, without sensitive ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::any_values")]
    pub outputs: BTreeMap<String, Value>,
}
