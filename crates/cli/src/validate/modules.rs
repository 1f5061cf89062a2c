//! Templates: the module of each, and what it declares.

use std::collections::{BTreeMap, BTreeSet};

use capt_api::workspace::{InlineFormat, Module, ModuleSource, WorkspaceTemplate};
use capt_schema::FieldPath;
use capt_terraform::module::{self, Declared, Format, Problem};
use serde_json::Value;

use super::given::Object;

/// An input that somebody gives.
pub struct Input {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// Field that gives it.
    pub path: FieldPath,
}

/// A template whose module is in the manifest.
pub struct Template<'a> {
    pub object: &'a Object,
    /// The module.
    pub text: String,
    pub format: Format,
    /// Field of the module.
    pub path: FieldPath,
    /// Inputs that the template gives.
    pub inputs: Vec<Input>,
    /// True if files or the environment may give more.
    pub open: bool,
}

/// The path of a template's workspace.
fn spec() -> FieldPath {
    FieldPath::root().field("spec").field("template").field("spec")
}

impl<'a> Template<'a> {
    /// Reads a template; nothing for one whose module is elsewhere.
    pub fn read(object: &'a Object) -> Option<Self> {
        let template: WorkspaceTemplate = serde_json::from_value(object.value.clone()).ok()?;
        let inner = &template.spec.template.spec;
        if let Some(long) = &inner.for_provider {
            let path = spec().field("forProvider");
            let format = match long.inline_format {
                InlineFormat::Hcl => Format::Hcl,
                InlineFormat::Json => Format::Json,
            };
            let vars = long.vars.iter().enumerate().map(|(index, var)| Input {
                name: var.key.clone(),
                value: Value::from(var.value.clone()),
                path: path.field("vars").index(index).field("value"),
            });
            let map = long.varmap.iter().map(|(name, value)| Input {
                name: name.clone(),
                value: value.clone(),
                path: path.field("varmap").field(name),
            });
            let inline = long.source == ModuleSource::Inline;
            return Some(Self {
                object,
                text: long.module.clone().filter(|_| inline)?,
                format,
                path: path.field("module"),
                inputs: vars.chain(map).collect(),
                open: !long.var_files.is_empty()
                    || long.env.iter().any(|env| env.name.starts_with("TF_VAR_")),
            });
        }
        let Some(Ok(Module::Inline(text))) = inner.short_module() else { return None };
        let inputs = inner.variables.iter().map(|(name, given)| Input {
            name: name.clone(),
            value: given.value.clone(),
            path: spec().field("variables").field(name).field("value"),
        });
        let inputs = inputs.collect();
        Some(Self { object, text, format: Format::Hcl, path: spec().field("module"), inputs, open: false })
    }

    /// Parses the declarations of the module, with `${key}` of these values filled in. Keys without a value here may come from
    /// elsewhere: a text that can only be parsed with them is parsed with a placeholder.
    pub fn declared(&self, known: &BTreeMap<String, String>) -> Result<Declared, Problem> {
        let text = module::substitute(&self.text, self.format, known);
        module::declared(&text, self.format).or_else(|problem| {
            let others: BTreeMap<String, String> =
                placeholders(&text).map(|key| (key, "0".to_owned())).collect();
            if others.is_empty() {
                return Err(problem);
            }
            module::declared(&module::substitute(&text, self.format, &others), self.format)
        })
    }

    /// Variables that the module requires, and that neither the template nor whoever uses it gives. None where files or the
    /// environment may give them.
    pub fn missing<'d>(&self, declared: &'d Declared, given: impl Fn(&str) -> bool) -> Vec<&'d str> {
        let own: BTreeSet<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
        let required =
            declared.variables.iter().filter(|(_, declaration)| declaration.required && !self.open);
        let missing =
            required.map(|(name, _)| name.as_str()).filter(|name| !own.contains(name) && !given(name));
        missing.collect()
    }

    /// Returns true if the module's text or a value of the template has `${key}`, which needs no declaration.
    pub fn mentions(&self, key: &str) -> bool {
        let placeholder = format!("${{{key}}}");
        let mut values = self.inputs.iter().map(|input| &input.value);
        self.text.contains(&placeholder) || values.any(|value| value.to_string().contains(&placeholder))
    }
}

/// The keys of `${key}` in a text.
fn placeholders(text: &str) -> impl Iterator<Item = String> {
    text.split("${").skip(1).filter_map(|rest| {
        let key = rest.split_once('}')?.0;
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        (!key.is_empty() && key.chars().all(word)).then(|| key.to_owned())
    })
}
