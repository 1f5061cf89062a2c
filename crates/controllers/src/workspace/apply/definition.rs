//! Content of a template, in one form: its short and its long form become the same.

use std::collections::BTreeMap;

use capt_api::conditions::reasons;
use capt_api::workspace::{
    ConnectionSecretRef, DeletionPolicy, EnvVar, ForProvider, InlineFormat, ManagementPolicy,
    Module as ShortModule, ModuleSource, VarFile, WorkspaceTemplate,
};
use capt_terraform::inputs::Arguments;
use capt_terraform::module::{Format, Module};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::prepare::Blocked;
use crate::runtime::hex::hex;

/// Content of a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The module.
    pub module: Module,
    /// Inputs that the template sets.
    pub variables: BTreeMap<String, Value>,
    /// Files with inputs.
    pub var_files: Vec<VarFile>,
    /// Environment of the process.
    pub env: Vec<EnvVar>,
    /// Further arguments.
    pub args: Arguments,
    /// The WorkspaceProviderConfig, in the template's namespace.
    pub provider_config: Option<String>,
    /// Secret for the outputs.
    pub connection: Option<ConnectionSecretRef>,
}

/// The content hash of a template: people's notes on it are no content.
pub fn revision(template: &WorkspaceTemplate) -> String {
    let content = (&template.spec.template.spec, &template.spec.write_connection_secret_to_ref);
    let bytes = serde_json::to_vec(&content).unwrap_or_default();
    hex(&Sha256::digest(&bytes)[..6])
}

/// Returns the policy for the infrastructure of instances that are deleted.
pub fn deletion_policy(template: &WorkspaceTemplate) -> DeletionPolicy {
    let spec = &template.spec.template.spec;
    if spec.permits(ManagementPolicy::Delete) { spec.deletion_policy } else { DeletionPolicy::Orphan }
}

/// Reads a template.
pub fn read(template: &WorkspaceTemplate) -> Result<Definition, Blocked> {
    let spec = &template.spec.template.spec;
    if !spec.permits(ManagementPolicy::Create) || !spec.permits(ManagementPolicy::Update) {
        return Err(invalid(
            "managementPolicies of the template lack Create or Update: nothing is built or changed",
        ));
    }
    let outer = template.spec.write_connection_secret_to_ref.as_ref().map(|reference| ConnectionSecretRef {
        name: reference.name.clone(),
        namespace: reference.namespace.clone(),
    });
    let provider_config = spec.provider_config_ref.as_ref().map(|reference| reference.name.clone());
    let connection = spec.write_connection_secret_to_ref.clone().or(outer);
    let definition = match (spec.short_module(), &spec.for_provider) {
        (Some(module), None) => Definition {
            module: short_module(module)?,
            variables: spec
                .variables
                .iter()
                .map(|(name, given)| (name.clone(), given.value.clone()))
                .collect(),
            var_files: Vec::new(),
            env: Vec::new(),
            args: Arguments::default(),
            provider_config,
            connection,
        },
        (None, Some(long)) => Definition {
            module: long_module(long)?,
            variables: long_variables(long),
            var_files: long.var_files.clone(),
            env: long.env.clone(),
            args: Arguments {
                init: long.init_args.clone(),
                plan: long.plan_args.clone(),
                apply: long.apply_args.clone(),
                destroy: long.destroy_args.clone(),
            },
            provider_config,
            connection,
        },
        _ => return Err(invalid("the template needs exactly one of module or forProvider")),
    };
    Ok(definition)
}

fn short_module(module: Result<ShortModule, serde_json::Error>) -> Result<Module, Blocked> {
    match module {
        Ok(ShortModule::Inline(text)) => Ok(Module::Inline { text, format: Format::Hcl }),
        Ok(ShortModule::Remote(address)) => {
            Ok(Module::Source { source: address.source, version: address.version, entrypoint: None })
        }
        Err(error) => Err(invalid(&format!("the template's {error}"))),
    }
}

fn long_module(long: &ForProvider) -> Result<Module, Blocked> {
    let missing = || invalid("the template's forProvider has no module");
    let module = long.module.clone().ok_or_else(missing)?;
    Ok(match long.source {
        ModuleSource::Inline => Module::Inline { text: module, format: format(long.inline_format) },
        ModuleSource::Remote => {
            Module::Source { source: module, version: None, entrypoint: long.entrypoint.clone() }
        }
    })
}

/// `varmap` wins over `vars`, as the typed form of the same thing.
fn long_variables(long: &ForProvider) -> BTreeMap<String, Value> {
    let mut variables: BTreeMap<String, Value> =
        long.vars.iter().map(|var| (var.key.clone(), Value::from(var.value.clone()))).collect();
    variables.extend(long.varmap.iter().map(|(name, value)| (name.clone(), value.clone())));
    variables
}

/// The language of a text.
pub fn format(format: InlineFormat) -> Format {
    match format {
        InlineFormat::Hcl => Format::Hcl,
        InlineFormat::Json => Format::Json,
    }
}

fn invalid(message: &str) -> Blocked {
    Blocked::terminal(reasons::INVALID, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_of_older_manifests() {
        let rows = [
            (json!([]), DeletionPolicy::Delete, true),
            (json!(["*"]), DeletionPolicy::Delete, true),
            (json!(["Observe", "Create", "Update", "Delete"]), DeletionPolicy::Delete, true),
            (json!(["Observe", "Create", "Update"]), DeletionPolicy::Orphan, true),
            (json!(["Observe"]), DeletionPolicy::Orphan, false),
            (json!(["Create", "Delete"]), DeletionPolicy::Delete, false),
        ];
        for (policies, deletion, runs) in rows {
            let template: WorkspaceTemplate = serde_json::from_value(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
                "metadata": {"name": "t"},
                "spec": {"template": {"spec": {
                    "module": "", "managementPolicies": policies,
                    "providerConfigRef": {"name": "aws", "policy": {"resolution": "Required", "resolve": "Always"}},
                    "publishConnectionDetailsTo": {"name": "x", "configRef": {"name": "default"}},
                }}},
            }))
            .expect("a template");
            assert_eq!(deletion_policy(&template), deletion, "{policies}");
            assert_eq!(read(&template).is_ok(), runs, "{policies}");
        }
    }
}
