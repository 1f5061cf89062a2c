//! `CaptMachineSet`: keeps a number of equal machines.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MachineTemplate;
use crate::fragments;

/// Whether the selector of a set or deployment selects the machines it makes; without this rule it would
/// make machines without end.
pub(super) const SELECTOR_MATCHES_TEMPLATE: &str = "\
(!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])) && \
(!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, \
e.operator == 'Exists' ? e.key in self.template.metadata.labels : \
e.operator == 'DoesNotExist' ? !(e.key in self.template.metadata.labels) : \
e.operator == 'In' ? has(e.values) && e.key in self.template.metadata.labels && self.template.metadata.labels[e.key] in e.values : \
!has(e.values) || !(e.key in self.template.metadata.labels) || !(self.template.metadata.labels[e.key] in e.values)))";

/// What to write when [`SELECTOR_MATCHES_TEMPLATE`] does not hold.
pub(super) const SELECTOR_MATCHES_TEMPLATE_MESSAGE: &str =
    "selector must match template.metadata.labels: give the template the labels that the selector asks for";

/// What a set of machines should be.
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
    doc = "Keeps a number of equal machines. Usually a CaptMachineDeployment makes and scales it.",
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
    /// How many machines there should be.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
    /// Which machines belong to the set; must match the labels of the template. Immutable.
    #[schemars(schema_with = "fragments::selector")]
    pub selector: LabelSelector,
    /// The machines.
    pub template: MachineTemplate,
    /// Seconds that a machine must be ready before it counts as available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// Which machines go first when there are too many. Machines that are deleting, annotated with
    /// cluster.x-k8s.io/delete-machine, or unhealthy go before all others.
    #[serde(default)]
    pub delete_policy: DeletePolicy,
}

pub(super) fn one() -> i32 {
    1
}

/// Which machines go first.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DeletePolicy {
    /// No preference.
    #[default]
    Random,
    /// The youngest.
    Newest,
    /// The oldest.
    Oldest,
}

/// What CAPT knows of a set of machines.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaptMachineSetStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Machines that exist and are not being deleted.
    #[serde(default)]
    pub replicas: i32,
    /// Of those, the ones that have all labels of the template.
    #[serde(default)]
    pub fully_labeled_replicas: i32,
    /// Of those, the ones that are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Of those, the ones that have been ready for minReadySeconds.
    #[serde(default)]
    pub available_replicas: i32,
    /// Machines that are being deleted; they count for none of the above.
    #[serde(default)]
    pub terminating_replicas: i32,
    /// Which names of machines are given out, so that no machine is made twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    /// The machine that could not be built last. It stays here after the machine is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<MachineFailure>,
    /// The selector as text, for autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Current state in detail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}

/// A machine that could not be built.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineFailure {
    /// Its name.
    pub machine: String,
    /// Its WorkspaceTemplateApply. `capt logs --last-failed` and `capt plan --last-failed` show its last failed run,
    /// also after both are gone.
    pub workspace: String,
    /// Machine-readable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Machines that failed one after the other, each a replacement of the one before; 0 once one of them is ready.
    /// The time until the next replacement doubles with each.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures: i32,
}

/// Names that a set has given out. A name is the set's name and a number; it is written here before the machine
/// is created and never given out again.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// The number that the next new machine gets.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub next: i64,
    /// Numbers that are given out and whose machines have not been seen yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::numbers")]
    pub pending: Vec<i64>,
}
