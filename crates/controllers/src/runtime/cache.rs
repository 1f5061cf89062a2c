//! A copy of all objects of a kind, kept fresh by one watch, and word of each change to whoever wants it.
//!
//! Objects can be found by name, and by keys that the kind's index gives them (an owner, a template): who needs a few of
//! ten thousand looks at a few, and who needs their names looks at none.
//!
//! A workspace takes 8 KB in memory (maps and strings that are mostly room to grow) and 2 KB as JSON. Workspaces are looked
//! at one by one, so they are kept packed where they are many: some microseconds at each look for 60 MB less with ten thousand. Machines are
//! not: a set looks at all of its own at once, and unpacking them would take the time of its looks several times over and
//! for a moment the very memory that it saves.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, watch};

use self::shelf::{Shelf, Stored};
use super::first_list::FirstList;
use super::name::Name;
use super::writer::Kind;

mod shelf;

/// Changes that wait for a slow controller; one that falls behind looks at everything again.
const BACKLOG: usize = 4096;

/// A key that an object can be found by, besides its name.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Key {
    /// The uid of the object that controls it.
    Owner(String),
    /// Nobody controls it; it is in this namespace.
    Orphan(String),
    /// It refers to an object of that kind.
    Refers(&'static str, Name),
    /// It is ready, and refers to an object of that kind.
    Ready(&'static str, Name),
    /// It is in this namespace.
    Namespace(String),
    /// It keeps its state in the backend with this hash.
    Backend(String),
    /// It keeps its state in any backend.
    AnyBackend,
}

/// Gives the keys of an object.
pub type Index<K> = fn(&K) -> Vec<Key>;

/// Form in which the objects of a kind are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Keep {
    /// As they are.
    Whole,
    /// As their JSON, read anew at each look.
    Packed,
}

/// All objects of a kind.
pub struct Cache<K> {
    shelf: Arc<RwLock<Shelf<K>>>,
    changes: broadcast::Sender<Name>,
    listed: watch::Receiver<bool>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { shelf: Arc::clone(&self.shelf), changes: self.changes.clone(), listed: self.listed.clone() }
    }
}

impl<K: Kind> Cache<K> {
    /// A cache, and the work that keeps it fresh.
    pub fn new(api: Api<K>, index: Index<K>) -> (Self, impl Future<Output = ()> + Send) {
        Self::kept(api, index, Keep::Whole)
    }

    /// The same, of packed objects: for kinds of which there are many, looked at one by one.
    pub fn packed(api: Api<K>, index: Index<K>) -> (Self, impl Future<Output = ()> + Send) {
        Self::kept(api, index, Keep::Packed)
    }

    fn kept(api: Api<K>, index: Index<K>, keep: Keep) -> (Self, impl Future<Output = ()> + Send) {
        // Who wrote which field is two thirds of an object's memory, and no controller asks.
        let events = watcher::watcher(api, watcher::Config::default()).modify(|object| {
            object.meta_mut().managed_fields = None;
        });
        Self::follow(events.default_backoff(), index, keep)
    }

    pub(super) fn follow(
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
        index: Index<K>,
        keep: Keep,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let shelf = Arc::new(RwLock::new(Shelf::new(index, keep)));
        let (changes, _) = broadcast::channel(BACKLOG);
        let (listed, is_listed) = watch::channel(false);
        let keeper =
            Keeper { shelf: Arc::clone(&shelf), changes: changes.clone(), listed, incoming: Vec::new() };
        (Self { shelf, changes, listed: is_listed }, keeper.follow(events))
    }

    /// One object.
    pub fn get(&self, name: &Name) -> Option<Arc<K>> {
        let stored = self.read().objects.get(name).map(|kept| kept.stored.clone());
        stored.map(Stored::open)
    }

    /// Returns true if the object is in the cache.
    pub fn has(&self, name: &Name) -> bool {
        self.read().objects.contains_key(name)
    }

    /// All objects.
    pub fn all(&self) -> Vec<Arc<K>> {
        let stored: Vec<_> = self.read().objects.values().map(|kept| kept.stored.clone()).collect();
        stored.into_iter().map(Stored::open).collect()
    }

    /// Names of all objects.
    pub fn names(&self) -> Vec<Name> {
        self.read().names()
    }

    /// Objects that have one of these keys, all as of one moment; in no order.
    pub fn by(&self, keys: &[Key]) -> Vec<Arc<K>> {
        let stored: Vec<_> = {
            let shelf = self.read();
            let found = shelf.found(keys).filter_map(|name| shelf.objects.get(name));
            found.map(|kept| kept.stored.clone()).collect()
        };
        stored.into_iter().map(Stored::open).collect()
    }

    /// Names of objects that have one of these keys; in no order.
    pub fn names_by(&self, keys: &[Key]) -> Vec<Name> {
        self.read().found(keys).map(|name| Name::clone(name)).collect()
    }

    /// The keys of an object, in the order of its index.
    pub fn keys(&self, name: &Name) -> Vec<Arc<Key>> {
        self.read().objects.get(name).map_or_else(Vec::new, |kept| kept.keys.to_vec())
    }

    /// Returns the number of objects that have the key.
    pub fn count(&self, key: &Key) -> usize {
        self.read().keyed.get(key).map_or(0, HashSet::len)
    }

    /// Returns the number of objects with the key whose name counts.
    pub fn count_if(&self, key: &Key, counts: impl Fn(&Name) -> bool) -> usize {
        self.read().keyed.get(key).map_or(0, |names| names.iter().filter(|name| counts(name)).count())
    }

    /// Objects that `parent` controls, and those beside it that nobody does: what it has or may take.
    pub fn family<P: Resource>(&self, parent: &P) -> Vec<Arc<K>> {
        let mut keys: Vec<Key> = parent.meta().uid.clone().map(Key::Owner).into_iter().collect();
        keys.push(Key::Orphan(parent.meta().namespace.clone().unwrap_or_default()));
        let mut all = self.by(&keys);
        all.retain(|child| child.meta().namespace == parent.meta().namespace);
        all
    }

    /// Names of objects that changed from now on, or went; after falling behind, of all that are there.
    pub fn changes(&self) -> impl Stream<Item = Name> + Send + 'static {
        let shelf = Arc::clone(&self.shelf);
        names(self.changes.subscribe(), move || shelf.read().unwrap_or_else(PoisonError::into_inner).names())
    }

    /// Those of [`Self::changes`] that change more than `same` compares as equal. An object whose status counts those who
    /// read it would otherwise wake them all whenever one comes.
    pub fn news(&self, same: fn(&K, &K) -> bool) -> impl Stream<Item = Name> + Send + 'static {
        let (shelf, mut known) = (Arc::clone(&self.shelf), HashMap::<Name, Arc<K>>::new());
        let is_news = move |name: &Name| {
            let shelf = shelf.read().unwrap_or_else(PoisonError::into_inner);
            let now = shelf.objects.get(name).map(|kept| kept.stored.clone());
            drop(shelf);
            let news = if let Some(now) = now.map(Stored::open) {
                let before = known.insert(name.clone(), Arc::clone(&now));
                !before.is_some_and(|before| same(&before, &now))
            } else {
                known.remove(name);
                true
            };
            std::future::ready(news)
        };
        self.changes().filter(is_news)
    }

    /// Waits until the first list is here.
    pub fn listed(&self) -> BoxFuture<'static, ()> {
        let mut listed = self.listed.clone();
        // An error says that the watch ended, and with it everything else.
        async move { drop(listed.wait_for(|listed| *listed).await) }.boxed()
    }

    /// Tells whether it is here.
    pub fn first_list(&self) -> FirstList {
        FirstList::new(K::kind(&()), self.listed.clone())
    }

    fn read(&self) -> RwLockReadGuard<'_, Shelf<K>> {
        self.shelf.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if two versions of an object differ in nothing but their status: for [`Cache::news`].
pub fn same_but_status<K: Resource>(one: &K, other: &K) -> bool {
    let (one, other) = (one.meta(), other.meta());
    one.uid == other.uid
        && one.generation == other.generation
        && one.deletion_timestamp == other.deletion_timestamp
        && one.labels == other.labels
        && one.annotations == other.annotations
}

/// An index by owner.
pub fn by_owner<K: Resource>(object: &K) -> Vec<Key> {
    let owners = object.meta().owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true));
    let orphan = || Key::Orphan(object.meta().namespace.clone().unwrap_or_default());
    vec![owner.map_or_else(orphan, |owner| Key::Owner(owner.uid.clone()))]
}

/// For kinds that are only found by name.
pub fn no_index<K>(_: &K) -> Vec<Key> {
    Vec::new()
}

/// Keeps the shelf, and tells of changes after it has them: whoever is told finds what they are told of.
struct Keeper<K> {
    shelf: Arc<RwLock<Shelf<K>>>,
    changes: broadcast::Sender<Name>,
    listed: watch::Sender<bool>,
    /// Objects of a list that is under way.
    incoming: Vec<K>,
}

impl<K: Kind> Keeper<K> {
    async fn follow(mut self, events: impl Stream<Item = watcher::Result<Event<K>>> + Send) {
        futures::pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.pass(event),
                Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "watch failed, goes on"),
            }
        }
    }

    fn pass(&mut self, event: Event<K>) {
        match event {
            Event::Apply(object) => {
                let name = Name::of(&object);
                self.write().put(name.clone(), &object);
                self.tell(name);
            }
            Event::Delete(object) => {
                let name = Name::of(&object);
                self.write().take(&name);
                self.tell(name);
            }
            Event::Init => self.incoming.clear(),
            Event::InitApply(object) => self.incoming.push(object),
            Event::InitDone => {
                let incoming = std::mem::take(&mut self.incoming);
                let touched = self.replace(incoming);
                for name in touched {
                    self.tell(name);
                }
                self.listed.send_replace(true);
            }
        }
    }

    /// Puts a whole list in place of what was there; the names of both.
    fn replace(&self, incoming: Vec<K>) -> HashSet<Name> {
        let mut shelf = self.write();
        let mut touched: HashSet<Name> = shelf.names().into_iter().collect();
        let mut fresh = Shelf::new(shelf.index, shelf.keep);
        for object in incoming {
            let name = Name::of(&object);
            touched.insert(name.clone());
            fresh.put(name, &object);
        }
        *shelf = fresh;
        touched
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shelf<K>> {
        self.shelf.write().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
