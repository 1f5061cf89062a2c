//! The same in OpenAPI v2, in one document, for older clients.
//!
//! Version 2 says less: no `oneOf` and its kin, no `nullable`, no defaults that clients could rely on. Where a
//! schema cannot be said, the value is left open, so that a client never refuses what the server takes.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{DESCRIBED, document, documents, security};
use crate::{builtin::REFERENCE_PREFIX, resource::Resource};

const PREFIX_V2: &str = "#/definitions/";

/// `/openapi/v2`: everything that is served.
pub fn document_v2(resources: &[Arc<Resource>]) -> Value {
    let mut definitions = Map::new();
    let mut paths = Map::new();
    for (_, group, version) in documents(resources) {
        let Some(document) = document(&group, &version, resources) else { continue };
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            let schema = definition(schema);
            match definitions.get_mut(name) {
                Some(known) => merge_kinds(known, &schema),
                None => {
                    definitions.insert(name.clone(), schema);
                }
            }
        }
        for (path, entry) in document["paths"].as_object().into_iter().flatten() {
            paths.insert(path.clone(), self::path(entry));
        }
    }
    definitions.sort_keys();
    paths.sort_keys();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": DESCRIBED},
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": security()},
        "security": [{"BearerToken": []}],
    })
}

const KINDS: &str = "x-kubernetes-group-version-kind";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Options of deletions are of a kind in every version.
fn merge_kinds(known: &mut Value, other: &Value) {
    if let (Some(Value::Array(kinds)), Some(Value::Array(more))) = (known.get_mut(KINDS), other.get(KINDS)) {
        for kind in more {
            if !kinds.contains(kind) {
                kinds.push(kind.clone());
            }
        }
    }
}

/// A named schema. Of a kind that takes unknown fields at its root, clients are told that it is an object and no more: they
/// would refuse whatever is not in a list of its properties.
fn definition(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return json!({"type": "object"}) };
    if keywords.get(KINDS).is_none() || !is_true(keywords, PRESERVE) {
        return self::schema(schema);
    }
    let mut result = json!({"type": "object"});
    for keyword in [KINDS, "x-kubernetes-selectable-fields"] {
        if let Some(value) = keywords.get(keyword) {
            result[keyword] = value.clone();
        }
    }
    result
}

fn is_true(keywords: &Map<String, Value>, keyword: &str) -> bool {
    keywords.get(keyword) == Some(&Value::Bool(true))
}

pub(super) fn schema(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    if let Some(target) = target(schema) {
        let mut result = json!({"$ref": format!("{PREFIX_V2}{target}")});
        if let Some(description) = keywords.get("description") {
            result["description"] = description.clone();
        }
        return result;
    }
    let is = |keyword: &str| is_true(keywords, keyword);
    let is_open = is("nullable") || is(PRESERVE) || is("x-kubernetes-int-or-string");
    let is_quantity = keywords.get("oneOf").is_some_and(Value::is_array) && !keywords.contains_key("type");
    let mut result: Map<String, Value> = keywords
        .iter()
        .filter(|(keyword, _)| !(is_left_out(keyword) || (is_open && is_shape(keyword))))
        .map(|(keyword, value)| (keyword.clone(), member(keyword, value)))
        .collect();
    if is_quantity && !is_open {
        result.insert("type".into(), "string".into());
    }
    if result.get("type").is_some_and(|kind| kind == "array") && !result.contains_key("items") {
        result.shift_remove("type");
    }
    if let Some(required) = required(keywords) {
        result.insert("required".into(), required);
    } else {
        result.shift_remove("required");
    }
    result.into()
}

/// The properties that are required. One that may be null may be absent to clients that do not know null, and of an open value
/// nobody says what an object inside of it needs.
fn required(keywords: &Map<String, Value>) -> Option<Value> {
    let is_open_object = is_true(keywords, PRESERVE) && is_true(keywords, "x-kubernetes-embedded-resource");
    let left_out = |name: &Value| {
        let property = keywords.get("properties").and_then(|properties| properties.get(name.as_str()?));
        let nullable = property.and_then(|property| property.get("nullable")) == Some(&Value::Bool(true));
        nullable || (is_open_object && (name == "kind" || name == "apiVersion"))
    };
    let names = keywords.get("required")?.as_array()?;
    let kept: Vec<Value> = names.iter().filter(|name| !left_out(name)).cloned().collect();
    (!kept.is_empty()).then(|| kept.into())
}

fn member(keyword: &str, value: &Value) -> Value {
    match (keyword, value) {
        ("properties", Value::Object(members)) => {
            members.iter().map(|(name, member)| (name.clone(), schema(member))).collect()
        }
        ("items" | "additionalProperties", Value::Object(_)) => schema(value),
        _ => value.clone(),
    }
}

fn is_left_out(keyword: &str) -> bool {
    matches!(keyword, "allOf" | "anyOf" | "oneOf" | "not" | "nullable" | "default")
}

fn is_shape(keyword: &str) -> bool {
    matches!(keyword, "type" | "properties" | "items")
}

/// The name a schema refers to, directly or by way of `allOf`.
fn target(schema: &Value) -> Option<&str> {
    let holder = match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only,
        _ => schema,
    };
    holder.get("$ref")?.as_str()?.strip_prefix(REFERENCE_PREFIX)
}

fn path(entry: &Value) -> Value {
    let methods = entry.as_object().into_iter().flatten();
    let converted = methods.map(|(name, value)| match (name.as_str(), value) {
        ("parameters", Value::Array(list)) => (name.clone(), list.iter().map(parameter).collect()),
        _ => (name.clone(), operation(value)),
    });
    Value::Object(converted.collect())
}

fn operation(operation: &Value) -> Value {
    let mut result = operation.clone();
    let Value::Object(members) = &mut result else { return result };
    members.shift_remove("requestBody");
    let mut parameters: Vec<Value> = Vec::new();
    let body = &operation["requestBody"];
    if let Some(content) = body["content"].as_object() {
        members.insert("consumes".into(), content.keys().cloned().collect());
        let schema = content.values().next().map(|media| schema(&media["schema"])).unwrap_or_default();
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
        if body["required"] == true {
            parameter["required"] = true.into();
        }
        parameters.push(parameter);
    }
    parameters.extend(operation["parameters"].as_array().into_iter().flatten().map(parameter));
    if !parameters.is_empty() {
        members.insert("parameters".into(), parameters.into());
    }
    members.insert("produces".into(), json!(["application/json", "application/yaml"]));
    members.insert("schemes".into(), json!(["https"]));
    let responses = operation["responses"].as_object().into_iter().flatten();
    let responses: Map<String, Value> =
        responses.map(|(code, answer)| (code.clone(), response(answer))).collect();
    members.insert("responses".into(), responses.into());
    result
}

fn response(answer: &Value) -> Value {
    let mut result = json!({"description": answer["description"]});
    if let Some(media) = answer["content"].as_object().and_then(|content| content.values().next()) {
        result["schema"] = schema(&media["schema"]);
    }
    result
}

fn parameter(parameter: &Value) -> Value {
    let mut result = parameter.clone();
    if let Value::Object(members) = &mut result
        && let Some(Value::Object(schema)) = members.shift_remove("schema")
    {
        members.extend(schema);
    }
    result
}
