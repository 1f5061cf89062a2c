//! The schemas of custom resources: those of the CRD, completed with what every object has.

use serde_json::{Map, Value, json};

use super::components::reference;
use crate::{
    builtin,
    resource::{Resource, Version},
};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The name of a schema: the domain of its group turned around, so that it sorts by owner.
pub(super) fn name_of(group: &str, version: &str, kind: &str) -> String {
    let domain: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", domain.join("."))
}

/// The schema of a kind.
pub(super) fn kind(resource: &Resource, version: &Version) -> Value {
    let mut schema = completed(&version.open_api, true);
    tag(&mut schema, resource, version, &resource.kind);
    schema
}

/// The schema of a kind's lists.
pub(super) fn list(resource: &Resource, version: &Version, item: &str) -> Value {
    let [api_version, kind, _] = common();
    let mut schema = json!({
        "type": "object",
        "description": format!("A list of {} objects.", resource.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": api_version,
            "items": {"type": "array", "description": "The objects.", "items": reference(item)},
            "kind": kind,
            "metadata": described(LIST_META, "Revision of the list, and where it continues."),
        },
    });
    tag(&mut schema, resource, version, &resource.list_kind);
    schema
}

fn tag(schema: &mut Value, resource: &Resource, version: &Version, kind: &str) {
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": resource.group, "kind": kind, "version": version.name}]);
    if !version.selectable_fields.is_empty() {
        let fields = version.selectable_fields.iter().map(|field| json!({"fieldPath": field}));
        schema["x-kubernetes-selectable-fields"] = fields.collect();
    }
}

/// A schema in which every object that has a kind also has the members such objects have.
fn completed(schema: &Value, is_object: bool) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    let mut result: Map<String, Value> = keywords
        .iter()
        .map(|(keyword, value)| {
            let value = match (keyword.as_str(), value) {
                ("properties", Value::Object(members)) => {
                    members.iter().map(|(name, member)| (name.clone(), completed(member, false))).collect()
                }
                ("items" | "additionalProperties", Value::Object(_)) => completed(value, false),
                _ => value.clone(),
            };
            (keyword.clone(), value)
        })
        .collect();
    let is_embedded = keywords.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    if is_object || is_embedded {
        let [api_version, kind, metadata] = common();
        let members = result.entry("properties").or_insert_with(|| json!({}));
        members["apiVersion"] = api_version;
        members["kind"] = kind;
        members["metadata"] = metadata;
    }
    if is_embedded {
        let mut required = result.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
        result.insert("required".into(), required.into());
    }
    result.into()
}

/// The schemas of `apiVersion`, `kind` and `metadata`, as built-in kinds have them.
fn common() -> [Value; 3] {
    let like = builtin::definitions().get("io.k8s.api.core.v1.ConfigMap");
    ["apiVersion", "kind", "metadata"].map(|name| {
        let schema = like.and_then(|schema| schema.pointer(&format!("/properties/{name}")));
        schema.cloned().unwrap_or_else(|| described(OBJECT_META, ""))
    })
}

fn described(name: &str, about: &str) -> Value {
    json!({"allOf": [reference(name)], "description": about})
}
