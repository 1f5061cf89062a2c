//! The rules of built-in kinds beyond their types, in the order and the words of Kubernetes.
//!
//! ```text
//! body -> decode -> prepare_* (defaults, fields a client may not set) -> validate_* -> store
//! ```
//!
//! Everything here expects decoded objects (see [`super::decode`]). Metadata is judged elsewhere, for all kinds
//! alike; [`name_rule`] tells what is particular to a kind. Events are judged in the shape of the core group,
//! whichever group was asked for: the group only decides how strict the rules are.
//!
//! Whoever looks at what may be many stops at [`is_enough`]: what is told of each takes far more than it does.

mod config_map;
mod event;
mod json_text;
mod lease;
mod namespace;
mod node;
mod rbac;
mod secret;
pub(crate) mod warnings;

use capt_schema::{FieldError, FieldErrorKind, FieldPath, is_enough};
use serde_json::Value;

use super::names::NameRule;
use crate::resource::crd;

/// The most bytes the data of a Secret or a `ConfigMap` may have together.
const MAX_DATA: usize = 1024 * 1024;

const RBAC: &str = "rbac.authorization.k8s.io";

/// How objects of a built-in kind may be called.
pub fn name_rule(group: &str, kind: &str) -> NameRule {
    match (group, kind) {
        ("", "Namespace") => NameRule::Label,
        (RBAC, _) | ("", "Event") => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

/// Finalizers of built-in kinds are known to Kubernetes, or say whose they are.
pub(crate) fn finalizers(group: &str, kind: &str, names: &[&str]) -> Vec<FieldError> {
    if matches!((group, kind), ("", "Event") | ("apiextensions.k8s.io" | "coordination.k8s.io", _)) {
        return Vec::new();
    }
    let at = path(&["metadata", "finalizers"]);
    let known = |name: &str| name.contains('/') || namespace::STANDARD_FINALIZERS.contains(&name);
    let wrong = names.iter().enumerate().filter(|(_, name)| !known(name));
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    let mut errors = Vec::new();
    for (index, name) in wrong {
        if is_enough(&errors) {
            break;
        }
        errors.push(invalid(&at.index(index), *name, detail));
    }
    errors
}

/// Whether an update of an object that does not exist creates it.
pub fn allows_create_on_update(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("" | "events.k8s.io", "Event") | ("coordination.k8s.io", "Lease") | (RBAC, _))
}

/// Whether an update may leave out the revision it replaces.
pub fn allows_unconditional_update(group: &str, kind: &str) -> bool {
    !matches!(
        (group, kind),
        ("coordination.k8s.io", "Lease") | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

/// Whether `metadata.generation` counts the changes of the spec.
pub fn tracks_generation(group: &str, kind: &str) -> bool {
    (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// What admission adds to an object that is about to be created.
pub(crate) fn admit_create(group: &str, kind: &str, object: &mut Value) {
    if (group, kind) == ("", "Node") {
        node::admit_create(object);
    }
}

/// Completes an object that is about to be created. The name must be known: what is made of it is set here.
pub fn prepare_create(group: &str, kind: &str, object: &mut Value) {
    apply_defaults(group, kind, object);
    match (group, kind) {
        ("", "Namespace") => namespace::prepare_create(object),
        ("", "Node") => node::drop_configuration(object),
        ("", "ServiceAccount") => strip_secret_references(object),
        ("coordination.k8s.io", "Lease") => lease::prepare(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::prepare_create(object),
        _ => {}
    }
}

/// Completes an object that is about to replace `old`, and takes back what a client may not change this way.
pub fn prepare_update(group: &str, kind: &str, object: &mut Value, old: &Value) {
    apply_defaults(group, kind, object);
    match (group, kind) {
        ("", "Namespace") => namespace::prepare_update(object, old),
        ("", "Node") => {
            keep(object, old, "status");
            node::drop_configuration(object);
        }
        ("", "ServiceAccount") => strip_secret_references(object),
        ("coordination.k8s.io", "Lease") => lease::prepare(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::prepare_update(object, old),
        _ => {}
    }
}

/// Takes back everything but the status, before an update through `/status`.
pub fn prepare_status_update(group: &str, kind: &str, object: &mut Value, old: &Value) {
    apply_defaults(group, kind, object);
    keep(object, old, "spec");
    if (group, kind) == ("", "Node") {
        node::drop_configuration(object);
    }
}

/// Takes back the status of a namespace, before an update through `/finalize`.
pub fn prepare_finalize(namespace: &mut Value, old: &Value) {
    apply_defaults("", "Namespace", namespace);
    keep(namespace, old, "status");
}

/// All that is wrong with a namespace that is about to be updated through `/finalize`.
pub fn validate_finalize(namespace: &Value) -> Vec<FieldError> {
    namespace::validate_finalize(namespace)
}

/// All that is wrong with an object that is about to be created.
pub fn validate_create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Secret") => secret::validate(object),
        ("", "ConfigMap") => config_map::validate(object),
        ("", "Namespace") => namespace::validate(object),
        ("" | "events.k8s.io", "Event") => event::validate_create(object, group),
        ("", "Node") => node::validate_create(object),
        ("coordination.k8s.io", "Lease") => lease::validate(object),
        (RBAC, "Role") => rbac::validate_role(object, true),
        (RBAC, "ClusterRole") => rbac::validate_role(object, false),
        (RBAC, "RoleBinding") => rbac::validate_binding(object, true),
        (RBAC, "ClusterRoleBinding") => rbac::validate_binding(object, false),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::validate_create(object),
        _ => Vec::new(),
    }
}

/// All that is wrong with an object that is about to replace `old`.
pub fn validate_update(group: &str, kind: &str, object: &Value, old: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Secret") => secret::validate_update(object, old),
        ("", "ConfigMap") => config_map::validate_update(object, old),
        ("" | "events.k8s.io", "Event") => event::validate_update(object, old, group),
        ("", "Node") => node::validate_update(object, old),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => {
            rbac::validate_binding_update(object, old, kind == "RoleBinding")
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::validate_update(object, old),
        _ => validate_create(group, kind, object),
    }
}

/// All that is wrong with an object that is about to replace `old` through `/status`.
pub fn validate_status_update(group: &str, kind: &str, object: &Value, old: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Namespace") => namespace::validate_status(object),
        ("", "Node") => node::validate_update(object, old),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::validate_status(object),
        _ => Vec::new(),
    }
}

/// The values of fields that were not given.
pub(crate) fn apply_defaults(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Secret") => secret::apply_defaults(object),
        ("", "Namespace") => namespace::apply_defaults(object),
        ("", "Node") => node::apply_defaults(object),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => rbac::apply_defaults(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::apply_defaults(object),
        _ => {}
    }
}

/// Of the secrets of a service account only the names count.
fn strip_secret_references(account: &mut Value) {
    for secret in account.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(members) = secret {
            members.retain(|name, _| name == "name");
        }
    }
}

/// Puts back a member of `old`.
pub(crate) fn keep(object: &mut Value, old: &Value, name: &str) {
    let Value::Object(members) = object else { return };
    match old.get(name) {
        Some(value) => {
            members.insert(name.to_owned(), value.clone());
        }
        None => {
            members.shift_remove(name);
        }
    }
}

pub(crate) fn path(fields: &[&str]) -> FieldPath {
    fields.iter().fold(FieldPath::root(), |path, name| path.field(name))
}

/// A member of an object, through several levels.
pub(crate) fn get<'a>(object: &'a Value, fields: &[&str]) -> &'a Value {
    fields.iter().try_fold(object, |value, name| value.get(name)).unwrap_or(&Value::Null)
}

/// A text member, through several levels; empty when it is not there.
pub(crate) fn text<'a>(object: &'a Value, fields: &[&str]) -> &'a str {
    get(object, fields).as_str().unwrap_or_default()
}

/// A list member, through several levels; empty when it is not there.
pub(crate) fn list<'a>(object: &'a Value, fields: &[&str]) -> &'a [Value] {
    get(object, fields).as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
    FieldError::new(path, FieldErrorKind::Invalid, value.into(), detail)
}

pub(crate) fn required(path: &FieldPath, detail: &str) -> FieldError {
    FieldError::new(path, FieldErrorKind::Required, Value::from(""), detail)
}

pub(crate) fn forbidden(path: &FieldPath, detail: &str) -> FieldError {
    FieldError::new(path, FieldErrorKind::Forbidden, Value::from(""), detail)
}

pub(crate) fn not_supported(path: &FieldPath, value: &str, supported: &[&str]) -> FieldError {
    let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
    let detail = format!("supported values: {}", quoted.join(", "));
    FieldError::new(path, FieldErrorKind::NotSupported, Value::from(value), detail)
}

fn too_long(path: &FieldPath, most: usize) -> FieldError {
    FieldError::new(
        path,
        FieldErrorKind::TooLong,
        Value::from(""),
        format!("may not be more than {most} bytes"),
    )
}

/// An error for each of `names`' complaints.
pub(crate) fn complaints(
    path: &FieldPath,
    value: &str,
    details: Vec<String>,
) -> impl Iterator<Item = FieldError> {
    details.into_iter().map(move |detail| invalid(path, value, detail))
}

/// An error if a field changed that may not.
pub(crate) fn immutable(path: &FieldPath, new: &Value, old: &Value) -> Option<FieldError> {
    (new != old).then(|| invalid(path, new.clone(), "field is immutable"))
}

#[cfg(test)]
mod tests;
