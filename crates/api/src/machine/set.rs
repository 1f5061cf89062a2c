//! `CaptMachineSet`: keeps a number of equal machines.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MachineTemplate;
use crate::fragments;

/// CEL rule that the selector of a set or deployment matches the machines it creates. Without it, machines would
/// be created without end.
pub(super) const SELECTOR_MATCHES_TEMPLATE: &str = "\
(!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])) && \
(!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, \
e.operator == 'Exists' ? e.key in self.template.metadata.labels : \
e.operator == 'DoesNotExist' ? !(e.key in self.template.metadata.labels) : \
e.operator == 'In' ? has(e.values) && e.key in self.template.metadata.labels && self.template.metadata.labels[e.key] in e.values : \
!has(e.values) || !(e.key in self.template.metadata.labels) || !(self.template.metadata.labels[e.key] in e.values)))";

/// Message for a violation of [`SELECTOR_MATCHES_TEMPLATE`].
pub(super) const SELECTOR_MATCHES_TEMPLATE_MESSAGE: &str =
    "selector must match template.metadata.labels: give the template the labels that the selector asks for";

/// Desired state of a set of machines.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CaptMachineSet",
    plural = "captmachinesets",
    singular = "captmachineset",
    namespaced,
    status = "CaptMachineSetStatus",
    shortname = "cms",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "Keeps a number of equal machines running. Usually created and scaled by a CaptMachineDeployment.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "DESIRED", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "CURRENT", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "READY", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "AVAILABLE", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "PAUSED", type_ = "string", json_path = ".status.conditions[?(@.type==\"Paused\")].status", priority = 10),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 57")
        .message("metadata.name with a suffix becomes the names of machines, which have at most 63 characters: at most 57 here"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(SELECTOR_MATCHES_TEMPLATE).message(SELECTOR_MATCHES_TEMPLATE_MESSAGE).field_path(".template.metadata.labels"))]
pub struct CaptMachineSetSpec {
    /// Number of desired machines.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
    /// Label selector of the machines that belong to the set. It must match the labels of the template. Immutable.
    #[schemars(schema_with = "fragments::selector")]
    pub selector: LabelSelector,
    /// Template of the machines.
    pub template: MachineTemplate,
    /// Seconds that a machine must be ready before it counts as available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// Order in which surplus machines are deleted. Machines that are deleting, annotated with
    /// cluster.x-k8s.io/delete-machine, or unhealthy go before all others.
    #[serde(default)]
    pub delete_policy: DeletePolicy,
}

pub(super) fn one() -> i32 {
    1
}

/// Orders in which surplus machines are deleted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DeletePolicy {
    /// No preference.
    #[default]
    Random,
    /// The newest first.
    Newest,
    /// The oldest first.
    Oldest,
}

/// Observed state of a set of machines.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaptMachineSetStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of machines that exist and are not being deleted.
    #[serde(default)]
    pub replicas: i32,
    /// Number of those machines that have all labels of the template.
    #[serde(default)]
    pub fully_labeled_replicas: i32,
    /// Number of those machines that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Number of those machines that have been ready for minReadySeconds.
    #[serde(default)]
    pub available_replicas: i32,
    /// Number of machines that are being deleted. The other counters do not include them.
    #[serde(default)]
    pub terminating_replicas: i32,
    /// Machine names that the set has allocated, so that no machine is created twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    /// The last machine that could not be built. Kept after the machine is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<MachineFailure>,
    /// Label selector as a string, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}

/// A machine that could not be built.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineFailure {
    /// Name of the machine.
    pub machine: String,
    /// Name of the machine's WorkspaceTemplateApply. `capt logs --last-failed` and `capt plan --last-failed` show
    /// its last failed run, also after both objects are deleted.
    pub workspace: String,
    /// Machine-readable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Number of consecutive failures, each of a replacement of the machine before; 0 once one of them is ready.
    /// The delay before the next replacement doubles with each.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures: i32,
}

/// Machine names that a set has allocated. A name is the set's name and a number; it is written here before the
/// machine is created, and never allocated again.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// Number of the next new machine.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub next: i64,
    /// Allocated numbers whose machines have not been observed yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::numbers")]
    pub pending: Vec<i64>,
}
