//! The templates through which a ClusterClass makes a CAPTCluster and a CAPTControlPlane.
//!
//! They are mutable on purpose: the topology controller dry-runs changed templates, and a rule cannot
//! tell a dry run from an edit.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CAPTClusterSpec, ControlPlaneConfig};
use crate::fragments;
use crate::refs::{ObjectRef, TemplateMeta};

/// Desired state of a CAPTClusterTemplate.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CAPTClusterTemplate",
    plural = "captclustertemplates",
    singular = "captclustertemplate",
    namespaced,
    status = "TemplateStatus",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "Template of a CAPTCluster, for use in a ClusterClass.",
    printcolumn(name = "REGION", type_ = "string", json_path = ".spec.template.spec.region"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CAPTClusterTemplateSpec {
    /// Template of the CAPTCluster that each cluster of the class gets.
    pub template: CAPTClusterResource,
}

/// Template of a CAPTCluster.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CAPTClusterResource {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Spec.
    pub spec: CAPTClusterSpec,
}

/// Desired state of a CAPTControlPlaneTemplate.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CAPTControlPlaneTemplate",
    plural = "captcontrolplanetemplates",
    singular = "captcontrolplanetemplate",
    namespaced,
    status = "TemplateStatus",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "Template of a CAPTControlPlane, for use in a ClusterClass.",
    printcolumn(
        name = "TEMPLATE",
        type_ = "string",
        json_path = ".spec.template.spec.workspaceTemplateRef.name"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CAPTControlPlaneTemplateSpec {
    /// Template of the CAPTControlPlane that each cluster of the class gets.
    pub template: CAPTControlPlaneResource,
}

/// Template of a CAPTControlPlane.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CAPTControlPlaneResource {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Spec.
    pub spec: CAPTControlPlaneResourceSpec,
}

/// Spec of the templated CAPTControlPlane.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CAPTControlPlaneResourceSpec {
    /// Kubernetes version. Usually left out: defaults to the version of the Cluster's topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::kubernetes_version")]
    pub version: Option<String>,
    /// WorkspaceTemplate that builds the control plane.
    pub workspace_template_ref: ObjectRef,
    /// Details of the control plane.
    #[serde(default)]
    pub control_plane_config: ControlPlaneConfig,
    /// Tags for the resources that the module creates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::tags")]
    pub additional_tags: BTreeMap<String, String>,
}

/// Observed state of a template.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}
