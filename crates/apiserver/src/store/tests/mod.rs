//! The store as its callers see it: tables, properties, faults and crashes.

mod crash;
mod damage;
mod faults;
mod files;
mod history;
mod interleaving;
mod semantics;

use std::{
    collections::BTreeMap,
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub(crate) use self::faults::{court, no_room};
use super::*;

/// What is lost is waited for in vain; this is when it is given up.
const DEADLINE: Duration = Duration::from_secs(300);

/// A clock that stands still until told.
#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Hand {
    fn advance(&self, millis: Millis) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Millis {
        self.0.load(Ordering::Relaxed)
    }
}

fn memory() -> Store {
    Store::in_memory(&Options::default()).unwrap()
}

fn open(folder: &Path) -> Store {
    Store::open(folder, &Options::default()).unwrap()
}

/// A folder for a store that will have other files put into it.
fn private() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
}

fn key(resource: &str, namespace: &str, name: &str) -> Key {
    Key::new(resource, namespace, name)
}

/// Content that shows its revision, as objects of the API do.
fn value(content: &str) -> Value {
    Value::with_gap(&b"{\"revision\":\""[..], format!("\",\"content\":\"{content}\"}}"))
}

fn text(object: &Object) -> &str {
    std::str::from_utf8(object.bytes()).unwrap()
}

fn rendered(content: &str, revision: u64) -> String {
    format!("{{\"revision\":\"{revision}\",\"content\":\"{content}\"}}")
}

/// An event in short, such as `+3 a` or `~4 a` or `-5 a`.
fn short(event: &Event) -> String {
    let sign = match event {
        Event::Added { .. } => '+',
        Event::Modified { .. } => '~',
        Event::Deleted { .. } => '-',
    };
    format!("{sign}{} {}", event.revision(), event.key().name)
}

fn drain(watcher: &mut Watcher) -> Result<Vec<Event>, WatchError> {
    std::iter::from_fn(|| watcher.try_next().transpose()).collect()
}

type Objects = BTreeMap<Key, Arc<Object>>;

/// What a client that follows events would hold; fails where an event does not fit.
fn follow(objects: &mut Objects, event: &Event) {
    let before = objects.remove(event.key());
    assert_eq!(before.as_ref(), event.previous(), "{} does not follow", short(event));
    if let Some(object) = event.current() {
        objects.insert(event.key().clone(), object.clone());
    }
    if let Event::Deleted { object, previous } = event {
        assert_eq!(*object, previous.deleted_at(event.revision()));
    }
}

fn listed(page: &Page) -> Objects {
    page.objects.iter().map(|object| (object.key().clone(), object.clone())).collect()
}
