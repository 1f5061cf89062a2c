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

/// Defaults that came later, and for which an object has no room, keep nobody's owners in it.
#[tokio::test]
async fn no_default_keeps_an_owner_that_is_gone() {
    // A long text, and more values than an object may have.
    let long = json!({"filled": {"type": "object", "default": {}, "properties": {
        "y": {"type": "string", "default": "y".repeat(1_700_000)},
    }}});
    let members: Value =
        (0..60).map(|n| (format!("f{n}"), json!({"type": "integer", "default": n}))).collect();
    let many = json!({"list": {"type": "array", "items": {"type": "object", "properties": members}}});
    for later in [long, many] {
        disowns_whatever_is_filled_in(&later).await;
    }
}

async fn disowns_whatever_is_filled_in(later: &Value) {
    let server = Server::in_memory().await.unwrap();
    let mut large = definition("widgets", "Widget");
    let schema = |more: &Value| {
        let mut properties = json!({"x": {"type": "string"}, "list": {
            "type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"type": "object", "properties": properties})
    };
    large["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema(&json!({}));
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
        "apiVersion": "example.com/v1", "kind": "Widget", "x": "x".repeat(1_700_000), "list": vec![json!({}); 20_000],
        "metadata": {"name": "one", "ownerReferences": owners},
    });
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let (code, told) = ask(&server, "POST", widgets, &widget).await;
    assert_eq!(code, 201, "{told}");
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema(later)}}]);
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
