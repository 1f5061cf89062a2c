//! Objects that were stored in an earlier storage version of their definition, beside kube-apiserver.
//!
//! Skipped where the peers are not built.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use capt_e2e::until;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use support::both::Both;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn ask(client: &Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let response = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    // A watch is a line for each event.
    let lines = String::from_utf8_lossy(&bytes);
    let all: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!(line))).collect();
    (code, if all.len() == 1 { all[0].clone() } else { all.into() })
}

fn version(name: &str, storage: bool, spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

fn definition(plural: &str, versions: &[Value]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.versions.example.com")},
        "spec": {
            "group": "versions.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.to_uppercase()}, "versions": versions,
        },
    })
}

/// What is compared of an answer: the type and the spec of each object in it, or the refusal.
fn gist((code, answer): &(u16, Value)) -> Value {
    let of = |object: &Value| json!([object["apiVersion"], object["kind"], object["spec"]]);
    let items = |list: &[Value]| list.iter().map(of).collect::<Vec<_>>();
    match answer {
        Value::Array(events) => {
            json!([code, events.iter().map(|event| of(&event["object"])).collect::<Vec<_>>()])
        }
        _ if answer["items"].is_array() => {
            json!([code, answer["apiVersion"], items(answer["items"].as_array().unwrap())])
        }
        _ if answer["kind"] == "Status" => json!([code, answer["reason"], answer["message"]]),
        _ => json!([code, of(answer)]),
    }
}

/// All that is read and written after the storage version is another one.
async fn walk(client: &Client, plural: &str, new: &Value) -> Vec<(String, Value)> {
    let old = json!({"old": {"type": "string"}, "keep": {"type": "string"}});
    let (code, answer) =
        ask(client, "POST", DEFINITIONS, &definition(plural, &[version("v1", true, &old)])).await;
    assert_eq!(code, 201, "{answer}");
    let collection =
        |version: &str| format!("/apis/versions.example.com/{version}/namespaces/default/{plural}");
    let object = |name: &str| {
        json!({
            "apiVersion": "versions.example.com/v1", "kind": plural.to_uppercase(),
            "metadata": {"name": name}, "spec": {"old": "o", "keep": "k"},
        })
    };
    let served = async |version: &str| {
        let path = collection(version);
        until("it is served", Duration::from_secs(120), async || {
            (ask(client, "GET", &path, &Value::Null).await.0 == 200).then_some(())
        })
        .await
        .unwrap();
    };
    served("v1").await;
    for name in ["a", "b", "c"] {
        until("it is created", Duration::from_secs(120), async || {
            let (code, _) = ask(client, "POST", &collection("v1"), &object(name)).await;
            [201, 409].contains(&code).then_some(())
        })
        .await
        .unwrap();
    }
    let path = format!("{DEFINITIONS}/{plural}.versions.example.com");
    let versions = [version("v1", false, &old), version("v2", true, new)];
    let (code, answer) = ask(client, "PATCH", &path, &json!({"spec": {"versions": versions}})).await;
    assert_eq!(code, 200, "{answer}");
    served("v2").await;
    // The path that was there before is served as the new definition has it a moment later.
    until_stored_anew(client, &collection("v1"), object("probe")).await;

    let mut told = Vec::new();
    let mut tell = |what: &str, answer: &(u16, Value)| told.push((what.to_owned(), gist(answer)));
    for version in ["v2", "v1"] {
        let all = collection(version);
        tell(&format!("list {version}"), &ask(client, "GET", &all, &Value::Null).await);
        let watch = format!("{all}?watch=true&resourceVersion=0&timeoutSeconds=1");
        tell(&format!("watch {version}"), &ask(client, "GET", &watch, &Value::Null).await);
    }
    for (version, name) in [("v2", "a"), ("v1", "b")] {
        let path = format!("{}/{name}", collection(version));
        let read = ask(client, "GET", &path, &Value::Null).await;
        tell(&format!("get {version}"), &read);
        let put = ask(client, "PUT", &path, &read.1).await;
        tell(&format!("put {version} as it was read"), &put);
        let moved = put.1["metadata"]["resourceVersion"] != read.1["metadata"]["resourceVersion"];
        tell(&format!("put {version} moves it"), &(200, json!({"spec": moved})));
        let again = ask(client, "PUT", &path, &put.1).await;
        let moved = again.1["metadata"]["resourceVersion"] != put.1["metadata"]["resourceVersion"];
        tell(&format!("put {version} again moves it"), &(200, json!({"spec": moved})));
        for other in ["v1", "v2"] {
            let path = format!("{}/{name}", collection(other));
            tell(&format!("get {name} at {other}"), &ask(client, "GET", &path, &Value::Null).await);
        }
    }
    let path = format!("{}/c", collection("v2"));
    tell("patch v2", &ask(client, "PATCH", &path, &json!({"spec": {"keep": "other"}})).await);
    tell("get c at v1", &ask(client, "GET", &format!("{}/c", collection("v1")), &Value::Null).await);
    tell("delete v2", &ask(client, "DELETE", &path, &Value::Null).await);
    told
}

/// Waits until what is written through a path is pruned as the storage version says, or until both are the same.
async fn until_stored_anew(client: &Client, collection: &str, mut probe: Value) {
    let name = "probe";
    until("the storage version is the new one", Duration::from_secs(120), async || {
        probe["metadata"] = json!({"name": name});
        ask(client, "POST", collection, &probe).await;
        let path = format!("{collection}/{name}").replace("/v1/namespaces", "/v2/namespaces");
        let (code, read) = ask(client, "GET", &path, &Value::Null).await;
        ask(client, "DELETE", &path, &Value::Null).await;
        (code == 200 && read["apiVersion"] == "versions.example.com/v2").then_some(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn objects_of_an_earlier_storage_version_are_read_and_written_as_the_new_one() {
    let Some(both) = Both::start().await else { return };
    let text = json!({"type": "string"});
    let cases = [
        ("sames", json!({"old": text, "keep": text})),
        ("fewers", json!({"keep": text})),
        ("defaults", json!({"keep": text, "new": {"type": "string", "default": "dd"}})),
    ];
    for (plural, new) in cases {
        let ours = walk(&both.server.client("default"), plural, &new).await;
        let theirs = walk(&both.real.client(), plural, &new).await;
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{plural}");
        }
    }
}
