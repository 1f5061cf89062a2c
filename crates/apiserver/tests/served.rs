//! A whole server, asked as clients ask it: what it says beside objects, and in which form.
//!
//! `edge` asks a real kube-apiserver the rows of the table.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bytes::Bytes;
use capt_apiserver::Server;
use capt_apiserver::authn::User;
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use support::surface::{ROWS, Row};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const SCALABLES: &str = "/apis/served.example.com/v1/namespaces/default/scalables";

async fn ask(server: &Server, method: &str, path: &str, accept: &str, body: &str) -> Response<Bytes> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let mut request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
    if !accept.is_empty() {
        request = request.header(header::ACCEPT, accept);
    }
    let request = request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap();
    let (head, body) = server.api().respond(&User::admin(), request).await.into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

fn text(answer: &Response<Bytes>) -> String {
    String::from_utf8_lossy(answer.body()).into_owned()
}

fn value(answer: &Response<Bytes>) -> Value {
    serde_json::from_slice(answer.body()).unwrap_or_else(|error| panic!("{error}: {}", text(answer)))
}

async fn with_scalables() -> Server {
    let server = Server::in_memory().await.unwrap();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "scalables.served.example.com"},
        "spec": {"group": "served.example.com", "scope": "Namespaced",
            "names": {"plural": "scalables", "singular": "scalable", "kind": "Scalable"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}, "status": open}}}}]}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(ask(&server, "POST", crds, "", &crd.to_string()).await.status(), 201);
    let one = json!({"apiVersion": "served.example.com/v1", "kind": "Scalable", "metadata": {"name": "one"}, "spec": {"replicas": 3}});
    assert_eq!(ask(&server, "POST", SCALABLES, "", &one.to_string()).await.status(), 201);
    server
}

#[tokio::test]
async fn answers_have_the_codes_of_kubernetes() {
    let server = Server::in_memory().await.unwrap();
    let mut wrong = Vec::new();
    for row in ROWS {
        let Row { method, path, accept, body, code } = *row;
        let answer = ask(&server, method, path, accept, body).await;
        if answer.status().as_u16() != code {
            wrong.push(format!("{method} {path} {accept}: {} {}", answer.status(), text(&answer)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}

#[tokio::test]
async fn every_path_that_is_listed_answers() {
    let server = with_scalables().await;
    let paths = value(&ask(&server, "GET", "/", "", "").await)["paths"].clone();
    let paths: Vec<&str> = paths.as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(paths.is_sorted());
    for known in ["/api/v1", "/apis/served.example.com/v1", "/healthz/ping", "/openapi/v2", "/version"] {
        assert!(paths.contains(&known), "{paths:?}");
    }
    for path in paths.into_iter().filter(|path| *path != "/openapi/v3/") {
        let answer = ask(&server, "GET", path, "", "").await;
        assert_eq!(answer.status(), 200, "{path}: {}", text(&answer));
    }
}

#[tokio::test]
async fn health_is_told_in_detail() {
    let server = Server::in_memory().await.unwrap();
    for name in ["healthz", "livez", "readyz"] {
        let answer = ask(&server, "GET", &format!("/{name}?verbose"), "", "").await;
        assert_eq!(text(&answer), format!("[+]ping ok\n[+]storage ok\n{name} check passed\n"));
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
        assert_eq!(text(&ask(&server, "GET", &format!("/{name}"), "", "").await), "ok");
        assert_eq!(text(&ask(&server, "GET", &format!("/{name}/storage"), "", "").await), "ok");
    }
}

#[tokio::test]
async fn a_timeout_that_is_none_is_explained_and_one_that_is_over_ends_the_request() {
    let server = Server::in_memory().await.unwrap();
    let status = value(&ask(&server, "GET", "/api/v1/namespaces?timeout=invalid", "", "").await);
    assert_eq!(
        status["message"],
        "invalid timeout specified in the request URL - time: invalid duration \"invalid\""
    );
    // A revision that nobody comes to is waited for.
    let ahead = "/api/v1/namespaces?resourceVersion=4000000000&timeout=1ms";
    let status = value(&ask(&server, "GET", ahead, "", "").await);
    assert_eq!((&status["code"], &status["reason"]), (&json!(504), &json!("Timeout")));
    assert_eq!(status["message"], "Timeout: request did not complete within the allotted timeout");
}

/// The events of a watch that begins with the present state, up to the bookmark that ends it.
async fn initial_events(server: &Server, path: &str, accept: &str) -> Vec<Value> {
    let path = format!(
        "{path}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    let request = Request::get(path).header(header::ACCEPT, accept).body(Bytes::new()).unwrap();
    let mut body = server.api().respond(&User::admin(), request).await.into_body();
    let (mut text, mut events) = (String::new(), Vec::<Value>::new());
    while events.last().is_none_or(|event| event["type"] != "BOOKMARK") {
        let frame = body.frame().await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
        while let Some((line, rest)) = text.split_once('\n') {
            events.push(serde_json::from_str(line).unwrap());
            text = rest.to_owned();
        }
    }
    events
}

#[tokio::test]
async fn a_bookmark_has_the_form_that_was_asked_for() {
    let server = with_scalables().await;
    for path in [SCALABLES, "/api/v1/namespaces", "/api/v1/services"] {
        let events = initial_events(&server, path, TABLE).await;
        let (bookmark, others) = events.split_last().unwrap();
        let table = &bookmark["object"];
        assert_eq!(table["kind"], "Table", "{path}: {table}");
        // Whoever is first says what the columns are.
        assert_eq!(table["columnDefinitions"].is_null(), !others.is_empty(), "{path}: {table}");
        let row = &table["rows"][0];
        assert_eq!(row["object"]["kind"], "PartialObjectMetadata", "{path}: {row}");
        assert_eq!(row["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        assert_eq!(row["object"]["metadata"]["resourceVersion"], table["metadata"]["resourceVersion"]);

        let events = initial_events(&server, path, PARTIAL).await;
        let object = &events.last().unwrap()["object"];
        assert_eq!(object["kind"], "PartialObjectMetadata", "{path}: {object}");
        assert_eq!(object["apiVersion"], "meta.k8s.io/v1", "{path}: {object}");

        let events = initial_events(&server, path, "application/json").await;
        assert!(events.last().unwrap()["object"]["metadata"]["annotations"].is_object(), "{path}");
    }
}

#[tokio::test]
async fn a_scale_has_the_form_that_was_asked_for() {
    let server = with_scalables().await;
    let scale = format!("{SCALABLES}/one/scale");
    let change = r#"{"spec":{"replicas":3}}"#;
    for (method, body) in [("GET", ""), ("PATCH", change)] {
        let table = value(&ask(&server, method, &scale, TABLE, body).await);
        let columns: Vec<&Value> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
        assert_eq!(columns, ["Name", "Desired", "Available", "Age"], "{method}");
        let cells = &table["rows"][0]["cells"];
        assert_eq!((&cells[0], &cells[1], &cells[2]), (&json!("one"), &json!(3), &json!(0)), "{method}");
        let partial = value(&ask(&server, method, &scale, PARTIAL, body).await);
        assert_eq!(partial["kind"], "PartialObjectMetadata", "{method}");
        let yaml = ask(&server, method, &scale, "application/yaml", body).await;
        assert_eq!(yaml.headers()[header::CONTENT_TYPE], "application/yaml", "{method}");
        assert!(text(&yaml).contains("kind: Scale"), "{method}: {}", text(&yaml));
    }
}

#[tokio::test]
async fn a_namespace_is_finalized_in_the_form_that_was_asked_for() {
    let server = Server::in_memory().await.unwrap();
    let finalize = "/api/v1/namespaces/default/finalize";
    let body = r#"{"metadata":{"name":"default"},"spec":{"finalizers":["kubernetes"]}}"#;
    assert_eq!(ask(&server, "PUT", finalize, TABLE, body).await.status(), 406);
    let partial = value(&ask(&server, "PUT", finalize, PARTIAL, body).await);
    assert_eq!(partial["kind"], "PartialObjectMetadata");
}

/// What `/finalize` stores is decoded and judged as any other write is.
#[tokio::test]
async fn a_namespace_is_finalized_by_a_namespace() {
    let server = Server::in_memory().await.unwrap();
    let finalize = "/api/v1/namespaces/default/finalize";
    let many = vec!["a.b/c"; 1_000];
    for (body, code) in [
        (json!({"metadata": {"name": "default"}, "spec": {"finalizers": {"x": 1}}}), 400),
        (json!({"metadata": {"name": "default"}, "spec": {"finalizers": [1]}}), 400),
        (json!({"metadata": {"name": "default"}, "spec": {"finalizers": ["no good"]}}), 422),
        (json!({"spec": {"finalizers": []}}), 400),
        (json!({"metadata": {"name": "other"}, "spec": {"finalizers": []}}), 400),
        (json!({"metadata": {"name": "default", "uid": "other"}, "spec": {"finalizers": []}}), 409),
        (json!({"metadata": {"name": "default", "resourceVersion": "1"}, "spec": {"finalizers": []}}), 409),
        (json!({"metadata": {"name": "default"}, "spec": {"finalizers": many}}), 200),
        (json!({"metadata": {"name": "default"}, "spec": {"finalizers": ["kubernetes", "a.b/c"]}}), 200),
    ] {
        let answer = ask(&server, "PUT", finalize, "", &body.to_string()).await;
        let shown: String = text(&answer).chars().take(300).collect();
        assert_eq!(answer.status().as_u16(), code, "{shown}");
    }
    let dry = r#"{"metadata":{"name":"default"},"spec":{"finalizers":["a.b/dry"]}}"#;
    let told = value(&ask(&server, "PUT", &format!("{finalize}?dryRun=All"), "", dry).await);
    assert_eq!(told["spec"]["finalizers"], json!(["a.b/dry"]));
    let stored = value(&ask(&server, "GET", "/api/v1/namespaces/default", "", "").await);
    assert_eq!(stored["spec"]["finalizers"], json!(["kubernetes", "a.b/c"]));
}

/// Over all namespaces there is reading alone: the routes of kube-apiserver, and its 404 for custom kinds.
#[tokio::test]
async fn nothing_is_written_to_no_namespace() {
    let server = Server::in_memory().await.unwrap();
    let crd = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(ask(&server, "POST", crds, "", &crd.to_string()).await.status(), 201);
    let map = r#"{"metadata":{"name":"a","namespace":"kube-system"}}"#;
    let thing =
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"default"}}"#;
    let kept = "/api/v1/namespaces/default/configmaps";
    assert_eq!(ask(&server, "POST", kept, "", r#"{"metadata":{"name":"kept"}}"#).await.status(), 201);
    for (path, body, code) in [("/api/v1/configmaps", map, 405), ("/apis/example.com/v1/things", thing, 404)]
    {
        assert_eq!(ask(&server, "GET", path, "", "").await.status().as_u16(), 200, "{path}");
        for method in ["POST", "PUT", "DELETE"] {
            let answer = ask(&server, method, path, "", body).await;
            assert_eq!(answer.status().as_u16(), code, "{method} {path}: {}", text(&answer));
        }
    }
    assert_eq!(ask(&server, "GET", &format!("{kept}/kept"), "", "").await.status(), 200);
}

#[tokio::test]
async fn services_are_none_and_none_can_be_made() {
    let server = Server::in_memory().await.unwrap();
    let services = "/api/v1/namespaces/default/services";
    let list = value(&ask(&server, "GET", services, "", "").await);
    assert_eq!((&list["kind"], &list["items"]), (&json!("ServiceList"), &json!([])));
    let body = r#"{"metadata":{"name":"web"},"spec":{"ports":[{"port":80}]}}"#;
    let web = format!("{services}/web");
    for (method, path, code) in [
        ("GET", &*web, 404),
        ("POST", services, 405),
        ("PUT", &web, 405),
        ("DELETE", &web, 405),
        ("DELETE", services, 405),
    ] {
        assert_eq!(ask(&server, method, path, "", body).await.status().as_u16(), code, "{method} {path}");
    }
}

#[tokio::test]
async fn a_description_is_found_by_its_hash() {
    let server = Server::in_memory().await.unwrap();
    let index = value(&ask(&server, "GET", "/openapi/v3", "", "").await);
    let address = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let found = ask(&server, "GET", &address, "", "").await;
    assert_eq!(found.headers()[header::CACHE_CONTROL], "public, immutable");
    let moved = ask(&server, "GET", "/openapi/v3/api/v1?hash=old", "", "").await;
    assert_eq!(
        (moved.status().as_u16(), &moved.headers()[header::LOCATION]),
        (301, &address.parse().unwrap())
    );
    let plain = ask(&server, "GET", "/openapi/v3/api/v1", "", "").await;
    assert_eq!(plain.headers()[header::CACHE_CONTROL], "no-cache, private");
    assert_eq!(plain.body(), found.body());
}
