//! Namespaces: one that is being deleted is emptied, and goes when nothing is left in it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::{Engine, Target};
use crate::object::Meta;
use crate::request::delete::DeleteOptions;
use crate::request::query::{ListOptions, Query};
use crate::status::ApiError;
use crate::store::{Filter, WatchError};

const STORE_NAME: &str = "/namespaces";

/// Runs until the store is closed.
pub async fn run(engine: Arc<Engine>) {
    loop {
        let Ok(mut watcher) = engine.store.watch(Filter::default(), engine.store.revision()) else { return };
        let mut deleting = empty_all(&engine).await;
        loop {
            match watcher.next().await {
                // Anything that happens in a namespace may be the last thing it waited for.
                Ok(event) if deleting || *event.key().resource == *STORE_NAME => {
                    while matches!(watcher.try_next(), Ok(Some(_))) {}
                    deleting = empty_all(&engine).await;
                }
                Ok(_) => {}
                Err(WatchError::Closed) => return,
                Err(_) => break,
            }
        }
    }
}

/// Empties what is being deleted, and tells whether anything is.
async fn empty_all(engine: &Engine) -> bool {
    let Some(target) = namespaces(engine) else { return false };
    let Ok(listed) = engine.list(&target, &everything()) else { return false };
    let mut deleting = false;
    for object in &listed.items {
        let namespace: Value =
            serde_json::from_slice(object.bytes()).expect("the store holds the JSON it was given");
        if Meta::of(&namespace).deletion_timestamp().is_some() {
            deleting = true;
            // What is refused now is tried again at the next change.
            let _ = empty(engine, &target, &namespace).await;
        }
    }
    deleting
}

fn namespaces(engine: &Engine) -> Option<Target> {
    let served = Arc::clone(engine.registry.current().find("", "v1", "namespaces")?);
    Some(Target { served, namespace: None, status: false })
}

fn everything() -> ListOptions {
    ListOptions::parse(&Query::parse("")).expect("no options are valid options")
}

/// Deletes what is in a namespace; lets it go when that is nothing.
async fn empty(engine: &Engine, namespaces: &Target, namespace: &Value) -> Result<(), ApiError> {
    let name = Meta::of(namespace).name().unwrap_or_default();
    let catalogue = engine.registry.current();
    let mut left = 0;
    for resource in catalogue.resources().iter().filter(|resource| resource.namespaced) {
        let Some(served) = catalogue.preferred(resource) else { continue };
        let target = Target { served: Arc::clone(served), namespace: Some(name.to_owned()), status: false };
        if !engine.list(&target, &everything())?.items.is_empty() {
            engine.delete_collection(&target, &everything(), &DeleteOptions::default()).await?;
            left += engine.list(&target, &everything())?.items.len();
        }
    }
    if left > 0 {
        return Ok(());
    }
    engine.finalize(namespaces, name, &json!([])).await.map(drop)
}
