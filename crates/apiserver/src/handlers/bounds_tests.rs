//! What answers hold, how deep they are, and numbers at the ends of their range.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::*;
use crate::Server;
use crate::bounds::MAX_DEPTH;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn ask(
    server: &Server,
    user: &User,
    method: &str,
    path: &str,
    accept: &str,
    body: String,
) -> Response<Body> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("accept", accept);
    let request = request.header("content-type", kind).body(Bytes::from(body)).unwrap();
    server.api().respond(user, request).await
}

async fn get(server: &Server, path: &str, accept: &str) -> Response<Body> {
    ask(server, &User::admin(), "GET", path, accept, String::new()).await
}

/// Config maps of a megabyte.
async fn fill(server: &Server, count: usize) {
    for n in 0..count {
        let object =
            json!({"metadata": {"name": format!("large-{n:02}")}, "data": {"a": "x".repeat(1 << 20)}});
        let answer = ask(server, &User::admin(), "POST", MAPS, "application/json", object.to_string()).await;
        assert_eq!(answer.status(), StatusCode::CREATED);
    }
}

/// Changes each of them.
async fn change(server: &Server, count: usize, round: usize) {
    for n in 0..count {
        let patch = json!({"metadata": {"annotations": {"round": round.to_string()}}}).to_string();
        let path = format!("{MAPS}/large-{n:02}");
        let answer = ask(server, &User::admin(), "PATCH", &path, "application/json", patch).await;
        assert_eq!(answer.status(), StatusCode::OK);
    }
}

async fn text(answer: Response<Body>) -> Bytes {
    answer.into_body().collect().await.unwrap().to_bytes()
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok()
}

#[tokio::test]
async fn unread_lists_hold_as_much_as_there_is_room_for() {
    let server = Server::in_memory().await.unwrap();
    fill(&server, 40).await;
    // Of two lists, one fits into the room of administrators.
    let held = get(&server, MAPS, "application/json").await;
    let mut unread = Vec::new();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for (query, accept) in
        [("", "application/json"), ("?pretty=true", "application/json"), ("?includeObject=Object", table)]
    {
        unread.push((get(&server, &format!("{MAPS}{query}"), accept).await, query));
    }
    change(&server, 40, 1).await;
    let whole = text(held).await;
    assert!(is_json(&whole) && whole.len() > 40 << 20);
    for (answer, query) in unread {
        let cut = text(answer).await;
        assert!(!is_json(&cut) && cut.len() < 40 << 20, "{} bytes {query}", cut.len());
    }
    // There is room again, and what nobody changes is sent whole without any.
    let lists = [get(&server, MAPS, "application/json").await, get(&server, MAPS, "application/json").await];
    for list in lists {
        assert!(is_json(&text(list).await));
    }
}

/// Each event of it once waited in a queue, with its object.
#[tokio::test]
async fn an_unread_watch_ends_when_history_has_moved_on() {
    let server = Server::in_memory().await.unwrap();
    fill(&server, 2).await;
    let list: Value =
        serde_json::from_slice(&text(get(&server, MAPS, "application/json").await).await).unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let from = format!("{MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=300");
    let initial = format!("{MAPS}?watch=true&timeoutSeconds=300");
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let unread = [
        get(&server, &from, "application/json").await,
        get(&server, &from, partial).await,
        get(&server, &initial, "application/json").await,
    ];
    for round in 0..20 {
        change(&server, 2, round).await;
    }
    for answer in unread {
        let events = text(answer).await;
        let last = events.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap();
        let last: Value = serde_json::from_slice(last).unwrap();
        assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)), "{last}");
    }
}

#[tokio::test]
async fn selectors_of_watches_take_room() {
    let server = Server::in_memory().await.unwrap();
    let ann = User { name: "ann".to_owned(), ..User::admin() };
    let path = |selector: &str| format!("{MAPS}?watch=true&{selector}");
    // Administrators have a room as well; nobody else may watch here.
    let large = path(&format!("labelSelector={}", "!a,".repeat(19_999) + "!a"));
    let mut watches = Vec::new();
    let refused = loop {
        let answer = ask(&server, &ann, "GET", &large, "application/json", String::new()).await;
        if answer.status() != StatusCode::OK {
            break answer.status();
        }
        watches.push(answer);
        assert!(watches.len() < 200, "watches with large selectors without end");
    };
    assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);
    assert!(watches.len() >= 10, "{} watches", watches.len());
    let small = path("labelSelector=app%3Da,tier+in+(a,b)&fieldSelector=metadata.name%3Da");
    for _ in 0..1000 {
        let answer = ask(&server, &ann, "GET", &small, "application/json", String::new()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        watches.push(answer);
    }
    watches.clear();
    let answer = ask(&server, &ann, "GET", &large, "application/json", String::new()).await;
    assert_eq!(answer.status(), StatusCode::OK, "the room is given back");
}

#[tokio::test]
async fn no_number_of_a_query_is_too_large() {
    let server = Server::in_memory().await.unwrap();
    for number in [i64::MAX, i64::MAX / 1_000_000_000 + 1, i64::MIN, -1, 0] {
        for (method, query) in [
            ("GET", format!("watch=true&timeoutSeconds={number}")),
            ("GET", format!("watch=true&resourceVersion={number}&timeoutSeconds=1")),
            ("GET", format!("timeoutSeconds={number}")),
            ("GET", format!("limit={number}")),
            ("GET", format!("resourceVersion={number}&resourceVersionMatch=NotOlderThan")),
            ("DELETE", format!("gracePeriodSeconds={number}")),
            ("DELETE", format!("timeoutSeconds={number}&limit={number}")),
        ] {
            let path = format!("{MAPS}?{query}");
            let answer = ask(&server, &User::admin(), method, &path, "application/json", String::new()).await;
            let (is_ok, mut body) = (answer.status().is_success(), answer.into_body());
            // A watch has no event to tell.
            let mut first = futures::poll!(body.frame());
            for _ in 0..10 {
                tokio::task::yield_now().await;
                if first.is_pending() {
                    first = futures::poll!(body.frame());
                }
            }
            if number != 0 && query.starts_with("watch=true&timeoutSeconds") {
                assert!(is_ok && first.is_pending(), "{query}");
            }
        }
    }
}

/// JSON is read up to 127 levels here and by many clients, envelopes included.
#[tokio::test]
async fn what_can_be_stored_can_be_shown_in_every_form() {
    let server = Server::in_memory().await.unwrap();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = ask(&server, &User::admin(), "POST", crds, "application/json", crd.to_string()).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    let things = "/apis/example.com/v1/namespaces/default/things";
    let deep = |depth: usize| {
        let (begin, end) = (r#"{"a":"#.repeat(depth - 1), "}".repeat(depth - 1));
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"deep"}},"a":{begin}1{end}}}"#
        )
    };
    let answer = ask(&server, &User::admin(), "POST", things, "application/json", deep(MAX_DEPTH + 1)).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let answer = ask(&server, &User::admin(), "POST", things, "application/json", deep(MAX_DEPTH)).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for path in [things.to_owned(), format!("{things}/deep"), format!("{things}?watch=true&timeoutSeconds=1")]
    {
        for accept in ["application/json", "application/yaml", table] {
            for pretty in ["false", "true"] {
                let sign = if path.contains('?') { '&' } else { '?' };
                let path = format!("{path}{sign}includeObject=Object&pretty={pretty}");
                let answer = get(&server, &path, accept).await;
                if path.contains("watch") && accept.ends_with("yaml") {
                    continue;
                }
                assert_eq!(answer.status(), StatusCode::OK, "{path} {accept}");
                let shown = text(answer).await;
                assert!(accept.ends_with("yaml") || is_json(&shown), "{path} {accept}");
            }
        }
    }
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

async fn define(server: &Server) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"a": {"type": "string"}}}}}]},
    });
    let answer = ask(server, &User::admin(), "POST", CRDS, "application/json", crd.to_string()).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
}

/// Gives the definition another property.
async fn redefine(server: &Server, property: &str) {
    let patch = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
        {"type": "object", "properties": {"a": {"type": "string"}, property: {"type": "string"}}}}}]}});
    let path = format!("{CRDS}/things.example.com");
    let answer = ask(server, &User::admin(), "PATCH", &path, "application/json", patch.to_string()).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

/// Deletions of collections once held all they had listed until the last of it was gone.
#[tokio::test]
async fn a_deletion_of_a_collection_holds_none_of_its_objects() {
    let server = Server::in_memory().await.unwrap();
    let (storage, admin) = (&server.api().storage, User::admin());
    let (stored, deleted) = loop {
        fill(&server, 40).await;
        let stored: Vec<_> = storage.store.snapshot().objects().map(Arc::downgrade).collect();
        // As much as an answer may hold is taken already.
        let _held = get(&server, MAPS, "application/json").await;
        let mut deleted = Box::pin(ask(&server, &admin, "DELETE", MAPS, "application/json", String::new()));
        // The thread that writes may answer each write before it is looked for: then it is tried again.
        match futures::poll!(&mut deleted) {
            std::task::Poll::Pending => break (stored, deleted),
            std::task::Poll::Ready(answer) => assert_eq!(answer.status(), StatusCode::OK),
        }
    };
    for round in 0..20 {
        for n in 30..40 {
            let patch = json!({"metadata": {"annotations": {"round": round.to_string()}}}).to_string();
            let path = format!("{MAPS}/large-{n:02}");
            let answer = ask(&server, &User::admin(), "PATCH", &path, "application/json", patch).await;
            assert_eq!(answer.status(), StatusCode::OK);
        }
    }
    let alive = stored.iter().filter_map(std::sync::Weak::upgrade);
    let alive =
        alive.filter(|object| *object.key().resource == *"/configmaps" && object.bytes().len() > 1 << 20);
    let alive = alive.filter(|object| &*object.key().name >= "large-30").count();
    assert_eq!(alive, 0, "objects as they were before they changed");
    let answer = deleted.await;
    assert_eq!(answer.status(), StatusCode::OK);
    let told: Value = serde_json::from_slice(&text(answer).await).unwrap();
    assert_eq!(
        (&told["kind"], &told["status"]),
        (&json!("Status"), &json!("Success")),
        "no list without its objects"
    );
    let left: Value =
        serde_json::from_slice(&text(get(&server, MAPS, "application/json").await).await).unwrap();
    assert_eq!(left["items"], json!([]));
}

/// Each takes the names of all that it deletes.
#[tokio::test]
async fn one_user_deletes_few_collections_at_once() {
    let server = Server::in_memory().await.unwrap();
    let binding = json!({"metadata": {"name": "eve"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve of collections"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let bound = ask(&server, &User::admin(), "POST", bindings, "application/json", binding.to_string()).await;
    assert_eq!(bound.status(), StatusCode::CREATED);
    let eve = User { name: "eve of collections".to_owned(), ..User::anonymous() };
    let mut waiting = Vec::new();
    while waiting.len() < 4 {
        fill(&server, 4).await;
        let mut deleted = Box::pin(ask(&server, &eve, "DELETE", MAPS, "application/json", String::new()));
        match futures::poll!(&mut deleted) {
            std::task::Poll::Pending => waiting.push(deleted),
            std::task::Poll::Ready(answer) => assert_eq!(answer.status(), StatusCode::OK),
        }
        // What its first write is about may be gone, or be there still.
        let left = ask(&server, &User::admin(), "DELETE", MAPS, "application/json", String::new()).await;
        assert_eq!(left.status(), StatusCode::OK);
    }
    let refused = ask(&server, &eve, "DELETE", MAPS, "application/json", String::new()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    for deleted in waiting {
        assert_eq!(deleted.await.status(), StatusCode::OK);
    }
    let last = ask(&server, &eve, "DELETE", MAPS, "application/json", String::new()).await;
    assert_eq!(last.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_collection_that_is_deleted_is_shown() {
    let server = Server::in_memory().await.unwrap();
    fill(&server, 3).await;
    let answer = ask(&server, &User::admin(), "DELETE", MAPS, "application/json", String::new()).await;
    let list: Value = serde_json::from_slice(&text(answer).await).unwrap();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("ConfigMapList"), 3));
}

#[tokio::test]
async fn a_watch_ends_with_its_definition_and_holds_none() {
    let server = Server::in_memory().await.unwrap();
    define(&server).await;
    let served = || {
        let catalogue = server.api().storage.registry.current();
        Arc::downgrade(catalogue.find("example.com", "v1", "things").unwrap())
    };
    let first = served();
    let path = format!("{THINGS}?watch=true&timeoutSeconds=300");
    let unread = get(&server, &path, "application/json").await;
    let mut read = get(&server, &path, "application/json").await.into_body();
    let mut next = Box::pin(read.frame());
    assert!(futures::poll!(&mut next).is_pending());
    let label = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let named = format!("{CRDS}/things.example.com");
    let answer = ask(&server, &User::admin(), "PATCH", &named, "application/json", label).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(futures::poll!(&mut next).is_pending(), "the definition means what it meant");
    redefine(&server, "b").await;
    let ended = tokio::time::timeout(Duration::from_secs(60), next).await;
    assert!(ended.unwrap().is_none(), "it ends");
    assert!(first.upgrade().is_none(), "nobody has what is served no more");
    assert!(text(unread).await.is_empty());
    assert!(served().upgrade().is_some());
}

#[tokio::test]
async fn a_watch_tells_of_the_objects_that_go_with_their_definition() {
    let server = Server::in_memory().await.unwrap();
    define(&server).await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
    let admin = User::admin();
    let answer = ask(&server, &admin, "POST", THINGS, "application/json", thing.to_string()).await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    let path = format!("{THINGS}?watch=true&timeoutSeconds=300");
    let mut events = get(&server, &path, "application/json").await.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(Duration::from_secs(60), events.frame()).await.unwrap();
        let event: Value = serde_json::from_slice(&frame?.unwrap().into_data().unwrap()).unwrap();
        Some((event["type"].clone(), event["object"]["metadata"].get("deletionTimestamp").is_some()))
    };
    assert_eq!(next().await, Some((json!("ADDED"), false)));
    let named = format!("{CRDS}/things.example.com");
    let answer = ask(&server, &admin, "DELETE", &named, "application/json", String::new()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(next().await, Some((json!("MODIFIED"), true)));
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    let answer = ask(&server, &admin, "PATCH", &format!("{THINGS}/a"), "application/json", free).await;
    assert_eq!(answer.status(), StatusCode::OK);
    // The last event is told where the watch comes to it before the definition is gone.
    let last = next().await;
    assert!(last.is_none() || last == Some((json!("DELETED"), true)), "{last:?}");
    assert!(last.is_none() || next().await.is_none(), "nothing is served any more");
}
