//! Checks one object of a known kind.
//!
//! In the order of an API server: unknown fields are told and dropped, status is dropped, defaults are
//! filled in, then metadata, schema and rules are checked, and the change from an earlier version.

use capt_schema::{FieldError, FieldErrorKind, FieldPath, Schema, Segment, UnknownField, metadata};
use serde_json::Value;

use super::catalogue::Kind;
use super::report::Finding;
use super::suggest::nearest;
use capt_yaml::{Node, NodeValue, Position};

/// What is wrong with an object.
pub struct Checked {
    pub findings: Vec<Finding>,
    /// Whether some rules could not be checked because of what is wrong already.
    pub partial: bool,
}

/// How an API server says that it left rules out; no mistake of its own, so no finding.
const LEFT_OUT: &str = "some validation rules were not checked";

/// Checks `object`, and the change from `old` where there is one.
pub fn check(kind: &Kind, file: &str, object: &Node, old: Option<&Value>) -> Checked {
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
        errors.extend(parse_error(kind, new));
    }
    let mut findings: Vec<Finding> = unknown.iter().map(|field| unknown_field(file, object, field)).collect();
    findings.extend(errors.iter().map(|error| field_error(file, object, error)));
    findings.sort_by_key(|finding| finding.place.position);
    Checked { findings, partial }
}

/// What an API server does to an object before it validates it.
fn admit(schema: &Schema, object: &mut Value) -> Vec<UnknownField> {
    let unknown = schema.prune(object);
    schema.default(object);
    unknown
}

/// A manifest's status never reaches an object: status is written through its own subresource.
fn drop_status(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
}

/// What the type says of an object that the schema accepts.
fn parse_error(kind: &Kind, object: Value) -> Option<FieldError> {
    let error = (kind.parse)(object).err()?;
    let path: FieldPath = error
        .path()
        .iter()
        .filter_map(|segment| match segment {
            serde_path_to_error::Segment::Map { key } => Some(Segment::Field(key.clone())),
            serde_path_to_error::Segment::Seq { index } => Some(Segment::Index(*index)),
            _ => None,
        })
        .collect();
    Some(FieldError::new(&path, FieldErrorKind::Forbidden, None, error.into_inner().to_string()))
}

fn unknown_field(file: &str, object: &Node, field: &UnknownField) -> Finding {
    let name = match field.path.segments().last() {
        Some(Segment::Field(name) | Segment::Key(name)) => name.as_str(),
        Some(Segment::Index(_)) | None => "",
    };
    let help = match nearest(name, field.known.iter().map(String::as_str)) {
        Some(near) => Some(format!("did you mean {near}?")),
        None if field.known.is_empty() => None,
        None => Some(format!("known here: {}", field.known.join(", "))),
    };
    Finding {
        path: Some(field.path.to_string()),
        help,
        ..Finding::new(file, Some(locate(object, &field.path)), "unknown field".into())
    }
}

fn field_error(file: &str, object: &Node, error: &FieldError) -> Finding {
    let path = (!error.path.is_root()).then(|| error.path.to_string());
    let help = quoting_help(object, &error.path, error);
    // A rule about the name stands at the root, where an API server has no path for it.
    let about_name = error.path.is_root() && error.detail.starts_with("metadata.name");
    let name = FieldPath::root().field("metadata").field("name");
    let at = locate(object, if about_name { &name } else { &error.path });
    Finding { path, help, ..Finding::new(file, Some(at), error.body()) }
}

/// `version: 1.30` is the number 1.3 to YAML, and `yes` is true: the usual cure is a pair of quotes.
fn quoting_help(object: &Node, path: &FieldPath, error: &FieldError) -> Option<String> {
    if !error.detail.contains("must be of type string") {
        return None;
    }
    let text = match &find(object, path)?.value {
        NodeValue::Number { text, .. } => text.clone(),
        NodeValue::Bool(value) => value.to_string(),
        _ => return None,
    };
    Some(format!("put it in quotes: \"{text}\""))
}

/// The value at `path`.
fn find<'a>(object: &'a Node, path: &FieldPath) -> Option<&'a Node> {
    path.segments().iter().try_fold(object, |node, segment| match segment {
        Segment::Field(name) | Segment::Key(name) => node.get(name),
        Segment::Index(index) => match &node.value {
            NodeValue::List(items) => items.get(*index),
            _ => None,
        },
    })
}

/// Where `path` stands, or the nearest thing around it that does.
fn locate(object: &Node, path: &FieldPath) -> Position {
    let mut at = object.at;
    let mut node = object;
    for segment in path.segments() {
        match segment {
            Segment::Field(name) | Segment::Key(name) => {
                let Some(member) = node.member(name) else { break };
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
