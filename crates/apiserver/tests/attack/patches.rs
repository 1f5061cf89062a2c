//! Patches and bodies that become more than they are.

use serde_json::{Value, json};

use crate::target::{Client, Target};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What the server may take more than before, whatever a small request asks for. One of 5 KB took 24 GB.
const CEILING: u64 = 192 << 20;

async fn patch(client: &mut Client, operations: &Value) -> (u16, Value) {
    let body = operations.to_string().into_bytes();
    client.ask("PATCH", &format!("{MAPS}/victim"), "application/json-patch+json", body).await
}

#[tokio::test]
async fn a_json_patch_does_not_double_without_end() {
    let target = Target::start();
    let mut client = target.client().await;
    let victim = json!({"metadata": {"name": "victim", "annotations": {"a": "x".repeat(1000)}}});
    assert_eq!(client.create(MAPS, &victim).await.0, 201);
    let before = target.most_memory();

    let doubled: Vec<Value> = (0..60)
        .flat_map(|n| {
            let to = format!("/metadata/annotations/a{n}");
            [json!({"op": "copy", "from": "/metadata", "path": to})]
        })
        .collect();
    let (code, status) = patch(&mut client, &json!(doubled)).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")), "{status}");
    assert_eq!(status["message"], "the server rejected our request due to an error in our request");

    // Each copy into itself makes it twice as deep, at hardly any bytes.
    let deeper: Vec<Value> = std::iter::once(json!({"op": "add", "path": "/data", "value": {"d": {}}}))
        .chain((0..200).map(|n| json!({"op": "move", "from": "/data", "path": format!("/x{n}")})))
        .collect();
    assert_ne!(patch(&mut client, &json!(deeper)).await.0, 500);
    let mut path = "/data".to_owned();
    let mut deep = vec![json!({"op": "add", "path": path, "value": {}})];
    for _ in 0..300 {
        path.push_str("/d");
        deep.push(json!({"op": "add", "path": path, "value": {}}));
    }
    let (code, status) = patch(&mut client, &json!(deep)).await;
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")), "{status}");

    let many = vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001];
    let (code, status) = patch(&mut client, &json!(many)).await;
    let message =
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!((code, &status["message"]), (413, &json!(message)));

    let grown = target.most_memory().saturating_sub(before);
    assert!(grown < CEILING, "{grown} bytes for patches of a few kilobytes");
    assert_eq!(client.get(&format!("{MAPS}/victim")).await.0, 200);
}

#[tokio::test]
async fn no_object_becomes_larger_than_a_body() {
    let target = Target::start();
    let mut client = target.client().await;
    let half = json!({"metadata": {"name": "victim"}, "binaryData": {"a": "A".repeat(2 << 20)}});
    // A config map has a bound of its own; a definition without one is what a client would take.
    let code = client.create(MAPS, &half).await.0;
    assert_eq!(code, 422, "more than a config map takes");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, answer) = client.create(crds, &crd).await;
    assert_eq!(code, 201, "{answer}");
    let things = "/apis/example.com/v1/namespaces/default/things";
    let thing = |extra: Value| {
        let mut thing =
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "victim"}});
        thing["x"] = extra;
        thing
    };
    let (code, answer) = client.create(things, &thing(json!("x".repeat(2 << 20)))).await;
    assert_eq!(code, 201, "{}", answer["message"]);
    let more = json!({"y": "y".repeat(2 << 20)}).to_string().into_bytes();
    let one = format!("{things}/victim");
    let (code, status) = client.ask("PATCH", &one, "application/merge-patch+json", more).await;
    let message = "Request entity too large: limit is 3145728";
    assert_eq!((code, &status["message"]), (413, &json!(message)));

    // As deep as an object may be, and as it is with its managed fields: it can be read, in every form.
    for (depth, expected) in [(100, 201), (121, 400), (100_000, 400)] {
        let name = format!("deep-{depth}");
        let mut body = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}});
        body["x"] = json!("X");
        let nested = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let body = body.to_string().replace("\"X\"", &nested).into_bytes();
        let (code, answer) = client.ask("POST", things, "application/json", body).await;
        assert_eq!(code, expected, "{depth}: {}", answer["message"]);
        if code == 201 {
            let json = "application/json";
            let (code, _) =
                client.ask("PUT", &format!("{things}/{name}"), json, answer.to_string().into()).await;
            assert_eq!(code, 200);
        } else {
            let said = answer["message"].as_str().unwrap().contains("exceeded max depth");
            assert!(said, "{}", answer["message"]);
        }
    }
    // Two bytes each in JSON, and far more in memory.
    let before = target.most_memory();
    let (code, status) = client.create(things, &thing(json!(vec![0; 1_000_000]))).await;
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")));
    let grown = target.most_memory().saturating_sub(before);
    assert!(grown < CEILING, "{grown} bytes for a body that is refused");
}
