//! The custom resources of the stream: one field of each way a schema can treat a field.

use std::time::Duration;

use serde_json::{Value, json};

use crate::side::{Asked, Sides};

pub const GROUP: &str = "stream.capt.dev";
pub const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Owns objects and is never deleted.
pub const OWNER: &str = "stream-owner";

fn spec() -> Value {
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let set = |of: &str| json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": of}});
    let spec = json!({"type": "object",
    "x-kubernetes-validations": [
        {"rule": "!has(self.number) || !has(self.most) || self.number <= self.most", "message": "number is at most most"},
        {"rule": "self.replicas <= 9", "messageExpression": "'too many: ' + (self.replicas > 12 ? 'far' : 'a few')", "reason": "FieldValueForbidden", "fieldPath": ".replicas"},
    ],
    "properties": {
        "text": {"type": "string", "maxLength": 12},
        "fixed": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed stays"}]},
        "number": {"type": "integer", "minimum": -1, "format": "int32"},
        "most": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "maybe": {"type": "string", "nullable": true},
        "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
        "either": {"x-kubernetes-int-or-string": true},
        "replicas": {"type": "integer", "default": 1, "minimum": 0},
        "when": {"type": "string", "format": "date-time"},
        "entries": texts(),
        "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
        "nested": {"type": "object", "default": {}, "properties": {
            "a": {"type": "string"}, "b": {"type": "string", "default": "bee"},
            "deep": {"type": "object", "additionalProperties": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}, "y": {"type": "string", "default": "why"}}}},
        }},
        "list": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
        "set": set("string"),
        "numbers": set("integer"),
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}, "tags": set("string")}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    spec
}

fn schema(about: &str) -> Value {
    json!({"openAPIV3Schema": {"type": "object", "description": about, "required": ["spec"], "properties": {
        "spec": spec(),
        "status": {"type": "object", "properties": {
            "phase": {"type": "string", "pattern": "^[A-Z]?[a-z]*$"},
            "replicas": {"type": "integer"},
            "selector": {"type": "string"},
            "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {"type": "object", "required": ["type", "status"], "properties": {
                    "type": {"type": "string"}, "status": {"type": "string", "enum": ["True", "False", "Unknown"]}, "message": {"type": "string"}}}},
        }},
    }}})
}

/// Two schemas of one kind: fields that only one has, and others that they fill in differently.
fn half(own: &str, text: &str, count: Value, nested: Value) -> Value {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, own: {"type": "string", "default": text}, "port": {"type": "integer"}}});
    json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "text": {"type": "string", "default": text},
            "count": count,
            own: {"type": "string"},
            "nested": {"type": "object", "default": {}, "properties": nested},
            "entries": {"type": "object", "additionalProperties": {"type": "string"}},
            "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, own: {"type": "string", "default": "s"}}},
    }}})
}

fn definition(plural: &str, kind: &str, scope: &str, versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {"group": GROUP, "scope": scope, "versions": versions,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")}},
    })
}

fn all() -> Vec<Value> {
    let sub = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}});
    let columns = json!([
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
        {"name": "N", "type": "integer", "jsonPath": ".spec.number", "priority": 1},
        {"name": "When", "type": "date", "jsonPath": ".spec.when"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
    ]);
    let selectable =
        json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.number"}, {"jsonPath": ".spec.flag"}]);
    vec![
        definition(
            "things",
            "Thing",
            "Namespaced",
            json!([
                {"name": "v1", "served": true, "storage": true, "schema": schema(""), "subresources": sub,
                    "additionalPrinterColumns": columns, "selectableFields": selectable},
                {"name": "v1beta1", "served": true, "storage": false, "deprecated": true, "schema": schema("older"), "subresources": sub},
            ]),
        ),
        definition(
            "plains",
            "Plain",
            "Namespaced",
            json!([
                {"name": "v1alpha1", "served": true, "storage": true, "schema": schema("")},
            ]),
        ),
        definition(
            "halves",
            "Half",
            "Namespaced",
            json!([
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": half("left", "l", json!({"type": "integer", "default": 1}), json!({"a": {"type": "string", "default": "x"}, "b": {"type": "string"}}))},
                {"name": "v2", "served": true, "storage": false, "subresources": {"status": {}},
                    "schema": half("right", "r", json!({"type": "integer", "minimum": 0}), json!({"b": {"type": "string", "default": "y"}, "c": {"type": "boolean", "default": true}}))},
            ]),
        ),
        definition(
            "wides",
            "Wide",
            "Cluster",
            json!([
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            ]),
        ),
    ]
}

/// Makes the definitions, and waits until the real server has caught up with them.
pub async fn install(sides: &Sides) {
    for definition in all() {
        sides.both("POST", CRDS, &definition).await;
    }
    let owner = json!({"metadata": {"name": OWNER}});
    sides.both("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", &owner).await;
    let probes = [
        "/apis/stream.capt.dev/v1/namespaces/x/things/none/scale",
        "/apis/stream.capt.dev/v1beta1/namespaces/x/things/none/scale",
        "/apis/stream.capt.dev/v1/namespaces/x/halves/none/status",
        "/apis/stream.capt.dev/v2/namespaces/x/halves/none/status",
        "/apis/stream.capt.dev/v1/wides/none/status",
        "/apis/stream.capt.dev/v1alpha1/namespaces/x/plains/none",
    ];
    for probe in probes {
        let asked = Asked { method: "GET", path: probe.to_owned(), headers: Vec::new(), body: String::new() };
        capt_e2e::until("the CRD is served", Duration::from_secs(180), async || {
            sides.real.ask(&asked).await.text.contains("\\\"none\\\" not found").then_some(())
        })
        .await
        .unwrap();
    }
}
