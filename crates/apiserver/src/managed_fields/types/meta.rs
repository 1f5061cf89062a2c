//! The part of the schema every object has.

use serde_json::{Value, json};

/// The schema of `metadata`, as the API server publishes it.
pub fn object_meta_schema() -> Value {
    let text = || json!({"type": "string"});
    let time = || json!({"type": "string", "format": "date-time"});
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({
        "type": "object",
        "properties": {
            "annotations": texts(),
            "creationTimestamp": time(),
            "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
            "deletionTimestamp": time(),
            "finalizers": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "generateName": text(),
            "generation": {"type": "integer", "format": "int64"},
            "labels": texts(),
            "managedFields": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "apiVersion": text(),
                        "fieldsType": text(),
                        "fieldsV1": {"type": "object"},
                        "manager": text(),
                        "operation": text(),
                        "subresource": text(),
                        "time": time(),
                    },
                },
                "x-kubernetes-list-type": "atomic",
            },
            "name": text(),
            "namespace": text(),
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "apiVersion": text(),
                        "blockOwnerDeletion": {"type": "boolean"},
                        "controller": {"type": "boolean"},
                        "kind": text(),
                        "name": text(),
                        "uid": {"type": "string", "default": ""},
                    },
                    "x-kubernetes-map-type": "atomic",
                },
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "uid",
                "x-kubernetes-patch-strategy": "merge",
            },
            "resourceVersion": text(),
            "selfLink": text(),
            "uid": text(),
        },
    })
}
