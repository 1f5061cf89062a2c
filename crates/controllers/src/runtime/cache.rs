//! A copy of all objects of a kind, kept fresh by one watch, and word of each change to whoever wants it.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Lookup, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, watch};

use super::name::Name;

/// Changes that wait for a slow controller; one that falls behind looks at everything again.
const BACKLOG: usize = 4096;

/// All objects of a kind.
pub struct Cache<K: Lookup + Clone + 'static>
where
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    store: Store<K>,
    changes: broadcast::Sender<Name>,
    listed: watch::Receiver<bool>,
}

impl<K: Lookup + Clone + 'static> Clone for Cache<K>
where
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), changes: self.changes.clone(), listed: self.listed.clone() }
    }
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// A cache, and the work that keeps it fresh.
    pub fn new(api: Api<K>) -> (Self, impl Future<Output = ()> + Send) {
        // Who wrote which field is two thirds of an object's memory, and no controller asks.
        let events = watcher::watcher(api, watcher::Config::default()).modify(|object| {
            object.managed_fields_mut().clear();
        });
        Self::follow(events.default_backoff())
    }

    pub(super) fn follow(
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (store, writer) = reflector::store();
        let (changes, _) = broadcast::channel(BACKLOG);
        let (listed, is_listed) = watch::channel(false);
        let announce =
            Announce { store: store.clone(), changes: changes.clone(), listed, relisted: HashSet::new() };
        let work = announce.follow(reflector::reflector(writer, events));
        (Self { store, changes, listed: is_listed }, work)
    }

    /// One object.
    pub fn get(&self, name: &Name) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new(&name.name).within(&name.namespace))
    }

    /// All objects.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.store.state()
    }

    /// What it is made of.
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Names of objects that changed from now on, or went; after falling behind, of all that are there.
    pub fn changes(&self) -> impl Stream<Item = Name> + Send + 'static {
        let store = self.store.clone();
        names(self.changes.subscribe(), move || {
            store.state().iter().map(|object| Name::of(object.as_ref())).collect()
        })
    }

    /// Waits until the first list is here. Any number may wait: the store's own way to wait wakes only one.
    pub fn listed(&self) -> BoxFuture<'static, ()> {
        let mut listed = self.listed.clone();
        // An error says that the watch ended, and with it everything else.
        async move { drop(listed.wait_for(|listed| *listed).await) }.boxed()
    }
}

/// Tells of changes, after the store has them: whoever is told finds what they are told of.
struct Announce<K: Lookup + Clone + 'static>
where
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    store: Store<K>,
    changes: broadcast::Sender<Name>,
    listed: watch::Sender<bool>,
    /// Objects of a list that is under way, and those before it, which may be gone.
    relisted: HashSet<Name>,
}

impl<K> Announce<K>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    async fn follow(mut self, events: impl Stream<Item = watcher::Result<Event<K>>> + Send) {
        futures::pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.pass(&event),
                Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "watch failed, goes on"),
            }
        }
    }

    fn pass(&mut self, event: &Event<K>) {
        match event {
            Event::Apply(object) | Event::Delete(object) => self.tell(Name::of(object)),
            Event::Init => {
                self.relisted = self.store.state().iter().map(|known| Name::of(known.as_ref())).collect();
            }
            Event::InitApply(object) => drop(self.relisted.insert(Name::of(object))),
            Event::InitDone => {
                for name in std::mem::take(&mut self.relisted) {
                    self.tell(name);
                }
                self.listed.send_replace(true);
            }
        }
    }

    fn tell(&self, name: Name) {
        // Nobody may be listening yet.
        let _ = self.changes.send(name);
    }
}

/// Names of objects of a kind that changed; their content is read where it is needed.
pub fn metadata_changes<K>(client: &Client) -> impl Stream<Item = Name> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::all(client.clone());
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff().touched_objects();
    events.filter_map(|event: watcher::Result<PartialObjectMeta<K>>| async move {
        match event {
            Ok(object) => Some(Name::of(&object)),
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "watch failed, goes on");
                None
            }
        }
    })
}

/// A stream of names from a channel; all of `everything` when some were missed.
pub fn names(
    receiver: broadcast::Receiver<Name>,
    everything: impl Fn() -> Vec<Name> + Send + 'static,
) -> impl Stream<Item = Name> + Send + 'static {
    futures::stream::unfold((receiver, everything), |(mut receiver, everything)| async move {
        let batch = match receiver.recv().await {
            Ok(name) => vec![name],
            Err(broadcast::error::RecvError::Lagged(_)) => everything(),
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        Some((futures::stream::iter(batch), (receiver, everything)))
    })
    .flatten()
}
