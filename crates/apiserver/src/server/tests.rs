//! Starts on folders of every state, and definitions that are served for others.

use http_body_util::BodyExt as _;

use std::time::Duration;

use super::*;
use crate::store::Key;

/// Longer than anything here takes; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(60);
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn ask(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/json-patch+json" } else { "application/json" };
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let answer = server.api().respond(&User::admin(), request.body(body).unwrap()).await;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

fn definition(plural: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}}}]},
    })
}

#[tokio::test]
async fn it_starts_while_a_namespace_that_is_always_there_is_terminating() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("data");
    let server = Server::open(&folder).await.unwrap();
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    let maps = "/api/v1/namespaces/kube-node-lease/configmaps";
    assert_eq!(ask(&server, "POST", maps, &held).await.0, 201);
    let (code, namespace) = ask(&server, "DELETE", "/api/v1/namespaces/kube-node-lease", &Value::Null).await;
    assert_eq!((code, &namespace["status"]["phase"]), (200, &json!("Terminating")));
    server.close().await;
    let server = Server::open(&folder).await.unwrap();
    let (code, namespace) = ask(&server, "GET", "/api/v1/namespaces/kube-node-lease", &Value::Null).await;
    assert_eq!((code, &namespace["status"]["phase"]), (200, &json!("Terminating")));
}

#[tokio::test]
async fn it_starts_without_a_role_that_cannot_be_written() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("data");
    let server = Server::open(&folder).await.unwrap();
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user";
    // As large as an object may be, and without its own rules.
    let bytes = || {
        let key = Key::new("rbac.authorization.k8s.io/clusterroles", "", "system:basic-user");
        server.api().storage.store.get(&key).unwrap().bytes().len()
    };
    let mut name = 1_000_000;
    for _ in 0..2 {
        let rules = json!([{"apiGroups": [""], "resources": ["a"], "verbs": ["get"], "resourceNames": ["x".repeat(name)]}]);
        let patch = json!([{"op": "replace", "path": "/rules", "value": rules}]);
        assert_eq!(ask(&server, "PATCH", path, &patch).await.0, 200);
        name += crate::bounds::MAX_BYTES - bytes() - 50;
    }
    assert!(bytes() > crate::bounds::MAX_BYTES - 100);
    server.close().await;
    let server = Server::open(&folder).await.unwrap();
    assert_eq!(ask(&server, "GET", path, &Value::Null).await.0, 200);
}

#[tokio::test]
async fn namespaces_of_the_system_are_not_deleted() {
    let server = Server::in_memory().await.unwrap();
    for name in ["default", "kube-system", "kube-public"] {
        for query in ["", "?dryRun=All"] {
            let path = format!("/api/v1/namespaces/{name}{query}");
            let (code, status) = ask(&server, "DELETE", &path, &Value::Null).await;
            let told = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
            assert_eq!((code, &status["message"]), (403, &json!(told)), "{status}");
        }
    }
    let other = ask(&server, "DELETE", "/api/v1/namespaces/kube-node-lease", &Value::Null).await;
    assert_eq!(other.0, 200, "upstream protects three of the four");
}

/// Stored objects are bounded, whatever a definition was given since.
#[tokio::test]
async fn a_deletion_stores_no_more_than_an_object_may_be() {
    let server = Server::in_memory().await.unwrap();
    let text = json!({"type": "string"});
    assert_eq!(ask(&server, "POST", CRDS, &definition("as", &json!({"x": text}))).await.0, 201);
    let path = "/apis/example.com/v1/namespaces/default/as";
    let object = json!({"apiVersion": "example.com/v1", "kind": "as", "spec": {"x": "y".repeat(2_900_000)},
        "metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
    assert_eq!(ask(&server, "POST", path, &object).await.0, 201);
    let long = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/z",
        "value": {"type": "string", "default": "z".repeat(2_000_000)}}]);
    assert_eq!(ask(&server, "PATCH", &format!("{CRDS}/as.example.com"), &long).await.0, 200);
    for _ in 0..2 {
        let (code, marked) = ask(&server, "DELETE", &format!("{path}/a"), &Value::Null).await;
        assert_eq!(code, 200, "{}", marked["message"]);
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
        let stored = server.api().storage.store.get(&Key::new("example.com/as", "default", "a")).unwrap();
        let bytes = stored.bytes().len();
        assert!(bytes <= crate::bounds::MAX_BYTES + 1024, "{bytes} bytes are stored");
    }
}

/// A request that nobody gives a thread any more, as where users have taken all of theirs.
#[tokio::test]
async fn nobody_waits_for_the_threads_of_whoever_defines_something_else() {
    let server = Server::in_memory().await.unwrap();
    let mut stalled = Vec::new();
    for n in 0..50 {
        let body = definition(&format!("s{n}s"), &json!({}));
        let request = Request::post(CRDS).header("content-type", "application/json");
        let request = request.body(Bytes::from(body.to_string())).unwrap();
        let api = Arc::clone(server.api());
        let mut asked = Box::pin(async move { api.respond(&User::admin(), request).await });
        let key = Key::new(
            "apiextensions.k8s.io/customresourcedefinitions",
            "",
            body["metadata"]["name"].as_str().unwrap(),
        );
        // Until it is stored, and waits for what follows.
        let mut is_stored = false;
        while futures::poll!(&mut asked).is_pending() {
            if is_stored {
                stalled.push(asked);
                break;
            }
            is_stored = server.api().storage.store.get(&key).is_some();
            tokio::task::yield_now().await;
        }
    }
    assert!(!stalled.is_empty(), "no request waited");
    let others = definition("others", &json!({}));
    let asked = tokio::time::timeout(DEADLINE, ask(&server, "POST", CRDS, &others)).await;
    assert_eq!(asked.unwrap().0, 201);
    assert_eq!(ask(&server, "GET", "/apis/example.com/v1/others", &Value::Null).await.0, 200);
}
