//! The fields of built-in kinds that lists and watches may select by.

use serde_json::Value;

use crate::resource::Resource;

const REFERENCE: [&str; 7] =
    ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

/// The selectable fields of a kind, besides `metadata.name` and `metadata.namespace`.
pub(super) fn selectable(group: &str, kind: &str) -> Vec<String> {
    let under = |prefix: &str| REFERENCE.map(|member| format!("{prefix}.{member}")).into_iter();
    let plain = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    match (group, kind) {
        ("", "Namespace") => plain(&["status.phase"]),
        ("", "Node") => plain(&["spec.unschedulable"]),
        ("", "Secret") => plain(&["type"]),
        ("", "Event") => under("involvedObject")
            .chain(plain(&["reason", "reportingComponent", "source", "type"]))
            .collect(),
        ("events.k8s.io", "Event") => {
            under("regarding").chain(plain(&["reason", "reportingController", "type"])).collect()
        }
        _ => Vec::new(),
    }
}

/// The value of a field to select by, as a selector compares it: absent is empty.
///
/// Works for custom resources too, whose fields are simple paths. `object` is in the shape of `resource`'s own
/// group: for events that is the one that was asked for.
pub fn field_value(resource: &Resource, field: &str, object: &Value) -> String {
    if !resource.custom {
        match (resource.group.as_str(), resource.kind.as_str(), field) {
            ("", "Event", "source") => {
                let component = at(object, "source.component");
                return if component.is_empty() { at(object, "reportingComponent") } else { component };
            }
            ("", "Node", "spec.unschedulable") => {
                let value = at(object, field);
                return if value.is_empty() { "false".into() } else { value };
            }
            _ => {}
        }
    }
    at(object, field)
}

fn at(object: &Value, path: &str) -> String {
    let value = path.trim_start_matches('.').split('.').try_fold(object, |value, name| value.get(name));
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
