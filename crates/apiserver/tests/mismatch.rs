//! Values of the wrong type at every field of every built-in kind, beside kube-apiserver: applied to nothing, applied
//! to an object, and as each kind of patch.
//!
//! Skipped where the peers are not built.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use capt_apiserver::builtin::{REFERENCE_PREFIX, definition_name, definitions, resources};
use capt_apiserver::resource::Resource;
use capt_e2e::until;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
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

/// The code, the warnings and the body of an answer.
type Answer = (u16, Vec<String>, Value);

async fn ask(client: &Client, method: &str, path: &str, kind: &str, body: &Value) -> Answer {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let mut warnings: Vec<String> = warnings.map(|text| text.to_str().unwrap().to_owned()).collect();
    // Upstream finds some of them in a map.
    warnings.sort();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = without_times(&without_uids(&String::from_utf8_lossy(&bytes)));
    (code, warnings, serde_json::from_str(&text).unwrap_or_else(|_| json!(text)))
}

/// Every server draws its own.
fn without_uids(text: &str) -> String {
    let parts = text.split_inclusive(|c: char| !c.is_ascii_hexdigit() && c != '-');
    let is_uid = |part: &str| part.len() == 37 && part.matches('-').count() == 4;
    parts.map(|part| if is_uid(part) { format!("uid{}", &part[36..]) } else { part.to_owned() }).collect()
}

/// Every server has its own moment of creating an object. What is sent has only a time long past.
fn without_times(text: &str) -> String {
    let parts = text.split('"');
    let is_time = |part: &str| {
        part.ends_with('Z') && part.parse::<Timestamp>().is_ok_and(|time| time.as_second() > RECENT)
    };
    parts.map(|part| if is_time(part) { "time" } else { part }).collect::<Vec<_>>().join("\"")
}

/// The year 2025, in seconds of Unix.
const RECENT: i64 = 1_735_689_600;

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
fn comparable((code, warnings, mut answer): Answer, path: &[Step]) -> Answer {
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
        return (code, warnings, answer);
    }
    let mut value = &answer;
    for step in path {
        value = match step {
            Step::Member(name) => &value[name.as_str()],
            Step::Element(_) => &value[0],
        };
    }
    (code, warnings, value.clone())
}

const APPLY: &str = "application/apply-patch+yaml";

/// How a value is sent: the method, the type of the body, and whether the object is there.
type Way = (&'static str, &'static str, bool);

const WAYS: [Way; 6] = [
    ("PATCH", APPLY, true),
    ("PATCH", APPLY, false),
    ("PATCH", "application/strategic-merge-patch+json", true),
    ("PATCH", "application/merge-patch+json", true),
    ("PUT", "application/json", true),
    ("POST", "application/json", false),
];

/// What is sent, and where.
struct Subject {
    collection: String,
    name: String,
    /// An object that both servers take.
    object: Value,
    /// Paths to every value it can have.
    paths: Vec<Vec<Step>>,
}

impl Subject {
    fn built_in(resource: &Resource) -> Self {
        let (group, kind) = (resource.group.as_str(), resource.kind.as_str());
        let name = match kind {
            "CustomResourceDefinition" => "things.example.com".to_owned(),
            // Events of both groups are the same ones.
            _ => format!("there-{}", kind.to_lowercase() + &group.replace('.', "-")),
        };
        let definition = definition_name(group, kind).unwrap();
        let mut paths = Vec::new();
        self::paths(&definitions()[&definition], &[], &[&definition], &mut paths);
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        Self::new(&root, resource.namespaced, &resource.plural, kind, name, base(kind, group), paths)
    }

    /// An object of the definition among the built-in ones: of it only the metadata has types that are not its own.
    fn custom() -> Self {
        let mut paths = Vec::new();
        let metadata = &definitions()["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];
        self::paths(metadata, &[Step::Member("metadata".into())], &[], &mut paths);
        Self::new("/apis/example.com/v1", true, "things", "Thing", "there".into(), json!({}), paths)
    }

    fn new(
        root: &str,
        namespaced: bool,
        plural: &str,
        kind: &str,
        name: String,
        mut object: Value,
        mut paths: Vec<Vec<Step>>,
    ) -> Self {
        object["apiVersion"] = root.trim_start_matches("/apis/").trim_start_matches("/api/").into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": name});
        paths.retain(|path| !is_identity(path));
        let room = if namespaced { "/namespaces/default" } else { "" };
        Self { collection: format!("{root}{room}/{plural}"), name, object, paths }
    }

    /// Sends every value to every place in every way; returns how many requests that were, and which differ.
    async fn sweep(&self, clients: &[Client; 2]) -> (usize, Vec<String>) {
        let mut count = 0;
        let mut wrong = Vec::new();
        // All of it takes a minute; a tenth is enough where it is not the point. Ten and the number of values have no common
        // divisor, so that every value has its turn.
        let step = if capt_e2e::required() { 1 } else { 10 };
        let everything = self.paths.iter().flat_map(|path| values().map(|value| (path, value)));
        for (path, value) in everything.step_by(step) {
            for way @ (method, content_type, _) in WAYS {
                let (uri, body) = self.request(way, VALIDATIONS[count / 7 % 3], path, &value);
                let [ours, theirs] =
                    clients.each_ref().map(|client| ask(client, method, &uri, content_type, &body));
                let (ours, theirs) = (comparable(ours.await, path), comparable(theirs.await, path));
                count += 1;
                if ours != theirs {
                    wrong.push(format!(
                        "{method} {content_type} {uri} {body}\n  ours: {} {} {:?}\ntheirs: {} {} {:?}",
                        ours.0, ours.2, ours.1, theirs.0, theirs.2, theirs.1
                    ));
                }
            }
        }
        (count, wrong)
    }

    fn request(
        &self,
        (method, content_type, is_there): Way,
        validation: &str,
        path: &[Step],
        value: &Value,
    ) -> (String, Value) {
        let name = if is_there { &self.name } else { "new.example.com" };
        let mut body = self.object.clone();
        body["metadata"]["name"] = name.into();
        put(&mut body, path, value);
        let force = if content_type == APPLY { "&force=true" } else { "" };
        let name = if method == "POST" { String::new() } else { format!("/{name}") };
        let query = format!("dryRun=All&fieldManager=m&fieldValidation={validation}");
        (format!("{}{name}?{query}{force}", self.collection), body)
    }
}

/// By turns: seven has no common divisor with the number of values, nor with that of ways.
const VALIDATIONS: [&str; 3] = ["Strict", "Warn", "Ignore"];

/// What an object is and where is judged before its types are.
fn is_identity(path: &[Step]) -> bool {
    let names: Vec<&str> = path
        .iter()
        .map(|step| match step {
            Step::Member(name) => name.as_str(),
            Step::Element(_) => "",
        })
        .collect();
    matches!(names[..], [] | ["kind" | "apiVersion" | "metadata"] | ["metadata", "name" | "namespace"])
}

fn values() -> [Value; 9] {
    [
        json!(1.5),
        json!(3_000_000_000_u32),
        json!(1e20),
        json!(7),
        json!("x"),
        json!("7"),
        json!(true),
        json!([1]),
        json!({"a": 1}),
    ]
}

#[tokio::test]
async fn wrong_types_are_refused_as_kube_apiserver_refuses_them() {
    let Some(both) = Both::start().await else { return };
    let clients = [both.server.client("default"), both.real.client()];
    let mut wrong = Vec::new();
    let mut count = 0;
    // The definition of the custom one is among those before it.
    let built_in = resources();
    // Of Services none can be made.
    let built_in = built_in.iter().filter(|resource| resource.verbs.contains(&"create"));
    for subject in built_in.map(|resource| Subject::built_in(resource)).chain([Subject::custom()]) {
        let path = &subject.collection;
        for client in &clients {
            until("it is served and there", Duration::from_secs(60), async || {
                let (code, _, answer) = ask(client, "POST", path, "application/json", &subject.object).await;
                assert!([201, 404].contains(&code), "{path}: {answer}");
                (code == 201).then_some(())
            })
            .await
            .unwrap();
        }
        let (asked, found) = subject.sweep(&clients).await;
        count += asked;
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}
