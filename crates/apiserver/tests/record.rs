//! The recorded answers are those of the real server. With `CAPT_RECORD=1` they are recorded anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;

use capt_apiserver::builtin;
use capt_e2e::{KubeApiserver, Peers};
use kube::Client;
use serde_json::{Value, json};
use support::{Case, comparable, data, is_namespaced, read};

fn collection(case: &Case) -> String {
    let plural = builtin::resources()
        .iter()
        .find(|resource| resource.group == case.group && resource.kind == case.kind)
        .map(|resource| resource.plural.clone())
        .unwrap();
    let root = if case.group.is_empty() { "/api/v1".into() } else { format!("/apis/{}/v1", case.group) };
    if is_namespaced(&case.group, &case.kind) {
        format!("{root}/namespaces/default/{plural}")
    } else {
        format!("{root}/{plural}")
    }
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Value {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(object) => json!({"object": object}),
        Err(kube::Error::Api(status)) => {
            let status = serde_json::to_value(&*status).unwrap();
            match status["details"]["causes"].as_array() {
                Some(causes) => {
                    let cause = |cause: &Value| json!([cause["reason"], cause["field"], cause["message"]]);
                    json!({"causes": causes.iter().map(cause).collect::<Vec<_>>()})
                }
                None => json!({"message": status["message"]}),
            }
        }
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

async fn ask(client: &Client, case: &Case) -> Value {
    let collection = collection(case);
    let strict = "fieldValidation=Strict&dryRun=All";
    let Some(old) = &case.old else {
        return send(client, "POST", &format!("{collection}?{strict}"), &case.body).await;
    };
    let created = send(client, "POST", &collection, old).await;
    assert!(created["object"].is_object(), "{}: {created}", case.name);
    let item = format!("{collection}/{}", old["metadata"]["name"].as_str().unwrap());
    if case.kind == "CustomResourceDefinition" {
        established(client, &item).await;
    }
    let mut body = case.body.clone();
    let stored = send(client, "GET", &item, &json!({})).await;
    body["metadata"]["resourceVersion"] = stored["object"]["metadata"]["resourceVersion"].clone();
    let path = if case.status { format!("{item}/status") } else { item.clone() };
    let answer = send(client, "PUT", &format!("{path}?{strict}"), &body).await;
    send(client, "DELETE", &item, &json!({})).await;
    if case.kind == "Namespace" {
        let empty = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": old["metadata"], "spec": {"finalizers": []}});
        send(client, "PUT", &format!("{item}/finalize"), &empty).await;
    }
    gone(client, &item).await;
    answer
}

async fn established(client: &Client, item: &str) {
    capt_e2e::until("the definition is established", std::time::Duration::from_secs(120), async || {
        let crd = send(client, "GET", item, &json!({})).await;
        capt_apiserver::resource::crd::is_established(&crd["object"]).then_some(())
    })
    .await
    .unwrap();
}

async fn gone(client: &Client, item: &str) {
    capt_e2e::until("the object is gone", std::time::Duration::from_secs(120), async || {
        send(client, "GET", item, &json!({})).await["object"].is_null().then_some(())
    })
    .await
    .unwrap();
}

async fn check(client: &Client, file: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut rows: Vec<Value> = serde_json::from_str(&fs::read_to_string(data(file)).unwrap()).unwrap();
    let record = std::env::var_os("CAPT_RECORD").is_some();
    for (case, row) in read(file).iter().zip(&mut rows) {
        let theirs = comparable(&ask(client, case).await);
        if record {
            row["want"] = theirs;
        } else if theirs != comparable(&case.want) {
            wrong.push(format!("{}\n  now      {theirs}\n  recorded {}", case.name, comparable(&case.want)));
        }
    }
    if record {
        fs::write(data(file), serde_json::to_string_pretty(&rows).unwrap() + "\n").unwrap();
    }
    wrong
}

#[tokio::test]
async fn the_recorded_answers_are_those_of_the_real_server() {
    let Some(peers) = Peers::find_or_skip(KubeApiserver::NEEDS) else { return };
    let server = KubeApiserver::start(&peers).await.unwrap();
    let client = server.client();
    let mut wrong = check(&client, "objects.json").await;
    wrong.extend(check(&client, "crds.json").await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
