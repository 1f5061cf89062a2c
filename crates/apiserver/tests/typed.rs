//! Typed clients send protobuf: what is stored is what kube-apiserver stores, and damage is refused as it refuses it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use support::both::Both;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// `kubectl create` of every kind it has a command for, and what to read back.
const CREATES: &[(&[&str], &[&str])] = &[
    (&["namespace", "typed"], &["namespace", "typed"]),
    (&["configmap", "empty"], &["configmap", "empty"]),
    (&["configmap", "full", "--from-literal=a=1", "--from-literal=b="], &["configmap", "full"]),
    (&["secret", "generic", "plain", "--from-literal=a=1", "--from-literal=b="], &["secret", "plain"]),
    (
        &[
            "secret",
            "docker-registry",
            "docker",
            "--docker-server=s",
            "--docker-username=u",
            "--docker-password=p",
        ],
        &["secret", "docker"],
    ),
    (&["serviceaccount", "robot"], &["serviceaccount", "robot"]),
    (
        &["role", "reader", "--verb=get,list", "--resource=configmaps,secrets", "--resource-name=x"],
        &["role", "reader"],
    ),
    (
        &[
            "rolebinding",
            "readers",
            "--role=reader",
            "--user=ann",
            "--group=g",
            "--serviceaccount=default:robot",
        ],
        &["rolebinding", "readers"],
    ),
    (&["clusterrole", "urls", "--verb=get", "--non-resource-url=/x/*"], &["clusterrole", "urls"]),
    (&["clusterrole", "many", "--aggregation-rule=a=b"], &["clusterrole", "many"]),
    (
        &["clusterrolebinding", "all", "--clusterrole=urls", "--group=system:authenticated"],
        &["clusterrolebinding", "all"],
    ),
];

/// Without what only one server can know.
fn comparable(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in ["uid", "resourceVersion", "creationTimestamp"] {
        assert!(metadata.remove(name).is_some(), "{name}");
    }
    // Whose the finalizer of a new namespace and a field that is null are, the two servers see differently; that is
    // not about protobuf.
    let is_other = object["kind"] == "Namespace" || object.get("rules") == Some(&Value::Null);
    let metadata = object["metadata"].as_object_mut().unwrap();
    if is_other {
        metadata.remove("managedFields");
    }
    for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        entry["time"].take();
    }
    object.sort_all_objects();
    object
}

#[tokio::test]
async fn kubectl_create_stores_what_kube_apiserver_stores() {
    let Some(both) = Both::start().await else { return };
    for (create, read) in CREATES {
        both.same(&[&["create"], *create].concat()).await;
        let ours = both.ours.object(&[&["get"], *read].concat()).await;
        let theirs = both.theirs.object(&[&["get"], *read].concat()).await;
        assert_eq!(comparable(ours), comparable(theirs), "{create:?}");
        both.same(&[&["create"], *create].concat()).await;
    }
    // A manifest of the same object changes nothing: it is stored as JSON would have been.
    let manifest = both.folder.path().join("full.json");
    let full = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "full"}, "data": {"a": "1", "b": ""}});
    std::fs::write(&manifest, full.to_string()).unwrap();
    let version = async |kubectl: &support::both::Kubectl| {
        kubectl.object(&["get", "configmap", "full"]).await["metadata"]["resourceVersion"].clone()
    };
    let before = version(&both.ours).await;
    both.ours.good(&["replace", "-f", manifest.to_str().unwrap()]).await;
    assert_eq!(version(&both.ours).await, before);
    both.same(&["delete", "configmap", "full"]).await;
}

/// kubectl reads OpenAPI v2 in protobuf alone: to validate lists, and to explain on demand.
#[tokio::test]
async fn kubectl_reads_the_older_description() {
    let Some(both) = Both::start().await else { return };
    let list = both.folder.path().join("list.json");
    let items = |data: &str| {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}],
        });
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, data: {"k": "v"}});
        json!({"apiVersion": "v1", "kind": "List", "items": [role, map]}).to_string()
    };
    // A kube-apiserver that has just started puts the parts of this description together in its own time.
    let last = ["explain", "customresourcedefinitions", "--output=plaintext-openapiv2"];
    capt_e2e::until("definitions are described", std::time::Duration::from_mins(3), async || {
        both.theirs.run(&last).await.0.then_some(())
    })
    .await
    .unwrap();
    let path = list.to_str().unwrap();
    for data in ["dota", "data"] {
        std::fs::write(&list, items(data)).unwrap();
        let said = both.same(&["create", "-f", path]).await;
        assert_eq!(said.contains("created"), data == "data", "{said}");
    }
    both.same(&["apply", "-f", path]).await;
    let fields = |text: &str| {
        let names = text.lines().filter(|line| line.starts_with("   ") && line.contains('\t'));
        names.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    for kind in ["configmaps", "roles", "customresourcedefinitions"] {
        let arguments = ["explain", kind, "--recursive", "--output=plaintext-openapiv2"];
        let (ours, theirs) = (both.ours.good(&arguments).await, both.theirs.good(&arguments).await);
        assert_eq!(fields(&ours), fields(&theirs), "{kind}");
        assert!(!fields(&ours).is_empty(), "{ours}");
    }
}

/// An envelope around a message.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let field =
        |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat();
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [&b"k8s\0"[..], &field(1, &type_meta), &field(2, raw)].concat()
}

async fn ask(client: &kube::Client, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", PROTOBUF)
        .body(Body::from(body.to_vec()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
}

#[tokio::test]
async fn damage_is_refused_as_kube_apiserver_refuses_it() {
    let Some(both) = Both::start().await else { return };
    let (ours, theirs) = (both.server.client("default"), both.real.client());
    let maps = "/api/v1/namespaces/default/configmaps";
    let named = |name: &str| {
        let name = [&[0x0a, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
        [&[0x0a, u8::try_from(name.len()).unwrap()][..], &name].concat()
    };
    let requests: Vec<(&str, String, Vec<u8>)> = vec![
        ("POST", maps.into(), b"".to_vec()),
        ("POST", maps.into(), b"{}".to_vec()),
        ("POST", maps.into(), b"k8s\0".to_vec()),
        ("POST", maps.into(), b"k8s\0\x0a\x7f".to_vec()),
        ("POST", maps.into(), envelope("v1", "ConfigMap", b"\x0a\x7f")),
        ("POST", maps.into(), envelope("v1", "ConfigMap", b"\x08\x01")),
        ("POST", maps.into(), envelope("v1", "ConfigMap", &[0xff; 11])),
        ("POST", maps.into(), envelope("v1", "ConfigMap", &[0, 0])),
        ("POST", maps.into(), envelope("v1", "Nothing", &named("x"))),
        ("POST", maps.into(), envelope("v2", "ConfigMap", &named("x"))),
        ("POST", maps.into(), envelope("", "", &named("implied"))),
        ("POST", maps.into(), envelope("v1", "ConfigMap", &[])),
        ("DELETE", format!("{maps}/none"), envelope("v1", "DeleteOptions", &[0x08, 0])),
        ("DELETE", format!("{maps}/none"), envelope("v1", "DeleteOptions", &[0x0a, 0])),
        ("DELETE", format!("{maps}/none"), envelope("v1", "DeleteOptions", b"\x22\x05Never")),
        ("PATCH", format!("{maps}/none"), envelope("v1", "ConfigMap", &[])),
    ];
    let mut wrong = Vec::new();
    for (method, path, body) in requests {
        let mut answers = [ask(&ours, method, &path, &body).await, ask(&theirs, method, &path, &body).await];
        for (code, answer) in &mut answers {
            if *code == 201 {
                *answer = Value::Null;
            }
        }
        if answers[0] != answers[1] {
            wrong.push(format!(
                "{method} {path} {body:?}\n  ours: {:?}\ntheirs: {:?}",
                answers[0], answers[1]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Method, path, headers, body.
type Sent = (&'static str, String, Vec<(&'static str, &'static str)>, Vec<u8>);

#[tokio::test]
async fn large_answers_are_compressed_as_kube_apiserver_does() {
    let Some(both) = Both::start().await else { return };
    let maps = "/api/v1/namespaces/default/configmaps";
    let large = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(150 << 10)}}).to_string();
    let small = json!({"metadata": {"name": "small"}}).to_string();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(small.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let json = ("content-type", "application/json");
    let gzip = ("accept-encoding", "gzip");
    let requests: Vec<Sent> = vec![
        ("POST", maps.into(), vec![json, gzip], large.into()),
        ("POST", maps.into(), vec![json, gzip], small.into()),
        ("GET", maps.into(), vec![gzip], vec![]),
        ("GET", maps.into(), vec![("accept-encoding", "br, gzip")], vec![]),
        ("GET", maps.into(), vec![("accept-encoding", "gzip;q=1.0")], vec![]),
        ("GET", maps.into(), vec![], vec![]),
        ("GET", format!("{maps}/large"), vec![gzip], vec![]),
        ("GET", format!("{maps}/small"), vec![gzip], vec![]),
        ("GET", format!("{maps}?watch=1&timeoutSeconds=1"), vec![gzip], vec![]),
        ("POST", maps.into(), vec![json, ("content-encoding", "gzip")], packed),
    ];
    for (method, path, headers, body) in requests {
        let mut seen = Vec::new();
        for client in [both.server.client("default"), both.real.client()] {
            let mut request = http::Request::builder().method(method).uri(&path);
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            let response = client.send(request.body(Body::from(body.clone())).unwrap()).await.unwrap();
            let header = |name: &str| response.headers().get(name).cloned();
            seen.push((response.status(), header("content-encoding"), header("vary")));
        }
        assert_eq!(seen[0], seen[1], "{method} {path} {headers:?}");
    }
}
