use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use super::refresh;
use crate::Server;
use crate::control::fixture::{CRDS, ask, define, definition};
use crate::registry::Catalogue;
use crate::resource::crd::{self, CrdBudget};
use crate::store::{self, Key};

async fn make(server: &Server, plural: &str, kind: &str, name: &str) {
    let object = json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}});
    let path = format!("/apis/example.com/v1/namespaces/default/{plural}");
    let (code, told) = ask(server, "POST", &path, &object).await;
    assert_eq!(code, 201, "{told}");
}

async fn count(server: &Server, plural: &str) -> usize {
    let (code, list) = ask(server, "GET", &format!("/apis/example.com/v1/{plural}"), &Value::Null).await;
    assert_eq!(code, 200, "{list}");
    list["items"].as_array().unwrap().len()
}

/// Deletes a definition and waits until it is gone.
async fn forget(server: &Server, plural: &str) {
    let path = format!("{CRDS}/{plural}.example.com");
    let (code, told) = ask(server, "DELETE", &path, &Value::Null).await;
    // One that was deleted before may be gone by now.
    assert!([200, 404].contains(&code), "{told}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while ask(server, "GET", &path, &Value::Null).await.0 != 404 {
        assert!(Instant::now() < deadline, "{plural} stays");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn condition<'a>(definition: &'a Value, kind: &str) -> &'a Value {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()
}

#[tokio::test]
async fn a_definition_takes_no_objects_of_another_one_with_it() {
    let server = Server::in_memory().await.unwrap();
    define(&server, &definition("widgets", "Widget")).await;
    make(&server, "widgets", "Widget", "kept").await;
    define(&server, &definition("evils", "Widget")).await;
    let (_, evil) = ask(&server, "GET", &format!("{CRDS}/evils.example.com"), &Value::Null).await;
    assert_eq!(condition(&evil, "Established")["status"], "False");
    forget(&server, "evils").await;
    assert_eq!(count(&server, "widgets").await, 1);
}

#[tokio::test]
async fn a_definition_that_is_not_served_any_more_takes_its_objects_with_it() {
    let server = Server::in_memory().await.unwrap();
    define(&server, &definition("widgets", "Widget")).await;
    make(&server, "widgets", "Widget", "gone").await;
    let path = format!("{CRDS}/widgets.example.com");
    let mut hidden = definition("widgets", "Widget")["spec"]["versions"].clone();
    hidden[0]["served"] = false.into();
    let (code, told) = ask(&server, "PATCH", &path, &json!({"spec": {"versions": hidden}})).await;
    assert_eq!(code, 200, "{told}");
    forget(&server, "widgets").await;
    define(&server, &definition("widgets", "Widget")).await;
    assert_eq!(count(&server, "widgets").await, 0);
}

#[tokio::test]
async fn nobody_waits_for_objects_that_go() {
    let server = Server::in_memory().await.unwrap();
    define(&server, &definition("widgets", "Widget")).await;
    for n in 0..1_500 {
        make(&server, "widgets", "Widget", &format!("w{n}")).await;
    }
    let path = format!("{CRDS}/widgets.example.com");
    assert_eq!(ask(&server, "DELETE", &path, &Value::Null).await.0, 200);
    define(&server, &definition("gadgets", "Gadget")).await;
    make(&server, "gadgets", "Gadget", "one").await;
    assert!(count(&server, "widgets").await > 0, "they were waited for");
    forget(&server, "widgets").await;
}

#[tokio::test]
async fn a_definition_that_is_deleted_takes_no_new_objects() {
    let server = Server::in_memory().await.unwrap();
    define(&server, &definition("widgets", "Widget")).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(ask(&server, "POST", widgets, &held).await.0, 201);
    let path = format!("{CRDS}/widgets.example.com");
    assert_eq!(ask(&server, "DELETE", &path, &Value::Null).await.0, 200);
    refresh(&server.api().storage).await;

    let why = "widgets.example.com \"late\" is forbidden: create not allowed while custom resource definition is terminating";
    let apply = format!("{widgets}/late?fieldManager=me");
    for (method, path) in [("POST", widgets), ("APPLY", &apply)] {
        let (code, told) = ask(&server, method, path, &widget("late")).await;
        assert_eq!((code, told["message"].as_str()), (403, Some(why)), "{method}");
    }
    // What is there can still be changed: its finalizers must go.
    let freed = json!({"metadata": {"finalizers": null}});
    assert_eq!(ask(&server, "PATCH", &format!("{widgets}/held"), &freed).await.0, 200);
    forget(&server, "widgets").await;
    define(&server, &definition("widgets", "Widget")).await;
    make(&server, "widgets", "Widget", "late").await;
}

/// Whoever makes the catalogue anew holds a lock, which these do not ask for.
#[tokio::test]
async fn only_what_defines_something_waits_for_the_catalogue() {
    let server = Server::in_memory().await.unwrap();
    define(&server, &definition("widgets", "Widget")).await;
    let held = server.api().storage.registry.definitions.lock().await;
    let widgets = format!("{CRDS}/widgets.example.com");
    let dry = format!("{CRDS}?dryRun=All");
    for (method, path, body, code) in [
        ("POST", CRDS, definition("widgets", "Widget"), 409),
        ("POST", CRDS, json!({"kind": "CustomResourceDefinition"}), 422),
        ("POST", &dry, definition("gadgets", "Gadget"), 201),
        ("DELETE", &widgets, Value::Null, 200),
    ] {
        let answer = tokio::time::timeout(Duration::from_secs(10), ask(&server, method, path, &body));
        let (told, answer) = answer.await.unwrap_or_else(|_| panic!("{method} {path} waits"));
        assert_eq!(told, code, "{method} {path}: {answer}");
    }
    drop(held);
}

/// A definition of a kind with these fields in its spec.
fn with_fields(plural: &str, fields: impl Iterator<Item = Value>) -> Value {
    let fields: serde_json::Map<_, _> =
        fields.enumerate().map(|(n, field)| (format!("f{n}"), field)).collect();
    let mut definition = definition(plural, plural);
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
        json!({"spec": {"type": "object", "properties": fields}});
    definition
}

/// A server whose definitions have room for so many megabytes.
async fn with_room(megabytes: usize) -> Server {
    let server = Server::in_memory().await.unwrap();
    let mut catalogue = Catalogue::built_in().unwrap();
    catalogue.bound_definitions(&Arc::new(CrdBudget::of(megabytes << 20)));
    server.api().storage.registry.replace(catalogue);
    server
}

/// Takes between three and four megabytes.
fn large(plural: &str) -> Value {
    let pattern = |n: usize| json!({"type": "string", "pattern": format!("{plural}{n}.{{999}}")});
    with_fields(plural, (0..3).map(pattern))
}

async fn get(server: &Server, plural: &str) -> Value {
    ask(server, "GET", &format!("{CRDS}/{plural}.example.com"), &Value::Null).await.1
}

#[tokio::test]
async fn definitions_have_a_bound_together() {
    let server = with_room(9).await;
    define(&server, &large("as")).await;
    define(&server, &large("bs")).await;
    let (code, told) = ask(&server, "POST", CRDS, &large("cs")).await;
    let message = told["message"].as_str().unwrap();
    assert!(
        code == 422 && message.contains("may take 9 MiB") && message.contains("6 MiB are taken"),
        "{told}"
    );
    let small = definition("cs", "cs");
    define(&server, &small).await;
    let spec = json!({"spec": large("cs")["spec"]});
    assert_eq!(ask(&server, "PATCH", &format!("{CRDS}/cs.example.com"), &spec).await.0, 422);
    forget(&server, "as").await;
    assert_eq!(ask(&server, "PATCH", &format!("{CRDS}/cs.example.com"), &spec).await.0, 200);
    make(&server, "cs", "cs", "one").await;
}

/// Two that are written at once, or were stored before there was a bound.
#[tokio::test]
async fn a_definition_without_room_waits_for_it() {
    let server = with_room(4).await;
    define(&server, &large("as")).await;
    make(&server, "as", "as", "one").await;
    let mut late = large("bs");
    crd::apply_defaults(&mut late);
    crd::prepare_create(&mut late);
    let key = Key::new("apiextensions.k8s.io/customresourcedefinitions", "", "bs.example.com");
    let stored = store::Value::plain(Bytes::from(late.to_string()));
    server.api().storage.store.create(key, stored).await.unwrap();
    refresh(&server.api().storage).await;
    let late = get(&server, "bs").await;
    let Value::Object(established) = condition(&late, "Established") else { panic!("{late}") };
    assert_eq!(
        (&established["status"], &established["reason"]),
        (&json!("False"), &json!("NoRoom")),
        "{late}"
    );
    assert_eq!(ask(&server, "GET", "/apis/example.com/v1/bs", &Value::Null).await.0, 404);
    assert_eq!(count(&server, "as").await, 1);

    forget(&server, "as").await;
    refresh(&server.api().storage).await;
    assert_eq!(condition(&get(&server, "bs").await, "Established")["status"], "True");
    make(&server, "bs", "bs", "one").await;
    define(&server, &definition("as", "as")).await;
    assert_eq!(count(&server, "as").await, 0);
}

/// It was stored before its rule was refused.
#[tokio::test]
async fn a_definition_that_is_refused_by_now_says_so() {
    let server = Server::in_memory().await.unwrap();
    let mut old = definition("as", "as");
    old["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.nobody.knows"}]});
    crd::apply_defaults(&mut old);
    crd::prepare_create(&mut old);
    let key = Key::new("apiextensions.k8s.io/customresourcedefinitions", "", "as.example.com");
    let stored = store::Value::plain(Bytes::from(old.to_string()));
    server.api().storage.store.create(key, stored).await.unwrap();
    refresh(&server.api().storage).await;
    let refused = get(&server, "as").await;
    let told = condition(&refused, "Established");
    assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("SchemaRefused")), "{told}");
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("version v1 is refused by now: ") && message.contains("nobody"), "{message}");
    assert_eq!(ask(&server, "GET", "/apis/example.com/v1/as", &Value::Null).await.0, 404);
    let mended = json!({"spec": definition("as", "as")["spec"]});
    let (code, told) = ask(&server, "PATCH", &format!("{CRDS}/as.example.com"), &mended).await;
    assert_eq!(code, 200, "{told}");
    assert_eq!(condition(&get(&server, "as").await, "Established")["status"], "True");
    make(&server, "as", "as", "one").await;
}
