//! Machines to be: in a set or deployment, and as `CaptMachineTemplate` for Cluster API's own
//! MachineDeployments.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CaptMachineSpec;
use crate::cluster::TemplateStatus;
use crate::fragments;
use crate::refs::TemplateMeta;

/// Template of the machines of a set or deployment.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineTemplate {
    /// Labels and annotations of the machines. The labels must be what the selector selects.
    pub metadata: MachineTemplateMeta,
    /// Spec of the machines.
    pub spec: CaptMachineSpec,
}

/// Labels and annotations of the machines of a set or deployment.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineTemplateMeta {
    /// Labels of each machine; the selector must match them.
    #[schemars(schema_with = "fragments::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of each machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::annotations")]
    pub annotations: BTreeMap<String, String>,
}

/// Desired state of a CaptMachineTemplate.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "CaptMachineTemplate",
    plural = "captmachinetemplates",
    singular = "captmachinetemplate",
    namespaced,
    status = "TemplateStatus",
    category = "capt",
    category = "cluster-api",
    derive = "PartialEq",
    doc = "Template of a CaptMachine, for use in a MachineDeployment or MachineSet of Cluster API, or in a ClusterClass.",
    printcolumn(
        name = "TEMPLATE",
        type_ = "string",
        json_path = ".spec.template.spec.workspaceTemplateRef.name"
    ),
    printcolumn(name = "INSTANCE-TYPE", type_ = "string", json_path = ".spec.template.spec.instanceType"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CaptMachineTemplateSpec {
    /// Template of the CaptMachine that each Machine gets.
    pub template: CaptMachineResource,
}

/// Template of a CaptMachine.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaptMachineResource {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// Spec.
    pub spec: CaptMachineSpec,
}
