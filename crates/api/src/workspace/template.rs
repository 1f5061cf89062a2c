//! `WorkspaceTemplate`: a Terraform module and its defaults, to be instantiated any number of times.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fragments::{self, is_default};
use crate::refs::ObjectRef;

/// Desired state of a WorkspaceTemplate.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "WorkspaceTemplate",
    plural = "workspacetemplates",
    singular = "workspacetemplate",
    namespaced,
    status = "WorkspaceTemplateStatus",
    shortname = "wt",
    category = "capt",
    category = "cluster-api",
    category = "terraform",
    derive = "PartialEq",
    doc = "A Terraform module with its default inputs. A WorkspaceTemplateApply is one instance of it. Editing the template reaches every instance. It cannot be deleted while an instance uses it.",
    printcolumn(name = "VERSION", type_ = "string", json_path = ".spec.template.metadata.version"),
    printcolumn(name = "REVISION", type_ = "string", json_path = ".status.revision"),
    printcolumn(name = "USED-BY", type_ = "integer", json_path = ".status.usedBy"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateSpec {
    /// Workspace that each instance gets.
    pub template: WorkspaceDefinition,
    /// Secret for the outputs of instances that name none themselves. The same as
    /// `template.spec.writeConnectionSecretToRef`, which takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<ObjectRef>,
}

/// A workspace and its descriptive metadata.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceDefinition {
    /// Descriptive metadata; not passed to Terraform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<WorkspaceMetadata>,
    /// Module, its inputs and run options.
    pub spec: WorkspaceSpec,
}

/// Descriptive metadata of a template.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceMetadata {
    /// One-sentence description of what the module builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Version of the module, as its authors number it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Arbitrary key-value pairs to find templates by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::tags")]
    pub tags: BTreeMap<String, String>,
}

/// Module, its inputs and run options: `forProvider` (the long form), or `module` with `variables` (the short
/// form).
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(dyn(self).module) != has(self.forProvider)")
    .message("set exactly one of module (the short form) or forProvider (the long form)"))]
#[x_kube(validation = Rule::new("!has(self.variables) || has(dyn(self).module)")
    .message("variables belongs to the short form: with forProvider write vars or varmap").field_path(".variables"))]
pub struct WorkspaceSpec {
    /// WorkspaceProviderConfig with credentials, provider blocks and backend. Defaults to none: the module brings
    /// its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config_ref: Option<ProviderConfigRef>,
    /// Effect of deleting an instance on its infrastructure: Delete destroys it, Orphan keeps it.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Accepted from older manifests. Without Delete the infrastructure is kept when an instance is deleted, as
    /// with deletionPolicy: Orphan; without Create or Update instances do not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub management_policies: Vec<ManagementPolicy>,
    /// Accepted from older manifests and without effect: write writeConnectionSecretToRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::any_object")]
    pub publish_connection_details_to: Option<Value>,
    /// Secret that receives the outputs of an instance. `${key}` of a known variable may be used in its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_connection_secret_to_ref: Option<ConnectionSecretRef>,
    /// Short form: the module, either as HCL text, or as an address `{source, version}` of a registry,
    /// git or local module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::any_value")]
    pub module: Option<Value>,
    /// Short form: the module's inputs, `name: {value: …}`. A value may be of any type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    #[x_kube(validation = Rule::new("self.all(k, k.matches('^[A-Za-z_][A-Za-z0-9_-]*$'))")
        .message("a Terraform variable name starts with a letter or _, then has letters, digits, _ and -"))]
    pub variables: BTreeMap<String, VariableValue>,
    /// Long form: source of the module, its inputs, and arguments for each command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_provider: Option<ForProvider>,
}

impl WorkspaceSpec {
    /// Returns true if the policies permit an operation on the infrastructure of instances.
    pub fn permits(&self, what: ManagementPolicy) -> bool {
        let policies = &self.management_policies;
        policies.is_empty() || policies.contains(&ManagementPolicy::All) || policies.contains(&what)
    }

    /// Module of the short form. A structural schema cannot express "text or address", so the API may hold
    /// something else, which must not make the whole object unreadable.
    pub fn short_module(&self) -> Option<Result<Module, serde_json::Error>> {
        self.module.clone().map(serde_json::from_value)
    }
}

/// The part of a WorkspaceTemplate that its schema cannot validate, with exact types.
#[derive(Deserialize)]
pub(crate) struct StrictTemplate {
    #[expect(dead_code, reason = "reading it is the check")]
    spec: StrictOuter,
}

#[derive(Deserialize)]
struct StrictOuter {
    #[expect(dead_code, reason = "reading it is the check")]
    template: StrictDefinition,
}

#[derive(Deserialize)]
struct StrictDefinition {
    #[expect(dead_code, reason = "reading it is the check")]
    spec: StrictSpec,
}

#[derive(Deserialize)]
struct StrictSpec {
    #[serde(default)]
    #[expect(dead_code, reason = "reading it is the check")]
    module: Option<Module>,
}

/// Names a WorkspaceProviderConfig in the template's namespace.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigRef {
    /// Name of the WorkspaceProviderConfig.
    #[schemars(schema_with = "fragments::object_name")]
    pub name: String,
    /// Accepted from older manifests and without effect: a reference is always followed, and waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ReferencePolicy>,
}

/// Policy for resolving a reference.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferencePolicy {
    /// Required or Optional.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub resolution: Option<String>,
    /// Always or IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub resolve: Option<String>,
}

/// Operations on the infrastructure of an instance.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ManagementPolicy {
    /// All operations.
    #[serde(rename = "*")]
    All,
    /// Reads it.
    Observe,
    /// Creates it.
    Create,
    /// Updates it.
    Update,
    /// Destroys it.
    Delete,
    /// Fills in values that the manifest leaves out.
    LateInitialize,
}

/// Names the Secret for the outputs of an instance.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionSecretRef {
    /// Name of the Secret; `${key}` of a known variable is replaced by its value.
    #[schemars(schema_with = "fragments::templated_name")]
    pub name: String,
    /// Namespace of the Secret. Defaults to that of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::templated_name")]
    pub namespace: Option<String>,
}

/// Names one key of a Secret or ConfigMap for an instance.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplatedKeyRef {
    /// Name of the Secret or ConfigMap; `${key}` of a known variable is replaced by its value.
    #[schemars(schema_with = "fragments::templated_name")]
    pub name: String,
    /// Namespace of the Secret or ConfigMap. Defaults to that of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::templated_name")]
    pub namespace: Option<String>,
    /// Key of the value.
    #[schemars(schema_with = "fragments::data_key")]
    pub key: String,
}

/// Effects of deleting a workspace on its infrastructure.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DeletionPolicy {
    /// Destroys it.
    #[default]
    Delete,
    /// Keeps it.
    Orphan,
}

/// A module in the short form.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged, expecting = "module is HCL text, or {source, version} of a registry, git or local module")]
pub enum Module {
    /// HCL text.
    Inline(String),
    /// A module at an address.
    Remote(ModuleAddress),
}

/// Address of a module.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModuleAddress {
    /// Source as Terraform writes it: a registry module, `git::https://…`, or a folder.
    pub source: String,
    /// Version constraint, for registry modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// An input of a module in the short form.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VariableValue {
    /// Value of the input: a string, number, boolean, list or map.
    #[schemars(schema_with = "fragments::any_value")]
    pub value: Value,
}

/// Source of the module, its inputs, and arguments for each command.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.source != 'Inline' || (has(self.module) && size(self.module) > 0)")
    .message("source: Inline needs the Terraform code in module").field_path(".module"))]
#[x_kube(validation = Rule::new("self.source != 'Remote' || (has(self.module) && self.module.matches('^[^[:space:][:cntrl:]]+$'))")
    .message("source: Remote needs a module address in module, for example git::https://example.com/network.git?ref=v1 or terraform-aws-modules/vpc/aws").field_path(".module"))]
#[x_kube(validation = Rule::new("!has(dyn(self).varmap) || dyn(self).varmap.all(k, k.matches('^[A-Za-z_][A-Za-z0-9_-]*$'))")
    .message("a Terraform variable name starts with a letter or _, then has letters, digits, _ and -").field_path(".varmap"))]
pub struct ForProvider {
    /// Inline: `module` is Terraform code. Remote: `module` is the address of a module.
    pub source: ModuleSource,
    /// The module: its code, or its address, as `source` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 524_288))]
    pub module: Option<String>,
    /// Folder inside a Remote module to run in. Defaults to its root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new("!self.startsWith('/') && !self.contains('..') && !self.matches('[[:cntrl:]]')")
        .message("entrypoint is a folder inside the module: write a relative path without .."))]
    pub entrypoint: Option<String>,
    /// Language of an Inline module.
    #[serde(default)]
    pub inline_format: InlineFormat,
    /// Inputs as strings; Terraform converts them to the type that the module declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["key".into()]))]
    pub vars: Vec<Var>,
    /// Inputs of any type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "fragments::any_values")]
    pub varmap: BTreeMap<String, Value>,
    /// Inputs from a Secret or ConfigMap that holds a tfvars file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub var_files: Vec<VarFile>,
    /// Environment of the Terraform process. Variables that would change the meaning of a run are rejected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Further arguments of `terraform init`: -upgrade, -reconfigure, -lock-timeout=60s, -backend-config=KEY=VALUE.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::init_arguments")]
    pub init_args: Vec<String>,
    /// Further arguments of `terraform plan`: -parallelism=N, -refresh=false, -lock-timeout=60s, -compact-warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::run_arguments")]
    pub plan_args: Vec<String>,
    /// Further arguments of `terraform apply`: -parallelism=N, -refresh=false, -lock-timeout=60s, -compact-warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::run_arguments")]
    pub apply_args: Vec<String>,
    /// Further arguments of `terraform destroy`: -parallelism=N, -refresh=false, -lock-timeout=60s, -compact-warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::run_arguments")]
    pub destroy_args: Vec<String>,
    /// Accepted from older manifests and without effect: every run has a log.
    #[serde(default, rename = "enableTerraformCLILogging", skip_serializing_if = "Option::is_none")]
    pub enable_terraform_cli_logging: Option<bool>,
}

/// Kinds of sources of a module.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ModuleSource {
    /// The code is in the manifest.
    #[default]
    Inline,
    /// The code is at an address.
    Remote,
}

/// Language of Terraform code.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum InlineFormat {
    /// HCL, as in `*.tf`.
    #[default]
    #[serde(rename = "HCL")]
    Hcl,
    /// JSON, as in `*.tf.json`.
    #[serde(rename = "JSON")]
    Json,
}

/// One input as a string.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Var {
    /// Name of the Terraform variable.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z_][A-Za-z0-9_-]*$')")
        .message("a Terraform variable name starts with a letter or _, then has letters, digits, _ and -"))]
    pub key: String,
    /// Value of the variable.
    pub value: String,
}

/// Inputs from a tfvars file in a Secret or ConfigMap.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.source != 'ConfigMapKey' || (has(self.configMapKeyRef) && !has(self.secretKeyRef))")
    .message("source: ConfigMapKey needs configMapKeyRef {name, key}, and no secretKeyRef"))]
#[x_kube(validation = Rule::new("self.source != 'SecretKey' || (has(self.secretKeyRef) && !has(self.configMapKeyRef))")
    .message("source: SecretKey needs secretKeyRef {name, key}, and no configMapKeyRef"))]
pub struct VarFile {
    /// Kind of object that holds the file.
    pub source: VarFileSource,
    /// Language of the file. Defaults to HCL.
    #[serde(default, skip_serializing_if = "is_default")]
    pub format: InlineFormat,
    /// The file, where `source` is ConfigMapKey.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<TemplatedKeyRef>,
    /// The file, where `source` is SecretKey. Its values are redacted in logs, status and events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<TemplatedKeyRef>,
}

/// Kinds of objects that hold a tfvars file.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum VarFileSource {
    /// A key of a ConfigMap.
    #[default]
    ConfigMapKey,
    /// A key of a Secret.
    SecretKey,
}

/// One variable of the environment of the Terraform process.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.value) ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) + (has(self.secretKeyRef) ? 1 : 0) == 1")
    .message("an environment variable has exactly one of value, configMapKeyRef or secretKeyRef"))]
pub struct EnvVar {
    /// Name of the variable.
    #[schemars(schema_with = "fragments::environment_name")]
    pub name: String,
    /// Value of the variable, without NUL characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[^\x00]*$"))]
    pub value: Option<String>,
    /// Key of a ConfigMap that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<TemplatedKeyRef>,
    /// Key of a Secret that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<TemplatedKeyRef>,
}

/// Observed state of a WorkspaceTemplate.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateStatus {
    /// The metadata.generation that the controller last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Content hash of the template. An instance that was applied from another one is run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Number of WorkspaceTemplateApplies that use the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<i32>,
    /// Observations of the current state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}
