//! Sources of objects: one read of an API, or a watch.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::object_summary::{Kind, ObjectSummary};
use crate::commands::client::in_words;

/// Large enough that ten thousand machines are few requests, small enough that no answer is held whole for long.
const PAGE: u32 = 2500;

/// The objects of one moment.
pub type Things = Vec<(Kind, ObjectSummary)>;

/// Lists every kind, all at once. A kind that the API does not know has no objects.
pub async fn list(client: &Client, namespace: Option<&str>) -> io::Result<Things> {
    let mut kinds = JoinSet::new();
    for kind in Kind::ALL {
        let api = api(client, kind, namespace);
        kinds.spawn(async move { (kind, list_kind(&api).await) });
    }
    let mut things = Vec::new();
    let mut unknown = 0;
    while let Some(done) = kinds.join_next().await {
        let (kind, list) = done.map_err(io::Error::other)?;
        match list {
            Ok(list) => things.extend(list.into_iter().map(|thing| (kind, thing))),
            Err(kube::Error::Api(status)) if status.code == 404 => unknown += 1,
            Err(error) => return Err(in_words(error)),
        }
    }
    if unknown == Kind::ALL.len() {
        let message =
            "CAPT's CRDs are not installed on this API: capt crds | kubectl apply --server-side -f -";
        return Err(io::Error::other(message));
    }
    Ok(things)
}

async fn list_kind(api: &Api<ObjectSummary>) -> Result<Vec<ObjectSummary>, kube::Error> {
    let mut params = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = api.list(&params).await?;
        let next = page.metadata.continue_.clone().filter(|next| !next.is_empty());
        all.extend(page.items);
        match next {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(all),
        }
    }
}

fn api(client: &Client, kind: Kind, namespace: Option<&str>) -> Api<ObjectSummary> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource()),
        None => Api::all_with(client.clone(), &kind.resource()),
    }
}

/// Identity of an object: its kind, namespace and name.
pub type Key = (Kind, String, String);

/// Objects seen so far.
#[derive(Default)]
struct Known {
    objects: HashMap<Key, ObjectSummary>,
    /// Kinds that were listed once.
    listed: HashSet<Kind>,
}

/// The objects of an API, kept up to date. It stops when this is dropped.
pub struct Follower {
    known: Arc<Mutex<Known>>,
    changes: watch::Receiver<u64>,
    _tasks: JoinSet<()>,
}

impl Follower {
    /// Starts to follow; kinds that the API does not know yet are taken up when it does.
    pub fn start(client: &Client, namespace: Option<&str>) -> Self {
        let known = Arc::new(Mutex::new(Known::default()));
        let (told, changes) = watch::channel(0);
        let told = Arc::new(told);
        let mut tasks = JoinSet::new();
        for kind in Kind::ALL {
            let (api, known, told) = (api(client, kind, namespace), Arc::clone(&known), Arc::clone(&told));
            tasks.spawn(async move { follow(kind, api, &known, &told).await });
        }
        Self { known, changes, _tasks: tasks }
    }

    /// Returns true once every kind was listed.
    pub fn is_complete(&self) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).listed.len() == Kind::ALL.len()
    }

    /// Waits until something has changed since the last call.
    pub async fn changed(&mut self) {
        // The tasks that tell live as long as this.
        let _ = self.changes.changed().await;
    }

    /// Delay before the next redraw: redrawing more often shows no more, and a large fleet takes long to draw and should not take
    /// the processor for it.
    pub fn pause(&self) -> Duration {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = u32::try_from(known.objects.len()).unwrap_or(u32::MAX);
        Duration::from_millis(10).saturating_add(Duration::from_micros(40).saturating_mul(objects))
    }

    /// Returns true if all of these exist and `is` holds for them.
    pub fn all(&self, keys: &[Key], is: impl Fn(Kind, &ObjectSummary) -> bool) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().all(|key| known.objects.get(key).is_some_and(|thing| is(key.0, thing)))
    }

    /// Hands the objects of this moment to `look`.
    pub fn with<T>(&self, look: impl FnOnce(&[(Kind, &ObjectSummary)]) -> T) -> T {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let things: Vec<(Kind, &ObjectSummary)> =
            known.objects.iter().map(|((kind, ..), thing)| (*kind, thing)).collect();
        look(&things)
    }
}

async fn follow(kind: Kind, api: Api<ObjectSummary>, known: &Mutex<Known>, told: &watch::Sender<u64>) {
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut listed: Vec<Key> = Vec::new();
    while let Some(event) = events.next().await {
        // A watch that broke is begun again by the stream; until then the tree shows what was known.
        let Ok(event) = event else { continue };
        let mut guard = known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { objects, listed: complete } = &mut *guard;
        let key = |thing: &ObjectSummary| (kind, thing.namespace().to_owned(), thing.name_any());
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(thing) => {
                listed.push(key(&thing));
                objects.insert(key(&thing), thin(thing));
                continue;
            }
            watcher::Event::InitDone => {
                let seen: HashSet<Key> = listed.drain(..).collect();
                objects.retain(|key, _| key.0 != kind || seen.contains(key));
                complete.insert(kind);
            }
            watcher::Event::Apply(thing) => {
                objects.insert(key(&thing), thin(thing));
            }
            watcher::Event::Delete(thing) => {
                objects.remove(&key(&thing));
            }
        }
        drop(guard);
        told.send_modify(|count| *count += 1);
    }
}

/// Two thirds of an object's memory are of no use here.
fn thin(mut thing: ObjectSummary) -> ObjectSummary {
    thing.metadata.managed_fields = None;
    thing
}
