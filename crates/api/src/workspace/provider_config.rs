//! `WorkspaceProviderConfig`: settings that workspaces need besides their module: credentials, provider blocks,
//! a place for the state, a binary.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fragments;
use crate::refs::KeyRef;

/// Desired state of a WorkspaceProviderConfig.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "WorkspaceProviderConfig",
    plural = "workspaceproviderconfigs",
    singular = "workspaceproviderconfig",
    namespaced,
    status = "WorkspaceProviderConfigStatus",
    shortname = "wpc",
    category = "capt",
    category = "cluster-api",
    category = "terraform",
    derive = "PartialEq",
    doc = "Settings that workspaces need besides their module: credentials, provider blocks, a location of the state, and which Terraform or OpenTofu to run. A WorkspaceTemplate names one in providerConfigRef.",
    printcolumn(name = "BACKEND", type_ = "string", json_path = ".spec.backend.type"),
    printcolumn(name = "BINARY", type_ = "string", json_path = ".spec.binary.name"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.spec.backend == oldSelf.spec.backend")
        .message("backend is immutable: workspaces would look for their state where it is not, and forget their infrastructure; create another WorkspaceProviderConfig")
        .field_path(".spec.backend"),
)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceProviderConfigSpec {
    /// Secret values for Terraform, each as an environment variable or as a file in its working directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub credentials: Vec<Credential>,
    /// HCL that is added to every module: `provider` blocks and `required_providers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262_144))]
    pub configuration: Option<String>,
    /// Location of the Terraform state. Immutable.
    #[serde(default)]
    pub backend: Backend,
    /// Program that runs the modules.
    #[serde(default)]
    pub binary: Binary,
    /// Source of provider plugins. Defaults to a cache that all workspaces share, filled from the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Plugins>,
}

/// One secret value for Terraform.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.env) != has(self.filename)")
    .message("a credential has exactly one of env (an environment variable) or filename (a file in the folder Terraform runs in)"))]
pub struct Credential {
    /// The key that holds the value.
    pub secret_ref: KeyRef,
    /// Environment variable that gets the value, for example AWS_ACCESS_KEY_ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::environment_name")]
    pub env: Option<String>,
    /// Name of a file, readable by Terraform alone, that gets the value, for example aws-creds.ini.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$"))]
    pub filename: Option<String>,
    /// Accepted from Crossplane's ProviderConfig; only Secret is supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CredentialSource>,
}

/// Kinds of sources of a credential.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum CredentialSource {
    /// A Secret.
    #[default]
    Secret,
}

/// Location of the Terraform state.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.type == 'HCL') == has(self.hcl)")
    .message("type: HCL needs the backend block in hcl; with any other type leave hcl out"))]
pub struct Backend {
    /// Auto is Local on a laptop and Kubernetes in a cluster. Local keeps the state in CAPT's data folder,
    /// Kubernetes in Secrets beside the workspace, HCL in the backend that the block in `hcl` configures.
    #[serde(default, rename = "type")]
    pub kind: BackendKind,
    /// A `backend` block, for type HCL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 65_536))]
    pub hcl: Option<String>,
}

/// Kinds of backends.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum BackendKind {
    /// Local on a laptop, Kubernetes in a cluster.
    #[default]
    Auto,
    /// CAPT's data folder.
    Local,
    /// Secrets beside the workspace.
    Kubernetes,
    /// The user's own backend block.
    #[serde(rename = "HCL")]
    Hcl,
}

/// Program that runs the modules.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Binary {
    /// Auto prefers OpenTofu if it is installed, else Terraform.
    #[serde(default)]
    pub name: BinaryName,
    /// Version constraint in Terraform's syntax, for example ">= 1.6, < 2.0". Defaults to any version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^ *(=|!=|>|>=|<|<=|~>)? *v?[0-9]+([.][0-9]+)*([-+][0-9A-Za-z.-]+)? *(, *(=|!=|>|>=|<|<=|~>)? *v?[0-9]+([.][0-9]+)*([-+][0-9A-Za-z.-]+)? *)*$')")
        .message("a version constraint is written like \">= 1.6\" or \"~> 1.9, != 1.9.3\""))]
    pub version: Option<String>,
}

/// Programs that can run a module.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum BinaryName {
    /// OpenTofu if it is installed, else Terraform.
    #[default]
    Auto,
    /// OpenTofu.
    #[serde(rename = "tofu")]
    Tofu,
    /// Terraform.
    #[serde(rename = "terraform")]
    Terraform,
}

/// Source of provider plugins.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugins {
    /// Folder with a filesystem mirror. Plugins come from there alone; nothing is downloaded. It must lie below a folder
    /// that the operator allows with --allow-path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096), regex(pattern = r"^/[^\x00-\x1f\x7f]*$"))]
    pub mirror: Option<String>,
    /// Folder where downloaded plugins are kept for all workspaces, below one that the operator allows with
    /// --allow-path. The operator creates it, for plugins alone: CAPT creates no folder there, and rejects one
    /// that is missing or in a module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096), regex(pattern = r"^/[^\x00-\x1f\x7f]*$"))]
    pub cache: Option<String>,
}

/// Observed state of a WorkspaceProviderConfig.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceProviderConfigStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Binary that was found, with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}
