//! Clusters: the network (`CAPTCluster`), the control plane (`CAPTControlPlane`), and the templates
//! through which a ClusterClass makes them. In [`core`]: Cluster API's own `Cluster`, where that is not installed; in
//! [`absent`]: the kinds of it that are not reconciled then.

pub mod absent;
mod control_plane;
pub mod core;
mod infrastructure;
mod templates;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fragments;

pub use control_plane::*;
pub use infrastructure::*;
pub use templates::*;

/// Summary of the workspace that builds a network or control plane.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSummary {
    /// True if the workspace is applied and ready.
    #[serde(default)]
    pub ready: bool,
    /// Current state of the workspace, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Name of the Terraform workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// Time of the last successful apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_time: Option<Time>,
    /// Hash of the inputs that were last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_revision: Option<String>,
    /// Hash of the inputs whose run last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_revision: Option<String>,
    /// Error message of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_message: Option<String>,
    /// Outputs of the module, without sensitive ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::any_values")]
    pub outputs: BTreeMap<String, Value>,
}
