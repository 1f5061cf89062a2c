//! `CaptMachineDeployment`: keeps a number of equal machines and rolls them when they should change.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MachineTemplate;
use super::set::{DeletePolicy, SELECTOR_MATCHES_TEMPLATE, SELECTOR_MATCHES_TEMPLATE_MESSAGE, one};
use crate::fragments;

/// What a deployment of machines should be.
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
    doc = "Keeps a number of equal machines, and replaces them step by step when their template changes, as a Deployment does with pods.",
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
    /// How many machines there should be.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
    /// Which machines belong to the deployment; must match the labels of the template. Immutable.
    #[schemars(schema_with = "fragments::selector")]
    pub selector: LabelSelector,
    /// The machines. A change of what makes a machine different starts a rollout; labels and annotations
    /// reach existing machines in place.
    pub template: MachineTemplate,
    /// How machines are replaced.
    #[serde(default)]
    pub strategy: Strategy,
    /// Seconds that a machine must be ready before it counts as available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// How many old sets are kept to roll back to.
    #[serde(default = "Defaults::revision_history_limit")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: i32,
    /// Seconds without progress after which a rollout counts as failed.
    #[serde(default = "Defaults::progress_deadline_seconds")]
    #[schemars(range(min = 1))]
    pub progress_deadline_seconds: i32,
    /// Which machines go first when there are too many; handed on to the sets.
    #[serde(default)]
    pub delete_policy: DeletePolicy,
    /// Stops rollouts. Scaling goes on, over all sets in proportion.
    #[serde(default)]
    pub paused: bool,
    /// Replaces every machine that is older than this moment, once it has passed.
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

/// How machines are replaced.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// RollingUpdate replaces step by step, Recreate removes all old machines first, OnDelete replaces
    /// what people delete.
    #[serde(default, rename = "type")]
    pub kind: StrategyKind,
    /// Budget of a RollingUpdate; the other strategies ignore it.
    #[serde(default)]
    pub rolling_update: RollingUpdate,
}

/// Kinds of strategies.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum StrategyKind {
    /// Step by step.
    #[default]
    RollingUpdate,
    /// All old machines go first.
    Recreate,
    /// Only what people delete is replaced.
    OnDelete,
}

/// Budget of a RollingUpdate.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many machines may be missing: a number, or a percentage of the replicas, rounded down. Where
    /// this and maxSurge come to zero, one machine may be missing.
    #[serde(default = "RollingUpdate::max_unavailable")]
    #[schemars(schema_with = "fragments::int_or_share")]
    pub max_unavailable: IntOrString,
    /// How many machines there may be too many: a number, or a percentage of the replicas, rounded up.
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

/// What CAPT knows of a deployment of machines.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaptMachineDeploymentStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Machines that exist and are not being deleted.
    #[serde(default)]
    pub replicas: i32,
    /// Of those, the ones of the current revision.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Of those, the ones that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Of those, the ones that have been ready for minReadySeconds.
    #[serde(default)]
    pub available_replicas: i32,
    /// Machines that are missing until all wanted ones are available.
    #[serde(default)]
    pub unavailable_replicas: i32,
    /// Machines that are what the spec says, as Cluster API counts them.
    #[serde(default)]
    pub up_to_date_replicas: i32,
    /// Machines that are being deleted; they count for none of the above.
    #[serde(default)]
    pub terminating_replicas: i32,
    /// Revision that is current or being rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<i64>,
    /// The selector as text, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// How often the name of a new set was already taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Current state in detail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}
