//! Namespaces: one that is being deleted is emptied, and goes when nothing is left in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::backoff::Backoff;
use crate::object::Meta;
use crate::request::delete::DeleteOptions;
use crate::request::query::{ListOptions, Query};
use crate::status::ApiError;
use crate::storage::{Storage, Target};
use crate::store::{Filter, Key, WatchError};

const STORE_NAME: &str = "/namespaces";

/// Runs until the store is closed.
pub async fn run(storage: Arc<Storage>) {
    loop {
        let Ok(mut watcher) = storage.store.watch(Filter::default(), storage.store.revision()) else {
            return;
        };
        let mut deleting = Deleting::find(&storage);
        loop {
            deleting.empty(&storage).await;
            let next = tokio::select! {
                next = watcher.next() => next,
                () = deleting.backoff.is_due() => {
                    deleting.due.append(&mut deleting.refused);
                    continue;
                }
            };
            match next {
                Ok(event) => {
                    deleting.note(event.key());
                    while let Ok(Some(event)) = watcher.try_next() {
                        deleting.note(event.key());
                    }
                }
                Err(WatchError::Closed) => return,
                Err(_) => break,
            }
        }
    }
}

/// Namespaces that are being deleted. One that waits for finalizers costs nothing until something happens in it.
#[derive(Default)]
struct Deleting {
    all: BTreeSet<String>,
    /// Those that may have something to do: also some that are not being deleted, or not any more.
    due: BTreeSet<String>,
    /// Those in which something could not be deleted.
    refused: BTreeSet<String>,
    backoff: Backoff,
}

impl Deleting {
    fn find(storage: &Storage) -> Self {
        let listed = namespaces(storage).and_then(|target| storage.list(&target, &everything()).ok());
        let items = listed.into_iter().flat_map(|listed| listed.items);
        Self { due: items.map(|object| object.key().name.to_string()).collect(), ..Self::default() }
    }

    /// Notes a change of an object: it may be the last thing that its namespace waited for.
    fn note(&mut self, changed: &Key) {
        let namespace = if *changed.resource == *STORE_NAME { &changed.name } else { &changed.namespace };
        if self.refused.contains(&**namespace) {
            return;
        }
        if *changed.resource == *STORE_NAME {
            self.due.insert(changed.name.to_string());
        } else if self.all.contains(&*changed.namespace) {
            self.due.insert(changed.namespace.to_string());
        }
    }

    /// Empties what is due.
    async fn empty(&mut self, storage: &Storage) {
        let Some(target) = namespaces(storage) else { return };
        let due = std::mem::take(&mut self.due);
        let (tried, before) = (!due.is_empty(), self.refused.len());
        for name in due {
            match empty_if_deleted(storage, &target, &name).await {
                Ok(true) => drop(self.all.insert(name)),
                Ok(false) => drop(self.all.remove(&name)),
                Err(_) => {
                    self.all.insert(name.clone());
                    self.refused.insert(name);
                }
            }
            tokio::task::yield_now().await;
        }
        if tried && (self.refused.len() > before || self.refused.is_empty()) {
            self.backoff.note(!self.refused.is_empty());
        }
    }
}

/// Empties a namespace that is being deleted; tells whether it is.
async fn empty_if_deleted(storage: &Storage, target: &Target, name: &str) -> Result<bool, ApiError> {
    // One that is gone is not being deleted any more.
    let Ok(namespace) = storage.get_value(target, name) else { return Ok(false) };
    if Meta::of(&namespace).deletion_timestamp().is_none() {
        return Ok(false);
    }
    empty(storage, target, &namespace).await.map(|()| true)
}

fn namespaces(storage: &Storage) -> Option<Target> {
    let served = Arc::clone(storage.registry.current().find("", "v1", "namespaces")?);
    Some(Target { served, namespace: None, status: false })
}

fn everything() -> ListOptions {
    ListOptions::parse(&Query::parse("")).expect("no options are valid options")
}

/// Deletes what is in a namespace; lets it go when that is nothing.
async fn empty(storage: &Storage, namespaces: &Target, namespace: &Value) -> Result<(), ApiError> {
    let name = Meta::of(namespace).name().unwrap_or_default();
    let catalogue = storage.registry.current();
    let mut left = 0;
    for resource in catalogue.resources().iter().filter(|resource| resource.namespaced) {
        let Some(served) = catalogue.preferred(resource) else { continue };
        let target = Target { served: Arc::clone(served), namespace: Some(name.to_owned()), status: false };
        if !storage.list(&target, &everything())?.items.is_empty() {
            storage.delete_collection(&target, &everything(), &DeleteOptions::default()).await?;
            left += storage.list(&target, &everything())?.items.len();
        }
    }
    if left > 0 {
        return Ok(());
    }
    storage.finalize(namespaces, name, &json!([])).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_waits_costs_nothing_until_something_happens_in_it() {
        let mut deleting = Deleting {
            all: ["going", "refused"].map(str::to_owned).into(),
            refused: ["refused".to_owned()].into(),
            ..Deleting::default()
        };
        let rows = [
            ("/configmaps", "refused", "a", None),
            (STORE_NAME, "", "refused", None),
            ("/configmaps", "staying", "a", None),
            ("/nodes", "", "going", None),
            ("/configmaps", "going", "a", Some("going")),
            (STORE_NAME, "", "staying", Some("staying")),
        ];
        for (resource, namespace, name, due) in rows {
            deleting.note(&Key::new(resource, namespace, name));
            let found: Vec<_> = std::mem::take(&mut deleting.due).into_iter().collect();
            assert_eq!(found, Vec::from_iter(due.map(str::to_owned)), "{resource} {namespace}/{name}");
        }
    }
}
