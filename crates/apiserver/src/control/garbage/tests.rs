use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Server;
use crate::control::fixture::{ask, define, definition};

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
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (_, widget) = ask(&server, "GET", &one, &Value::Null).await;
        if widget["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1) {
            break;
        }
        assert!(Instant::now() < deadline, "{widget}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
