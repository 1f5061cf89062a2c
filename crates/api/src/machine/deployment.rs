//! `CaptMachineDeployment`: keeps a number of equal machines and rolls them when they should change.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MachineTemplate;
use super::set::{DeletePolicy, SELECTOR_MATCHES_TEMPLATE, SELECTOR_MATCHES_TEMPLATE_MESSAGE, one};
use crate::fragments;

/// Desired state of a deployment of machines.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CaptMachineDeployment",
    plural = "captmachinedeployments",
    singular = "captmachinedeployment",
    namespaced,
    status = "CaptMachineDeploymentStatus",
    shortname = "cmd",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "Keeps a number of equal machines running, and replaces them step by step when their template changes, as a Deployment does for pods.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "DESIRED", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "CURRENT", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "READY", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "AVAILABLE", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "UP-TO-DATE", type_ = "integer", json_path = ".status.upToDateReplicas"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "PAUSED", type_ = "string", json_path = ".status.conditions[?(@.type==\"Paused\")].status", priority = 10),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 46")
        .message("metadata.name with two suffixes becomes the names of machines, which have at most 63 characters: at most 46 here"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(SELECTOR_MATCHES_TEMPLATE).message(SELECTOR_MATCHES_TEMPLATE_MESSAGE).field_path(".template.metadata.labels"))]
pub struct CaptMachineDeploymentSpec {
    /// Number of desired machines.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
    /// Label selector of the machines that belong to the deployment. It must match the labels of the template.
    /// Immutable.
    #[schemars(schema_with = "fragments::selector")]
    pub selector: LabelSelector,
    /// Template of the machines. A change to a machine-relevant field starts a rollout; labels and annotations are
    /// updated in place.
    pub template: MachineTemplate,
    /// Strategy to replace machines with.
    #[serde(default)]
    pub strategy: Strategy,
    /// Seconds that a machine must be ready before it counts as available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// Number of old sets to keep for rollbacks.
    #[serde(default = "Defaults::revision_history_limit")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: i32,
    /// Seconds without progress after which a rollout counts as failed.
    #[serde(default = "Defaults::progress_deadline_seconds")]
    #[schemars(range(min = 1))]
    pub progress_deadline_seconds: i32,
    /// Order in which surplus machines are deleted. Passed on to the sets.
    #[serde(default)]
    pub delete_policy: DeletePolicy,
    /// Stops rollouts. Scaling continues, in proportion over all sets.
    #[serde(default)]
    pub paused: bool,
    /// Replaces every machine that was created before this time, once the time has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_after: Option<Time>,
}

struct Defaults;

impl Defaults {
    fn revision_history_limit() -> i32 {
        10
    }
    fn progress_deadline_seconds() -> i32 {
        600
    }
}

/// Strategy to replace machines with.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// RollingUpdate replaces machines step by step, Recreate deletes all old machines first, OnDelete replaces
    /// only machines that users delete.
    #[serde(default, rename = "type")]
    pub kind: StrategyKind,
    /// Limits of a RollingUpdate; ignored by the other strategies.
    #[serde(default)]
    pub rolling_update: RollingUpdate,
}

/// Kinds of strategies.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum StrategyKind {
    /// Step by step.
    #[default]
    RollingUpdate,
    /// All old machines are deleted first.
    Recreate,
    /// Only machines that users delete are replaced.
    OnDelete,
}

/// Limits of a RollingUpdate.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// Maximum number of machines that may be unavailable during the update: a number, or a percentage of the
    /// replicas, rounded down. If this and maxSurge are both zero, one machine may be unavailable.
    #[serde(default = "RollingUpdate::max_unavailable")]
    #[schemars(schema_with = "fragments::int_or_share")]
    pub max_unavailable: IntOrString,
    /// Maximum number of machines above the desired number: a number, or a percentage of the replicas, rounded up.
    #[serde(default = "RollingUpdate::max_surge")]
    #[schemars(schema_with = "fragments::int_or_any_percent")]
    pub max_surge: IntOrString,
}

impl RollingUpdate {
    fn max_unavailable() -> IntOrString {
        IntOrString::Int(0)
    }
    fn max_surge() -> IntOrString {
        IntOrString::Int(1)
    }
}

impl Default for RollingUpdate {
    fn default() -> Self {
        Self { max_unavailable: Self::max_unavailable(), max_surge: Self::max_surge() }
    }
}

/// Observed state of a deployment of machines.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaptMachineDeploymentStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of machines that exist and are not being deleted.
    #[serde(default)]
    pub replicas: i32,
    /// Number of those machines that are of the current revision.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Number of those machines that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Number of those machines that have been ready for minReadySeconds.
    #[serde(default)]
    pub available_replicas: i32,
    /// Number of machines that are missing until all desired ones are available.
    #[serde(default)]
    pub unavailable_replicas: i32,
    /// Number of machines that are up to date with the spec, as Cluster API counts them.
    #[serde(default)]
    pub up_to_date_replicas: i32,
    /// Number of machines that are being deleted. The other counters do not include them.
    #[serde(default)]
    pub terminating_replicas: i32,
    /// Revision that is current or being rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<i64>,
    /// Label selector as a string, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Number of times that the name of a new set was already taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}
