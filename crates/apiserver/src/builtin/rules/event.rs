//! Events: loose rules in the core group, where any client may write, strict ones in `events.k8s.io`.

use capt_schema::FieldError;
use serde_json::Value;

use super::{complaints, get, immutable, invalid, path, required, text};
use crate::object::names::{dns_subdomain, qualified_name};

const SHORT_TEXT: usize = 128;
const NOTE: usize = 1024;

pub(super) fn validate_create(event: &Value, group: &str) -> Vec<FieldError> {
    let mut errors = loose(event, group);
    if group.is_empty() {
        return errors;
    }
    series(event, &mut errors);
    if get(event, &["eventTime"]).is_null() {
        errors.push(required(&path(&["eventTime"]), ""));
    }
    let kind = text(event, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(invalid(&path(&["type"]), "", format!("has invalid value: {kind}")));
    }
    let count = get(event, &["count"]).as_i64().unwrap_or_default();
    let has_source = ["component", "host"].iter().any(|name| !text(event, &["source", name]).is_empty());
    let set = [
        ("firstTimestamp", !get(event, &["firstTimestamp"]).is_null()),
        ("lastTimestamp", !get(event, &["lastTimestamp"]).is_null()),
        ("count", count != 0),
        ("source", has_source),
    ];
    for (name, _) in set.into_iter().filter(|(_, is_set)| *is_set) {
        errors.push(invalid(&path(&[name]), "", "needs to be unset"));
    }
    errors
}

/// Only its series may change.
pub(super) fn validate_update(event: &Value, old: &Value, group: &str) -> Vec<FieldError> {
    const FROZEN: [&str; 13] = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
    ];
    let mut errors = loose(event, group);
    if group.is_empty() {
        return errors;
    }
    if event.get("series") != old.get("series") {
        series(event, &mut errors);
    }
    for name in FROZEN {
        let shown = if name == "reportingComponent" { "reportingController" } else { name };
        let error = immutable(&path(&[shown]), get(event, &[name]), get(old, &[name]));
        errors.extend(error.map(|error| as_go_shows(error, name)));
    }
    let instance = "reportingInstance";
    errors.extend(immutable(&path(&[instance]), get(event, &[instance]), get(old, &[instance])));
    errors
}

/// What is wrong is shown as Go has it: with the names of its fields, and nothing left out.
fn as_go_shows(mut error: FieldError, name: &str) -> FieldError {
    const REFERENCE: &[(&str, &str)] = &[
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    ];
    let value = error.value.clone().unwrap_or_default();
    let fields = match name {
        "involvedObject" | "related" if value.is_object() => REFERENCE,
        "source" => &[("Component", "component"), ("Host", "host")],
        "count" if value.is_null() => {
            error.value = Some(0.into());
            return error;
        }
        "reason" | "message" | "type" | "action" | "reportingComponent" if value.is_null() => {
            error.value = Some("".into());
            return error;
        }
        _ => return error,
    };
    let shown = |(go, json): &(&str, &str)| format!("\"{go}\":{}", Value::from(text(&value, &[json])));
    error.showing(format!("{{{}}}", fields.iter().map(shown).collect::<Vec<_>>().join(",")))
}

fn series(event: &Value, errors: &mut Vec<FieldError>) {
    let Some(series) = event.get("series").filter(|series| !series.is_null()) else { return };
    if get(series, &["count"]).as_i64().unwrap_or_default() < 2 {
        errors.push(invalid(&path(&["series.count"]), "", "should be at least 2"));
    }
    if get(series, &["lastObservedTime"]).is_null() {
        errors.push(required(&path(&["series.lastObservedTime"]), ""));
    }
}

/// The rules of both groups. An event with a time is of the newer sort, and must be complete.
fn loose(event: &Value, group: &str) -> Vec<FieldError> {
    let namespace = text(event, &["metadata", "namespace"]);
    let involved = text(event, &["involvedObject", "namespace"]);
    let is_new = !get(event, &["eventTime"]).is_null();
    let fits = match (is_new, involved) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, _) => namespace == involved,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    let mut errors = Vec::new();
    if !fits {
        let at = path(&["involvedObject", "namespace"]);
        errors.push(invalid(&at, involved, "does not match event.namespace"));
    }
    if is_new {
        complete(event, group, &mut errors);
    }
    errors.extend(complaints(&path(&["namespace"]), namespace, dns_subdomain(namespace)));
    errors
}

fn complete(event: &Value, group: &str, errors: &mut Vec<FieldError>) {
    let controller = text(event, &["reportingComponent"]);
    let at = path(&[if group.is_empty() { "reportingComponent" } else { "reportingController" }]);
    if controller.is_empty() {
        errors.push(required(&at, ""));
    }
    errors.extend(complaints(&at, controller, qualified_name(controller)));
    for name in ["reportingInstance", "action", "reason"] {
        let value = text(event, &[name]);
        if value.is_empty() {
            errors.push(required(&path(&[name]), ""));
        } else if value.len() > SHORT_TEXT {
            let detail = format!("can have at most {SHORT_TEXT} characters");
            errors.push(invalid(&path(&[name]), "", detail));
        }
    }
    if text(event, &["message"]).len() > NOTE {
        errors.push(invalid(&path(&["message"]), "", format!("can have at most {NOTE} characters")));
    }
}
