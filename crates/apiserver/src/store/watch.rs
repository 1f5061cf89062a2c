//! Streams of changes.
//!
//! A watcher pulls: it holds only a filter and the revision it has come to, and takes the next event from the history
//! of the newest state. The writer does nothing for it but a wake-up, so a watcher that is slow or stuck costs no
//! memory and delays nobody; when history has dropped an event it had not taken, it ends with
//! [`WatchError::TooSlow`]. Order, and no loss and no repetition, follow from there being one history.

use std::{
    collections::{HashMap, hash_map},
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::watch;

use super::{
    Shared,
    history::Event,
    key::{Key, Revision},
    snapshot::{ReadError, State},
};

/// Why a watch cannot start or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The revision to start from cannot be read.
    #[error(transparent)]
    Start(#[from] ReadError),
    /// History has dropped events this watcher had not taken yet.
    #[error("watcher at revision {at} fell behind: history starts at {compacted}")]
    TooSlow {
        /// The last revision that the watcher has seen.
        at: Revision,
        /// The oldest revision history still reaches.
        compacted: Revision,
    },
    /// The store was closed; every event before that has been delivered.
    #[error("the store is closed")]
    Closed,
}

/// The changes that a watcher selects.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// One resource, or all of them.
    pub resource: Option<Arc<str>>,
    /// One namespace, or all of them.
    pub namespace: Option<Arc<str>>,
}

impl Filter {
    fn matches(&self, key: &Key) -> bool {
        self.resource.as_ref().is_none_or(|resource| *resource == key.resource)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
    }
}

/// A stream of the changes after some revision.
pub struct Watcher {
    shared: Arc<Shared>,
    filter: Filter,
    /// Every matching event up to here has been returned.
    at: Revision,
    wake: watch::Receiver<()>,
}

impl Watcher {
    pub(crate) fn start(shared: Arc<Shared>, filter: Filter, from: Revision) -> Result<Self, WatchError> {
        // Subscribed first: a change between the two is then seen, or wakes the first wait.
        let wake = shared.hub.subscribe(filter.resource.as_ref());
        let watcher = Self { shared, filter, at: from, wake };
        match watcher.shared.state().check(from) {
            // What comes up to then is passed over.
            Ok(()) | Err(ReadError::Future { .. }) => Ok(watcher),
            Err(gone @ ReadError::Gone { .. }) => Err(gone.into()),
        }
    }

    /// Waits for the next event. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Event, WatchError> {
        loop {
            // Marked as seen before looking: a change after the look wakes the wait below.
            self.wake.borrow_and_update();
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            if self.wake.changed().await.is_err() {
                return self.try_next()?.ok_or(WatchError::Closed);
            }
        }
    }

    /// The next event if it has already happened.
    pub fn try_next(&mut self) -> Result<Option<Event>, WatchError> {
        let state = self.shared.state();
        self.check(&state)?;
        let event = state.history.after(self.at).find(|event| self.filter.matches(event.key()));
        self.at = event.map_or(state.revision.max(self.at), Event::revision);
        Ok(event.cloned())
    }

    /// The revision this watcher has come to: it has returned every matching event up to and including it, so a client
    /// told of it may resume from there. Moves on with the store while nothing matches.
    pub fn progress(&mut self) -> Result<Revision, WatchError> {
        let state = self.shared.state();
        self.check(&state)?;
        let mut pending = state.history.after(self.at).filter(|event| self.filter.matches(event.key()));
        if pending.next().is_none() {
            self.at = state.revision.max(self.at);
        }
        Ok(self.at)
    }

    /// The oldest revision history still reaches.
    pub fn compacted(&self) -> Revision {
        self.shared.state().compacted
    }

    /// A watcher sleeps through changes of other resources; history dropping those is no loss to it.
    fn check(&self, state: &State) -> Result<(), WatchError> {
        let dropped = match &self.filter.resource {
            None => state.compacted,
            Some(resource) => state.tables.get(resource).map_or(Revision::new(0), |table| table.compacted),
        };
        if self.at < dropped {
            return Err(WatchError::TooSlow { at: self.at, compacted: state.compacted });
        }
        Ok(())
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watcher({:?} at {})", self.filter, self.at)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.hub.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Wakes watchers, only those of a resource that changed.
#[derive(Debug)]
pub(crate) struct Hub {
    /// `None` once the store is closed.
    bells: Mutex<Option<Bells>>,
    count: AtomicUsize,
}

/// By resource, `None` being all of them.
type Bells = HashMap<Option<Arc<str>>, watch::Sender<()>>;

impl Hub {
    pub(crate) fn new() -> Self {
        Self { bells: Mutex::new(Some(HashMap::new())), count: AtomicUsize::new(0) }
    }

    /// The number of watchers.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn subscribe(&self, resource: Option<&Arc<str>>) -> watch::Receiver<()> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        match bells.as_mut() {
            Some(bells) => bells.entry(resource.cloned()).or_default().subscribe(),
            // Its sender is dropped at once, which is how a watcher learns that the store is closed.
            None => watch::Sender::default().subscribe(),
        }
    }

    /// Wakes those who watch one of these resources.
    pub(crate) fn ring<'a>(&self, resources: impl IntoIterator<Item = &'a Arc<str>>) {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bells) = bells.as_mut() else { return };
        for resource in resources.into_iter().map(Some).chain([None]) {
            if let hash_map::Entry::Occupied(bell) = bells.entry(resource.cloned()) {
                bell.get().send_replace(());
                if bell.get().is_closed() {
                    bell.remove();
                }
            }
        }
    }

    /// Lets every watcher end once it has taken what there is.
    pub(crate) fn close(&self) {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
