use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Server;
use crate::control::fixture::{CRDS, ask, define, definition};

/// A user who may write objects of a kind may write its definition, too; garbage collection works whatever that says of changes.
#[tokio::test]
async fn no_rule_keeps_an_owner_that_is_gone() {
    let server = Server::in_memory().await.unwrap();
    let mut strict = definition("widgets", "Widget");
    strict["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "oldSelf.a != 1"}],
    });
    define(&server, &strict).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let (code, owner) = ask(&server, "POST", maps, &json!({"metadata": {"name": "stays"}})).await;
    assert_eq!(code, 201, "{owner}");
    let owned_by =
        |name: &str, uid: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let owners = [owned_by("stays", &owner["metadata"]["uid"]), owned_by("gone", &"no-such-uid".into())];
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "a": 1,
        "metadata": {"name": "one", "ownerReferences": owners},
    });
    let (code, told) = ask(&server, "POST", widgets, &widget).await;
    assert_eq!(code, 201, "{told}");
    let one = format!("{widgets}/one");
    let (code, told) = ask(&server, "PATCH", &one, &json!({"metadata": {"labels": {"l": "v"}}})).await;
    assert_eq!(code, 422, "the rule holds for everybody else: {told}");
    left_with(&server, &one, &["stays"]).await;
}

/// A default that came later, and of which an object has no room, keeps nobody's owners in it.
#[tokio::test]
async fn no_default_keeps_an_owner_that_is_gone() {
    let server = Server::in_memory().await.unwrap();
    let mut large = definition("widgets", "Widget");
    let schema = |default: Value| {
        json!({"type": "object", "properties": {
            "x": {"type": "string"}, "filled": {"type": "object", "default": {}, "properties": {"y": default}},
        }})
    };
    large["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema(json!({"type": "string"}));
    define(&server, &large).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let mut owners = Vec::new();
    for name in ["stays", "goes"] {
        let (code, owner) = ask(&server, "POST", maps, &json!({"metadata": {"name": name}})).await;
        assert_eq!(code, 201, "{owner}");
        let uid = &owner["metadata"]["uid"];
        owners.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}));
    }
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "x": "x".repeat(1_700_000),
        "metadata": {"name": "one", "ownerReferences": owners},
    });
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let (code, told) = ask(&server, "POST", widgets, &widget).await;
    assert_eq!(code, 201, "{told}");
    let default = json!({"type": "string", "default": "y".repeat(1_700_000)});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema(default)}}]);
    let (code, told) = ask(
        &server,
        "PATCH",
        &format!("{CRDS}/widgets.example.com"),
        &json!({"spec": {"versions": versions}}),
    )
    .await;
    assert_eq!(code, 200, "{told}");
    let one = format!("{widgets}/one");
    let (code, _) = ask(&server, "PATCH", &one, &json!({"metadata": {"labels": {"l": "v"}}})).await;
    assert_eq!(code, 413, "it is too large for everybody else");
    assert_eq!(ask(&server, "DELETE", &format!("{maps}/goes"), &Value::Null).await.0, 200);
    left_with(&server, &one, &["stays"]).await;
}

/// Waits until an object has these owners.
async fn left_with(server: &Server, path: &str, wanted: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (_, object) = ask(server, "GET", path, &Value::Null).await;
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        if owners.iter().map(|owner| owner["name"].as_str().unwrap()).eq(wanted.iter().copied()) {
            return;
        }
        assert!(Instant::now() < deadline, "{owners:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
