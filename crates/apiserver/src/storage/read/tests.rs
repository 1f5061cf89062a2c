use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::*;
use crate::request::query::Query as Asked;
use crate::{Server, store};

const LABELS: [&str; 9] =
    ["", "app", "!app", "app=web", "app!=web", "app in (web,db)", "app notin (web)", "tier=1,app", "gen>3"];
const FIELDS: [&str; 6] = [
    "",
    "metadata.name=a",
    "metadata.name!=a",
    "metadata.namespace=one,metadata.name=b",
    "metadata.namespace!=one",
    "metadata.namespace=",
];

/// Selecting by key and labels alone agrees with selecting by all of the object.
#[tokio::test]
async fn an_object_is_selected_by_its_labels_as_by_all_of_it() {
    let server = Server::in_memory().await.unwrap();
    let storage = &server.api().storage;
    let metadata = [
        json!({}),
        json!({"labels": null}),
        json!({"labels": {}}),
        json!({"labels": {"app": "web", "tier": "1"}}),
        json!({"labels": {"app": "db", "gen": "7"}}),
        json!({"labels": {"app": "web", "gen": "no number"}, "annotations": {"a \"quoted\" key": "and\nvalue"}}),
        json!({"labels": {"app": "an \"escaped\" text", "\u{e9}": "\u{65e5}"}}),
        json!({"labels": {"app": null}}),
        json!({"labels": {"app": 5, "tier": "1"}}),
        json!({"labels": ["app"]}),
        json!({"annotations": {"labels": "{}"}, "labels": {"tier": "1", "app": "web"}}),
    ];
    for (resource, namespace) in [("configmaps", "one"), ("configmaps", "two"), ("namespaces", "")] {
        let served = Arc::clone(storage.registry.current().find("", "v1", resource).unwrap());
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        let target = Target { served, namespace, status: false };
        for name in ["a", "b"] {
            for metadata in &metadata {
                let object = stored(storage, &target, name, metadata).await;
                let value = encode::to_value(&target, &object);
                for options in options() {
                    let whole = options.labels.matches_object(&value)
                        && options.fields.matches_object(&target.served.resource, &value);
                    assert_eq!(selected(&target, &object, &options), whole, "{value} by {options:?}");
                }
            }
        }
    }
}

/// An object with metadata as no client could give it to the store, its key included.
async fn stored(storage: &Storage, target: &Target, name: &str, metadata: &Value) -> Arc<Object> {
    let mut object = json!({"apiVersion": "v1", "kind": target.served.resource.kind, "metadata": metadata});
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.insert("name".into(), name.into());
        if let Some(namespace) = &target.namespace {
            metadata.insert("namespace".into(), namespace.clone().into());
        }
    }
    let key = target.key(name);
    let _ = storage.store.delete(key.clone(), None).await;
    storage.store.create(key, store::Value::plain(object.to_string())).await.unwrap()
}

fn options() -> impl Iterator<Item = ListOptions> {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    LABELS.into_iter().flat_map(move |labels| {
        FIELDS.into_iter().map(move |fields| {
            let query = format!("labelSelector={}&fieldSelector={}", encoded(labels), encoded(fields));
            ListOptions::parse(&Asked::parse(&query)).unwrap()
        })
    })
}
