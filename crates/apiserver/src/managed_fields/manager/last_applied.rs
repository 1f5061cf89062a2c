//! The way from client-side to server-side apply.
//!
//! `kubectl apply` of old keeps what it applied in an annotation. When its user turns to `kubectl apply
//! --server-side`, fields that are as the annotation has them are his own: conflicts about them are won. From then
//! on the server keeps the annotation up to date, so that he may turn back.

use serde_json::Value;

use super::{Conflicts, FieldsError, Write, metadata};
use crate::managed_fields::{
    compare::compare,
    project::to_field_set,
    set::FieldSet,
    validate::{Duplicates, validate},
};
use crate::status::go;

/// Only this manager takes part; others opt out by their name.
const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The limit of all annotations of an object together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Succeeds if all conflicts are with what the client applied before; otherwise returns the others.
pub(super) fn resolve(write: &Write<'_>, live: &Value, conflicts: Conflicts) -> Result<(), FieldsError> {
    let allowed = if write.manager == KUBECTL { allowed_conflicts(write, live) } else { None };
    let Some(allowed) = allowed else { return Err(FieldsError::Conflicts(conflicts)) };
    let mut left = conflicts;
    left.0.iter_mut().for_each(|conflict| conflict.fields.subtract(&allowed));
    left.0.retain(|conflict| !conflict.fields.is_empty());
    if left.0.is_empty() { Ok(()) } else { Err(FieldsError::Conflicts(left)) }
}

/// The fields of the last client-side apply that are still as it set them.
fn allowed_conflicts(write: &Write<'_>, live: &Value) -> Option<FieldSet> {
    let types = write.types().ok()?;
    validate(live, types, Duplicates::Refused).ok()?;
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(write.api_version) {
        return None;
    }
    validate(&last, types, Duplicates::Refused).ok()?;
    let mut fields = to_field_set(&last, types);
    let changes = compare(&last, live, types);
    for set in [&changes.modified, &changes.added, &changes.removed] {
        fields.subtract(set);
    }
    Some(fields)
}

fn annotation(object: &Value) -> Option<&str> {
    let text = metadata(object)?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// Writes what is applied into the annotation, where there is one.
pub(super) fn refresh(write: &Write<'_>, object: &mut Value, applied: &Value) {
    if write.manager != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(Value::Object(annotations)) = annotations_of(&mut applied) {
        annotations.retain(|name, _| name != ANNOTATION);
    }
    let mut encoded = String::new();
    go::write_json(&applied, &mut encoded);
    encoded.push('\n');
    if let Some(Value::Object(annotations)) = annotations_of(object) {
        annotations.insert(ANNOTATION.to_owned(), Value::String(encoded));
        let size = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
        if annotations.iter().map(size).sum::<usize>() > MAX_ANNOTATIONS {
            annotations.retain(|name, _| name != ANNOTATION);
        }
    }
}

fn annotations_of(object: &mut Value) -> Option<&mut Value> {
    object.get_mut("metadata")?.get_mut("annotations")
}
