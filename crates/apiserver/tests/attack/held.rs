//! Unread answers hold no definitions and documents that were replaced.

use serde_json::{Map, Value, json};

use crate::answers::{ANSWER, ELSE, begun};
use crate::sized;
use crate::target::{Client, Target};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Bytes that answers may hold of replaced objects, and of items made for them.
const HELD: u64 = 64 << 20;
/// Each definition once, and again while it is judged and made anew.
const MAKING: u64 = 160 << 20;

fn definition(plural: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}}}]},
    })
}

/// Gives the objects of a definition another property.
async fn redefine(client: &mut Client, plural: &str, property: &str, schema: Value) {
    let path = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{property}");
    let patch = json!([{"op": "add", "path": path, "value": schema}]).to_string();
    let kind = "application/json-patch+json";
    let (code, answer) =
        client.ask("PATCH", &format!("{CRDS}/{plural}.example.com"), kind, patch.into_bytes()).await;
    assert_eq!(code, 200, "{}", answer["message"]);
}

/// Documents are shared, but each of another catalogue is another one.
#[tokio::test]
async fn documents_of_old_catalogues_take_no_memory() {
    let target = Target::start();
    let mut client = target.client().await;
    for n in 0..4 {
        let long = json!({"type": "string", "description": "d".repeat(600_000)});
        let spec: Map<String, Value> = (0..4).map(|n| (format!("p{n}"), long.clone())).collect();
        assert_eq!(client.create(CRDS, &definition(&format!("b{n}s"), &spec.into())).await.0, 201);
    }
    assert_eq!(client.create(CRDS, &definition("smalls", &json!({"x": {"type": "integer"}}))).await.0, 201);
    assert_eq!(client.get("/openapi/v2").await.0, 200);
    let before = target.most_memory();
    let (mut answers, rounds) = (Vec::new(), sized(40, 120));
    for round in 0..rounds {
        redefine(&mut client, "smalls", &format!("q{round}"), json!({"type": "string"})).await;
        answers.push(begun(&target, "GET /openapi/v2", "accept: application/json", "", "HTTP/1.1 200").await);
    }
    let grown = target.most_memory().saturating_sub(before);
    let most = ELSE + HELD + MAKING + ANSWER * rounds as u64;
    assert!(grown < most, "{grown} bytes for {rounds} unread documents of ten megabytes");
}

/// Each watch once kept the definition that it began with.
#[tokio::test]
async fn watches_of_definitions_that_change_take_no_memory() {
    let target = Target::start();
    let mut client = target.client().await;
    let spec: Map<String, Value> =
        (0..sized(4_000, 20_000)).map(|n| (format!("a{n}"), json!({"type": "string"}))).collect();
    assert_eq!(client.create(CRDS, &definition("ws", &spec.into())).await.0, 201);
    redefine(&mut client, "ws", "q", json!({"type": "string"})).await;
    let before = target.most_memory();
    let (mut answers, rounds) = (Vec::new(), sized(40, 80));
    for round in 0..rounds {
        redefine(&mut client, "ws", "q", json!({"type": "string", "maxLength": round + 1})).await;
        let asked = "GET /apis/example.com/v1/namespaces/default/ws?watch=true";
        answers.push(begun(&target, asked, "accept: application/json", "", "HTTP/1.1 200").await);
    }
    let grown = target.most_memory().saturating_sub(before);
    let most = ELSE + MAKING + ANSWER * rounds as u64;
    assert!(grown < most, "{grown} bytes for {rounds} watches, each with another definition");
}

/// A short list of them is made of three megabytes an item.
#[tokio::test]
async fn defaults_that_came_later_are_counted() {
    let target = Target::start();
    let mut client = target.client().await;
    assert_eq!(client.create(CRDS, &definition("ds", &json!({"x": {"type": "integer"}}))).await.0, 201);
    let path = "/apis/example.com/v1/namespaces/default/ds";
    let objects = sized(100, 310);
    for n in 0..objects {
        let object = json!({"apiVersion": "example.com/v1", "kind": "ds", "metadata": {"name": format!("d{n}")}, "spec": {"x": 1}});
        assert_eq!(client.create(path, &object).await.0, 201);
    }
    redefine(&mut client, "ds", "big", json!({"type": "string", "default": "b".repeat(2_800_000)})).await;
    let before = target.most_memory();
    let accepts = [
        "application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ];
    for accept in accepts {
        let mut answers = Vec::new();
        for query in ["", "?watch=true&includeObject=Object"] {
            let accept = if query.is_empty() { accept } else { &accept.replace("List;", ";") };
            for _ in 0..sized(40, 200) {
                let asked = format!("GET {path}{query}");
                answers.push(begun(&target, &asked, &format!("accept: {accept}"), "", "HTTP/1.1 ").await);
            }
        }
        // Every event that there is room for has been made by then.
        assert_eq!(client.get(&format!("{path}/d0")).await.0, 200);
        let grown = target.most_memory().saturating_sub(before);
        // Both rooms, and what is being made.
        let most = ELSE + 2 * HELD + ANSWER * answers.len() as u64;
        assert!(grown < most, "{grown} bytes for {objects} objects with a large default: {accept}");
    }
}
