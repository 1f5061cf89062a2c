//! Garbage collection: follows every object and does what the [`Graph`] says.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::gc::graph::{Action, Graph, Uid};
use crate::object::Meta;
use crate::request::delete::{DeleteOptions, Propagation};
use crate::request::write::{Validated, WriteOptions};
use crate::status::ApiError;
use crate::storage::{Change, PatchBody, Storage, Target};
use crate::store::{Event, Filter, Key, Object, Query, Watcher};

/// How long what was refused is left alone: the disk may be full.
const AGAIN: Duration = Duration::from_secs(10);

/// Who is named as manager of what garbage collection changes.
const MANAGER: &str = "garbage-collector";

/// Runs until the store is closed. A watch that fell behind starts anew with everything there is.
pub async fn run(storage: Arc<Storage>) {
    loop {
        let Ok((mut collector, mut watcher)) = Collector::start(&storage) else { return };
        let all: BTreeSet<Uid> = collector.graph.uids().collect();
        let mut refused = collector.settle(all).await;
        let mut again = Instant::now() + AGAIN;
        loop {
            let event = tokio::select! {
                biased;
                () = sleep_until(again), if !refused.is_empty() => None,
                event = watcher.next() => Some(event),
            };
            let touched = match event {
                None => std::mem::take(&mut refused),
                Some(Ok(event)) => collector.note(&event),
                Some(Err(crate::store::WatchError::Closed)) => return,
                Some(Err(_)) => break,
            };
            if refused.is_empty() {
                again = Instant::now() + AGAIN;
            }
            refused.extend(collector.settle(touched).await);
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
            let query = Query { resource: &resource, ..Query::default() };
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
    async fn settle(&mut self, touched: BTreeSet<Uid>) -> BTreeSet<Uid> {
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
                let owners: HashSet<&str> = owners.iter().map(String::as_str).collect();
                let stays = |owner: &Value| !owner["uid"].as_str().is_some_and(|uid| owners.contains(uid));
                self.edit(target, name, uid, |meta| retain(meta, "ownerReferences", stays)).await
            }
            Action::Release(finalizer) => {
                self.edit(target, name, uid, |meta| retain(meta, "finalizers", |other| other != finalizer))
                    .await
            }
        }
    }

    /// Changes the metadata of an object, if it is still the one that was looked at.
    async fn edit(
        &self,
        target: &Target,
        name: &str,
        uid: &str,
        edit: impl FnOnce(&mut Value),
    ) -> Result<(), ApiError> {
        let live = self.storage.get_value(target, name)?;
        if Meta::of(&live).uid() != Some(uid) {
            return Ok(());
        }
        let mut metadata = live["metadata"].clone();
        edit(&mut metadata);
        let patch = json!({"metadata": {
            "uid": uid,
            "resourceVersion": metadata["resourceVersion"],
            "ownerReferences": metadata["ownerReferences"],
            "finalizers": metadata["finalizers"],
        }});
        let change = Change::Patch(PatchBody::Merge(patch));
        let options = WriteOptions { validated: Validated::Metadata, ..WriteOptions::default() };
        self.storage.change(target, name, &change, &options, MANAGER).await.map(drop)
    }
}

fn retain(metadata: &mut Value, list: &str, keep: impl Fn(&Value) -> bool) {
    if let Some(items) = metadata.get_mut(list).and_then(Value::as_array_mut) {
        items.retain(|item| keep(item));
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
