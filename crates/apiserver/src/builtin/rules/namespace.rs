//! Namespaces: a finalizer holds them until they are empty, and a label repeats their name.

use capt_schema::{FieldError, FieldPath, is_enough};
use serde_json::{Value, json};

use super::{complaints, get, invalid, keep, list, path, text};
use crate::object::names::{dns_label, qualified_name};

/// Lets network policies and the like select a namespace by its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Finalizer of the server itself: the removal of all that the namespace holds.
const FINALIZER: &str = "kubernetes";

pub(super) const STANDARD_FINALIZERS: [&str; 3] = [FINALIZER, "orphan", "foregroundDeletion"];

pub(super) fn apply_defaults(namespace: &mut Value) {
    let name = text(namespace, &["metadata", "name"]).to_owned();
    // A generated name is validated before the label repeats it.
    let generated = !text(namespace, &["metadata", "generateName"]).is_empty();
    if !name.is_empty() && (!generated || dns_label(&name).is_empty()) {
        if !get(namespace, &["metadata", "labels"]).is_object() {
            namespace["metadata"]["labels"] = json!({});
        }
        namespace["metadata"]["labels"][NAME_LABEL] = name.into();
    }
    if text(namespace, &["status", "phase"]).is_empty() {
        if !get(namespace, &["status"]).is_object() {
            namespace["status"] = json!({});
        }
        namespace["status"]["phase"] = "Active".into();
    }
}

pub(super) fn prepare_create(namespace: &mut Value) {
    namespace["status"] = json!({"phase": "Active"});
    let mut finalizers = list(namespace, &["spec", "finalizers"]).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    if !get(namespace, &["spec"]).is_object() {
        namespace["spec"] = json!({});
    }
    namespace["spec"]["finalizers"] = finalizers.into();
}

/// Finalizers are changed through `/finalize`, the status through `/status`.
pub(super) fn prepare_update(namespace: &mut Value, old: &Value) {
    if !get(namespace, &["spec"]).is_object() {
        namespace["spec"] = json!({});
    }
    keep(&mut namespace["spec"], get(old, &["spec"]), "finalizers");
    keep(namespace, old, "status");
}

pub(super) fn validate(namespace: &Value) -> Vec<FieldError> {
    let at = path(&["spec", "finalizers"]);
    finalizers(namespace, |_| at.clone())
}

/// Through `/finalize` the element is named that is wrong, elsewhere only the list: so upstream.
pub(super) fn validate_finalize(namespace: &Value) -> Vec<FieldError> {
    let at = path(&["spec", "finalizers"]);
    finalizers(namespace, |index| at.index(index))
}

fn finalizers(namespace: &Value, at: impl Fn(usize) -> FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, finalizer) in
        list(namespace, &["spec", "finalizers"]).iter().filter_map(Value::as_str).enumerate()
    {
        if is_enough(&errors) {
            break;
        }
        let at = at(index);
        errors.extend(complaints(&at, finalizer, qualified_name(finalizer)));
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(invalid(&at, finalizer, detail));
        }
    }
    errors
}

/// The phase follows from whether the namespace is being deleted.
pub(super) fn validate_status(namespace: &Value) -> Vec<FieldError> {
    let phase = text(namespace, &["status", "phase"]);
    let (expected, detail) = if get(namespace, &["metadata", "deletionTimestamp"]).is_null() {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    } else {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    };
    if phase == expected { Vec::new() } else { vec![invalid(&path(&["status", "Phase"]), phase, detail)] }
}
