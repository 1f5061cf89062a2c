//! Roles and bindings. Escalation of privileges is checked by authorization.

use capt_schema::{FieldError, FieldPath, is_enough};
use serde_json::{Map, Value};

use super::{RBAC, complaints, get, invalid, list, not_supported, path, required, text};
use crate::object::names::{dns_subdomain, label_value, path_segment, qualified_name};

pub(super) fn apply_defaults(binding: &mut Value) {
    let set_group = |reference: &mut Value| {
        if reference.is_object() && text(reference, &["apiGroup"]).is_empty() {
            reference["apiGroup"] = RBAC.into();
        }
    };
    if let Some(role) = binding.get_mut("roleRef") {
        set_group(role);
    }
    let subjects = binding.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        if matches!(text(subject, &["kind"]), "User" | "Group") {
            set_group(subject);
        }
    }
}

pub(super) fn validate_role(role: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, rule) in list(role, &["rules"]).iter().enumerate() {
        if is_enough(&errors) {
            break;
        }
        policy_rule(rule, namespaced, &path(&["rules"]).index(index), &mut errors);
    }
    if !namespaced && let Some(aggregation) = role.get("aggregationRule").filter(|rule| rule.is_object()) {
        let at = path(&["aggregationRule", "clusterRoleSelectors"]);
        let selectors = list(aggregation, &["clusterRoleSelectors"]);
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(required(&at, detail));
        }
        for (index, selector) in selectors.iter().enumerate() {
            if is_enough(&errors) {
                break;
            }
            let before = errors.len();
            label_selector(selector, &at.index(index), &mut errors);
            if errors.len() > before {
                // Upstream also tries to use it.
                errors.push(invalid(&at.index(index), Value::Null, "invalid label selector."));
            }
        }
    }
    errors
}

fn policy_rule(rule: &Value, namespaced: bool, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let is_empty = |name: &str| list(rule, &[name]).is_empty();
    if is_empty("verbs") {
        errors.push(required(&at.field("verbs"), "verbs must contain at least one value"));
    }
    if !is_empty("nonResourceURLs") {
        let urls = get(rule, &["nonResourceURLs"]);
        let mut refuse =
            |detail: &str| errors.push(invalid(&at.field("nonResourceURLs"), urls.clone(), detail));
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if !is_empty("apiGroups") || !is_empty("resources") || !is_empty("resourceNames") {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if is_empty("apiGroups") {
        errors.push(required(&at.field("apiGroups"), "resource rules must supply at least one api group"));
    }
    if is_empty("resources") {
        errors.push(required(&at.field("resources"), "resource rules must supply at least one resource"));
    }
}

fn label_selector(selector: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let none = Map::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).unwrap_or(&none) {
        if is_enough(errors) {
            break;
        }
        let at = at.field("matchLabels");
        errors.extend(complaints(&at, key, qualified_name(key)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(complaints(&at, value, label_value(value)));
    }
    for (index, requirement) in list(selector, &["matchExpressions"]).iter().enumerate() {
        if is_enough(errors) {
            break;
        }
        let at = at.field("matchExpressions").index(index);
        let is_empty = list(requirement, &["values"]).is_empty();
        match text(requirement, &["operator"]) {
            "In" | "NotIn" if is_empty => {
                errors.push(required(
                    &at.field("values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                ));
            }
            "Exists" | "DoesNotExist" if !is_empty => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(super::forbidden(&at.field("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(invalid(&at.field("operator"), other, "not a valid selector operator")),
        }
        let key = text(requirement, &["key"]);
        errors.extend(complaints(&at.field("key"), key, qualified_name(key)));
        for (index, value) in list(requirement, &["values"]).iter().filter_map(Value::as_str).enumerate() {
            if is_enough(errors) {
                break;
            }
            errors.extend(complaints(&at.field("values").index(index), value, label_value(value)));
        }
    }
}

pub(super) fn validate_binding(binding: &Value, namespaced: bool) -> Vec<FieldError> {
    let role = get(binding, &["roleRef"]);
    let at = path(&["roleRef"]);
    let mut errors = Vec::new();
    let group = text(role, &["apiGroup"]);
    if group != RBAC {
        errors.push(not_supported(&at.field("apiGroup"), group, &[RBAC]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = text(role, &["kind"]);
    if !kinds.contains(&kind) {
        errors.push(not_supported(&at.field("kind"), kind, kinds));
    }
    let name = text(role, &["name"]);
    if name.is_empty() {
        errors.push(required(&at.field("name"), ""));
    } else {
        errors.extend(complaints(&at.field("name"), name, path_segment(name)));
    }
    for (index, subject) in list(binding, &["subjects"]).iter().enumerate() {
        if is_enough(&errors) {
            break;
        }
        validate_subject(subject, namespaced, &path(&["subjects"]).index(index), &mut errors);
    }
    errors
}

fn validate_subject(subject: &Value, namespaced: bool, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let (name, group) = (text(subject, &["name"]), text(subject, &["apiGroup"]));
    if name.is_empty() {
        errors.push(required(&at.field("name"), ""));
    }
    match text(subject, &["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(complaints(&at.field("name"), name, dns_subdomain(name)));
            }
            if !group.is_empty() {
                errors.push(not_supported(&at.field("apiGroup"), group, &[""]));
            }
            if !namespaced && text(subject, &["namespace"]).is_empty() {
                errors.push(required(&at.field("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != RBAC {
                errors.push(not_supported(&at.field("apiGroup"), group, &[RBAC]));
            }
        }
        other => errors.push(not_supported(&at.field("kind"), other, &["ServiceAccount", "User", "Group"])),
    }
}

/// Another role means another binding: who may bind the one may not be who may bind the other.
pub(super) fn validate_binding_update(binding: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = validate_binding(binding, namespaced);
    let role = get(binding, &["roleRef"]);
    if role != get(old, &["roleRef"]) {
        let names = [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")];
        let shown: Map<String, Value> =
            names.iter().map(|(shown, name)| ((*shown).to_owned(), get(role, &[name]).clone())).collect();
        errors.push(invalid(&path(&["roleRef"]), shown, "cannot change roleRef"));
    }
    errors
}
