//! The custom resource the two servers are compared on: one field of each way fields can hang together.

use serde_json::{Value, json};

pub const GROUP: &str = "test.capt.dev";
pub const API_VERSION: &str = "test.capt.dev/v1";

pub fn schema() -> Value {
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let set = || json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "text": {"type": "string"},
                "number": {"type": "integer"},
                "ratio": {"type": "number"},
                "flag": {"type": "boolean"},
                "maybe": {"type": "string", "nullable": true},
                "defaulted": {"type": "string", "default": "dflt"},
                "either": {"x-kubernetes-int-or-string": true},
                "entries": texts(),
                "fixed": {
                    "type": "object", "x-kubernetes-map-type": "atomic",
                    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                },
                "nested": {"type": "object", "properties": {
                    "inner": {"type": "object", "properties": {
                        "a": {"type": "string"},
                        "b": {"type": "string", "default": "bee"},
                        "deep": {"type": "object", "additionalProperties": {
                            "type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}},
                        }},
                    }},
                }},
                "list": {"type": "array", "items": {"type": "string"}},
                "set": set(),
                "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
                "ports": {
                    "type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {"type": "object", "required": ["port"], "properties": {
                        "port": {"type": "integer"},
                        "protocol": {"type": "string", "default": "TCP"},
                        "name": {"type": "string"},
                        "options": texts(),
                        "tags": set(),
                    }},
                },
                "items": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"},
                        "value": {"type": "string"},
                        "sub": {
                            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                            "items": {"type": "object", "required": ["id"], "properties": {
                                "id": {"type": "integer"}, "v": {"type": "string"},
                            }},
                        },
                    }},
                },
                "atoms": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object", "x-kubernetes-map-type": "atomic", "required": ["name"],
                        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "mixed": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"known": {"type": "string"}, "set": set()},
                },
                "any": {"x-kubernetes-preserve-unknown-fields": true},
            }},
            "status": {"type": "object", "properties": {
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                    "items": {"type": "object", "required": ["type"], "properties": {
                        "type": {"type": "string"}, "status": {"type": "string"}, "message": {"type": "string"},
                    }},
                },
                "entries": texts(),
            }},
        },
    })
}

pub fn crd(plural: &str, kind: &str, versions: &[(&str, Value)]) -> Value {
    let versions: Vec<_> = versions
        .iter()
        .enumerate()
        .map(|(index, (name, schema))| {
            json!({
                "name": name, "served": true, "storage": index == 0,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": versions,
        },
    })
}
