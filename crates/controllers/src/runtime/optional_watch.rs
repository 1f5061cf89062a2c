//! Kinds of Cluster API core, of which a few facts are kept. The kind may not be installed: then there are none, and
//! nothing is logged about it.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capt_api::names::CORE_GROUP;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use tokio::sync::{Notify, broadcast, watch};

use super::first_list::FirstList;
use super::name::Name;

/// Delay before the next check whether the kind is served.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The same, where an object of the kind is missed, or where nobody answered.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// Versions that Cluster API serves, the newest first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// Facts that are kept of an object.
pub trait Facts: Clone + Debug + PartialEq + Send + 'static {
    /// The kind, in Cluster API's group.
    const KIND: &'static str;
    /// Reads them. Both versions of the kind must be understood.
    fn read(object: &DynamicObject) -> Self;
}

/// Facts about all objects of a kind, which the API may not serve yet.
#[derive(Clone, Debug)]
pub struct OptionalWatch<F> {
    known: Arc<Mutex<HashMap<Name, F>>>,
    changes: broadcast::Sender<Name>,
    listed: watch::Receiver<bool>,
    missed: Arc<Notify>,
}

impl<F: Facts> OptionalWatch<F> {
    /// Follows a kind, and the work that does so.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let (listed, is_listed) = watch::channel(false);
        let followed = Self {
            known: Arc::default(),
            changes: broadcast::channel(1024).0,
            listed: is_listed,
            missed: Arc::default(),
        };
        let work = follow(followed.clone(), listed, client);
        (followed, work)
    }

    /// Returns the facts about an object; none where it is not there.
    pub fn get(&self, name: &Name) -> Option<F> {
        self.all().get(name).cloned()
    }

    /// Says that an object should be there: its kind may have been installed a moment ago.
    pub fn miss(&self) {
        self.missed.notify_one();
    }

    /// Names of objects of which something is known that was not, or is not any more.
    pub fn changes(&self) -> impl Stream<Item = Name> + Send + 'static {
        let known = Arc::clone(&self.known);
        super::cache::names(self.changes.subscribe(), move || {
            known.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
        })
    }

    /// Waits until the first list is here, or it is known that there is none.
    pub fn listed(&self) -> BoxFuture<'static, ()> {
        let mut listed = self.listed.clone();
        // An error says that the watch ended, and with it everything else.
        async move { drop(listed.wait_for(|listed| *listed).await) }.boxed()
    }

    /// Tells whether that is so.
    pub fn first_list(&self) -> FirstList {
        FirstList::new(F::KIND, self.listed.clone())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Name, F>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, name: &Name, facts: Option<F>) {
        let mut all = self.all();
        let changed = match facts {
            Some(facts) => all.insert(name.clone(), facts.clone()).as_ref() != Some(&facts),
            None => all.remove(name).is_some(),
        };
        drop(all);
        if changed {
            // Nobody may be listening yet.
            let _ = self.changes.send(name.clone());
        }
    }

    fn keep_only(&self, there: &HashSet<Name>) {
        let gone: Vec<Name> = self.all().keys().filter(|name| !there.contains(name)).cloned().collect();
        for name in gone {
            self.note(&name, None);
        }
    }
}

/// Answer of the API to whether it serves a kind.
enum Served {
    Yes(Box<Api<DynamicObject>>),
    No,
    /// Nobody answered.
    Unknown,
}

async fn served<F: Facts>(client: &Client) -> Served {
    for version in VERSIONS {
        let kind = GroupVersionKind::gvk(CORE_GROUP, version, F::KIND);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        match api.list(&ListParams::default().limit(1)).await {
            Ok(_) => return Served::Yes(Box::new(api)),
            // Not there, or not for us to see.
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {}
            Err(error) => {
                tracing::debug!(kind = F::KIND, %error, "nobody says whether the kind is served");
                return Served::Unknown;
            }
        }
    }
    Served::No
}

async fn follow<F: Facts>(followed: OptionalWatch<F>, listed: watch::Sender<bool>, client: Client) {
    loop {
        let pause = match served::<F>(&client).await {
            Served::Yes(api) => {
                watch_until_gone(&followed, &listed, *api).await;
                continue;
            }
            Served::No => {
                followed.keep_only(&HashSet::new());
                listed.send_replace(true);
                LOOK_AGAIN
            }
            Served::Unknown => LOOK_SOON,
        };
        let missed = async {
            followed.missed.notified().await;
            tokio::time::sleep(LOOK_SOON).await;
        };
        // Whether somebody asked or the time has passed, the next thing is to look.
        let _ = tokio::time::timeout(pause, missed).await;
    }
}

/// Follows the objects until their kind is not served any more.
async fn watch_until_gone<F: Facts>(
    followed: &OptionalWatch<F>,
    listed: &watch::Sender<bool>,
    api: Api<DynamicObject>,
) {
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    futures::pin_mut!(events);
    let mut there = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => there.clear(),
            Ok(Event::InitApply(object)) => {
                let name = name_of(&object);
                followed.note(&name, Some(F::read(&object)));
                there.insert(name);
            }
            Ok(Event::InitDone) => {
                // What went while nobody watched.
                followed.keep_only(&std::mem::take(&mut there));
                listed.send_replace(true);
            }
            Ok(Event::Apply(object)) => followed.note(&name_of(&object), Some(F::read(&object))),
            Ok(Event::Delete(object)) => followed.note(&name_of(&object), None),
            Err(error) => {
                tracing::debug!(kind = F::KIND, %error, "watch failed");
                if is_gone(&error) {
                    return;
                }
            }
        }
    }
}

fn is_gone(error: &watcher::Error) -> bool {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code,
        _ => return false,
    };
    (400..500).contains(&code) && code != 410 && code != 429
}

fn name_of(object: &DynamicObject) -> Name {
    Name::new(object.namespace().unwrap_or_default(), object.name_any())
}
