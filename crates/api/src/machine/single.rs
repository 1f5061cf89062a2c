//! `CaptMachine`: one machine, or one managed node group, built from a template.

#![allow(
    clippy::struct_field_names,
    reason = "minSize, maxSize and desiredSize are what existing manifests say"
)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Taint;
use crate::cluster::InfrastructureInitialization;
use crate::fragments;
use crate::refs::ObjectRef;

/// Desired state of a machine.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CaptMachine",
    plural = "captmachines",
    singular = "captmachine",
    namespaced,
    status = "CaptMachineStatus",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "One machine, or the scaling of one managed node group, built from a WorkspaceTemplate. It is also the infrastructure of a Cluster API Machine.",
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "PHASE", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "INSTANCE-ID", type_ = "string", json_path = ".status.instanceId"),
    printcolumn(name = "NODE-GROUP", type_ = "string", json_path = ".status.nodeGroup"),
    printcolumn(name = "PRIVATE-IP", type_ = "string", json_path = ".status.privateIp", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name becomes a label value and a host name: at most 63 characters"),
    validation = Rule::new("self.spec.workspaceTemplateRef == oldSelf.spec.workspaceTemplateRef")
        .message("workspaceTemplateRef is immutable: the machine that was built from it would be orphaned; edit the template, or create another CaptMachine")
        .field_path(".spec.workspaceTemplateRef"),
    validation = Rule::new("has(self.spec.nodeGroupRef) == has(oldSelf.spec.nodeGroupRef) && (!has(self.spec.nodeGroupRef) || self.spec.nodeGroupRef == oldSelf.spec.nodeGroupRef)")
        .message("nodeGroupRef is immutable: a machine stays in the group it joined; create another CaptMachine")
        .field_path(".spec.nodeGroupRef"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.nodeGroupRef) ? 1 : 0) + (has(self.nodeGroupConfig) ? 1 : 0) + (has(self.nodeType) ? 1 : 0) == 1")
    .message("set exactly one of nodeGroupRef (a machine that joins a group) or nodeGroupConfig (a managed group with its scaling); nodeType is the older form of the latter"))]
#[x_kube(validation = Rule::new("has(self.nodeType) || (!has(self.scaling) && !has(self.taints))")
    .message("scaling and taints belong to nodeType: a NodeGroup or nodeGroupConfig has its own"))]
#[x_kube(validation = Rule::new("!has(self.nodeGroupRef) || has(self.instanceType)")
    .message("instanceType is needed with nodeGroupRef, for example instanceType: t3.medium")
    .field_path(".instanceType").reason(Reason::FieldValueRequired))]
#[x_kube(validation = Rule::new("!has(self.nodeGroupConfig) || !has(self.instanceType) || self.instanceType == self.nodeGroupConfig.instanceType")
    .message("with nodeGroupConfig the instance type is nodeGroupConfig.instanceType: leave instanceType out")
    .field_path(".instanceType"))]
pub struct CaptMachineSpec {
    /// WorkspaceTemplate that builds the machine. Its module gets the variables cluster_name, machine_name,
    /// instance_type, node_group, labels and tags, with a Cluster API Machine also bootstrap_data, bootstrap_format,
    /// failure_domain and kubernetes_version, and returns the outputs instance_id, private_ip and provider_id.
    pub workspace_template_ref: ObjectRef,
    /// Group that the machine joins: a NodeGroup object, or the name of a group that exists elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_group_ref: Option<ObjectRef>,
    /// Managed group that this object scales, instead of a single machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_group_config: Option<NodeGroupConfig>,
    /// Deprecated: use `nodeGroupConfig`. A managed group with the name of the machine, described by `scaling` and
    /// `instanceType`. The module also gets the variable node_type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_type: Option<NodeType>,
    /// Number of nodes of the group of `nodeType`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// Taints of the nodes of `nodeType`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["key".into(), "effect".into()]))]
    pub taints: Vec<Taint>,
    /// Machine size, for example t3.medium. Required with nodeGroupRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::instance_type")]
    pub instance_type: Option<String>,
    /// Labels of the Kubernetes node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::labels")]
    pub labels: BTreeMap<String, String>,
    /// Tags for the resources that the module creates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::tags")]
    pub tags: BTreeMap<String, String>,
    /// Deprecated: use `tags`, which take precedence. Further tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::tags")]
    pub additional_tags: BTreeMap<String, String>,
    /// ID of the machine at its cloud provider, for example aws:///eu-west-1a/i-0abc. Set by CAPT.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
    /// Time limit for draining the machine's Node, after which the machine is destroyed anyway. 0 disables the
    /// limit. Defaults to 600. If a Cluster API Machine owns the machine, that one drains the Node, with its own
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_drain_timeout_seconds: Option<i32>,
    /// Stops all work on this machine, deletion included, until it is false again.
    #[serde(default)]
    pub paused: bool,
}

impl CaptMachineSpec {
    /// Returns true if the object is a managed group rather than a machine.
    pub fn is_group(&self) -> bool {
        self.node_group_config.is_some() || self.node_type.is_some()
    }

    /// The scaling of the managed group.
    pub fn group_scaling(&self) -> Option<&Scaling> {
        self.node_group_config.as_ref().map(|config| &config.scaling).or(self.scaling.as_ref())
    }

    /// Value of the label that names the group that the machine joins. A name that is too long for a label has none.
    pub fn node_group_label(&self) -> Option<&str> {
        let name = self.node_group_ref.as_ref()?.name.as_str();
        (name.len() <= 63).then_some(name)
    }
}

/// A managed node group and its scaling.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupConfig {
    /// Name of the group in the cloud.
    #[schemars(schema_with = "fragments::node_group_name")]
    pub name: String,
    /// Machine size of the group's nodes.
    #[schemars(schema_with = "fragments::instance_type")]
    pub instance_type: String,
    /// Number of nodes of the group.
    #[serde(default)]
    pub scaling: Scaling,
    /// Limits for replacing nodes in an update of the group. The module gets it as the variable update_config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_config: Option<UpdateConfig>,
    /// Labels of the group's nodes. They take precedence over those of the object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::labels")]
    pub labels: BTreeMap<String, String>,
    /// Tags of the group. They take precedence over those of the object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::tags")]
    pub tags: BTreeMap<String, String>,
}

/// Limits for replacing nodes of a managed group.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.maxUnavailable) != has(self.maxUnavailablePercentage)")
    .message("set exactly one of maxUnavailable or maxUnavailablePercentage"))]
pub struct UpdateConfig {
    /// Maximum number of nodes that are replaced at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_unavailable: Option<i32>,
    /// Maximum percentage of nodes that are replaced at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_unavailable_percentage: Option<i32>,
}

/// Kinds of managed groups.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum NodeType {
    /// Machines that the cloud manages.
    ManagedNodeGroup,
    /// Pods without machines.
    Fargate,
}

/// Number of nodes of a group.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.minSize <= self.desiredSize && self.desiredSize <= self.maxSize")
    .message("the sizes must be in order: minSize <= desiredSize <= maxSize"))]
pub struct Scaling {
    /// Minimum number of nodes.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub min_size: i32,
    /// Maximum number of nodes.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub max_size: i32,
    /// Desired number of nodes.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub desired_size: i32,
}

fn one() -> i32 {
    1
}

impl Default for Scaling {
    fn default() -> Self {
        Self { min_size: 1, max_size: 1, desired_size: 1 }
    }
}

/// Observed state of a machine.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaptMachineStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// True if the machine is built and has joined its group.
    #[serde(default)]
    pub ready: bool,
    /// First-time provisioning, as Cluster API's contract defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<InfrastructureInitialization>,
    /// Current phase of the machine's lifecycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MachinePhase>,
    /// ID of the machine at its cloud provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// IP address of the machine inside its network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_ip: Option<String>,
    /// All addresses of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub addresses: Vec<MachineAddress>,
    /// Failure domain that the machine is in, as Cluster API's contract defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// Name of the group that the machine has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_group: Option<String>,
    /// Node that is being drained, and is deleted when the machine is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeRef>,
    /// Time of the last change of `ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
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

/// A Node of the cluster that a machine has joined.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRef {
    /// Name of the Node.
    pub name: String,
    /// UID of the Node. A later Node of the same name is a different one.
    pub uid: String,
}

/// Phases of a machine's lifecycle.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum MachinePhase {
    /// It waits for something, such as its group.
    Pending,
    /// It is being built.
    Provisioning,
    /// It is built and has joined its group.
    Running,
    /// It could not be built.
    Failed,
    /// It is being destroyed.
    Deleting,
}

/// One address of a machine.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddress {
    /// Type of the address.
    #[serde(rename = "type")]
    pub kind: MachineAddressKind,
    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// Kinds of addresses, as Kubernetes nodes have them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum MachineAddressKind {
    /// A host name.
    Hostname,
    /// An address reachable from anywhere.
    ExternalIP,
    /// An address inside the network.
    InternalIP,
    /// A name reachable from anywhere.
    ExternalDNS,
    /// A name inside the network.
    InternalDNS,
}
