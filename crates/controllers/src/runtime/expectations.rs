//! Writes of a controller, until its cache shows them: a decision on a cache that lags behind one's own writes would
//! take the same step twice.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::cache::Cache;
use super::error::Error;
use super::name::Name;
use super::status::version;
use super::writer::{Deleted, Kind, Writer};

/// Time that a cache may take to show a new object before somebody reads whether it is still there: a read for each of
/// many would cost more than the wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// State of an object that the cache must show.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Note {
    /// This version or a later one; since when.
    Version(u64, Instant),
    /// No object of this uid.
    Gone(String),
    /// Nobody knows whether the write was done: a live read must tell.
    Unknown,
}

impl Note {
    /// Returns true if the cache still has time to show it.
    fn waits(&self) -> bool {
        match self {
            Self::Version(_, since) => since.elapsed() <= PATIENCE,
            Self::Gone(_) => true,
            Self::Unknown => false,
        }
    }
}

/// Returns true if a cache that has this object shows what was noted.
fn shown<K: Kind>(note: &Note, known: Option<&K>) -> bool {
    match (note, known) {
        (Note::Version(wanted, _), Some(known)) => version(known) >= *wanted,
        (Note::Gone(uid), Some(known)) => known.meta().uid.as_deref() != Some(uid),
        (Note::Gone(_), None) => true,
        (Note::Version(..), None) | (Note::Unknown, _) => false,
    }
}

/// Writes to objects of one kind, by the object for whose sake they were made.
#[derive(Debug)]
pub struct Expectations<K> {
    notes: Mutex<HashMap<Name, HashMap<Name, Note>>>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Default for Expectations<K> {
    fn default() -> Self {
        Self { notes: Mutex::default(), kind: PhantomData }
    }
}

impl<K: Kind> Expectations<K> {
    /// An object was written, as this version.
    pub fn wrote(&self, parent: &Name, child: Name, version: u64) {
        self.note(parent, child, Note::Version(version, Instant::now()));
    }

    /// An object was deleted.
    pub fn deleted(&self, parent: &Name, child: Name, uid: &str, outcome: Deleted) {
        let note = match outcome {
            Deleted::Going(version) => Note::Version(version, Instant::now()),
            Deleted::Gone => Note::Gone(uid.to_owned()),
        };
        self.note(parent, child, note);
    }

    /// A write whose outcome nobody knows.
    pub fn unknown(&self, parent: &Name, child: Name) {
        self.note(parent, child, Note::Unknown);
    }

    /// Drops the notes of an object that is gone.
    pub fn forget(&self, parent: &Name) {
        self.all().remove(parent);
    }

    /// Returns true if the cache shows everything that was written for an object.
    pub async fn caught_up(&self, parent: &Name, cache: &Cache<K>, writer: &Writer) -> Result<bool, Error> {
        let notes: Vec<(Name, Note)> = {
            let mut all = self.all();
            let Some(notes) = all.get_mut(parent) else { return Ok(true) };
            // Asked at each change of a hundred objects: what the cache shows is struck off, and most often no more is to do.
            notes.retain(|child, note| !shown(note, cache.get(child).as_deref()));
            if notes.is_empty() {
                all.remove(parent);
                return Ok(true);
            }
            if notes.values().all(Note::waits) {
                return Ok(false);
            }
            notes.iter().map(|(child, note)| (child.clone(), note.clone())).collect()
        };
        let mut behind = HashMap::new();
        for (child, note) in notes {
            if let Some(note) = still_behind::<K>(&child, note, cache, writer).await? {
                behind.insert(child, note);
            }
        }
        let done = behind.is_empty();
        let mut all = self.all();
        if done {
            all.remove(parent);
        } else {
            all.insert(parent.clone(), behind);
        }
        Ok(done)
    }

    fn note(&self, parent: &Name, child: Name, note: Note) {
        self.all().entry(parent.clone()).or_default().insert(child, note);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Name, HashMap<Name, Note>>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the note that the cache must still show; none where it shows it.
async fn still_behind<K: Kind>(
    child: &Name,
    note: Note,
    cache: &Cache<K>,
    writer: &Writer,
) -> Result<Option<Note>, Error> {
    let note = match note {
        Note::Unknown => match writer.read::<K>(child).await? {
            Some(live) => Note::Version(version(&live), Instant::now()),
            None => match cache.get(child) {
                Some(known) => Note::Gone(known.meta().uid.clone().unwrap_or_default()),
                None => return Ok(None),
            },
        },
        known => known,
    };
    let seen = match (&note, cache.get(child)) {
        // Not seen yet, or come and gone: only the API knows.
        (Note::Version(_, since), None) => {
            since.elapsed() > PATIENCE && writer.read::<K>(child).await?.is_none()
        }
        (note, known) => shown(note, known.as_deref()),
    };
    Ok((!seen).then_some(note))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use capt_api::machine::{CaptMachine, CaptMachineSpec};
    use futures::channel::mpsc;
    use kube::runtime::watcher::Event;
    use kube::{Client, Config};

    use super::*;
    use crate::runtime::cache::{Keep, by_owner};

    fn machine(version: u64, uid: &str) -> CaptMachine {
        let mut machine = CaptMachine::new("m", CaptMachineSpec::default());
        machine.metadata.namespace = Some("n".into());
        machine.metadata.uid = Some(uid.into());
        machine.metadata.resource_version = Some(version.to_string());
        machine
    }

    /// The clock stands still: the cache has all the time that it may take.
    #[tokio::test(start_paused = true)]
    async fn a_cache_that_lags_is_waited_for() {
        let (events, stream) = mpsc::unbounded();
        let (cache, work) = Cache::<CaptMachine>::follow(stream, by_owner, Keep::Whole);
        tokio::spawn(work);
        let mut changes = std::pin::pin!(cache.changes());
        let mut show = async |event: Event<CaptMachine>| {
            events.unbounded_send(Ok(event)).unwrap();
            futures::StreamExt::next(&mut changes).await.unwrap();
        };
        // Nobody listens there: a read would fail the test.
        let config = Config::new("http://127.0.0.1:1".parse().unwrap());
        let writer = Writer::new(Client::try_from(config).unwrap(), "test");
        let (set, name) = (Name::new("n", "set"), Name::new("n", "m"));
        let writes = Expectations::<CaptMachine>::default();
        assert!(writes.caught_up(&set, &cache, &writer).await.unwrap(), "nothing was written");

        writes.wrote(&set, name.clone(), 7);
        assert!(!writes.caught_up(&set, &cache, &writer).await.unwrap(), "not seen at all");
        show(Event::Apply(machine(6, "a"))).await;
        assert!(!writes.caught_up(&set, &cache, &writer).await.unwrap(), "an older one");
        show(Event::Apply(machine(8, "a"))).await;
        assert!(writes.caught_up(&set, &cache, &writer).await.unwrap(), "a later one will do");

        writes.deleted(&set, name.clone(), "a", Deleted::Gone);
        assert!(!writes.caught_up(&set, &cache, &writer).await.unwrap(), "it is still shown");
        show(Event::Apply(machine(9, "b"))).await;
        assert!(writes.caught_up(&set, &cache, &writer).await.unwrap(), "another of its name");

        writes.unknown(&set, name);
        assert!(writes.caught_up(&set, &cache, &writer).await.is_err(), "only the API can tell");
    }
}
