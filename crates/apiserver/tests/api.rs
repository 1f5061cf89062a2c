//! The verbs, through HTTP but without a socket.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use capt_apiserver::authn::User;
use capt_apiserver::handlers::Api;
use capt_apiserver::registry::Catalogue;
use capt_apiserver::resource::{Resource, Version};
use capt_apiserver::storage::{Source, Storage};
use capt_apiserver::store::{Options, Store};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

#[derive(Default)]
struct Counter(AtomicUsize);

impl Source for Counter {
    fn now(&self) -> String {
        "2026-01-01T00:00:00Z".into()
    }
    fn uid(&self) -> String {
        format!("uid-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
    fn draw(&self, below: usize) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) % below
    }
}

fn widgets() -> Arc<Resource> {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "minimum": 1},
                "color": {"type": "string", "default": "red"},
                "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
                    "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}},
            }},
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    });
    let version = Version {
        name: "v1".into(),
        deprecation: None,
        open_api: schema.into(),
        status: true,
        scale: None,
        columns: vec![],
        selectable_fields: vec![],
    };
    Arc::new(Resource {
        group: "example.com".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        short_names: vec![],
        categories: vec![],
        namespaced: true,
        verbs: vec!["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
        custom: true,
        versions: vec![Arc::new(version)],
        storage_version: "v1".into(),
        stored_versions: Vec::new(),
        defined_at: capt_apiserver::resource::DefinedAt::default(),
        terminating: false,
    })
}

struct Client(Arc<Api>);

impl Client {
    fn new() -> Self {
        let store = Store::in_memory(&Options::default()).unwrap();
        let storage = Storage::new(store, Arc::new(Counter::default()));
        storage.registry.replace(Catalogue::of(vec![widgets()]).unwrap());
        Self(Arc::new(Api::new(Arc::new(storage))))
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> (StatusCode, Value) {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .header("user-agent", "tester/1")
            .body(bytes)
            .unwrap();
        let response = self.0.respond(&User::admin(), request).await;
        let code = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
    }

    async fn json(&self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        self.send(method, path, "application/json", &body).await
    }
}

const ALL: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn widget(name: &str, size: i64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "labels": {"size": size.to_string()}}, "spec": {"size": size}})
}

#[tokio::test]
async fn create_get_list() {
    let client = Client::new();
    let (code, made) = client.json("POST", ALL, widget("a", 1)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"], json!({"size": 1, "color": "red"}));
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["metadata"]["uid"], "uid-0");
    let (code, got) = client.json("GET", &format!("{ALL}/a"), Value::Null).await;
    assert_eq!((code.as_u16(), &got), (200, &made));
    let (code, again) = client.json("POST", ALL, widget("a", 1)).await;
    assert_eq!((code.as_u16(), &again["reason"]), (409, &json!("AlreadyExists")));
    client.json("POST", ALL, widget("b", 2)).await;
    let (_, list) = client.json("GET", &format!("{ALL}?limit=1"), Value::Null).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let token = list["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = client.json("GET", &format!("{ALL}?limit=1&continue={token}"), Value::Null).await;
    assert_eq!(rest["items"][0]["metadata"]["name"], "b", "{rest}");
    let (_, chosen) = client.json("GET", &format!("{ALL}?labelSelector=size%3D2"), Value::Null).await;
    assert_eq!(chosen["items"].as_array().unwrap().len(), 1);
    let (code, none) = client.json("GET", &format!("{ALL}/zzz"), Value::Null).await;
    assert_eq!((code.as_u16(), &none["message"]), (404, &json!("widgets.example.com \"zzz\" not found")));
}

#[tokio::test]
async fn invalid_objects_are_refused_with_causes() {
    let client = Client::new();
    let (code, said) = client.json("POST", ALL, widget("a", 0)).await;
    assert_eq!(code, 422);
    assert_eq!(
        said["message"],
        "Widget.example.com \"a\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    );
    let mut odd = widget("a", 1);
    odd["spec"]["colour"] = json!("blue");
    let (code, said) = client.json("POST", &format!("{ALL}?fieldValidation=Strict"), odd).await;
    assert_eq!(
        (code.as_u16(), said["message"].as_str().unwrap().ends_with("unknown field \"spec.colour\"")),
        (400, true),
        "{said}"
    );
}

#[tokio::test]
async fn unknown_fields_are_dropped_where_they_are_and_nowhere_else() {
    let client = Client::new();
    let mut odd = widget("a", 1);
    odd["spec"]["labels"] = json!({"not": "known"});
    odd["metadata"]["colour"] = json!("blue");
    let (code, made) = client.json("POST", ALL, odd).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"], json!({"size": 1, "color": "red"}));
    assert_eq!(made["metadata"]["labels"], json!({"size": "1"}));
    assert_eq!(made["metadata"]["colour"], Value::Null);
}

#[tokio::test]
async fn updates_and_patches() {
    let client = Client::new();
    let (_, made) = client.json("POST", ALL, widget("a", 1)).await;
    let mut new = made.clone();
    new["spec"]["size"] = json!(2);
    let (code, put) = client.json("PUT", &format!("{ALL}/a"), new.clone()).await;
    assert_eq!((code.as_u16(), &put["metadata"]["generation"]), (200, &json!(2)), "{put}");
    let (code, said) = client.json("PUT", &format!("{ALL}/a"), new).await;
    assert_eq!((code.as_u16(), &said["reason"]), (409, &json!("Conflict")), "{said}");
    let (code, patched) = client
        .send(
            "PATCH",
            &format!("{ALL}/a"),
            "application/merge-patch+json",
            &json!({"spec": {"color": "blue"}}),
        )
        .await;
    assert_eq!((code.as_u16(), &patched["spec"]["color"]), (200, &json!("blue")));
    let (code, patched) = client
        .send(
            "PATCH",
            &format!("{ALL}/a"),
            "application/json-patch+json",
            &json!([{"op": "replace", "path": "/spec/size", "value": 7}]),
        )
        .await;
    assert_eq!((code.as_u16(), &patched["spec"]["size"]), (200, &json!(7)));
    let (_, same) = client
        .send("PATCH", &format!("{ALL}/a"), "application/merge-patch+json", &json!({"spec": {"size": 7}}))
        .await;
    assert_eq!(same["metadata"]["resourceVersion"], patched["metadata"]["resourceVersion"]);
    let (code, status) = client
        .send(
            "PATCH",
            &format!("{ALL}/a/status"),
            "application/merge-patch+json",
            &json!({"status": {"ready": true}, "spec": {"size": 9}}),
        )
        .await;
    assert_eq!(
        (code.as_u16(), &status["status"]["ready"], &status["spec"]["size"]),
        (200, &json!(true), &json!(7))
    );
    assert_eq!(status["metadata"]["generation"], patched["metadata"]["generation"]);
}

#[tokio::test]
async fn apply_by_two_managers() {
    let client = Client::new();
    let apply = |manager: &str, force: bool| format!("{ALL}/a?fieldManager={manager}&force={force}");
    let mine = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1, "parts": [{"name": "x", "count": 1}]}});
    let (code, made) =
        client.send("PATCH", &apply("one", false), "application/apply-patch+yaml", &mine).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "one");
    let theirs = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 2, "parts": [{"name": "y", "count": 2}]}});
    let (code, said) =
        client.send("PATCH", &apply("two", false), "application/apply-patch+yaml", &theirs).await;
    assert_eq!(
        (code.as_u16(), &said["details"]["causes"][0]["field"]),
        (409, &json!(".spec.size")),
        "{said}"
    );
    let (code, forced) =
        client.send("PATCH", &apply("two", true), "application/apply-patch+yaml", &theirs).await;
    assert_eq!((code.as_u16(), forced["spec"]["parts"].as_array().unwrap().len()), (200, 2), "{forced}");
}

#[tokio::test]
async fn finalizers_hold_a_deletion() {
    let client = Client::new();
    let mut held = widget("a", 1);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.json("POST", ALL, held).await;
    let (code, marked) = client.json("DELETE", &format!("{ALL}/a"), Value::Null).await;
    assert_eq!(
        (code.as_u16(), &marked["metadata"]["deletionTimestamp"]),
        (200, &json!("2026-01-01T00:00:00Z")),
        "{marked}"
    );
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/late"]}});
    let (code, said) = client.send("PATCH", &format!("{ALL}/a"), "application/merge-patch+json", &more).await;
    assert_eq!(code, 422, "{said}");
    assert_eq!(said["details"]["causes"][0]["field"], "metadata.finalizers");
    let (code, gone) = client
        .send(
            "PATCH",
            &format!("{ALL}/a"),
            "application/merge-patch+json",
            &json!({"metadata": {"finalizers": null}}),
        )
        .await;
    assert_eq!(code, 200, "{gone}");
    let (code, _) = client.json("GET", &format!("{ALL}/a"), Value::Null).await;
    assert_eq!(code, 404);
    client.json("POST", ALL, widget("b", 1)).await;
    let (code, deleted) = client.json("DELETE", &format!("{ALL}/b"), Value::Null).await;
    assert_eq!((code.as_u16(), &deleted["status"]), (200, &json!("Success")));
}

#[tokio::test]
async fn a_watch_sees_everything_in_order() {
    let client = Client::new();
    client.json("POST", ALL, widget("a", 1)).await;
    let request =
        Request::builder().uri(format!("{ALL}?watch=true&resourceVersion=0")).body(Bytes::new()).unwrap();
    let mut body = client.0.respond(&User::admin(), request).await.into_body();
    client.json("POST", ALL, widget("b", 1)).await;
    client.json("DELETE", &format!("{ALL}/a"), Value::Null).await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        seen.push(format!(
            "{} {}",
            event["type"].as_str().unwrap(),
            event["object"]["metadata"]["name"].as_str().unwrap()
        ));
    }
    assert_eq!(seen, ["ADDED a", "ADDED b", "DELETED a"]);
}

/// Reads of a revision yet to come wait for it, and not for long.
#[tokio::test]
async fn reads_of_the_future() {
    let client = Client::new();
    let (_, made) = client.json("POST", ALL, widget("a", 1)).await;
    let last: u64 = made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let reads = [
        format!("{ALL}/a?resourceVersion={}", last + 1),
        format!("{ALL}?resourceVersion={}", last + 2),
        format!("{ALL}?resourceVersion={}&resourceVersionMatch=Exact", last + 3),
    ];
    // The clock stands still while a thread of the runtime is busy: no machine is too slow for the write.
    tokio::time::pause();
    let (written, writing) = std::sync::mpsc::channel::<()>();
    let busy = tokio::task::spawn_blocking(move || writing.recv());
    for (read, name) in reads.iter().zip(["b", "c", "d"]) {
        let (answer, _) =
            tokio::join!(client.json("GET", read, Value::Null), client.json("POST", ALL, widget(name, 1)));
        assert_eq!(answer.0, 200, "{read}: {}", answer.1);
    }
    drop(written);
    // That nobody says anything any more is how it ends.
    assert!(busy.await.unwrap().is_err());
    // From here on nobody writes, and the clock goes on by itself where all wait.
    for (path, again) in [
        (format!("{ALL}/a?resourceVersion=1000"), json!(1)),
        (format!("{ALL}?resourceVersion=1000"), json!(1)),
        (format!("{ALL}?resourceVersion=1000&resourceVersionMatch=Exact"), json!(1)),
        (
            format!("{ALL}?resourceVersion=1000&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Da"),
            Value::Null,
        ),
    ] {
        let (code, status) = client.json("GET", &path, Value::Null).await;
        assert_eq!((code.as_u16(), &status["reason"]), (504, &json!("Timeout")), "{path}: {status}");
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(status["details"]["retryAfterSeconds"], again, "{path}");
    }
    let watch = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=10";
    let (code, event) = client.json("GET", &format!("{ALL}?{watch}&resourceVersion=1000"), Value::Null).await;
    assert_eq!(
        (code.as_u16(), &event["type"], &event["object"]["code"]),
        (200, &json!("ERROR"), &json!(504))
    );
}

#[tokio::test]
async fn what_a_body_says_twice_is_an_error_a_warning_or_nothing() {
    let client = Client::new();
    let body = |name: &str| {
        format!(
            "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: {name}\nspec:\n  size: 1\n  size: 2\n"
        )
    };
    for (name, validation, code, warnings) in [
        ("a", "Strict", 400, vec![]),
        ("a", "Warn", 201, vec!["299 - \"line 7: key \\\"size\\\" already set in map\""]),
        ("b", "Ignore", 201, vec![]),
    ] {
        let request = Request::builder()
            .method("POST")
            .uri(format!("{ALL}?fieldValidation={validation}"))
            .header("content-type", "application/yaml")
            .body(Bytes::from(body(name)))
            .unwrap();
        let response = client.0.respond(&User::admin(), request).await;
        let told: Vec<String> = response
            .headers()
            .get_all("warning")
            .iter()
            .map(|warning| warning.to_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            (response.status().as_u16(), told),
            (code, warnings.into_iter().map(Into::into).collect())
        );
        let answer = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        if code == 201 {
            assert_eq!(answer["spec"]["size"], 2);
        } else {
            let problem = "yaml: unmarshal errors:\n  line 7: key \"size\" already set in map";
            assert!(answer["message"].as_str().unwrap().ends_with(problem), "{answer}");
        }
    }
}

/// Facts of kube-apiserver: in an immutable object an empty map is not the same as none, but for `data` of a ConfigMap.
#[tokio::test]
async fn an_empty_map_in_what_is_immutable() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let api = Client(Arc::clone(server.api()));
    let patches = ["apply-patch+yaml", "merge-patch+json", "strategic-merge-patch+json"];
    let cases = [
        ("ConfigMap", "configmaps", json!({"data": {"a": "x"}}), "data", [200; 3]),
        ("ConfigMap", "configmaps", json!({}), "data", [200; 3]),
        ("ConfigMap", "configmaps", json!({"data": {"a": "x"}}), "binaryData", [422; 3]),
        ("Secret", "secrets", json!({"data": {"a": "eA=="}}), "data", [200; 3]),
        ("Secret", "secrets", json!({}), "data", [422; 3]),
    ];
    let mut number = 0;
    for (kind, plural, had, emptied, codes) in cases {
        for (patch, code) in patches.into_iter().zip(codes) {
            number += 1;
            let name = format!("o{number}");
            let mut object =
                json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "immutable": true});
            object.as_object_mut().unwrap().extend(had.as_object().unwrap().clone());
            let path = format!("/api/v1/namespaces/default/{plural}");
            api.send("POST", &path, "application/json", &object).await;
            let mut change = json!({emptied: {}});
            if patch.starts_with("apply") {
                change["apiVersion"] = "v1".into();
                change["kind"] = kind.into();
                change["metadata"] = json!({"name": name});
            }
            let path = format!("{path}/{name}?fieldManager=m");
            let got = api.send("PATCH", &path, &format!("application/{patch}"), &change).await;
            assert_eq!(got.0, code, "{patch} of {change} to {object}: {}", got.1);
        }
    }
}

#[tokio::test]
async fn an_empty_map_is_neither_stored_nor_managed() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let api = Client(Arc::clone(server.api()));
    for (plural, maps) in [("configmaps", &["data", "binaryData"][..]), ("secrets", &["data"])] {
        let path = format!("/api/v1/namespaces/default/{plural}");
        let mut object = json!({"metadata": {"name": "empty"}, "immutable": false});
        for map in maps {
            object[map] = json!({});
        }
        let (code, created) = api.send("POST", &path, "application/json", &object).await;
        assert_eq!(code, 201, "{created}");
        let named = format!("{path}/empty");
        let (code, replaced) = api.send("PUT", &named, "application/json", &object).await;
        assert_eq!(code, 200, "{replaced}");
        for stored in [created, replaced] {
            let managed = &stored["metadata"]["managedFields"][0]["fieldsV1"];
            for map in maps {
                assert!(stored.get(map).is_none() && managed.get(format!("f:{map}")).is_none(), "{stored}");
            }
            assert!(managed.get("f:immutable").is_some(), "{stored}");
        }
    }
}

#[tokio::test]
async fn string_data_fills_the_empty_data_of_an_immutable_secret() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let api = Client(Arc::clone(server.api()));
    let path = "/api/v1/namespaces/default/secrets";
    let object = json!({"metadata": {"name": "a"}, "immutable": true, "data": {"a": "eA=="}});
    assert_eq!(api.send("POST", path, "application/json", &object).await.0, 201);
    let named = format!("{path}/a");
    let mut same =
        json!({"metadata": {"name": "a"}, "immutable": true, "data": {}, "stringData": {"a": "x"}});
    assert_eq!(api.send("PUT", &named, "application/json", &same).await.0, 200);
    same["stringData"]["a"] = "y".into();
    assert_eq!(api.send("PUT", &named, "application/json", &same).await.0, 422);
}
