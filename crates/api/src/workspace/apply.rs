//! `WorkspaceTemplateApply`: one instance of a template, which owns one Terraform workspace.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fragments::{self, is_default};
use crate::refs::ObjectRef;

/// What a WorkspaceTemplateApply should be.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "WorkspaceTemplateApply",
    plural = "workspacetemplateapplies",
    singular = "workspacetemplateapply",
    namespaced,
    status = "WorkspaceTemplateApplyStatus",
    shortname = "wtapply",
    shortname = "wta",
    category = "capt",
    category = "cluster-api",
    category = "terraform",
    derive = "PartialEq",
    doc = "One instance of a WorkspaceTemplate. It owns one Terraform workspace, keeps it in step with the template and the variables, and destroys it when it is deleted.",
    printcolumn(name = "TEMPLATE", type_ = "string", json_path = ".spec.templateRef.name"),
    printcolumn(name = "WORKSPACE", type_ = "string", json_path = ".status.workspaceName", priority = 1),
    printcolumn(name = "APPLIED", type_ = "boolean", json_path = ".status.applied"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "DRIFTED", type_ = "string", json_path = ".status.conditions[?(@.type==\"Drifted\")].status"),
    printcolumn(name = "RESOURCES", type_ = "integer", json_path = ".status.resources"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 90")
        .message("metadata.name becomes the name of a Terraform workspace: at most 90 characters"),
    validation = Rule::new("self.spec.templateRef == oldSelf.spec.templateRef")
        .message("templateRef is immutable: under another template the infrastructure of this one would be orphaned; edit the template, or create another WorkspaceTemplateApply")
        .field_path(".spec.templateRef"),
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(dyn(self).variables) || dyn(self).variables.all(k, k.matches('^[A-Za-z_][A-Za-z0-9_-]*$'))")
    .message("a Terraform variable name starts with a letter or _, then has letters, digits, _ and -").field_path(".variables"))]
pub struct WorkspaceTemplateApplySpec {
    /// The WorkspaceTemplate to instantiate. Immutable.
    pub template_ref: ObjectRef,
    /// Inputs of the module, over those of the template. A value may be a string, number, boolean,
    /// list or map.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::any_values")]
    pub variables: BTreeMap<String, Value>,
    /// Inputs from outputs of other workspaces, Secrets or ConfigMaps. A later source wins over an
    /// earlier one, and `variables` over all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub variables_from: Vec<VariablesFrom>,
    /// Secrets that must exist before Terraform runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub wait_for_secrets: Vec<ObjectRef>,
    /// One more Secret to wait for; accepted from older manifests. Write `waitForSecrets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_secret: Option<ObjectRef>,
    /// WorkspaceTemplateApplies that must be Ready before Terraform runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub wait_for_workspaces: Vec<ObjectRef>,
    /// Secret that receives the outputs, sensitive ones included. Over that of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<ObjectRef>,
    /// Secret with a Terraform state that is taken over before the first run: as the `kubernetes` backend of Terraform keeps it, or
    /// with the text of a state under the key terraform.tfstate. Nothing is built until the Secret is there; later it is not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import_state: Option<ObjectRef>,
    /// Leaves infrastructure and state as they are when this object is deleted.
    #[serde(default)]
    pub retain_workspace_on_delete: bool,
    /// Auto applies every plan; Manual waits until a person approves it.
    #[serde(default)]
    pub approval: Approval,
    /// Stops before a run that would destroy more resources than this, until a person approves its plan. Deleting
    /// this object is such an approval. Left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_destroy: Option<i32>,
    /// Looks from time to time whether the infrastructure still is what was applied. Left out: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_detection: Option<DriftDetection>,
    /// How long one Terraform run may take before it is interrupted, for example 1h30m. Left out: an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::duration")]
    pub timeout: Option<String>,
    /// Stops all work on this workspace, deletion included, until it is false again.
    #[serde(default)]
    pub paused: bool,
}

/// One source of inputs.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.workspaceRef) ? 1 : 0) + (has(self.secretRef) ? 1 : 0) + (has(self.configMapRef) ? 1 : 0) == 1")
    .message("each entry of variablesFrom has exactly one of workspaceRef, secretRef or configMapRef"))]
pub struct VariablesFrom {
    /// The outputs of another WorkspaceTemplateApply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<ObjectRef>,
    /// The keys of a Secret. Their values are kept out of logs, status and events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<ObjectRef>,
    /// The keys of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ObjectRef>,
    /// Which output or key feeds which variable, `variable: outputOrKey`. Left out: each feeds the
    /// variable of its own name, where the module declares one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub map: BTreeMap<String, String>,
    /// Goes on without this source where it does not exist. Left out: false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
}

/// Who decides that a plan is applied.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Approval {
    /// CAPT does.
    #[default]
    Auto,
    /// A person does.
    Manual,
}

/// How drift is looked for, and what is done about it.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftDetection {
    /// Time between two looks.
    #[serde(default = "DriftDetection::default_interval")]
    #[schemars(schema_with = "fragments::duration")]
    pub interval: String,
    /// Off does not look, Report sets the Drifted condition, Correct also applies again.
    #[serde(default)]
    pub policy: DriftPolicy,
}

impl DriftDetection {
    fn default_interval() -> String {
        "1h".into()
    }
}

/// What is done about drift.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DriftPolicy {
    /// It is not looked for.
    Off,
    /// It is reported.
    #[default]
    Report,
    /// It is undone.
    Correct,
}

/// What CAPT knows of a WorkspaceTemplateApply.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateApplyStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the Terraform workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// Whether the current inputs are applied.
    #[serde(default)]
    pub applied: bool,
    /// Content hash of the template that was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_revision: Option<String>,
    /// When an apply last succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_time: Option<Time>,
    /// Hash of the inputs that were last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_revision: Option<String>,
    /// Hash of the inputs whose run last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_revision: Option<String>,
    /// How that run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_message: Option<String>,
    /// Runs that failed in a row: the more, the longer until the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consecutive_failures: Option<i32>,
    /// Hash of the backend that keeps its state, where that is not CAPT: no other workspace may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_hash: Option<String>,
    /// Outputs of the module; never a sensitive one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::any_values")]
    pub outputs: BTreeMap<String, Value>,
    /// The plan that is pending or was last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanSummary>,
    /// How far the current run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgress>,
    /// How many resources the state holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<i32>,
    /// Current state in detail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}

/// What a plan would do.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanSummary {
    /// Resources to create.
    pub add: i32,
    /// Resources to change in place.
    pub change: i32,
    /// Resources to destroy.
    pub destroy: i32,
    /// Identifies the plan, with its inputs and state, for `capt approve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// How far a run is.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunProgress {
    /// Resources done.
    pub done: i32,
    /// Resources in the plan.
    pub total: i32,
    /// Address of the resource that is being worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
}
