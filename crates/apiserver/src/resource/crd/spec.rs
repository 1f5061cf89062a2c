//! The spec of a definition as a whole: group, scope, names, versions, conversion.

use std::collections::HashSet;

use capt_schema::{FieldError, FieldPath, OneDefinition};
use serde_json::{Value, json};

use super::{is_true, list, text, version};
use crate::object::fields::{forbidden, get, invalid, not_supported, path, required};
use crate::object::names::{dns_1035_label, dns_subdomain};

/// Versions of one definition. Each has documents of its own in OpenAPI and in discovery.
pub(super) const MAX_VERSIONS: usize = 100;

pub(super) fn validate(crd: &Value) -> Vec<FieldError> {
    let spec = get(crd, &["spec"]);
    let at = path(&["spec"]);
    let versions = list(spec, &["versions"]);
    let mut errors = Vec::new();
    group(text(spec, &["group"]), &at.field("group"), &mut errors);
    one_of(text(spec, &["scope"]), &["Cluster", "Namespaced"], &at.field("scope"), &mut errors);
    if versions.len() > MAX_VERSIONS {
        // Not looked at one by one.
        errors.push(version::too_many(&at.field("versions"), versions.len(), MAX_VERSIONS));
        return errors;
    }
    for (index, version) in versions.iter().enumerate() {
        if get(version, &["schema", "openAPIV3Schema"]).is_null() {
            let at = at.field("versions").index(index).field("schema").field("openAPIV3Schema");
            errors.push(required(&at, ""));
        }
    }
    let shared = version::CommonParts::of(versions);
    // The patterns of all versions have one bound.
    let _patterns = OneDefinition::open();
    let mut seen = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let at = at.field("versions").index(index);
        let name = text(version, &["name"]);
        seen.push(name);
        label(name, &at.field("name"), "", &mut errors);
        version::validate(version, &shared, &at, &mut errors);
    }
    if seen.iter().collect::<HashSet<_>>().len() < seen.len() {
        let at = at.field("versions");
        errors.push(invalid(&at, outline(versions), "must contain unique version names"));
    }
    if versions.iter().filter(|version| is_true(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        // Go tells none from empty.
        let shown = if get(spec, &["versions"]).is_null() { Value::Null } else { outline(versions) };
        errors.push(invalid(&at.field("versions"), shown, detail));
    }
    if let Some(first) = seen.first().filter(|first| !first.is_empty()) {
        // A field of the form that Kubernetes validates: the name of the first version.
        label(first, &at.field("version"), "", &mut errors);
    }
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(spec, &["names", name]).is_empty() {
            errors.push(required(&at.field("names").field(name), ""));
        }
    }
    errors.extend(names(get(spec, &["names"]), &at.field("names")));
    if let Some(first) = versions.first() {
        version::validate_shared(first, versions, &shared, &at, &mut errors);
    }
    let converts = get(spec, &["conversion"]);
    let strategy = text(converts, &["strategy"]);
    if !converts.is_null()
        && strategy != "None"
        && spec.get("preserveUnknownFields") == Some(&Value::Bool(true))
    {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(invalid(&at.field("conversion").field("strategy"), strategy, detail));
    }
    conversion(converts, &at.field("conversion"), &mut errors);
    errors
}

fn group(group: &str, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let complaints = dns_subdomain(group);
    if group.is_empty() {
        errors.push(required(at, ""));
    } else if !complaints.is_empty() {
        errors.push(invalid(at, group, complaints.join(",")));
    } else if !group.contains('.') {
        errors.push(invalid(at, group, "should be a domain with at least one dot"));
    }
}

fn one_of(value: &str, accepted: &[&str], at: &FieldPath, errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(required(at, ""));
    } else if !accepted.contains(&value) {
        errors.push(not_supported(at, value, accepted));
    }
}

fn label(value: &str, at: &FieldPath, before: &str, errors: &mut Vec<FieldError>) {
    let folded = if before.is_empty() { value.to_owned() } else { value.to_lowercase() };
    let complaints = dns_1035_label(&folded);
    if !complaints.is_empty() {
        errors.push(invalid(at, value, format!("{before}{}", complaints.join(","))));
    }
}

/// Validates requested or accepted names; some may be missing.
pub(super) fn names(names: &Value, at: &FieldPath) -> Vec<FieldError> {
    const MIXED: &str = "may have mixed case, but should otherwise match: ";
    let mut errors = Vec::new();
    for (name, before) in [("plural", ""), ("singular", ""), ("kind", MIXED), ("listKind", MIXED)] {
        let value = text(names, &[name]);
        if !value.is_empty() {
            label(value, &at.field(name), before, &mut errors);
        }
    }
    let each = |name: &str, errors: &mut Vec<FieldError>| {
        for (index, value) in list(names, &[name]).iter().filter_map(Value::as_str).enumerate() {
            label(value, &at.field(name).index(index), "", errors);
        }
    };
    each("shortNames", &mut errors);
    let (kind, list_kind) = (text(names, &["kind"]), text(names, &["listKind"]));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(invalid(&at.field("listKind"), list_kind, detail));
    }
    each("categories", &mut errors);
    errors
}

/// Versions as an error shows them: without what makes them long.
fn outline(versions: &[Value]) -> Value {
    let version = |version: &Value| {
        let [name, served, storage] = ["name", "served", "storage"].map(|name| get(version, &[name]));
        json!({"name": name, "served": served, "storage": storage})
    };
    versions.iter().map(version).collect()
}

fn conversion(conversion: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    if conversion.is_null() {
        return;
    }
    let strategy = text(conversion, &["strategy"]);
    let strategy_at = at.field("strategy");
    one_of(strategy, &["None", "Webhook"], &strategy_at, errors);
    if strategy == "Webhook" {
        // The one rule that is ours: a conversion that never happens would serve objects in the wrong shape.
        errors.push(forbidden(
            &strategy_at,
            "this server does not call conversion webhooks; only None is supported",
        ));
        return;
    }
    let unexpected = "should not be set when strategy is not set to Webhook";
    if get(conversion, &["webhook", "clientConfig"]).is_object() {
        errors.push(forbidden(&at.field("webhookClientConfig"), unexpected));
    }
    if !list(conversion, &["webhook", "conversionReviewVersions"]).is_empty() {
        errors.push(forbidden(&at.field("conversionReviewVersions"), unexpected));
    }
}
