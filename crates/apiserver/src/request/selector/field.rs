//! Field selectors: `metadata.name=a,spec.nodeName!=b`, with `\` before a comma, an equals sign or a backslash.

use std::{borrow::Cow, fmt};

use serde_json::Value;

use crate::{
    resource::{Resource, Version},
    status::go,
};

/// An invalid selector, with kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// No operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// All of it.
        selector: String,
        /// The part without an operator.
        term: String,
    },
    /// A backslash before something else than a comma, an equals sign or a backslash.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A second operator.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
    /// Objects cannot be selected by the field.
    #[error("field label not supported: {0}")]
    NotSupported(String),
    /// The same, of resources that have no fields of their own to select by.
    #[error("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", go::quote(.0))]
    OnlyNames(String),
}

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// The field, such as `spec.nodeName`.
    pub field: String,
    /// True if it must, or must not, have the value.
    pub equal: bool,
    /// The value.
    pub value: String,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Parses a selector; the empty text selects everything.
    pub fn parse(selector: &str) -> Result<Self, FieldSelectorError> {
        let mut terms = split_terms(selector);
        terms.sort_unstable();
        let requirements = terms.into_iter().filter(|term| !term.is_empty()).map(|term| {
            let Some((field, equal, value)) = split_term(term) else {
                return Err(FieldSelectorError::Term {
                    selector: selector.to_owned(),
                    term: term.to_owned(),
                });
            };
            Ok(FieldRequirement { field: field.to_owned(), equal, value: unescape(value)? })
        });
        let mut requirements: Vec<FieldRequirement> = requirements.collect::<Result<_, _>>()?;
        // No field with no value: upstream takes it for no condition.
        requirements.retain(|requirement| !(requirement.field.is_empty() && requirement.value.is_empty()));
        Ok(Self { requirements })
    }

    /// Selects the one object of this name.
    pub fn name(name: &str) -> Self {
        let field = "metadata.name".to_owned();
        Self { requirements: vec![FieldRequirement { field, equal: true, value: name.to_owned() }] }
    }

    /// Returns whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The conditions.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// An estimate of the bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        const EACH: usize = 160;
        self.requirements.iter().map(|found| EACH + found.field.len() + found.value.len()).sum()
    }

    /// The value that a field must have, if one is asked for.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|found| found.equal && found.field == field)?;
        Some(&requirement.value)
    }

    /// Refuses fields that objects of the resource cannot be selected by.
    pub fn check(&self, resource: &Resource, version: &Version) -> Result<(), FieldSelectorError> {
        let plain = !resource.custom && version.selectable_fields.is_empty();
        let known = |field: &str| match field {
            "metadata.name" => true,
            "metadata.namespace" => plain || resource.namespaced,
            field => version.selectable_fields.iter().any(|known| known.trim_start_matches('.') == field),
        };
        match self.requirements.iter().find(|requirement| !known(&requirement.field)) {
            None => Ok(()),
            Some(unknown) if plain => Err(FieldSelectorError::OnlyNames(unknown.field.clone())),
            Some(unknown) => Err(FieldSelectorError::NotSupported(unknown.field.clone())),
        }
    }

    /// Returns whether an object with these fields is selected; a field that is not there is empty.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (field(&requirement.field) == requirement.value.as_str()) == requirement.equal)
    }

    /// Returns whether an object of the resource is selected.
    pub fn matches_object(&self, resource: &Resource, object: &Value) -> bool {
        self.matches(|field| field_value(resource, object, field))
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, FieldRequirement { field, equal, value }) in self.requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if *equal { "=" } else { "!=" };
            write!(f, "{comma}{field}{operator}{}", escape(value))?;
        }
        Ok(())
    }
}

fn split_terms(selector: &str) -> Vec<&str> {
    let mut escaped = false;
    let terms = selector.split(|c| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    });
    terms.collect()
}

/// The first operator divides a term.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.char_indices().find(|(index, c)| *c == '=' || term[*index..].starts_with("!="))?.0;
    let (field, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, false, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, true, value))
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

fn unescape(value: &str) -> Result<String, FieldSelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                other => {
                    return Err(FieldSelectorError::Escape(std::iter::once('\\').chain(other).collect()));
                }
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(c)),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// The text that a field of an object is compared by.
///
/// A field is a path of member names. The few that upstream computes are computed: an absent flag of a node is false,
/// the source of an event may be given in the older or the newer way.
pub fn field_value<'a>(resource: &Resource, object: &'a Value, field: &str) -> Cow<'a, str> {
    let found = lookup(object, field);
    if resource.custom || !found.is_empty() && field != "source" {
        return found;
    }
    match (resource.plural.as_str(), field) {
        ("nodes", "spec.unschedulable") => Cow::Borrowed("false"),
        ("events", "source") => match lookup(object, "source.component") {
            empty if empty.is_empty() => lookup(object, "reportingComponent"),
            component => component,
        },
        _ => found,
    }
}

fn lookup<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    match field.split('.').try_fold(object, |value, member| value.get(member)) {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(go::plain(other)),
    }
}
