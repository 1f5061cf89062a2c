//! Checks one object of a known kind.
//!
//! In the order of an API server: unknown fields are told and dropped, status is dropped, defaults are
//! filled in, then metadata, schema and rules are checked, and the change from an earlier version.

use std::collections::HashMap;

use capt_schema::{FieldError, FieldErrorKind, FieldPath, Schema, Segment, UnknownField, metadata};
use serde_json::Value;

use super::catalogue::CatalogueEntry;
use super::report::Finding;
use super::suggest::nearest;
use capt_yaml::{Member, Node, NodeValue, Position};

/// Problems of an object.
pub struct Checked {
    pub findings: Vec<Finding>,
    /// True if some rules could not be checked because of other mistakes.
    pub partial: bool,
    /// The object as an API server would keep it, where nothing is wrong with it.
    pub admitted: Option<Value>,
}

/// Message of an API server that left rules out; no mistake of its own, so no finding.
const LEFT_OUT: &str = "some validation rules were not checked";

/// Checks `object`, and the change from `old` where there is one.
pub fn check(kind: &CatalogueEntry, file: &str, object: &Node, old: Option<&Value>) -> Checked {
    let mut new = object.to_json();
    drop_status(&mut new);
    let mut unknown = metadata::unknown_fields(&new);
    unknown.extend(admit(&kind.schema, &mut new));
    let old = old.cloned().map(|mut old| {
        drop_status(&mut old);
        admit(&kind.schema, &mut old);
        old
    });
    let mut errors = metadata::validate(&new);
    errors.extend(kind.schema.validate(&new, old.as_ref()));
    let all = errors.len();
    errors.retain(|error| !error.detail.starts_with(LEFT_OUT));
    let partial = errors.len() < all;
    if errors.is_empty() {
        errors.extend(parse_error(kind, new.clone()));
    }
    let mut places = Places::of(object);
    let mut findings: Vec<Finding> =
        unknown.iter().map(|field| unknown_field(file, &mut places, field)).collect();
    findings.extend(errors.iter().map(|error| field_error(file, &mut places, error)));
    findings.sort_by_key(|finding| finding.place.position);
    let admitted = findings.is_empty().then_some(new);
    Checked { findings, partial, admitted }
}

/// Problems of a change of an object that is in no file.
pub fn problems(kind: &CatalogueEntry, old: &Value, new: &Value) -> Vec<String> {
    let (mut old, mut new) = (old.clone(), new.clone());
    drop_status(&mut old);
    drop_status(&mut new);
    let unknown = admit(&kind.schema, &mut new);
    admit(&kind.schema, &mut old);
    let errors = kind.schema.validate(&new, Some(&old));
    let unknown = unknown.iter().map(|field| {
        let help = unknown_help(field).map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}: unknown field{help}", field.path)
    });
    let errors = errors.iter().filter(|error| !error.detail.starts_with(LEFT_OUT));
    unknown.chain(errors.map(ToString::to_string)).collect()
}

/// Prunes and defaults an object as an API server does before validation.
fn admit(schema: &Schema, object: &mut Value) -> Vec<UnknownField> {
    let unknown = schema.prune(object);
    // An API server refuses one that they make too large; what is told of it is told of what there is.
    let _ = schema.default(object);
    unknown
}

/// A manifest's status never reaches an object: status is written through its own subresource.
fn drop_status(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
}

/// Parse error of an object that the schema accepts.
fn parse_error(kind: &CatalogueEntry, object: Value) -> Option<FieldError> {
    let error = (kind.parse)(object).err()?;
    let path: FieldPath = segments(error.path()).collect();
    Some(FieldError::new(&path, FieldErrorKind::Forbidden, None, error.into_inner().to_string()))
}

/// The path at which a type refuses a value.
pub(super) fn segments(path: &serde_path_to_error::Path) -> impl Iterator<Item = Segment> {
    path.iter().filter_map(|segment| match segment {
        serde_path_to_error::Segment::Map { key } => Some(Segment::Field(key.clone())),
        serde_path_to_error::Segment::Seq { index } => Some(Segment::Index(*index)),
        _ => None,
    })
}

pub(super) fn unknown_field(file: &str, places: &mut Places<'_>, field: &UnknownField) -> Finding {
    Finding {
        path: Some(field.path.to_string()),
        help: unknown_help(field),
        ..Finding::new(file, Some(places.locate(&field.path)), "unknown field".into())
    }
}

/// Suggests the field that was probably meant.
fn unknown_help(field: &UnknownField) -> Option<String> {
    let name = match field.path.segments().last() {
        Some(Segment::Field(name) | Segment::Key(name)) => name.as_str(),
        Some(Segment::Index(_)) | None => "",
    };
    match nearest(name, field.known.iter().map(String::as_str)) {
        Some(near) => Some(format!("did you mean {near}?")),
        None if field.known.is_empty() => None,
        None => Some(format!("known here: {}", field.known.join(", "))),
    }
}

fn field_error(file: &str, places: &mut Places<'_>, error: &FieldError) -> Finding {
    let path = (!error.path.is_root()).then(|| error.path.to_string());
    let help = quoting_help(places, &error.path, error);
    // A rule about the name stands at the root, where an API server has no path for it.
    let about_name = error.path.is_root() && error.detail.starts_with("metadata.name");
    let name = FieldPath::root().field("metadata").field("name");
    let at = places.locate(if about_name { &name } else { &error.path });
    Finding { path, help, ..Finding::new(file, Some(at), error.body()) }
}

/// `version: 1.30` is the number 1.3 to YAML, and `yes` is true: the usual cure is a pair of quotes.
fn quoting_help(places: &mut Places<'_>, path: &FieldPath, error: &FieldError) -> Option<String> {
    if !error.detail.contains("must be of type string") {
        return None;
    }
    let text = match &places.find(path)?.value {
        NodeValue::Number { text, .. } => text.clone(),
        NodeValue::Bool(value) => value.to_string(),
        _ => return None,
    };
    Some(format!("put it in quotes: \"{text}\""))
}

/// Finds places in an object by their paths. A map of many members is searched once and not for each path.
pub(super) struct Places<'a> {
    object: &'a Node,
    maps: HashMap<*const Node, HashMap<&'a str, &'a Member>>,
}

/// Fewer members are searched as fast as they are put into a table.
const MANY: usize = 32;

impl<'a> Places<'a> {
    pub(super) fn of(object: &'a Node) -> Self {
        Self { object, maps: HashMap::new() }
    }

    fn member(&mut self, node: &'a Node, name: &str) -> Option<&'a Member> {
        match &node.value {
            NodeValue::Map(members) if members.len() > MANY => {
                let table = || members.iter().map(|member| (member.key.as_str(), member)).collect();
                self.maps.entry(std::ptr::from_ref(node)).or_insert_with(table).get(name).copied()
            }
            _ => node.member(name),
        }
    }

    /// The value at `path`.
    pub(super) fn find(&mut self, path: &FieldPath) -> Option<&'a Node> {
        let object = self.object;
        path.segments().iter().try_fold(object, |node, segment| match segment {
            Segment::Field(name) | Segment::Key(name) => self.member(node, name).map(|member| &member.value),
            Segment::Index(index) => match &node.value {
                NodeValue::List(items) => items.get(*index),
                _ => None,
            },
        })
    }

    /// Position of `path`, or of the nearest enclosing field.
    pub(super) fn locate(&mut self, path: &FieldPath) -> Position {
        let mut at = self.object.at;
        let mut node = self.object;
        for segment in path.segments() {
            match segment {
                Segment::Field(name) | Segment::Key(name) => {
                    let Some(member) = self.member(node, name) else { break };
                    (at, node) = (member.key_at, &member.value);
                }
                Segment::Index(index) => {
                    let NodeValue::List(items) = &node.value else { break };
                    let Some(item) = items.get(*index) else { break };
                    (at, node) = (item.at, item);
                }
            }
        }
        at
    }
}
