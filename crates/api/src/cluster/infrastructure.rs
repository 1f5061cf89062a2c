//! `CAPTCluster`: the network of a cluster, built from a template or already there.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorkspaceSummary;
use crate::fragments;
use crate::refs::{Endpoint, ObjectRef};

/// Desired state of the network of a cluster.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CAPTCluster",
    plural = "captclusters",
    singular = "captcluster",
    namespaced,
    status = "CAPTClusterStatus",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "The network of a cluster: a VPC that CAPT builds from a WorkspaceTemplate, or an existing one. The infrastructure of a Cluster API Cluster.",
    printcolumn(name = "VPC-ID", type_ = "string", json_path = ".status.vpcId"),
    printcolumn(name = "READY", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "ENDPOINT", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name becomes a label value: at most 63 characters"),
    validation = Rule::new("self.spec.region == oldSelf.spec.region")
        .message("region is immutable: what was built in the old region would be orphaned; create another CAPTCluster")
        .field_path(".spec.region"),
    validation = Rule::new("has(self.spec.vpcTemplateRef) == has(oldSelf.spec.vpcTemplateRef) && (!has(self.spec.vpcTemplateRef) || self.spec.vpcTemplateRef == oldSelf.spec.vpcTemplateRef)")
        .message("vpcTemplateRef is immutable: the VPC that was built from it would be orphaned; edit the template, or create another CAPTCluster")
        .field_path(".spec.vpcTemplateRef"),
    validation = Rule::new("has(self.spec.existingVpcId) == has(oldSelf.spec.existingVpcId) && (!has(self.spec.existingVpcId) || self.spec.existingVpcId == oldSelf.spec.existingVpcId)")
        .message("existingVpcId is immutable: the cluster cannot move to another VPC; create another CAPTCluster")
        .field_path(".spec.existingVpcId"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.vpcTemplateRef) != has(self.existingVpcId)")
    .message("set exactly one of vpcTemplateRef (CAPT builds the VPC) or existingVpcId (the VPC is there)"))]
#[x_kube(validation = Rule::new("!self.retainVpcOnDelete || has(self.vpcTemplateRef)")
    .message("retainVpcOnDelete goes with vpcTemplateRef only: CAPT never deletes a VPC named by existingVpcId")
    .field_path(".retainVpcOnDelete"))]
pub struct CAPTClusterSpec {
    /// Region the cluster lives in, for example eu-west-1. Immutable.
    #[schemars(schema_with = "fragments::region")]
    pub region: String,
    /// WorkspaceTemplate that builds the VPC. Its module gets the variables cluster_name, vpc_name, region
    /// and environment, and returns the output vpc_id. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_template_ref: Option<ObjectRef>,
    /// Id of a VPC that exists. CAPT uses it and never changes or deletes it. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), regex(pattern = "^[A-Za-z0-9/][A-Za-z0-9._/:-]*$"))]
    pub existing_vpc_id: Option<String>,
    /// Keeps the VPC and its Terraform state when the cluster is deleted. Only with vpcTemplateRef.
    #[serde(default)]
    pub retain_vpc_on_delete: bool,
    /// Details of the VPC that is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_config: Option<VpcConfig>,
    /// Address of the cluster's Kubernetes API. Set by CAPT.
    #[serde(default, deserialize_with = "Endpoint::read", skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<Endpoint>,
    /// Accepted from older manifests and without effect: the name follows from that of the CAPTCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_apply_name: Option<String>,
}

/// Details of the VPC that is built.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VpcConfig {
    /// Name of the VPC. Defaults to that of the CAPTCluster with -vpc behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub name: Option<String>,
}

/// Observed state of the network of a cluster.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CAPTClusterStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the Terraform workspace that builds the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_workspace_name: Option<String>,
    /// Id of the VPC, built or existing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_id: Option<String>,
    /// True if the network can be used.
    #[serde(default)]
    pub ready: bool,
    /// First-time provisioning, as Cluster API's contract defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<InfrastructureInitialization>,
    /// The control plane's endpoint as host:port, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Machine-readable reason for a problem that needs user action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Human-readable message for that problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Zones that machines can be spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub failure_domains: Vec<FailureDomain>,
    /// Summary of the workspace that builds the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template_status: Option<WorkspaceSummary>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}

/// First-time provisioning, as Cluster API's contract defines it.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureInitialization {
    /// True once the infrastructure was complete for the first time; never false again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// A zone that machines can be placed in.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the zone.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// True if control plane machines may be placed in the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Further attributes of the zone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::annotations")]
    pub attributes: BTreeMap<String, String>,
}
