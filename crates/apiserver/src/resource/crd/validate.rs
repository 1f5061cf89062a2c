//! Validation of CRDs, in the order and with the messages of Kubernetes.
//!
//! Kubernetes validates a form of its own, in which what is the same in all versions is moved to the top: the schema
//! of a definition with one version is called `spec.validation`. Its errors name those places, so ours do too.

use capt_schema::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::{is_established, is_true, list, spec, text};
use crate::object::fields::{complaints, get, immutable, invalid, path, required};
use crate::object::names::dns_subdomain;
use crate::resource::is_api_group;

const APPROVAL: &str = "api-approved.kubernetes.io";

/// All that is wrong with a definition that is about to be created.
pub fn validate_create(crd: &Value) -> Vec<FieldError> {
    let mut errors = name(crd);
    errors.extend(spec::validate(crd));
    errors.extend(group(crd));
    errors.extend(validate_status(crd));
    errors.extend(stored_versions(crd));
    errors.extend(approval(crd, None));
    errors.extend(preserve_unknown_fields(crd));
    errors
}

/// Refuses a group that the API itself serves. kube-apiserver takes such a definition and never serves it.
fn group(crd: &Value) -> Option<FieldError> {
    let group = text(crd, &["spec", "group"]);
    let detail = "is a group of the API itself, which definitions cannot add to; use a group of your own";
    // A group that is not named at all has its own error.
    (!group.is_empty() && is_api_group(group)).then(|| invalid(&path(&["spec", "group"]), group, detail))
}

/// All that is wrong with a definition that is about to replace `old`.
pub fn validate_update(crd: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = spec::validate(crd);
    let mut keep = |fields: &[&str]| {
        let path = path(&["spec"]);
        let path = fields.iter().fold(path, |path, name| path.field(name));
        let (new, old) = (get(get(crd, &["spec"]), fields), get(get(old, &["spec"]), fields));
        errors.extend(immutable(&path, new, old));
    };
    if is_established(old) {
        keep(&["scope"]);
        keep(&["names", "kind"]);
    }
    keep(&["group"]);
    keep(&["names", "plural"]);
    errors.extend(validate_status(crd));
    errors.extend(stored_versions(crd));
    errors.extend(approval(crd, Some(old)));
    errors.extend(preserve_unknown_fields(crd));
    errors
}

/// All that is wrong with the status of a definition.
pub fn validate_status(crd: &Value) -> Vec<FieldError> {
    spec::names(get(crd, &["status", "acceptedNames"]), &path(&["status", "acceptedNames"]))
}

fn name(crd: &Value) -> Vec<FieldError> {
    let name = text(crd, &["metadata", "name"]);
    if name.is_empty() {
        // That it is missing is said of every kind.
        return Vec::new();
    }
    let at = path(&["metadata", "name"]);
    let mut errors: Vec<FieldError> = complaints(&at, name, dns_subdomain(name)).collect();
    let wanted = format!("{}.{}", text(crd, &["spec", "names", "plural"]), text(crd, &["spec", "group"]));
    let prefix = text(crd, &["metadata", "generateName"]);
    for (member, given) in [("name", name), ("generateName", prefix)] {
        // A prefix that is not there is no mistake.
        if given != wanted && (member == "name" || !given.is_empty()) {
            let at = path(&["metadata", member]);
            errors.push(invalid(&at, given, r#"must be spec.names.plural+"."+spec.group"#));
        }
    }
    errors
}

/// Versions that objects were ever stored in must remain, or those objects could not be read.
fn stored_versions(crd: &Value) -> Vec<FieldError> {
    let at = path(&["status", "storedVersions"]);
    let stored = list(crd, &["status", "storedVersions"]);
    if stored.is_empty() {
        return vec![invalid(&at, Value::Null, "must have at least one stored version")];
    }
    let versions = list(crd, &["spec", "versions"]);
    let mut errors = Vec::new();
    for version in versions.iter().filter(|version| is_true(version, "storage")) {
        let name = text(version, &["name"]);
        if !name.is_empty() && !stored.iter().any(|stored| stored == name) {
            errors.push(invalid(&at, stored.to_vec(), format!("must have the storage version {name}")));
        }
    }
    for (index, version) in stored.iter().filter_map(Value::as_str).enumerate() {
        if !versions.iter().any(|known| text(known, &["name"]) == version) {
            let detail = format!(
                "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
            );
            errors.push(invalid(&at.index(index), version, detail));
        }
    }
    errors
}

/// CRDs in groups of Kubernetes need the annotation of their approval.
fn approval(crd: &Value, old: Option<&Value>) -> Option<FieldError> {
    let group = text(crd, &["spec", "group"]);
    let protected = ["k8s.io", "kubernetes.io"];
    if !protected.iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}"))) {
        return None;
    }
    let note = |crd: &Value| text(crd, &["metadata", "annotations", APPROVAL]).to_owned();
    let state = approval_state(&note(crd));
    if old.is_some_and(|old| approval_state(&note(old)) == state) {
        return None;
    }
    let at: FieldPath = path(&["metadata", "annotations"]).key(APPROVAL);
    let seen = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state {
        Approval::Given => None,
        Approval::Missing => Some(required(
            &at,
            &format!("protected groups must have approval annotation {APPROVAL:?}, {seen}"),
        )),
        Approval::Malformed => Some(invalid(
            &at,
            note(crd),
            format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \"unapproved\", {seen}"
            ),
        )),
    }
}

#[derive(PartialEq)]
enum Approval {
    Given,
    Missing,
    Malformed,
}

fn approval_state(note: &str) -> Approval {
    let is_url = note.split_once("://").is_some_and(|(scheme, rest)| {
        let host = rest.split('/').next().unwrap_or_default();
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric()) && !host.is_empty()
    });
    match note {
        "" => Approval::Missing,
        _ if is_url || note.starts_with("unapproved") => Approval::Given,
        _ => Approval::Malformed,
    }
}

fn preserve_unknown_fields(crd: &Value) -> Vec<FieldError> {
    let at = path(&["spec", "preserveUnknownFields"]);
    let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    if !is_true(get(crd, &["spec"]), "preserveUnknownFields") {
        return Vec::new();
    }
    let versions = list(crd, &["spec", "versions"]);
    let defaults = versions.iter().any(|version| has_default(get(version, &["schema", "openAPIV3Schema"])));
    let first = "must be false in order to use defaults in the schema";
    let details = defaults.then_some(first).into_iter().chain([detail]);
    details.map(|detail| invalid(&at, json!(true), detail)).collect()
}

fn has_default(schema: &Value) -> bool {
    if !schema.is_object() {
        return false;
    }
    let properties = get(schema, &["properties"]).as_object();
    let below = properties.into_iter().flat_map(|properties| properties.values());
    let alone = ["items", "additionalProperties"].map(|name| get(schema, &[name]));
    !get(schema, &["default"]).is_null() || below.chain(alone).any(has_default)
}
