//! Serves what CRDs define: decides about their names, writes their status, swaps in a new catalogue.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::backoff::Backoff;
use crate::builtin;
use crate::engine::{Change, Engine, PatchBody, Target};
use crate::object::Meta;
use crate::registry;
use crate::request::delete::DeleteOptions;
use crate::request::query::{ListOptions, Query};
use crate::request::write::WriteOptions;
use crate::resource::Resource;
use crate::resource::crd::{self, Cleanup, Definition, Known};
use crate::status::ApiError;
use crate::store::{Filter, WatchError};

const MANAGER: &str = "kube-apiserver";
const STORE_NAME: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Runs until the store is closed.
pub async fn run(engine: Arc<Engine>) {
    loop {
        // Everything is followed: a definition that is being deleted waits for objects of its own kind.
        let Ok(mut watcher) = engine.store.watch(Filter::default(), engine.store.revision()) else { return };
        let mut backoff = Backoff::default();
        let mut deleting = refresh(&engine).await;
        backoff.note(deleting.refused);
        loop {
            let next = tokio::select! {
                next = watcher.next() => next,
                () = backoff.is_due() => {
                    deleting = refresh(&engine).await;
                    backoff.note(deleting.refused);
                    continue;
                }
            };
            match next {
                Ok(event) => {
                    let counts = |of: &str| of == STORE_NAME || deleting.kinds.contains(of);
                    let mut due = counts(&event.key().resource);
                    while let Ok(Some(event)) = watcher.try_next() {
                        due |= counts(&event.key().resource);
                    }
                    if due {
                        let refused = deleting.refused;
                        deleting = refresh(&engine).await;
                        // One that was refused before and is refused again waits on.
                        if deleting.refused != refused {
                            backoff.note(deleting.refused);
                        }
                    }
                    // Under load there is always another event, and others wait for the thread.
                    tokio::task::yield_now().await;
                }
                Err(WatchError::Closed) => return,
                Err(_) => break,
            }
        }
    }
}

/// Definitions that are being deleted.
#[derive(Debug, Default)]
pub struct Deleting {
    /// Their kinds, as the store names them: definitions wait for changes of their objects.
    kinds: BTreeSet<String>,
    /// Whether objects of one could not be deleted.
    refused: bool,
}

/// Brings the status of every definition and the catalogue up to date. Tells which of them go.
pub async fn refresh(engine: &Engine) -> Deleting {
    let mut deleting = Deleting::default();
    let Some(target) = definitions(engine) else { return deleting };
    let mut known = engine.registry.definitions.lock().await;
    let options = ListOptions::parse(&Query::parse("")).expect("no options are valid options");
    let Ok((objects, _)) = engine.snapshot(&target, &options) else { return deleting };
    known.read(&objects);
    for index in 0..known.0.len() {
        let all = known.0.iter().map(|definition| &definition.outline);
        let Some(status) = crd::accept(&known.0[index].outline, all, &engine.now()) else { continue };
        let change =
            Change::Patch(PatchBody::Json(json!([{"op": "add", "path": "/status", "value": status}])));
        let target = Target { status: true, ..target.clone() };
        let name = known.0[index].name();
        // A definition that changed meanwhile comes back with its own event.
        let written = engine.change(&target, name, &change, &WriteOptions::default(), MANAGER).await;
        known.0[index].decided(status, written.as_ref().ok().map(|written| &*written.object));
    }
    serve(engine, &mut known);
    for Definition { outline, .. } in &known.0 {
        if Meta::of(outline).deletion_timestamp().is_some() {
            let part = |name: &str| outline["spec"].pointer(name).and_then(Value::as_str).unwrap_or_default();
            deleting.kinds.insert(format!("{}/{}", part("/group"), part("/names/plural")));
            deleting.refused |= clean_up(engine, &target, outline, &options).await.is_err();
        }
    }
    deleting
}

/// Deletes the objects of a definition that is being deleted; lets it go when there are none.
async fn clean_up(
    engine: &Engine,
    definitions: &Target,
    definition: &Value,
    all: &ListOptions,
) -> Result<(), ApiError> {
    if let Some(served) = crd::of_objects(definition).and_then(registry::alone) {
        let target = Target { served, namespace: None, status: false };
        if !engine.list(&target, all)?.items.is_empty() {
            engine.delete_collection(&target, all, &DeleteOptions::default()).await?;
        }
        if !engine.list(&target, all)?.items.is_empty() {
            return tell_cleanup(engine, definitions, definition, Cleanup::InProgress).await;
        }
    }
    let meta = Meta::of(definition);
    let kept: Vec<&str> =
        meta.finalizers().filter(|finalizer| *finalizer != crd::CLEANUP_FINALIZER).collect();
    if !meta.finalizers().any(|finalizer| finalizer == crd::CLEANUP_FINALIZER) {
        return Ok(());
    }
    let done = if crd::is_established(definition) { Cleanup::Completed } else { Cleanup::NeverEstablished };
    tell_cleanup(engine, definitions, definition, done).await?;
    let patch = json!({"metadata": {"uid": meta.uid(), "finalizers": kept}});
    let change = Change::Patch(PatchBody::Merge(patch));
    let name = meta.name().unwrap_or_default();
    engine.change(definitions, name, &change, &WriteOptions::default(), MANAGER).await.map(drop)
}

async fn tell_cleanup(
    engine: &Engine,
    definitions: &Target,
    definition: &Value,
    cleanup: Cleanup,
) -> Result<(), ApiError> {
    let mut told = definition.clone();
    crd::set_terminating(&mut told, cleanup, &engine.now());
    if told == *definition {
        return Ok(());
    }
    let patch = json!([{"op": "add", "path": "/status", "value": told["status"]}]);
    let target = Target { status: true, ..definitions.clone() };
    let name = Meta::of(definition).name().unwrap_or_default();
    let change = Change::Patch(PatchBody::Json(patch));
    engine.change(&target, name, &change, &WriteOptions::default(), MANAGER).await.map(drop)
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
fn serve(engine: &Engine, known: &mut Known) {
    let mut resources: Vec<Arc<Resource>> = builtin::resources();
    resources.extend(known.0.iter_mut().filter_map(Definition::resource));
    let current = engine.registry.current();
    if current.is_of(&resources) {
        return;
    }
    // Validation lets no definition pass that could not be served.
    if let Ok(catalogue) = current.with(resources) {
        engine.registry.replace(catalogue);
    }
}

#[cfg(test)]
mod tests;
