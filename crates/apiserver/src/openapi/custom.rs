//! The schemas of custom resources: those of the CRD, completed with what every object has.

use serde_json::{Map, Value, json};

use super::components::reference;
use crate::{
    builtin,
    resource::{Resource, Version},
};

/// A built-in object, and a list of such, of which custom ones have what all have.
const OBJECT: &str = "io.k8s.api.core.v1.ConfigMap";
const LIST: &str = "io.k8s.api.core.v1.ConfigMapList";

// Of an object inside of another one, Kubernetes says less.
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

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
    let [api_version, kind, _] = common(OBJECT);
    let [.., metadata] = common(LIST);
    let items = format!(
        "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
        resource.plural
    );
    let mut schema = json!({
        "type": "object",
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": api_version,
            "items": {"type": "array", "description": items, "items": reference(item)},
            "kind": kind,
            "metadata": metadata,
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
    if keywords.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        say_either(&mut result);
    }
    let is_embedded = keywords.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    if is_object || is_embedded {
        let [mut api_version, mut kind, metadata] = common(OBJECT);
        if !is_object {
            api_version["description"] = EMBEDDED_API_VERSION.into();
            kind["description"] = EMBEDDED_KIND.into();
        }
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

/// Says of a value that is a number or a text what it is, to clients that do not know the extension for it.
fn say_either(schema: &mut Map<String, Value>) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let all = schema.get("allOf").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_said = schema.get("anyOf") == Some(&either)
        || all.first().is_some_and(|first| first.get("anyOf") == Some(&either));
    if is_said {
        return;
    }
    if schema.contains_key("anyOf") {
        let all: Vec<Value> = std::iter::once(json!({"anyOf": either})).chain(all).collect();
        schema.insert("allOf".into(), all.into());
    } else {
        schema.insert("anyOf".into(), either);
    }
}

/// The schemas of `apiVersion`, `kind` and `metadata`, as a built-in definition has them.
fn common(definition: &str) -> [Value; 3] {
    let like = &builtin::definitions()[definition]["properties"];
    ["apiVersion", "kind", "metadata"].map(|name| like[name].clone())
}
