//! Garbage collection: follows every object and does what the [`Graph`] says.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::gc::{Action, Graph, Uid};
use crate::object::Meta;
use crate::object::delete::Propagation;
use crate::request::delete::DeleteOptions;
use crate::status::ApiError;
use crate::storage::{Storage, Target};
use crate::store::{Event, Filter, Key, ListQuery, Object, Watcher};

/// Delay before an action that was refused is tried again: the disk may be full.
const AGAIN: Duration = Duration::from_secs(10);
/// As much of it is tried together.
const MOST_AGAIN: usize = 100;

/// Runs until the store is closed. A watch that fell behind starts anew with everything there is.
pub async fn run(storage: Arc<Storage>) {
    loop {
        let Ok((mut collector, mut watcher)) = Collector::start(&storage) else { return };
        let all: BTreeSet<Uid> = collector.graph.uids().collect();
        let mut refused = collector.collect(all).await;
        let mut again = Instant::now() + AGAIN;
        loop {
            let touched = tokio::select! {
                () = sleep_until(again), if !refused.is_empty() => {
                    let some: BTreeSet<Uid> = refused.iter().take(MOST_AGAIN).cloned().collect();
                    refused.retain(|uid| !some.contains(uid));
                    let still = collector.collect(some).await;
                    refused.extend(still);
                    // After the work: events are read in between, however long it took.
                    again = Instant::now() + AGAIN;
                    continue;
                }
                event = watcher.next() => match event {
                    Ok(event) => collector.note(&event),
                    Err(crate::store::WatchError::Closed) => return,
                    Err(_) => break,
                },
            };
            if refused.is_empty() {
                again = Instant::now() + AGAIN;
            }
            refused.extend(collector.collect(touched).await);
        }
    }
}

struct Collector {
    storage: Arc<Storage>,
    graph: Graph,
}

impl Collector {
    fn start(storage: &Arc<Storage>) -> Result<(Self, Watcher), crate::store::WatchError> {
        let snapshot = storage.store.snapshot();
        let watcher = storage.store.watch(Filter::default(), snapshot.revision())?;
        let mut graph = Graph::default();
        let resources: Vec<Arc<str>> =
            snapshot.resources().map(|(resource, _)| Arc::clone(resource)).collect();
        for resource in resources {
            let query = ListQuery { resource: &resource, ..ListQuery::default() };
            // The newest revision can always be read.
            for object in snapshot.list(&query).map(|page| page.objects).unwrap_or_default() {
                graph.observe(object.key(), &parse(&object));
            }
        }
        Ok((Self { storage: Arc::clone(storage), graph }, watcher))
    }

    fn note(&mut self, event: &Event) -> BTreeSet<Uid> {
        let value = parse(event.object());
        match event.current() {
            Some(_) => self.graph.observe(event.key(), &value),
            None => Meta::of(&value).uid().map(|uid| self.graph.forget(uid)).unwrap_or_default(),
        }
    }

    /// Does what is to be done about these objects. What an action changes comes back as an event. Returns those of which it was refused.
    async fn collect(&mut self, touched: BTreeSet<Uid>) -> BTreeSet<Uid> {
        let mut refused = BTreeSet::new();
        for uid in touched {
            let Some(action) = self.graph.action(&uid) else { continue };
            let Some(key) = self.graph.key(&uid).cloned() else { continue };
            let Some(target) = self.target(&key) else { continue };
            match self.act(&target, &key.name, &uid, action).await {
                // It changed meanwhile, or is gone: the event of that brings it back here.
                Ok(()) | Err(ApiError::Conflict { .. } | ApiError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::debug!(name = &*key.name, resource = &*key.resource, %error, "garbage collection is refused");
                    refused.insert(uid);
                }
            }
        }
        refused
    }

    fn target(&self, key: &Key) -> Option<Target> {
        let (group, plural) = key.resource.split_once('/')?;
        let catalogue = self.storage.registry.current();
        let resource = catalogue
            .resources()
            .iter()
            .find(|resource| resource.group == group && resource.plural == plural)?;
        let served = Arc::clone(catalogue.preferred(resource)?);
        let namespace = (!key.namespace.is_empty()).then(|| key.namespace.to_string());
        Some(Target { served, namespace, status: false })
    }

    async fn act(&self, target: &Target, name: &str, uid: &str, action: Action) -> Result<(), ApiError> {
        match action {
            Action::Delete { foreground } => {
                let options = DeleteOptions {
                    uid: Some(uid.to_owned()),
                    propagation: foreground.then_some(Propagation::Foreground),
                    ..DeleteOptions::default()
                };
                self.storage.delete(target, name, &options).await.map(drop)
            }
            Action::Disown(owners) => {
                let owners: HashSet<&str> = owners.iter().map(|owner| &**owner).collect();
                let stays = |owner: &Value| !owner["uid"].as_str().is_some_and(|uid| owners.contains(uid));
                self.storage
                    .edit_metadata(target, name, uid, |meta| retain(meta, "ownerReferences", stays))
                    .await
            }
            Action::Release(finalizer) => {
                self.storage
                    .edit_metadata(target, name, uid, |meta| {
                        retain(meta, "finalizers", |other| other != finalizer);
                    })
                    .await
            }
        }
    }
}

/// Takes items out of a list of the metadata.
fn retain(metadata: &mut Value, list: &str, keep: impl Fn(&Value) -> bool) {
    let Some(items) = metadata.get_mut(list).and_then(Value::as_array_mut) else { return };
    items.retain(|item| keep(item));
    // No empty list is stored.
    if let (true, Some(members)) = (items.is_empty(), metadata.as_object_mut()) {
        members.shift_remove(list);
    }
}

/// What the graph looks at. Every write of the server is read here, so the rest is skipped and not built.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    metadata: HeadMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadMeta {
    uid: Value,
    deletion_timestamp: Value,
    finalizers: Value,
    owner_references: Value,
}

/// An object with only those members.
fn parse(object: &Object) -> Value {
    let Head { metadata } =
        serde_json::from_slice(object.bytes()).expect("the store holds the JSON it was given");
    let HeadMeta { uid, deletion_timestamp, finalizers, owner_references } = metadata;
    json!({"metadata": {
        "uid": uid,
        "deletionTimestamp": deletion_timestamp,
        "finalizers": finalizers,
        "ownerReferences": owner_references,
    }})
}

#[cfg(test)]
mod tests;
