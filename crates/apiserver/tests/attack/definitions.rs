//! Definitions of a few kilobytes that could make much of small objects, or take much themselves.

use serde_json::{Map, Value, json};

use crate::target::{Client, Target};

/// More than the largest object takes while it is made, checked and refused.
const CEILING: u64 = 400 << 20;

/// Defines a kind, makes an object of it and asks for it as a table; tells the answers' codes.
async fn define(client: &mut Client, name: &str, spec: &Value, column: &str, object: &Value) -> [u16; 3] {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}s.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": format!("{name}s"), "kind": name},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [{"name": "c", "type": "string", "jsonPath": column}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]},
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let defined = client.create(crds, &crd).await.0;
    let objects = format!("/apis/example.com/v1/namespaces/default/{name}s");
    let body =
        json!({"apiVersion": "example.com/v1", "kind": name, "metadata": {"name": "x"}, "spec": object});
    let created = client.create(&objects, &body).await.0;
    let answer = client.as_table(&objects).await;
    [defined, created, answer]
}

#[tokio::test]
async fn small_definitions_take_little_memory() {
    let target = Target::start();
    let mut client = target.client().await;
    let mut nested = json!({"type": "object"});
    for _ in 0..4 {
        let list = json!({"type": "array", "items": nested, "default": vec![json!({}); 60]});
        nested = json!({"type": "object", "properties": {"a": list}});
    }
    let words: Vec<String> = (0..10_000).map(|n| format!("w{n}")).collect();
    let texts = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string", "enum": words}}}});
    let pattern = |n: usize| json!({"type": "string", "pattern": format!("{n}\\pL{{150}}")});
    let patterns: Map<String, Value> = (0..60).map(|n| (format!("f{n}"), pattern(n))).collect();
    let patterns = json!({"type": "object", "properties": patterns});
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let union = format!(".spec.l[*]['{}']", vec!["a"; 10_000].join("','"));
    let ruled = |rule: &str| {
        json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {
            "l": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}},
            "t": {"type": "string", "maxLength": 3_000_000},
        }})
    };
    let doubled: Vec<String> = (0..26).map(|n| format!(".map(x{n}, [x{n}, x{n}])")).collect();
    let text = ruled("'%s'.format([self.l.map(x, self.t)]).size() > 0");
    let shared = ruled(&format!("'%s'.format([[1]{}]).size() > 0", doubled.concat()));
    let texts_of_rules = json!({"l": vec![0; 800], "t": "x".repeat(1_000_000)});
    for (name, spec, column, object, codes) in [
        ("nested", nested, ".spec.b", json!({}), [201, 413, 200]),
        ("word", texts, ".spec.b", json!({"l": vec!["x"; 10_000]}), [201, 422, 200]),
        ("pattern", patterns, ".spec.b", json!({}), [422, 404, 404]),
        ("text", text, ".spec.b", texts_of_rules, [201, 422, 200]),
        ("shared", shared, ".spec.b", json!({}), [201, 422, 200]),
        ("union", open, &*union, json!({"l": vec![json!({"a": 1}); 10_000]}), [201, 201, 200]),
    ] {
        let before = target.most_memory();
        let answered = define(&mut client, name, &spec, column, &object).await;
        let grown = target.most_memory().saturating_sub(before);
        assert!(grown < CEILING, "{name}: {grown} bytes");
        assert_eq!(answered, codes, "{name}");
    }
}
