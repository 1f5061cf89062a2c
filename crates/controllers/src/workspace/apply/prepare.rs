//! From an object and what it refers to, to the inputs of a run; or to what is missing.

use std::collections::BTreeMap;

use capt_api::conditions::reasons;
use capt_api::names::annotations;
use capt_api::workspace::{
    BackendKind, BinaryName, Credential, DeletionPolicy, WorkspaceProviderConfig, WorkspaceTemplate,
    WorkspaceTemplateApply,
};
pub use capt_planner::workspace::Blocked;
use capt_terraform::failure::{Class, Failure};
use capt_terraform::inputs::{self, Backend, Choice, EnvValue, Inputs, Plugins, Revision, Variable};
use capt_terraform::module::{self, Declared, Format, Module};
use capt_terraform::view::View;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::Value;

use super::super::context::{WorkspaceContext, workspace_id};
use super::definition::{self, Definition};
use super::fields::{self, Fields};
use super::place::{self, Texts};
use super::values::{Read, Reader, filled, unblocked};
use super::variables::{self, Given, Merged, Unfilled, is_variable, text};
use crate::runtime::{Error, Looker, Name, Referrer, Refused, Writable};

/// Inputs of a run, and what goes with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The inputs.
    pub inputs: Inputs,
    /// Their hash.
    pub revision: Revision,
    /// Inputs that the module does not know, where its text is at hand.
    pub undeclared: Vec<String>,
    /// Variables whose value in the template differs from what the owner passes by default.
    pub kept: Vec<String>,
    /// `${key}` in values of the template that nothing gives.
    pub unfilled: Vec<Unfilled>,
    /// Variables that it declares, where its text is at hand.
    pub declared: Vec<String>,
    /// Variables that it need not declare.
    pub optional: Vec<String>,
    /// Fields that hold the inputs.
    pub fields: Fields,
    /// Secret for the outputs.
    pub connection: Option<Writable<Secret>>,
    /// Hash of the backend that keeps the state, where that is not CAPT.
    pub backend: Option<String>,
}

impl From<Refused> for Blocked {
    fn from(refused: Refused) -> Self {
        let Refused { reason, message } = refused;
        Self { terminal: reason != Refused::REASON, reason, message }
    }
}

/// Facts about the template, whether or not the inputs are complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateFacts {
    /// Its content hash.
    pub revision: Option<String>,
    /// Its deletion policy; none where it is gone.
    pub deletion_policy: Option<DeletionPolicy>,
}

/// Facts about an instance before its inputs are resolved.
#[derive(Clone, Copy, Debug)]
pub struct KnownInstance<'a> {
    /// Name of its workspace.
    pub workspace_name: &'a str,
    /// The engine's view of its workspace.
    pub view: &'a View,
    /// True if something else has applied it.
    pub applied_elsewhere: bool,
}

/// Resolves the inputs of one instance.
pub async fn prepare(
    context: &WorkspaceContext,
    looker: &mut Looker,
    object: &WorkspaceTemplateApply,
    known: &KnownInstance<'_>,
) -> Result<(TemplateFacts, Result<Prepared, Blocked>), Error> {
    let namespace = object.namespace().unwrap_or_default();
    let mut reader = Reader { context, looker, namespace: &namespace };
    let mentioned = Name::mentioned(&object.spec.template_ref, &namespace);
    let template_name = match reader.resolve::<WorkspaceTemplate>(mentioned) {
        Ok(name) => name,
        Err(refused) => return Ok((TemplateFacts::default(), Err(refused))),
    };
    reader.looker.at("WorkspaceTemplate", &template_name);
    let Some(template) = context.templates.get(&template_name) else {
        let message = format!("WorkspaceTemplate {} does not exist", template_name.seen_from(&namespace));
        let blocked = Blocked::waiting(reasons::WORKSPACE_TEMPLATE_NOT_FOUND, message);
        return Ok((TemplateFacts::default(), Err(blocked)));
    };
    let facts = TemplateFacts {
        revision: Some(definition::revision(&template)),
        deletion_policy: Some(definition::deletion_policy(&template)),
    };
    let prepared = resolve(reader, object, &template, known).await?;
    Ok((facts, prepared))
}

async fn resolve(
    mut reader: Reader<'_>,
    object: &WorkspaceTemplateApply,
    template: &WorkspaceTemplate,
    of: &KnownInstance<'_>,
) -> Read<Prepared> {
    let definition = unblocked!(definition::read(template));
    let mut from_others = BTreeMap::new();
    let mut offered = BTreeMap::new();
    let mut fields = Fields::default();
    definition.variables.keys().for_each(|name| fields.of_template(name, template));
    for (entry, from) in object.spec.variables_from.iter().enumerate() {
        let values = unblocked!(reader.variables(from).await?);
        if from.map.is_empty() {
            // Offered under their own names: they feed what the module declares, and nobody misses the rest.
            for name in values.keys() {
                fields.offered(name, entry);
            }
            offered.extend(values);
        } else {
            for name in values.keys() {
                fields.mapped(name, entry);
            }
            from_others.extend(values);
        }
    }
    object.spec.variables.keys().for_each(|name| fields.own(name));
    let defaults = variables::defaults(object);
    let given = Given { from: &from_others, own: &object.spec.variables, defaults: &defaults };
    let names = substitutes(&BTreeMap::new(), &offered, of.workspace_name, reader.namespace);
    let Merged { mut variables, kept, unfilled } = variables::merge(&definition.variables, given, &names);
    let known = substitutes(&variables, &offered, of.workspace_name, reader.namespace);
    let owner = template.namespace().unwrap_or_default();
    unblocked!(values_stay_values(&definition.module, &known, owner != reader.namespace));
    let module = substituted(&definition.module, &known);
    let declared = declared(&module);
    take_offers(&mut variables, offered, declared.as_ref());
    let optional = optional(object);
    let undeclared = undeclared(&optional, &definition, &variables, declared.as_ref());
    if let Some(declared) = &declared {
        // Terraform warns about each; they are reported as a condition instead.
        variables.retain(|name, _| declared.variables.contains_key(name));
        for (name, variable) in &mut variables {
            typed(variable, declared.variables.get(name));
        }
    }
    let connection = unblocked!(connection(&mut reader, object, &definition, &known));
    let var_files = unblocked!(reader.var_files(&definition.var_files, &known).await?);
    let env = unblocked!(reader.env(&definition.env, &known).await?);
    let origin = reader.context.grants.keep_apart().then(|| template.namespace().unwrap_or_default());
    let mut inputs = Inputs {
        lent: origin.as_ref().is_some_and(|owner| owner != reader.namespace),
        origin,
        module,
        variables,
        var_files,
        configuration: None,
        backend: Backend::Local,
        workspace: None,
        env,
        files: BTreeMap::new(),
        binary: Choice::default(),
        plugins: Plugins::default(),
        args: definition.args,
    };
    let mut backend_kind = BackendKind::Auto;
    let mut configuration = None;
    if let Some(name) = &definition.provider_config {
        let name = Name::new(template.namespace().unwrap_or_default(), name.clone());
        let config = unblocked!(reader.provider_config(&name));
        unblocked!(provide(&mut reader, &mut inputs, &config, &known).await?);
        backend_kind = config.spec.backend.kind;
        configuration.clone_from(&config.spec.configuration);
    }
    let texts = Texts { configuration: configuration.as_deref(), module: &definition.module };
    let own =
        place::own_workspace(of.workspace_name, reader.namespace, &template.namespace().unwrap_or_default());
    inputs.workspace = place::selected(&inputs, &texts, &known, of, own);
    if let Some(state_backend) = &reader.context.state_backend {
        state_backend.choose(&workspace_id(&Name::of(object)), backend_kind);
    }
    let backend = unblocked!(place::own_backend(&mut reader, &Name::of(object), &inputs, of.view).await?);
    let revision = reader.context.executor.revision(&inputs).await;
    let failed = |failure: Failure| Blocked {
        terminal: failure.class == Class::Terminal,
        reason: failure.reason.as_str(),
        message: fields::named(failure, &fields).message,
    };
    let declared = declared.into_iter().flat_map(|declared| declared.variables.into_keys()).collect();
    let revision = revision.map_err(failed);
    Ok(revision.map(|revision| Prepared {
        inputs,
        revision,
        undeclared,
        kept,
        unfilled,
        declared,
        optional,
        fields,
        connection,
        backend,
    }))
}

/// Returns the values that `${key}` stands for. Never a secret: the text of a module is shown and shared.
fn substitutes(
    variables: &BTreeMap<String, Variable>,
    offered: &BTreeMap<String, Variable>,
    workspace_name: &str,
    namespace: &str,
) -> BTreeMap<String, String> {
    let open = offered.iter().chain(variables);
    let open = open.filter(|(name, variable)| !variable.sensitive && is_variable(name));
    let mut known: BTreeMap<String, String> =
        open.map(|(name, variable)| (name.clone(), text(&variable.value))).collect();
    known.insert("WORKSPACE_NAME".into(), workspace_name.to_owned());
    known.insert("WORKSPACE_NAMESPACE".into(), namespace.to_owned());
    known
}

/// Refuses values that would be more than values where they are put: whoever gives them is not always who wrote the module, and
/// lends it credentials.
fn values_stay_values(
    module: &Module,
    known: &BTreeMap<String, String>,
    foreign: bool,
) -> Result<(), Blocked> {
    refused(match module {
        Module::Inline { text, format } => {
            foreign.then(|| module::changed_by(text, *format, known)).flatten()
        }
        Module::Source { source, .. } => changes_source(source, known),
    })
}

fn refused(key: Option<String>) -> Result<(), Blocked> {
    let Some(key) = key else { return Ok(()) };
    let message = format!(
        "spec.variables.{key}: this value would change which code the template runs; give another one"
    );
    Err(Blocked::terminal(reasons::INVALID, message))
}

/// The key whose value names more than a part of the source's path. A source that is nothing but `${key}` is meant to be given.
fn changes_source(source: &str, known: &BTreeMap<String, String>) -> Option<String> {
    let part = |part: &str| {
        let plain =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | '+' | '~');
        !part.is_empty() && part.chars().all(plain) && !part.starts_with(['.', '-'])
    };
    let (key, _) = known.iter().find(|(key, value)| {
        let place = format!("${{{key}}}");
        source.contains(&place) && source != place && !value.split('/').all(part)
    })?;
    Some(key.clone())
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

/// Returns the variables that the module declares, where its text is at hand and can be read; Terraform itself names its mistakes.
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

/// Variables that the module need not declare.
fn optional(object: &WorkspaceTemplateApply) -> Vec<String> {
    let list = object.annotations().get(annotations::OPTIONAL_VARIABLES);
    list.iter().flat_map(|list| list.split(',')).map(|name| name.trim().to_owned()).collect()
}

/// Inputs that somebody gave and nobody uses: neither declared nor written as `${key}`.
fn undeclared(
    optional: &[String],
    definition: &Definition,
    variables: &BTreeMap<String, Variable>,
    declared: Option<&Declared>,
) -> Vec<String> {
    let (Some(declared), Module::Inline { text, .. }) = (declared, &definition.module) else {
        return Vec::new();
    };
    let used = |name: &String| {
        declared.variables.contains_key(name)
            || text.contains(&format!("${{{name}}}"))
            || variables::names(&definition.variables, name)
            || optional.contains(name)
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

/// The Secret for the outputs: as the instance says, else as its template does. Nothing is built whose outputs could not be
/// written.
fn connection(
    reader: &mut Reader<'_>,
    object: &WorkspaceTemplateApply,
    definition: &Definition,
    known: &BTreeMap<String, String>,
) -> Result<Option<Writable<Secret>>, Blocked> {
    let own = object.spec.write_connection_secret_to_ref.as_ref();
    let own = own.map(|own| Name::mentioned(own, reader.namespace));
    let shared = || {
        let shared = definition.connection.as_ref()?;
        let to = shared.namespace.as_deref().map(|text| filled(text, known));
        Some(Name::new(to.as_deref().unwrap_or(reader.namespace), filled(&shared.name, known)))
    };
    let Some(name) = own.or_else(shared) else { return Ok(None) };
    let from = Referrer::of::<WorkspaceTemplateApply>(reader.namespace);
    Ok(Some(reader.context.grants.write(reader.looker, from, name)?))
}

/// Adds what the provider config says.
async fn provide(
    reader: &mut Reader<'_>,
    inputs: &mut Inputs,
    config: &WorkspaceProviderConfig,
    known: &BTreeMap<String, String>,
) -> Read<()> {
    let spec = &config.spec;
    if config.namespace().as_deref() != Some(reader.namespace) {
        for text in spec.configuration.iter().chain(&spec.backend.hcl) {
            unblocked!(refused(module::changed_by(text, Format::Hcl, known)));
        }
    }
    inputs.configuration =
        spec.configuration.as_ref().map(|text| module::substitute(text, Format::Hcl, known));
    inputs.backend = unblocked!(place::backend(config, reader.namespace, known));
    inputs.binary = choice(config);
    if let Some(plugins) = &spec.plugins {
        inputs.plugins = Plugins {
            mirror: plugins.mirror.as_ref().map(Into::into),
            cache: plugins.cache.as_ref().map(Into::into),
        };
    }
    for credential in &spec.credentials {
        unblocked!(provide_credential(reader, inputs, config, credential).await?);
    }
    Ok(Ok(()))
}

async fn provide_credential(
    reader: &mut Reader<'_>,
    inputs: &mut Inputs,
    config: &WorkspaceProviderConfig,
    credential: &Credential,
) -> Read<()> {
    let reference = &credential.secret_ref;
    let secret = unblocked!(reader.credential(config, reference));
    if let Some(env) = &credential.env {
        let (value, sensitive) = unblocked!(reader.secret_key(&secret, &reference.key).await?);
        inputs.env.insert(env.clone(), EnvValue { value, sensitive });
    }
    if let Some(file) = &credential.filename {
        let (bytes, _) = unblocked!(reader.secret_bytes(&secret, &reference.key).await?);
        inputs.files.insert(file.clone(), bytes);
    }
    Ok(Ok(()))
}

/// Returns the program that a provider config asks for.
pub fn choice(config: &WorkspaceProviderConfig) -> Choice {
    let name = match config.spec.binary.name {
        BinaryName::Auto => inputs::BinaryName::Auto,
        BinaryName::Tofu => inputs::BinaryName::Tofu,
        BinaryName::Terraform => inputs::BinaryName::Terraform,
    };
    Choice { name, constraint: config.spec.binary.version.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_a_source_is_a_part_of_its_path() {
        let known = |value: &str| BTreeMap::from([("key".to_owned(), value.to_owned())]);
        for value in ["vpc", "team-a/vpc", "v1.2.3", "feature/x_1"] {
            assert_eq!(
                changes_source("git::https://host/modules/${key}?ref=main", &known(value)),
                None,
                "{value}"
            );
        }
        for value in [
            "..",
            "../evil",
            "a/../../b",
            "a//b",
            "/etc",
            "a?ref=evil",
            "a@b",
            "a:b",
            "",
            "-x",
            ".git",
            "a b",
            "a\nb",
            "日",
        ] {
            let changed = changes_source("./modules/${key}", &known(value));
            assert_eq!(changed.as_deref(), Some("key"), "{value:?}");
        }
        // The template's author leaves it to the instance.
        assert_eq!(changes_source("${key}", &known("git::https://host/any?ref=x")), None);
        assert_eq!(changes_source("./fixed", &known("../evil")), None);
    }

    #[test]
    fn only_names_of_variables_are_filled_in() {
        let variable = |sensitive| Variable { value: Value::from("x"), sensitive };
        let rows = [
            ("a", true),
            ("_a", true),
            ("with-dash_9", true),
            ("terraform_data.machine.id", false),
            ("a.b", false),
            (".a", false),
            ("9", false),
            ("-a", false),
            ("日", false),
            ("", false),
        ];
        for (name, expected) in rows {
            let (mine, none) = (BTreeMap::from([(name.to_owned(), variable(false))]), BTreeMap::new());
            for (variables, offered) in [(&mine, &none), (&none, &mine)] {
                let known = substitutes(variables, offered, "w", "n");
                assert_eq!(known.contains_key(name), expected, "{name:?}");
                assert_eq!(known.len(), 2 + usize::from(expected), "{name:?}");
            }
        }
        let secret = BTreeMap::from([("a".to_owned(), variable(true))]);
        assert!(!substitutes(&secret, &BTreeMap::new(), "w", "n").contains_key("a"), "never a secret");
    }
}
