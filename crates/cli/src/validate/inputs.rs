//! Modules and their variables: what a template gives, and an instance of it.

use std::collections::{BTreeMap, BTreeSet};

use capt_api::names::annotations;
use capt_api::refs::ObjectRef;
use capt_api::workspace::{VariablesFrom, WorkspaceTemplateApply};
use capt_schema::FieldPath;
use capt_terraform::module::{Declared, misfit};
use serde_json::Value;

use super::given::{Given, ManifestReference, Object};
use super::modules::{Input, Template};
use super::report::Finding;
use super::suggest::nearest;

/// Checks every template, and every instance whose template is there.
pub fn check(given: &Given) -> Vec<Finding> {
    let mut findings = Vec::new();
    for object in given.of_kind("WorkspaceTemplate") {
        if let Some(template) = Template::read(object) {
            check_template(&template, &mut findings);
        }
    }
    for object in given.of_kind("WorkspaceTemplateApply") {
        if let Ok(apply) = serde_json::from_value(object.value.clone()) {
            Instance { given, object, apply }.check(&mut findings);
        }
    }
    findings
}

fn check_template(template: &Template<'_>, findings: &mut Vec<Finding>) {
    let object = template.object;
    let declared = match template.declared(&BTreeMap::new()) {
        Ok(declared) => declared,
        Err(problem) => return findings.push(object.finding_in_text(&template.path, &problem)),
    };
    if let Some(refused) = &declared.refused {
        findings.push(object.finding_in_text(&template.path, refused));
    }
    for input in &template.inputs {
        findings.extend(check_input(object, input, &declared, |name| template.mentions(name)));
    }
}

/// Checks one input against what a module declares.
fn check_input(
    object: &Object,
    input: &Input,
    declared: &Declared,
    used: impl Fn(&str) -> bool,
) -> Option<Finding> {
    let Input { name, value, path } = input;
    let Some(declaration) = declared.variables.get(name) else {
        if used(name) {
            return None;
        }
        let known = || declared.variables.keys().map(String::as_str);
        let help = nearest(name, known()).map(|near| format!("did you mean {near}?")).or_else(|| {
            let all: Vec<&str> = known().collect();
            Some(if all.is_empty() {
                "the module declares no variable".to_owned()
            } else {
                format!("it declares {}", all.join(", "))
            })
        });
        let message = "the module declares no such variable: the value is not used".to_owned();
        return Some(object.finding(path, message).warning().helped(help));
    };
    // What is filled in later is not known yet.
    if value.as_str().is_some_and(|text| text.contains("${")) {
        return None;
    }
    let misfit = misfit(declaration.type_text.as_deref()?, value)?;
    let wanted = declaration.type_text.as_deref().unwrap_or_default();
    let wanted: Vec<&str> = wanted.split_whitespace().collect();
    Some(object.finding(path, format!("{misfit}: the module declares {}", wanted.join(" "))))
}

/// An instance of a template.
struct Instance<'a> {
    given: &'a Given,
    object: &'a Object,
    apply: WorkspaceTemplateApply,
}

/// Variables that one entry of `variablesFrom` offers.
enum Offer {
    /// All of it.
    Names(BTreeSet<String>),
    /// Nobody can tell here.
    Unknown,
}

impl Instance<'_> {
    fn check(&self, findings: &mut Vec<Finding>) {
        for (index, from) in self.apply.spec.variables_from.iter().enumerate() {
            self.check_source(index, from, findings);
        }
        let Some(template) = self.template() else { return };
        let Ok(declared) = template.declared(&self.known(&template)) else { return };
        let spec = FieldPath::root().field("spec");
        let optional = self.object.value["metadata"]["annotations"][annotations::OPTIONAL_VARIABLES].as_str();
        let optional: Vec<&str> = optional.iter().flat_map(|list| list.split(',')).map(str::trim).collect();
        let used = |name: &str| template.mentions(name) || optional.contains(&name);
        for (name, value) in &self.apply.spec.variables {
            let path = spec.field("variables").field(name);
            let input = Input { name: name.clone(), value: value.clone(), path };
            findings.extend(check_input(self.object, &input, &declared, used));
        }
        for (index, from) in self.apply.spec.variables_from.iter().enumerate() {
            let map = spec.field("variablesFrom").index(index).field("map");
            for name in from.map.keys() {
                let input = Input { name: name.clone(), value: Value::Null, path: map.field(name) };
                findings.extend(check_input(self.object, &input, &declared, used));
            }
        }
        self.check_missing(&template, &declared, findings);
    }

    fn template(&self) -> Option<Template<'_>> {
        let reference = ManifestReference::read(&self.object.value["spec"]["templateRef"])?;
        Template::read(self.given.find("WorkspaceTemplate", self.object, &reference)?)
    }

    /// Values of `${key}` in the module.
    fn known(&self, template: &Template<'_>) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let shared = template.inputs.iter().map(|input| (input.name.clone(), text(&input.value)));
        let own = self.apply.spec.variables.iter().map(|(name, value)| (name.clone(), text(value)));
        shared.chain(own).collect()
    }

    /// Names variables that must be given, and are by nobody.
    fn check_missing(&self, template: &Template<'_>, declared: &Declared, findings: &mut Vec<Finding>) {
        let mut have: BTreeSet<&str> = self.apply.spec.variables.keys().map(String::as_str).collect();
        let mut offered = BTreeSet::new();
        for from in &self.apply.spec.variables_from {
            have.extend(from.map.keys().map(String::as_str));
            if from.map.is_empty() {
                match self.offer(from) {
                    Offer::Names(names) => offered.extend(names),
                    Offer::Unknown => return,
                }
            }
        }
        for name in template.missing(declared, |name| have.contains(name) || offered.contains(name)) {
            let path = FieldPath::root().field("spec").field("variables").field(name);
            let of = &template.object.name.name;
            let message = format!("WorkspaceTemplate {of} requires it, and no value is given");
            let help =
                "give it here, in variablesFrom or in the template, or a default in the module".to_owned();
            findings.push(self.object.finding(&path, message).helped(Some(help)));
        }
    }

    /// Variables of a source, as far as it is among the files.
    fn offer(&self, from: &VariablesFrom) -> Offer {
        let find = |kind, reference: Option<&ObjectRef>| {
            let reference = reference?;
            let reference =
                ManifestReference { name: &reference.name, namespace: reference.namespace.as_deref() };
            self.given.find(kind, self.object, &reference)
        };
        let names = if let Some(other) = find("WorkspaceTemplateApply", from.workspace_ref.as_ref()) {
            outputs(self.given, other)
        } else {
            let holder = find("ConfigMap", from.config_map_ref.as_ref())
                .or_else(|| find("Secret", from.secret_ref.as_ref()));
            holder.map(|holder| {
                let parts =
                    ["data", "stringData"].into_iter().filter_map(|part| holder.value[part].as_object());
                parts.flat_map(|part| part.keys().cloned()).collect()
            })
        };
        names.map_or(Offer::Unknown, Offer::Names)
    }

    /// Checks that a source has what is taken from it.
    fn check_source(&self, index: usize, from: &VariablesFrom, findings: &mut Vec<Finding>) {
        let Offer::Names(names) = self.offer(from) else { return };
        let map = FieldPath::root().field("spec").field("variablesFrom").index(index).field("map");
        for (variable, key) in from.map.iter().filter(|(_, key)| !from.optional && !names.contains(*key)) {
            let (what, reference) = match (&from.workspace_ref, &from.config_map_ref, &from.secret_ref) {
                (Some(reference), ..) => ("no output of WorkspaceTemplateApply", reference),
                (_, Some(reference), _) => ("no key of ConfigMap", reference),
                (.., Some(reference)) => ("no key of Secret", reference),
                (None, None, None) => return,
            };
            let near = nearest(key, names.iter().map(String::as_str));
            let help = near.map(|near| format!("did you mean {near}?"));
            let message = format!("{key} is {what} {}", reference.name);
            let finding = self.object.finding(&map.field(variable), message).helped(help);
            // Somebody else may add keys to an object; nobody adds outputs to a module.
            findings.push(if from.workspace_ref.is_some() { finding } else { finding.warning() });
        }
    }
}

/// The outputs of an instance, where its module is among the files.
fn outputs(given: &Given, object: &Object) -> Option<BTreeSet<String>> {
    let apply = serde_json::from_value(object.value.clone()).ok()?;
    let instance = Instance { given, object, apply };
    let template = instance.template()?;
    let declared = template.declared(&instance.known(&template)).ok()?;
    Some(declared.outputs.into_keys().collect())
}
