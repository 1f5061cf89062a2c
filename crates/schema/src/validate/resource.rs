//! Embedded resources: an `apiVersion`, a `kind` and a `metadata` that could be one's.
//!
//! Of the metadata, the types of its members and the name are checked; an API server also
//! checks labels, annotations, owners and finalizers.

use serde_json::{Map, Value};

use crate::error::FieldError;
use crate::node::Node;
use crate::path::Trail;
use crate::validate::is_enough;

pub(crate) fn check(node: &Node, value: &Value, trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    if is_enough(errors, trail) {
        return;
    }
    match value {
        Value::Object(members) => {
            if node.embedded_resource {
                resource(members, trail, errors);
            }
            for (name, member) in members {
                if let Some(schema) = node.properties.get(name) {
                    check(schema, member, trail.field(name), errors);
                } else if let Some(schema) = node.additional_schema() {
                    check(schema, member, trail.key(name), errors);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(items) = &node.items {
                for (index, element) in elements.iter().enumerate() {
                    check(items, element, trail.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

/// Checks a value that is a resource whatever its schema says.
pub(crate) fn check_one(value: &Value, trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    if let Value::Object(members) = value {
        resource(members, trail, errors);
    }
}

fn resource(members: &Map<String, Value>, trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let path = || trail.field(name).to_path();
        let detail = match members.get(name) {
            None => {
                errors.push(FieldError::required(&path(), ""));
                continue;
            }
            Some(Value::String(text)) if text.is_empty() => "must not be empty".to_owned(),
            Some(Value::String(text)) if name == "kind" => match kind_error(text) {
                Some(detail) => detail,
                None => continue,
            },
            Some(Value::String(text)) if text.matches('/').count() > 1 => {
                format!("unexpected GroupVersion string: {text}")
            }
            Some(Value::String(_)) => continue,
            Some(_) => "must be a string".to_owned(),
        };
        errors.push(FieldError::invalid(&path(), members[name].clone(), detail));
    }
    if let Some(metadata) = members.get("metadata") {
        object_meta(metadata, trail.field("metadata"), errors);
    }
}

fn kind_error(kind: &str) -> Option<String> {
    let lower = kind.to_lowercase();
    let bytes = lower.as_bytes();
    let mut problems = Vec::new();
    if bytes.len() > 63 {
        problems.push("must be no more than 63 characters");
    }
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let well_formed = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|b| *b != b'-')
        && bytes.iter().all(inner);
    if !well_formed {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    (!problems.is_empty())
        .then(|| format!("may have mixed case, but should otherwise match: {}", problems.join(",")))
}

fn object_meta(metadata: &Value, trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    let Value::Object(members) = metadata else {
        if !metadata.is_null() {
            errors.push(FieldError::invalid(&trail.to_path(), metadata.clone(), "must be an object"));
        }
        return;
    };
    let is_text = |value: &Value| value.is_string() || value.is_null();
    for (name, value) in members {
        let fits = match name.as_str() {
            "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "selfLink" => is_text(value),
            "labels" | "annotations" => {
                value.is_null() || value.as_object().is_some_and(|map| map.values().all(is_text))
            }
            "finalizers" => value.is_null() || value.as_array().is_some_and(|list| list.iter().all(is_text)),
            _ => true,
        };
        if !fits {
            let detail = format!("{name} is of another type than in any resource's metadata");
            errors.push(FieldError::invalid(&trail.to_path(), metadata.clone(), detail));
            return;
        }
    }
    if let Some(name) = members.get("name").and_then(Value::as_str)
        && let Some(detail) = path_segment_error(name)
    {
        errors.push(FieldError::invalid(&trail.field("name").to_path(), name, detail));
    }
}

fn path_segment_error(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        name if name.contains('/') => Some("may not contain '/'"),
        name if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}
