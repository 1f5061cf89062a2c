//! Which Clusters are paused. Cluster API may not be installed: then none is, and nothing is logged about it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capt_api::names::annotations;
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::sync::broadcast;

use super::name::Name;

/// How long until somebody looks again whether the kind is there.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Versions that Cluster API serves, the newest first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// What is known of Clusters.
#[derive(Clone, Debug)]
pub struct Clusters {
    paused: Arc<Mutex<HashMap<Name, bool>>>,
    changes: broadcast::Sender<Name>,
}

impl Clusters {
    /// Follows Clusters, and the work that does so.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let clusters = Self { paused: Arc::default(), changes: broadcast::channel(1024).0 };
        let work = follow(clusters.clone(), client);
        (clusters, work)
    }

    /// Whether a Cluster exists and is paused.
    pub fn is_paused(&self, name: &Name) -> bool {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied().unwrap_or(false)
    }

    /// Names of Clusters that were paused, or are not any more.
    pub fn changes(&self) -> impl Stream<Item = Name> + Send + 'static {
        let known = Arc::clone(&self.paused);
        super::cache::names(self.changes.subscribe(), move || {
            known.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
        })
    }

    fn note(&self, object: &DynamicObject, exists: bool) {
        let name = Name::new(object.namespace().unwrap_or_default(), object.name_any());
        let asked = object.data["spec"]["paused"].as_bool().unwrap_or(false)
            || object.annotations().contains_key(annotations::PAUSED);
        let mut all = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if exists { all.insert(name.clone(), asked) } else { all.remove(&name) };
        if before.unwrap_or(false) != (asked && exists) {
            // Nobody may be listening yet.
            let _ = self.changes.send(name);
        }
    }
}

async fn follow(clusters: Clusters, client: Client) {
    loop {
        for version in VERSIONS {
            let kind = GroupVersionKind::gvk("cluster.x-k8s.io", version, "Cluster");
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
            if api.list(&ListParams::default().limit(1)).await.is_err() {
                continue;
            }
            let events = watcher::watcher(api, watcher::Config::default());
            futures::pin_mut!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(object) | Event::InitApply(object)) => clusters.note(&object, true),
                    Ok(Event::Delete(object)) => clusters.note(&object, false),
                    Ok(Event::Init | Event::InitDone) => {}
                    Err(error) => {
                        tracing::debug!(%error, "watch of Clusters failed, starts again");
                        break;
                    }
                }
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
