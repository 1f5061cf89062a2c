//! From an object and what it refers to, to the inputs of a run; or to what is missing.

use std::collections::BTreeMap;

use capt_api::conditions::reasons;
use capt_api::names::annotations;
use capt_api::workspace::{
    BackendKind, BinaryName, Credential, DeletionPolicy, WorkspaceProviderConfig, WorkspaceTemplate,
    WorkspaceTemplateApply,
};
use capt_terraform::failure::{Class, Failure};
use capt_terraform::inputs::{self, Backend, Choice, EnvValue, Inputs, Plugins, Revision, Variable};
use capt_terraform::module::{self, Declared, Format, Module};
use kube::ResourceExt;
use serde_json::Value;

use super::super::context::{Context, workspace_id};
use super::backends;
use super::definition::{self, Definition};
use super::values::{Read, Reader, filled, unblocked};
use crate::runtime::{Error, Looker, Name};

/// Inputs of a run, and what goes with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The inputs.
    pub inputs: Inputs,
    /// Their hash.
    pub revision: Revision,
    /// Inputs that the module does not know.
    pub undeclared: Vec<String>,
    /// Secret for the outputs.
    pub connection: Option<Name>,
    /// Hash of the backend that keeps the state, where that is not CAPT.
    pub backend: Option<String>,
}

/// Why a workspace cannot run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Blocked {
    /// Whether only a person can change that.
    pub terminal: bool,
    /// One word for it.
    pub reason: &'static str,
    /// What is missing or wrong.
    pub message: String,
}

impl Blocked {
    /// Something is not there yet.
    pub fn waiting(reason: &'static str, message: impl Into<String>) -> Self {
        Self { terminal: false, reason, message: message.into() }
    }

    /// Something is wrong.
    pub fn terminal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { terminal: true, reason, message: message.into() }
    }
}

/// What is known of the template, whether or not the inputs are complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateFacts {
    /// Its content hash.
    pub revision: Option<String>,
    /// What it says about deletion; nothing where it is gone.
    pub deletion_policy: Option<DeletionPolicy>,
}

/// Resolves the inputs of one instance.
pub async fn prepare(
    context: &Context,
    looker: &mut Looker,
    object: &WorkspaceTemplateApply,
    workspace_name: &str,
) -> Result<(TemplateFacts, Result<Prepared, Blocked>), Error> {
    let namespace = object.namespace().unwrap_or_default();
    let template_name = Name::referred(&object.spec.template_ref, &namespace);
    looker.at("WorkspaceTemplate", &template_name);
    let Some(template) = context.templates.get(&template_name) else {
        let message = format!("WorkspaceTemplate {} does not exist", template_name.seen_from(&namespace));
        let blocked = Blocked::waiting(reasons::WORKSPACE_TEMPLATE_NOT_FOUND, message);
        return Ok((TemplateFacts::default(), Err(blocked)));
    };
    let facts = TemplateFacts {
        revision: Some(definition::revision(&template)),
        deletion_policy: Some(definition::deletion_policy(&template)),
    };
    let reader = Reader { context, looker, namespace: &namespace };
    let prepared = resolve(reader, object, &template, workspace_name).await?;
    Ok((facts, prepared))
}

async fn resolve(
    mut reader: Reader<'_>,
    object: &WorkspaceTemplateApply,
    template: &WorkspaceTemplate,
    workspace_name: &str,
) -> Read<Prepared> {
    let definition = unblocked!(definition::read(template));
    let mut variables: BTreeMap<String, Variable> = plain(&definition.variables);
    let mut offered = BTreeMap::new();
    for from in &object.spec.variables_from {
        let values = unblocked!(reader.variables(from).await?);
        if from.map.is_empty() {
            // Offered under their own names: they feed what the module declares, and nobody misses the rest.
            offered.extend(values);
        } else {
            variables.extend(values);
        }
    }
    variables.extend(plain(&object.spec.variables));
    let known = substitutes(&variables, &offered, workspace_name, reader.namespace);
    let module = substituted(&definition.module, &known);
    let declared = declared(&module);
    take_offers(&mut variables, offered, declared.as_ref());
    let undeclared = undeclared(object, &definition, &variables, declared.as_ref());
    if let Some(declared) = &declared {
        // Terraform warns about each; they are reported as a condition instead.
        variables.retain(|name, _| declared.variables.contains_key(name));
        for (name, variable) in &mut variables {
            typed(variable, declared.variables.get(name));
        }
    }
    let namespace = reader.namespace;
    let connection = connection(object, &definition, &known, namespace);
    let var_files = unblocked!(reader.var_files(&definition.var_files, &known).await?);
    let env = unblocked!(reader.env(&definition.env, &known).await?);
    let mut inputs = Inputs {
        module,
        variables,
        var_files,
        configuration: None,
        backend: Backend::Local,
        env,
        files: BTreeMap::new(),
        binary: Choice::default(),
        plugins: Plugins::default(),
        args: definition.args,
    };
    let mut backend_kind = BackendKind::Auto;
    if let Some(name) = &definition.provider_config {
        let name = Name::new(template.namespace().unwrap_or_default(), name.clone());
        backend_kind = unblocked!(provide(&mut reader, &mut inputs, &name, &known).await?);
    }
    if let Some(keeper) = &reader.context.keeper {
        keeper.choose(&workspace_id(&Name::of(object)), backend_kind);
    }
    let backend = unblocked!(own_backend(&mut reader, &Name::of(object), &inputs));
    let revision = reader.context.engine.revision(&inputs);
    let failed = |failure: Failure| Blocked {
        terminal: failure.class == Class::Terminal,
        reason: failure.reason.as_str(),
        message: failure.message,
    };
    Ok(revision.map_err(failed).map(|revision| Prepared {
        inputs,
        revision,
        undeclared,
        connection,
        backend,
    }))
}

fn plain(values: &BTreeMap<String, Value>) -> BTreeMap<String, Variable> {
    values
        .iter()
        .map(|(name, value)| (name.clone(), Variable { value: value.clone(), sensitive: false }))
        .collect()
}

/// What `${key}` stands for. Never a secret: the text of a module is shown and shared.
fn substitutes(
    variables: &BTreeMap<String, Variable>,
    offered: &BTreeMap<String, Variable>,
    workspace_name: &str,
    namespace: &str,
) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let open = offered.iter().chain(variables).filter(|(_, variable)| !variable.sensitive);
    let mut known: BTreeMap<String, String> =
        open.map(|(name, variable)| (name.clone(), text(&variable.value))).collect();
    known.insert("WORKSPACE_NAME".into(), workspace_name.to_owned());
    known.insert("WORKSPACE_NAMESPACE".into(), namespace.to_owned());
    known
}

fn substituted(module: &Module, known: &BTreeMap<String, String>) -> Module {
    match module {
        Module::Inline { text, format } => {
            Module::Inline { text: module::substitute(text, *format, known), format: *format }
        }
        Module::Source { source, version, entrypoint } => Module::Source {
            source: filled(source, known),
            version: version.clone(),
            entrypoint: entrypoint.clone(),
        },
    }
}

/// What the module declares, where its text is at hand and can be read; Terraform itself names its mistakes.
fn declared(module: &Module) -> Option<Declared> {
    match module {
        Module::Inline { text, format } => module::declared(text, *format).ok(),
        Module::Source { .. } => None,
    }
}

fn take_offers(
    variables: &mut BTreeMap<String, Variable>,
    offered: BTreeMap<String, Variable>,
    declared: Option<&Declared>,
) {
    for (name, value) in offered {
        if declared.is_none_or(|declared| declared.variables.contains_key(&name)) {
            variables.entry(name).or_insert(value);
        }
    }
}

/// Inputs that somebody gave and nobody uses: neither declared nor written as `${key}`.
fn undeclared(
    object: &WorkspaceTemplateApply,
    definition: &Definition,
    variables: &BTreeMap<String, Variable>,
    declared: Option<&Declared>,
) -> Vec<String> {
    let (Some(declared), Module::Inline { text, .. }) = (declared, &definition.module) else {
        return Vec::new();
    };
    let optional = object.annotations().get(annotations::OPTIONAL_VARIABLES);
    let optional: Vec<&str> = optional.iter().flat_map(|list| list.split(',')).map(str::trim).collect();
    let used = |name: &str| {
        declared.variables.contains_key(name)
            || text.contains(&format!("${{{name}}}"))
            || optional.contains(&name)
    };
    variables.keys().filter(|name| !used(name)).cloned().collect()
}

/// Text for a variable that is no text: what `-var` does on the command line.
fn typed(variable: &mut Variable, declaration: Option<&module::Declaration>) {
    let Some(kind) = declaration.and_then(|declaration| declaration.type_text.as_deref()) else { return };
    let compound =
        ["list", "set", "map", "object", "tuple"].iter().any(|word| kind.trim_start().starts_with(word));
    if compound
        && let Some(parsed) =
            variable.value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok())
        && (parsed.is_array() || parsed.is_object())
    {
        variable.value = parsed;
    }
}

fn connection(
    object: &WorkspaceTemplateApply,
    definition: &Definition,
    known: &BTreeMap<String, String>,
    namespace: &str,
) -> Option<Name> {
    if let Some(own) = &object.spec.write_connection_secret_to_ref {
        return Some(Name::referred(own, namespace));
    }
    let shared = definition.connection.as_ref()?;
    let to = shared.namespace.as_deref().map(|text| filled(text, known));
    Some(Name::new(to.as_deref().unwrap_or(namespace), filled(&shared.name, known)))
}

/// Adds what the provider config says; gives where it wants states to be.
async fn provide(
    reader: &mut Reader<'_>,
    inputs: &mut Inputs,
    name: &Name,
    known: &BTreeMap<String, String>,
) -> Read<BackendKind> {
    reader.looker.at("WorkspaceProviderConfig", name);
    let Some(config) = reader.context.configs.get(name) else {
        let message = format!("WorkspaceProviderConfig {} does not exist", name.seen_from(reader.namespace));
        return Ok(Err(Blocked::waiting(reasons::PROVIDER_CONFIG_NOT_FOUND, message)));
    };
    let spec = &config.spec;
    inputs.configuration =
        spec.configuration.as_ref().map(|text| module::substitute(text, Format::Hcl, known));
    inputs.backend = unblocked!(backend(&config, reader.namespace, known));
    inputs.binary = choice(&config);
    if let Some(plugins) = &spec.plugins {
        inputs.plugins = Plugins {
            mirror: plugins.mirror.as_ref().map(Into::into),
            cache: plugins.cache.as_ref().map(Into::into),
        };
    }
    for credential in &spec.credentials {
        unblocked!(provide_credential(reader, inputs, &config, credential).await?);
    }
    Ok(Ok(spec.backend.kind))
}

async fn provide_credential(
    reader: &mut Reader<'_>,
    inputs: &mut Inputs,
    config: &WorkspaceProviderConfig,
    credential: &Credential,
) -> Read<()> {
    let beside = config.namespace().unwrap_or_default();
    let reference = &credential.secret_ref;
    let secret = Name::new(reference.namespace.clone().unwrap_or(beside), reference.name.clone());
    if let Some(env) = &credential.env {
        let value = unblocked!(reader.secret_key(&secret, &reference.key).await?);
        inputs.env.insert(env.clone(), EnvValue { value, sensitive: true });
    }
    if let Some(file) = &credential.filename {
        let bytes = unblocked!(reader.secret_bytes(&secret, &reference.key).await?);
        inputs.files.insert(file.clone(), bytes);
    }
    Ok(Ok(()))
}

/// Where the state is. One backend block serves many workspaces, so it must tell them apart.
fn backend(
    config: &WorkspaceProviderConfig,
    namespace: &str,
    known: &BTreeMap<String, String>,
) -> Result<Backend, Blocked> {
    let (BackendKind::Hcl, Some(text)) = (config.spec.backend.kind, &config.spec.backend.hcl) else {
        // In Secrets or not: the state a run sees is a file, and the engine's keeper carries it.
        return Ok(Backend::Local);
    };
    let elsewhere = config.namespace().as_deref() != Some(namespace);
    let needed = ["${WORKSPACE_NAME}", "${WORKSPACE_NAMESPACE}"];
    for name in needed.iter().take(if elsewhere { 2 } else { 1 }) {
        if !text.contains(name) {
            let message = format!(
                "the backend of WorkspaceProviderConfig {} has no {name}: its workspaces would share one state",
                config.name_any()
            );
            return Err(Blocked::terminal(reasons::INVALID, message));
        }
    }
    Ok(Backend::Hcl(module::substitute(text, Format::Hcl, known)))
}

/// The hash of the backend of an instance, which no other instance may use.
fn own_backend(reader: &mut Reader<'_>, name: &Name, inputs: &Inputs) -> Result<Option<String>, Blocked> {
    let Some(hash) = inputs.backend_hash() else {
        reader.context.backends.forget(name);
        return Ok(None);
    };
    let Err(user) = backends::take(reader.context, name, &hash) else { return Ok(Some(hash)) };
    reader.looker.at("WorkspaceTemplateApply", &user);
    let message = format!(
        "its backend is that of WorkspaceTemplateApply {}, letter by letter: they would share one state; give each a key of its \
         own, with ${{WORKSPACE_NAME}}",
        user.seen_from(&name.namespace)
    );
    Err(Blocked::terminal(reasons::BACKEND_IN_USE, message))
}

/// Which program a provider config asks for.
pub fn choice(config: &WorkspaceProviderConfig) -> Choice {
    let name = match config.spec.binary.name {
        BinaryName::Auto => inputs::BinaryName::Auto,
        BinaryName::Tofu => inputs::BinaryName::Tofu,
        BinaryName::Terraform => inputs::BinaryName::Terraform,
    };
    Choice { name, constraint: config.spec.binary.version.clone() }
}
