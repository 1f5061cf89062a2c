//! `WorkspaceTemplateApply`: one instance of a template, which owns one Terraform workspace.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fragments::{self, is_default};
use crate::refs::ObjectRef;

/// Desired state of a WorkspaceTemplateApply.
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
    /// WorkspaceTemplate to instantiate. Immutable.
    pub template_ref: ObjectRef,
    /// Inputs of the module. They take precedence over those of the template. A value may be a string, number,
    /// boolean, list or map.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::any_values")]
    pub variables: BTreeMap<String, Value>,
    /// Inputs from outputs of other workspaces, Secrets or ConfigMaps. A later source takes precedence over an
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
    /// Deprecated: use `waitForSecrets`. One more Secret that must exist before Terraform runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_secret: Option<ObjectRef>,
    /// WorkspaceTemplateApplies that must be Ready before Terraform runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub wait_for_workspaces: Vec<ObjectRef>,
    /// Secret that receives the outputs, sensitive ones included. Takes precedence over that of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<ObjectRef>,
    /// Secret with a Terraform state to import before the first run: as Terraform's `kubernetes` backend stores
    /// it, or as the text of a state under the key terraform.tfstate. Nothing is built until the Secret exists; it
    /// is not read again later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import_state: Option<ObjectRef>,
    /// Keeps infrastructure and state when this object is deleted.
    #[serde(default)]
    pub retain_workspace_on_delete: bool,
    /// Auto applies every plan; Manual waits until a user approves it.
    #[serde(default)]
    pub approval: Approval,
    /// Maximum number of resources that a run may destroy without approval of its plan. Deleting this object
    /// counts as approval. Defaults to no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_destroy: Option<i32>,
    /// Periodic detection of differences between the infrastructure and what was applied. Defaults to Off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_detection: Option<DriftDetection>,
    /// Time limit of one Terraform run, for example 1h30m. A run that takes longer is interrupted. Defaults to 1h.
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
    /// Outputs of another WorkspaceTemplateApply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<ObjectRef>,
    /// Keys of a Secret. Their values are redacted in logs, status and events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<ObjectRef>,
    /// Keys of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ObjectRef>,
    /// Maps variables to outputs or keys, `variable: outputOrKey`. Defaults to the output or key with the name of
    /// the variable, for every variable that the module declares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub map: BTreeMap<String, String>,
    /// If true, a missing source is ignored. Defaults to false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
}

/// Ways to approve a plan.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Approval {
    /// Every plan is approved.
    #[default]
    Auto,
    /// A user approves each plan.
    Manual,
}

/// Schedule of drift detection, and the action on drift.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftDetection {
    /// Time between two checks.
    #[serde(default = "DriftDetection::default_interval")]
    #[schemars(schema_with = "fragments::duration")]
    pub interval: String,
    /// Off does not check, Report sets the Drifted condition, Correct also applies again.
    #[serde(default)]
    pub policy: DriftPolicy,
}

impl DriftDetection {
    fn default_interval() -> String {
        "1h".into()
    }
}

/// Actions on drift.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DriftPolicy {
    /// Drift is not detected.
    Off,
    /// Drift is reported.
    #[default]
    Report,
    /// Drift is reverted by an apply.
    Correct,
}

/// Observed state of a WorkspaceTemplateApply.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateApplyStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the Terraform workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// True if the current inputs are applied.
    #[serde(default)]
    pub applied: bool,
    /// Content hash of the template that was last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_revision: Option<String>,
    /// Time of the last successful apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_time: Option<Time>,
    /// Hash of the inputs that were last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_revision: Option<String>,
    /// Hash of the inputs whose run last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_revision: Option<String>,
    /// Error message of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_message: Option<String>,
    /// Number of consecutive failed runs. The delay before the next one grows with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consecutive_failures: Option<i32>,
    /// Hash of the backend that keeps the state, if that is not CAPT. No other workspace may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_hash: Option<String>,
    /// Outputs of the module, without sensitive ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::any_values")]
    pub outputs: BTreeMap<String, Value>,
    /// The plan that is pending or was last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanSummary>,
    /// Progress of the current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgress>,
    /// Number of resources in the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<i32>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}

/// Changes that a plan would make.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanSummary {
    /// Number of resources to create.
    pub add: i32,
    /// Number of resources to change in place.
    pub change: i32,
    /// Number of resources to destroy.
    pub destroy: i32,
    /// ID of the plan with its inputs and state, for `capt approve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Progress of a run.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunProgress {
    /// Number of resources that are done.
    pub done: i32,
    /// Number of resources in the plan.
    pub total: i32,
    /// Address of the resource in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
}
