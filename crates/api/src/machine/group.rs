//! `NodeGroup`: a group that machines join.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Scaling;
use crate::fragments;
use crate::refs::ObjectRef;

/// Desired state of a node group.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "NodeGroup",
    plural = "nodegroups",
    singular = "nodegroup",
    namespaced,
    status = "NodeGroupStatus",
    shortname = "ng",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "A group that machines join: one that CAPT builds from a WorkspaceTemplate, or an existing one.",
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "MEMBERS", type_ = "integer", json_path = ".status.members"),
    printcolumn(name = "READY-MEMBERS", type_ = "integer", json_path = ".status.readyMembers"),
    printcolumn(name = "DESIRED-SIZE", type_ = "integer", json_path = ".spec.scaling.desiredSize", priority = 1),
    printcolumn(name = "EXTERNAL", type_ = "string", json_path = ".spec.external.name", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name becomes a label value and the name of a group: at most 63 characters"),
    validation = Rule::new("has(self.spec.workspaceTemplateRef) == has(oldSelf.spec.workspaceTemplateRef) && (!has(self.spec.workspaceTemplateRef) || self.spec.workspaceTemplateRef == oldSelf.spec.workspaceTemplateRef)")
        .message("workspaceTemplateRef is immutable: the group that was built from it would be orphaned; edit the template, or create another NodeGroup")
        .field_path(".spec.workspaceTemplateRef"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.workspaceTemplateRef) != has(self.external)")
    .message("set exactly one of workspaceTemplateRef (CAPT builds the group) or external (the group is there)"))]
#[x_kube(validation = Rule::new("!has(self.instanceType) || !has(self.instanceTypes)")
    .message("set instanceType for one machine size or instanceTypes for several, not both").field_path(".instanceTypes"))]
#[x_kube(validation = Rule::new("!has(self.external) || !has(self.scaling)")
    .message("scaling is for groups that CAPT builds: leave it out with external").field_path(".scaling"))]
pub struct NodeGroupSpec {
    /// WorkspaceTemplate that builds the group. Its module gets the variables cluster_name, node_group_name,
    /// instance_types, min_size, max_size, desired_size, labels, taints and tags. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_ref: Option<ObjectRef>,
    /// Existing group. CAPT never changes or deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalGroup>,
    /// Number of nodes that the group itself runs, in addition to the machines that join it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// Machine size of the group's nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::instance_type")]
    pub instance_type: Option<String>,
    /// Machine sizes of the group's nodes, the preferred one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::instance_types")]
    pub instance_types: Vec<String>,
    /// Labels of the Kubernetes nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::labels")]
    pub labels: BTreeMap<String, String>,
    /// Taints of the Kubernetes nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["key".into(), "effect".into()]))]
    pub taints: Vec<Taint>,
    /// Tags for the resources that the module creates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::tags")]
    pub tags: BTreeMap<String, String>,
    /// Stops all work on this group, deletion included, until it is false again.
    #[serde(default)]
    pub paused: bool,
}

/// An existing group.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalGroup {
    /// Name of the group in the cloud.
    #[schemars(schema_with = "fragments::node_group_name")]
    pub name: String,
}

/// A taint of Kubernetes nodes.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key of the taint.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// Effect of the taint on pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// Effects of a taint.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum TaintEffect {
    /// New pods are not scheduled.
    NoSchedule,
    /// New pods are not scheduled if it can be avoided.
    PreferNoSchedule,
    /// New pods are not scheduled, and running pods are evicted.
    NoExecute,
}

/// Observed state of a node group.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// True if machines can join.
    #[serde(default)]
    pub ready: bool,
    /// Number of machines that name the group.
    #[serde(default)]
    pub members: i32,
    /// Number of those machines that are ready and not being deleted.
    #[serde(default)]
    pub ready_members: i32,
    /// Outputs of the group's module; machines get them as variables. Never a sensitive one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::any_values")]
    pub outputs: BTreeMap<String, Value>,
    /// Machine-readable reason for a problem that needs user action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Human-readable message for that problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}
