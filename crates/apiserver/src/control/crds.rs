//! Serves what CRDs define: decides about their names, writes their status, swaps in a new catalogue.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::builtin;
use crate::engine::{Change, Engine, PatchBody, Target};
use crate::object::Meta;
use crate::registry::Catalogue;
use crate::request::query::{ListOptions, Query};
use crate::request::write::WriteOptions;
use crate::resource::{Resource, crd};
use crate::store::{Filter, WatchError};

const MANAGER: &str = "kube-apiserver";
const STORE_NAME: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Runs until the store is closed.
pub async fn run(engine: Arc<Engine>) {
    loop {
        let filter = Filter { resource: Some(STORE_NAME.into()), namespace: None };
        let Ok(mut watcher) = engine.store.watch(filter, engine.store.revision()) else { return };
        loop {
            refresh(&engine).await;
            match watcher.next().await {
                Ok(_) => while matches!(watcher.try_next(), Ok(Some(_))) {},
                Err(WatchError::Closed) => return,
                Err(_) => break,
            }
        }
    }
}

/// Brings the status of every definition and the catalogue up to date.
pub async fn refresh(engine: &Engine) {
    let Some(target) = definitions(engine) else { return };
    let _alone = engine.registry.refreshing.lock().await;
    let options = ListOptions::parse(&Query::parse("")).expect("no options are valid options");
    let Ok(listed) = engine.list(&target, &options) else { return };
    let parse =
        |bytes: &bytes::Bytes| serde_json::from_slice(bytes).expect("the store holds the JSON it was given");
    let mut all: Vec<Value> = listed.items.iter().map(parse).collect();
    for index in 0..all.len() {
        let others = all.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
        let Some(status) = crd::accept(&all[index], others, &engine.now()) else { continue };
        all[index]["status"] = status.clone();
        let name = Meta::of(&all[index]).name().unwrap_or_default().to_owned();
        let change = Change::Patch(PatchBody::Merge(json!({"status": status})));
        let target = Target { status: true, ..target.clone() };
        // A definition that changed meanwhile comes back with its own event.
        let _ = engine.change(&target, &name, &change, &WriteOptions::default(), MANAGER).await;
    }
    serve(engine, &all);
}

fn definitions(engine: &Engine) -> Option<Target> {
    let served = Arc::clone(engine.registry.current().find(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
    )?);
    Some(Target { served, namespace: None, status: false })
}

/// Serves the built-in resources and what these definitions define.
fn serve(engine: &Engine, definitions: &[Value]) {
    let mut resources: Vec<Arc<Resource>> = builtin::resources();
    let established = definitions.iter().filter(|definition| crd::is_established(definition));
    resources.extend(established.filter_map(|definition| crd::resource(definition).ok()).map(Arc::new));
    // Validation lets no definition pass that could not be served.
    if let Ok(catalogue) = Catalogue::of(resources) {
        engine.registry.replace(catalogue);
    }
}
