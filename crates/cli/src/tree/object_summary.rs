//! Objects, reduced to what the tree needs: one type for every kind, so that a fleet of ten thousand is read fast.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, GroupVersionKind};
use serde::{Deserialize, Serialize};

use capt_api::names::{CONTROL_PLANE_GROUP, CORE_GROUP, INFRASTRUCTURE_GROUP, VERSION};

/// The kinds of a tree, in the order in which siblings are shown.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Kind {
    Cluster,
    CAPTCluster,
    CAPTControlPlane,
    NodeGroup,
    CaptMachineDeployment,
    CaptMachineSet,
    CaptMachine,
    WorkspaceTemplateApply,
}

impl Kind {
    pub const ALL: [Self; 8] = [
        Self::Cluster,
        Self::CAPTCluster,
        Self::CAPTControlPlane,
        Self::NodeGroup,
        Self::CaptMachineDeployment,
        Self::CaptMachineSet,
        Self::CaptMachine,
        Self::WorkspaceTemplateApply,
    ];

    /// As manifests write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::CAPTCluster => "CAPTCluster",
            Self::CAPTControlPlane => "CAPTControlPlane",
            Self::NodeGroup => "NodeGroup",
            Self::CaptMachineDeployment => "CaptMachineDeployment",
            Self::CaptMachineSet => "CaptMachineSet",
            Self::CaptMachine => "CaptMachine",
            Self::WorkspaceTemplateApply => "WorkspaceTemplateApply",
        }
    }

    /// As the tree calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::CAPTCluster => "network",
            Self::CAPTControlPlane => "control plane",
            Self::NodeGroup => "node group",
            Self::CaptMachineDeployment => "deployment",
            Self::CaptMachineSet => "set",
            Self::CaptMachine => "machine",
            Self::WorkspaceTemplateApply => "workspace",
        }
    }

    /// Kind of that name in that group.
    pub fn find(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == kind && one.group() == group)
    }

    fn group(self) -> &'static str {
        match self {
            Self::Cluster => CORE_GROUP,
            Self::CAPTControlPlane => CONTROL_PLANE_GROUP,
            _ => INFRASTRUCTURE_GROUP,
        }
    }

    /// Resource that the API serves it as.
    pub fn resource(self) -> ApiResource {
        let version = if self == Self::Cluster { "v1beta2" } else { VERSION };
        let kind = GroupVersionKind::gvk(self.group(), version, self.as_str());
        let plural = match self {
            Self::WorkspaceTemplateApply => "workspacetemplateapplies".to_owned(),
            _ => format!("{}s", self.as_str().to_lowercase()),
        };
        ApiResource::from_gvk_with_plural(&kind, &plural)
    }
}

/// An object of any of the kinds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ObjectSummary {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: SpecSummary,
    #[serde(default)]
    pub status: StatusSummary,
}

/// Fields of specs that the tree reads.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpecSummary {
    pub replicas: Option<i32>,
    pub paused: Option<bool>,
    pub version: Option<String>,
    pub region: Option<String>,
    pub instance_type: Option<String>,
    pub infrastructure_ref: Option<Part>,
    pub control_plane_ref: Option<Part>,
    pub external: Option<Named>,
    pub timeout: Option<String>,
}

/// Names another object of the same namespace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Part {
    pub kind: String,
    pub name: String,
}

/// Something with a name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Named {
    pub name: String,
}

/// Fields of statuses that the tree reads.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusSummary {
    pub observed_generation: Option<i64>,
    pub phase: Option<String>,
    pub version: Option<String>,
    pub vpc_id: Option<String>,
    pub endpoint: Option<String>,
    pub instance_id: Option<String>,
    pub private_ip: Option<String>,
    pub failure_reason: Option<String>,
    pub failure_message: Option<String>,
    pub replicas: Option<i32>,
    pub available_replicas: Option<i32>,
    pub updated_replicas: Option<i32>,
    pub current_revision: Option<i64>,
    pub members: Option<i32>,
    pub resources: Option<i32>,
    pub consecutive_failures: Option<i32>,
    pub last_failure_message: Option<String>,
    pub progress: Option<Progress>,
    pub plan: Option<PlanSummary>,
    pub conditions: Vec<Condition>,
}

/// Progress of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Progress {
    pub done: i32,
    pub total: i32,
    pub current: Option<String>,
}

/// Changes that a plan would make.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PlanSummary {
    pub add: i32,
    pub change: i32,
    pub destroy: i32,
}

/// A condition, without its times.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
}

impl ObjectSummary {
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    pub fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        text(self.metadata.labels.as_ref(), key)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        text(self.metadata.annotations.as_ref(), key)
    }

    /// The condition of that type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Returns true if the condition of that type is true.
    pub fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }
}

fn text<'a>(map: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    map.and_then(|map| map.get(key)).map(String::as_str)
}

impl Resource for ObjectSummary {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }
    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }
    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }
    fn api_version(of: &ApiResource) -> Cow<'_, str> {
        of.api_version.as_str().into()
    }
    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
