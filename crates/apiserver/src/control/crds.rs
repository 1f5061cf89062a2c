//! Serves what CRDs define: decides about their names, writes their status, swaps in a new catalogue.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Value, json};

use super::backoff::Backoff;
use crate::builtin;
use crate::object::Meta;
use crate::registry;
use crate::request::delete::DeleteOptions;
use crate::request::query::{ListOptions, Query};
use crate::request::write::WriteOptions;
use crate::resource::Resource;
use crate::resource::crd::{self, CachedCrd, Cleanup, CrdCache, Names, Unserved};
use crate::status::ApiError;
use crate::storage::{Change, PatchBody, Storage, Target};
use crate::store::{Filter, Object, WatchError};

const MANAGER: &str = "kube-apiserver";
const STORE_NAME: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Runs until the store is closed.
pub async fn run(storage: Arc<Storage>) {
    loop {
        // Everything is followed: a definition that is being deleted waits for objects of its own kind.
        let Ok(mut watcher) = storage.store.watch(Filter::default(), storage.store.revision()) else {
            return;
        };
        let mut backoff = Backoff::default();
        let mut deleting = act(&storage).await;
        backoff.note(deleting.refused);
        loop {
            let next = tokio::select! {
                next = watcher.next() => next,
                () = backoff.is_due() => {
                    deleting = act(&storage).await;
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
                        deleting = act(&storage).await;
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
struct Deleting {
    /// Their kinds, as the store names them: definitions wait for changes of their objects.
    kinds: BTreeSet<String>,
    /// True if objects of one could not be deleted.
    refused: bool,
}

/// Serves what is defined now, and cleans up after what is not any more. Tells which of them go.
async fn act(storage: &Storage) -> Deleting {
    refresh(storage).await;
    let mut deleting = Deleting::default();
    let Some(target) = definitions(storage) else { return deleting };
    let is_going = |outline: &&Value| Meta::of(outline).deletion_timestamp().is_some();
    // Nobody else waits until all their objects are gone.
    let going: Vec<Value> = {
        let known = storage.registry.definitions.lock().await;
        known.all.iter().map(|definition| &definition.outline).filter(is_going).cloned().collect()
    };
    for outline in &going {
        let part = |name: &str| outline["spec"].pointer(name).and_then(Value::as_str).unwrap_or_default();
        deleting.kinds.insert(format!("{}/{}", part("/group"), part("/names/plural")));
    }
    let all = everything();
    let cleaned = going.iter().map(|outline| clean_up(storage, &target, outline, &all));
    // All at once, so that one with many objects does not hold up the others.
    deleting.refused = join_all(cleaned).await.iter().any(Result::is_err);
    deleting
}

/// Does [`refresh`] on threads of the server itself. A request may be given no thread any more, or no client, in the midst of it,
/// and others would wait for what it holds.
pub async fn refreshed(storage: &Arc<Storage>) {
    let Some(threads) = storage.threads.get() else { return refresh(storage).await };
    let storage = Arc::clone(storage);
    // It fails where the server ends.
    let _ = threads.spawn(async move { refresh(&storage).await }).await;
}

/// Brings the status of every definition and the catalogue up to date with what is stored now.
pub async fn refresh(storage: &Storage) {
    let Some(target) = definitions(storage) else { return };
    let now = storage.store.revision();
    let mut known = storage.registry.definitions.lock().await;
    // Of those who waited together, the first did it for all.
    if known.up_to.is_some_and(|up_to| up_to >= now) {
        return;
    }
    let Ok((objects, revision)) = storage.snapshot(&target, &everything()) else { return };
    known.read(&objects);
    let unserved = find_room(&target, &mut known, &objects);
    let is_done = decide(storage, &target, &mut known, &unserved).await;
    known.up_to = is_done.then_some(revision);
    serve(storage, &mut known);
}

/// Gives every definition room, first those that have it already and those that were established before a restart. Tells by
/// the place of each that cannot be served why that is.
fn find_room(target: &Target, known: &mut CrdCache, objects: &[Arc<Object>]) -> HashMap<usize, Unserved> {
    let Some(room) = &target.served.room else { return HashMap::new() };
    let names: HashSet<&str> = known.all.iter().map(CachedCrd::name).collect();
    room.keep(|name| names.contains(name));
    let mut order: Vec<usize> = (0..known.all.len()).collect();
    order.sort_by_cached_key(|at| {
        let CachedCrd { outline, .. } = &known.all[*at];
        let name = known.all[*at].name().to_owned();
        let since = outline["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        (!room.has(&name), !crd::is_established(outline), since, name)
    });
    let mut find = |at: usize| Some((at, known.all[at].find_room(room, &objects[at]).err()?));
    order.into_iter().filter_map(&mut find).collect()
}

/// Decides the names of every definition, and tells whether all statuses could be written.
async fn decide(
    storage: &Storage,
    definitions: &Target,
    known: &mut CrdCache,
    unserved: &HashMap<usize, Unserved>,
) -> bool {
    let target = Target { status: true, ..definitions.clone() };
    let mut names = Names::of(known.all.iter().map(|definition| &definition.outline));
    let mut is_done = true;
    for (at, definition) in known.all.iter_mut().enumerate() {
        let unserved = unserved.get(&at);
        let Some(status) = crd::accept(&definition.outline, &names, unserved, &storage.now()) else {
            continue;
        };
        let change =
            Change::Patch(PatchBody::Json(json!([{"op": "add", "path": "/status", "value": status}])));
        // A definition that changed meanwhile comes back with its own event.
        let written =
            storage.change(&target, definition.name(), &change, &WriteOptions::default(), MANAGER).await;
        is_done &= written.is_ok();
        names.take(&definition.outline);
        definition.decided(status, written.as_ref().ok().map(|written| &*written.object));
        names.give(&definition.outline);
    }
    is_done
}

fn everything() -> ListOptions {
    ListOptions::parse(&Query::parse("")).expect("no options are valid options")
}

/// Deletes the objects of a definition that is being deleted; lets it go when there are none.
async fn clean_up(
    storage: &Storage,
    definitions: &Target,
    definition: &Value,
    all: &ListOptions,
) -> Result<(), ApiError> {
    if let Some(served) = crd::of_objects(definition).and_then(registry::alone) {
        let target = Target { served, namespace: None, status: false };
        if !storage.list(&target, all)?.items.is_empty() {
            storage.delete_collection(&target, all, &DeleteOptions::default()).await?;
        }
        if !storage.list(&target, all)?.items.is_empty() {
            return tell_cleanup(storage, definitions, definition, Cleanup::InProgress).await;
        }
    }
    let meta = Meta::of(definition);
    let kept: Vec<&str> =
        meta.finalizers().filter(|finalizer| *finalizer != crd::CLEANUP_FINALIZER).collect();
    if !meta.finalizers().any(|finalizer| finalizer == crd::CLEANUP_FINALIZER) {
        return Ok(());
    }
    let done = if crd::is_established(definition) { Cleanup::Completed } else { Cleanup::NeverEstablished };
    tell_cleanup(storage, definitions, definition, done).await?;
    let patch = json!({"metadata": {"uid": meta.uid(), "finalizers": kept}});
    let change = Change::Patch(PatchBody::Merge(patch));
    let name = meta.name().unwrap_or_default();
    storage.change(definitions, name, &change, &WriteOptions::default(), MANAGER).await.map(drop)
}

async fn tell_cleanup(
    storage: &Storage,
    definitions: &Target,
    definition: &Value,
    cleanup: Cleanup,
) -> Result<(), ApiError> {
    let mut told = definition.clone();
    crd::set_terminating(&mut told, cleanup, &storage.now());
    if told == *definition {
        return Ok(());
    }
    let patch = json!([{"op": "add", "path": "/status", "value": told["status"]}]);
    let target = Target { status: true, ..definitions.clone() };
    let name = Meta::of(definition).name().unwrap_or_default();
    let change = Change::Patch(PatchBody::Json(patch));
    storage.change(&target, name, &change, &WriteOptions::default(), MANAGER).await.map(drop)
}

fn definitions(storage: &Storage) -> Option<Target> {
    let served = Arc::clone(storage.registry.current().find(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
    )?);
    Some(Target { served, namespace: None, status: false })
}

/// Serves the built-in resources and what these definitions define.
fn serve(storage: &Storage, known: &mut CrdCache) {
    let mut resources: Vec<Arc<Resource>> = builtin::resources();
    resources.extend(known.all.iter_mut().filter_map(CachedCrd::resource));
    let current = storage.registry.current();
    if current.is_of(&resources) {
        return;
    }
    // Validation lets no definition pass that could not be served.
    if let Ok(catalogue) = current.with(resources) {
        storage.registry.replace(catalogue);
    }
}

#[cfg(test)]
mod tests;
