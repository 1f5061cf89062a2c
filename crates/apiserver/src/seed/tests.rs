use std::collections::{BTreeMap, HashSet};

use serde_json::json;

use super::*;
use crate::{Server, ServerOptions};

fn definition(plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.dev")},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": plural, "listKind": format!("{plural}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"x": {"type": "string"}}}},
            }}}],
        },
    })
}

async fn seed() -> &'static str {
    write([("one", definition("as")), ("two", definition("bs"))]).await.unwrap().leak()
}

fn options(seed: &'static str) -> ServerOptions {
    ServerOptions { seed: Some(seed), ..ServerOptions::default() }
}

/// All objects of a server, without what differs from start to start.
fn objects(server: &Server) -> BTreeMap<String, Value> {
    fn plain(value: &mut Value) {
        if let Some(members) = value.as_object_mut() {
            let own = ["uid", "resourceVersion", "creationTimestamp", "time", "lastTransitionTime"];
            members.retain(|key, value| !(value.is_string() && own.contains(&key.as_str())));
            members.values_mut().for_each(plain);
        }
        value.as_array_mut().into_iter().flatten().for_each(plain);
    }
    let store = &server.api().storage.store;
    let mut all = BTreeMap::new();
    for object in store.snapshot().objects() {
        let mut value: Value = serde_json::from_slice(object.bytes()).unwrap();
        assert_eq!(value["metadata"]["resourceVersion"], object.revision().to_string());
        plain(&mut value);
        all.insert(object.key().to_string(), value);
    }
    all
}

#[tokio::test]
async fn a_server_that_begins_with_a_seed_is_as_one_that_was_told_everything() {
    let seed = seed().await;
    let sown = Server::in_memory_with(&options(seed)).await.unwrap();
    assert!(sown.is_sown());
    let told = Server::in_memory().await.unwrap();
    assert!(!told.is_sown());
    let catalogue = told.api().storage.registry.current();
    let target = catalogue.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned().unwrap();
    let target = Target { served: target, namespace: None, status: false };
    for (manager, plural) in [("one", "as"), ("two", "bs")] {
        let change = Change::Patch(PatchBody::Apply(definition(plural)));
        let name = format!("{plural}.example.dev");
        told.api().storage.change(&target, &name, &change, &WriteOptions::default(), manager).await.unwrap();
    }
    control::refresh(&told.api().storage).await;
    assert_eq!(objects(&sown), objects(&told));
    // And it serves what the seed defines.
    let catalogue = sown.api().storage.registry.current();
    assert!(
        catalogue.find("example.dev", "v1", "as").is_some()
            && catalogue.find("example.dev", "v1", "bs").is_some()
    );
}

#[tokio::test]
async fn every_object_is_its_own_and_of_now() {
    let server = Server::in_memory_with(&options(seed().await)).await.unwrap();
    let mut uids = HashSet::new();
    for object in server.api().storage.store.snapshot().objects() {
        let text = String::from_utf8_lossy(object.bytes());
        assert!(!text.contains(UID) && !text.contains(TIME), "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(uids.insert(value["metadata"]["uid"].as_str().unwrap().to_owned()));
    }
    assert!(uids.len() > 20);
}

#[tokio::test]
async fn a_store_that_has_something_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    // A start that was cut short before the seed was written leaves a store without anything.
    drop(Store::open(&path, &Options::default()).unwrap());
    let first = Server::open_with(&path, &options(seed().await)).await.unwrap();
    assert!(first.is_sown());
    let before = first.api().storage.store.revision();
    first.close().await;
    let again = Server::open_with(&path, &options(seed().await)).await.unwrap();
    assert!(!again.is_sown());
    assert_eq!(again.api().storage.store.revision(), before, "nothing is written");
    again.close().await;
}

#[tokio::test]
async fn a_definition_that_is_wrong_makes_no_seed() {
    let mut wrong = definition("as");
    wrong["spec"]["scope"] = "Elsewhere".into();
    assert!(matches!(write([("one", wrong)]).await, Err(StartError::Definitions(_))));
}

#[tokio::test]
async fn what_is_no_seed_is_refused_and_nothing_is_sown() {
    for text in ["", "a b c", "/namespaces - default {}", "/namespaces - default"] {
        let refused = Server::in_memory_with(&options(text)).await;
        assert!(matches!(refused, Err(StartError::NoSeed)), "{text:?}");
    }
}
