//! The rules of built-in kinds beyond their types, in the order and the words of Kubernetes.
//!
//! ```text
//! body -> decode -> prepare_* (defaults, fields a client may not set) -> validate_* -> store
//! ```
//!
//! Everything here expects decoded objects (see [`super::decode()`]). Metadata is validated elsewhere, for all kinds
//! alike; [`name_rule`] tells what is particular to a kind. Events are validated in the shape of the core group,
//! whichever group was asked for: the group only decides how strict the rules are.
//!
//! Rules over unbounded lists stop at [`is_enough`]: an error takes far more memory than the item it is about.

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

pub(crate) use crate::object::fields::{
    complaints, forbidden, get, immutable, invalid, keep, list, not_supported, path, required, text,
};
use crate::object::names::NameRule;
use crate::resource::crd;

/// The most bytes the data of a Secret or a `ConfigMap` may have together.
const MAX_DATA: usize = 1024 * 1024;

const RBAC: &str = "rbac.authorization.k8s.io";

/// The rule for names of a built-in kind.
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

/// Returns whether an update of an object that does not exist creates it.
pub fn allows_create_on_update(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("" | "events.k8s.io", "Event") | ("coordination.k8s.io", "Lease") | (RBAC, _))
}

/// Returns whether an update may leave out the revision it replaces.
pub fn allows_unconditional_update(group: &str, kind: &str) -> bool {
    !matches!(
        (group, kind),
        ("coordination.k8s.io", "Lease") | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

/// Returns whether `metadata.generation` counts the changes of the spec.
pub fn tracks_generation(group: &str, kind: &str) -> bool {
    (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// Applies admission plugins that change an object on creation.
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

/// All errors of an object that is about to replace `old`. `emptied` is the map that it sets to an empty one and that is not
/// stored: an immutable object may not do so.
pub fn validate_update(
    group: &str,
    kind: &str,
    object: &Value,
    old: &Value,
    emptied: Option<&str>,
) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Secret") => secret::validate_update(object, old, emptied),
        ("", "ConfigMap") => config_map::validate_update(object, old, emptied),
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

fn too_long(path: &FieldPath, most: usize) -> FieldError {
    FieldError::new(
        path,
        FieldErrorKind::TooLong,
        Value::from(""),
        format!("may not be more than {most} bytes"),
    )
}

#[cfg(test)]
mod tests;
