//! Values of the wrong type at every field of every built-in kind, beside kube-apiserver: applied to nothing, applied
//! to an object, and as each kind of patch.
//!
//! Skipped where the peers are not built.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use capt_apiserver::builtin::{REFERENCE_PREFIX, definition_name, definitions, resources};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use support::both::Both;

/// Steps to a value: a member, or an element that has these members beside it.
#[derive(Clone, Debug)]
enum Step {
    Member(String),
    Element(Vec<String>),
}

/// Paths to all values below a schema, without going around in circles.
fn paths(schema: &Value, above: &[Step], within: &[&str], found: &mut Vec<Vec<Step>>) {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(name) = reference.and_then(|name| name.strip_prefix(REFERENCE_PREFIX)) {
        if within.contains(&name) {
            found.push(above.to_vec());
        } else {
            paths(&definitions()[name], above, &[within, &[name]].concat(), found);
        }
        return;
    }
    found.push(above.to_vec());
    let below = |step: Step| [above, &[step]].concat();
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        // Who may say these, and what the server makes of them, is not about types.
        if name != "managedFields" {
            paths(member, &below(Step::Member(name.clone())), within, found);
        }
    }
    if schema["additionalProperties"].is_object() {
        paths(&schema["additionalProperties"], &below(Step::Member("k".into())), within, found);
    }
    if schema["items"].is_object() {
        let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
        let keys = keys.filter_map(Value::as_str).map(ToOwned::to_owned).collect();
        paths(&schema["items"], &below(Step::Element(keys)), within, found);
    }
}

/// Puts a value at the end of a path.
fn put(object: &mut Value, path: &[Step], value: &Value) {
    match path {
        [] => *object = value.clone(),
        [Step::Member(name), rest @ ..] => put(&mut object[name.as_str()], rest, value),
        [Step::Element(keys), rest @ ..] => {
            if object.is_null() {
                let element = keys.iter().map(|key| (key.clone(), json!("x"))).collect();
                *object = json!([if keys.is_empty() { Value::Null } else { Value::Object(element) }]);
            }
            put(&mut object[0], rest, value);
        }
    }
}

/// What an object of a kind must have to be there.
fn base(kind: &str, group: &str) -> Value {
    let rbac = "rbac.authorization.k8s.io";
    match (group, kind) {
        ("", "Event") => json!({"involvedObject": {"namespace": "default"}}),
        ("events.k8s.io", _) => json!({
            "eventTime": "2020-01-01T00:00:00.000000Z", "type": "Normal", "reason": "r", "action": "a",
            "reportingController": "example.com/c", "reportingInstance": "i", "regarding": {"namespace": "default"},
        }),
        (_, "RoleBinding" | "ClusterRoleBinding") => {
            json!({"roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "x"}})
        }
        (_, "CustomResourceDefinition") => json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        }}),
        _ => json!({}),
    }
}

async fn ask(client: &Client, method: &str, path: &str, kind: &str, body: &Value) -> (u16, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
}

/// An object that does not decode is shown whole, in an order that only Go's types have.
fn without_echo(message: &str) -> String {
    for (open, close) in [("\"{", "}\": "), ("[{", "}]: "), ("{", "}: ")] {
        let rest = message.strip_prefix("Invalid value: ").and_then(|rest| rest.strip_prefix(open));
        if let Some((_, after)) = rest.and_then(|rest| rest.rsplit_once(close)) {
            return after.to_owned();
        }
    }
    message.to_owned()
}

/// What is said of the value; of an object only what the value has become.
fn comparable((code, mut answer): (u16, Value), path: &[Step]) -> (u16, Value) {
    if code >= 300 {
        // Causes of one object come in any order, and more than once.
        if let Some(causes) = answer["details"]["causes"].as_array_mut() {
            for cause in causes.iter_mut() {
                cause["message"] = without_echo(cause["message"].as_str().unwrap()).into();
            }
            causes.sort_by_key(ToString::to_string);
            causes.dedup();
            answer["message"].take();
        }
        return (code, answer);
    }
    let mut value = &answer;
    for step in path {
        value = match step {
            Step::Member(name) => &value[name.as_str()],
            Step::Element(_) => &value[0],
        };
    }
    (code, value.clone())
}

const CONTENT_TYPES: [&str; 3] = [
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
    "application/merge-patch+json",
];

#[tokio::test]
async fn wrong_types_are_refused_as_kube_apiserver_refuses_them() {
    let Some(both) = Both::start().await else { return };
    let clients = [both.server.client("default"), both.real.client()];
    let values = [
        json!(1.5),
        json!(3_000_000_000_u32),
        json!(1e20),
        json!(7),
        json!("x"),
        json!(true),
        json!([1]),
        json!({"a": 1}),
    ];
    let mut wrong = Vec::new();
    let mut count = 0;
    for resource in resources() {
        let name = if resource.kind == "CustomResourceDefinition" {
            "things.example.com".to_owned()
        } else {
            format!("there-{}", resource.group)
        };
        let name = name.trim_end_matches('-');
        let root =
            if resource.group.is_empty() { "/api/v1".into() } else { format!("/apis/{}/v1", resource.group) };
        let room = if resource.namespaced { "/namespaces/default" } else { "" };
        let collection = format!("{root}{room}/{}", resource.plural);
        let identity = json!({
            "apiVersion": root.trim_start_matches("/apis/").trim_start_matches("/api/"), "kind": resource.kind,
            "metadata": {"name": name},
        });
        let mut first = base(&resource.kind, &resource.group);
        for (key, value) in identity.as_object().unwrap() {
            first[key] = value.clone();
        }
        for client in &clients {
            let (code, answer) = ask(client, "POST", &collection, "application/json", &first).await;
            assert_eq!(code, 201, "{collection}: {answer}");
        }
        let mut found = Vec::new();
        let definition = definition_name(&resource.group, &resource.kind).unwrap();
        paths(&definitions()[&definition], &[], &[&definition], &mut found);
        let is_identity = |path: &[Step]| {
            matches!(path, [] | [Step::Member(_)] if path.iter().all(|step| matches!(step, Step::Member(name) if name == "kind" || name == "apiVersion" || name == "metadata")))
                || matches!(path, [Step::Member(first), Step::Member(second)] if first == "metadata" && (second == "name" || second == "namespace"))
        };
        for path in found.iter().filter(|path| !is_identity(path)) {
            for value in &values {
                for (content_type, name) in CONTENT_TYPES
                    .into_iter()
                    .map(|kind| (kind, name))
                    .chain([(CONTENT_TYPES[0], "new.example.com")])
                {
                    let mut body = first.clone();
                    body["metadata"]["name"] = name.into();
                    put(&mut body, path, value);
                    let query = "dryRun=All&fieldManager=m&fieldValidation=Ignore";
                    let force = if content_type == CONTENT_TYPES[0] { "&force=true" } else { "" };
                    let uri = format!("{collection}/{name}?{query}{force}");
                    let mut answers = Vec::new();
                    for client in &clients {
                        answers.push(comparable(ask(client, "PATCH", &uri, content_type, &body).await, path));
                    }
                    count += 1;
                    if answers[0] != answers[1] {
                        wrong.push(format!(
                            "{content_type} {uri} {body}\n  ours: {} {}\ntheirs: {} {}",
                            answers[0].0, answers[0].1, answers[1].0, answers[1].1
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}
