//! From definitions that refer to each other to the structural schema of one kind.
//!
//! A structural schema is what objects are checked against: the same walker serves custom and built-in kinds.
//! It says less than the definition. What is required, and which values there are, built-in kinds check by their
//! own rules and in their own words; what refers to itself (the schemas inside of a `CustomResourceDefinition`)
//! is left open, and so is anything that may be of several types.

use serde_json::{Map, Value, json};

use super::schema::REFERENCE_PREFIX;

/// The definition that refers to itself.
const RECURSIVE: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// The structural schema of the kind defined under `name`; without a definition, one that allows everything.
pub(super) fn of_kind(definitions: &Map<String, Value>, name: &str) -> Value {
    let mut schema = of_definition(definitions, name);
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        // Every object has the same metadata; it is checked apart.
        *metadata = json!({"type": "object"});
    }
    schema
}

/// The structural schema of any definition.
fn of_definition(definitions: &Map<String, Value>, name: &str) -> Value {
    match definitions.get(name) {
        Some(definition) if name != RECURSIVE => resolve(definitions, definition),
        _ => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    }
}

fn resolve(definitions: &Map<String, Value>, schema: &Value) -> Value {
    let Some(keywords) = schema.as_object() else { return schema.clone() };
    if let Some(name) = reference(schema) {
        let mut resolved = of_definition(definitions, name);
        // The description of the field says more than that of its type.
        if let Some(description) = keywords.get("description") {
            resolved["description"] = description.clone();
        }
        return resolved;
    }
    let mut resolved: Map<String, Value> = keywords
        .iter()
        .filter(|(keyword, _)| !is_left_to_rules(keyword))
        .map(|(keyword, value)| (keyword.clone(), keyword_value(definitions, keyword, value)))
        .collect();
    open_up(&mut resolved);
    require_keys(&mut resolved);
    resolved.into()
}

fn is_left_to_rules(keyword: &str) -> bool {
    matches!(keyword, "required" | "enum" | "oneOf" | "x-kubernetes-group-version-kind")
}

fn keyword_value(definitions: &Map<String, Value>, keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        ("properties", Value::Object(members)) => {
            members.iter().map(|(name, member)| (name.clone(), resolve(definitions, member))).collect()
        }
        ("items" | "additionalProperties", _) => resolve(definitions, value),
        _ => value.clone(),
    }
}

/// Values without a type, and objects of which no members are stated, may be anything.
fn open_up(schema: &mut Map<String, Value>) {
    let is_open = match schema.get("type").and_then(Value::as_str) {
        None => true,
        Some("object") => !schema.contains_key("properties") && !schema.contains_key("additionalProperties"),
        Some(_) => false,
    };
    if is_open {
        schema.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
    }
}

/// A list that is merged by a key needs it in every element.
fn require_keys(schema: &mut Map<String, Value>) {
    if let Some(keys) = schema.get("x-kubernetes-list-map-keys").cloned()
        && let Some(items) = schema.get_mut("items")
    {
        items["required"] = keys;
    }
}

/// The name a schema refers to, directly or by way of `allOf`.
pub(super) fn reference(schema: &Value) -> Option<&str> {
    let target = match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref"),
        _ => schema.get("$ref"),
    };
    target?.as_str()?.strip_prefix(REFERENCE_PREFIX)
}
