//! A durable, ordered, watchable map of objects.
//!
//! It knows keys, bytes and revisions; nothing of HTTP and no kind of object.
//!
//! - **One sequence.** Every change takes the next [`Revision`]; none is given out twice, across crashes too.
//! - **Reads** come from an immutable [`Snapshot`] in memory: they never wait and see one revision.
//! - **Writes** go through one thread, which groups what is queued into one commit. A write that was answered survives
//!   `kill -9` and a loss of power; one that failed is not seen, not even in part. When the disk fails in the midst of a
//!   commit, the store turns read-only rather than guess.
//! - **Watches** deliver every change after a revision, in order and once, as far as history reaches.
//!
//! ```text
//!            +-> draft -> journal (SQLite) -+
//! write ---> |            writer            | -> state (immutable) -> get, list
//!            +------------------------------+        `- history ----> watch
//! ```
//!
//! The database is a log of versions that is read once, at start; the module `sqlite` tells its form. A database that
//! lacks anything of what was answered is not opened; [`Recovery`] shows what there is.

mod clock;
mod draft;
mod folder;
mod history;
mod journal;
mod key;
mod object;
mod snapshot;
mod sqlite;
mod stats;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod watch;
mod writer;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

pub use self::{
    clock::{Clock, Millis, SystemClock},
    draft::{Op, WriteError},
    folder::OpenError,
    history::Event,
    key::{Key, Revision},
    object::{Object, Value},
    snapshot::{At, Continue, ListQuery, Page, ReadError, Snapshot},
    sqlite::recover::{Lost, Recovery},
    stats::{Histogram, Stats},
    watch::{Filter, WatchError, Watcher},
    writer::HistoryLimits,
};
use self::{
    journal::{Journal, Nowhere},
    snapshot::State,
    sqlite::Database,
    stats::{Meter, Readings},
    watch::Hub,
    writer::{Command, Writer},
};

/// Writes that may wait for the writer; further callers wait for room. Two full groups: one being written, one ready.
const QUEUE: usize = 1024;

/// Options of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The limits of the history.
    pub history: HistoryLimits,
    /// Tells the age of history.
    pub clock: Arc<dyn Clock>,
    /// The largest size of the database, in bytes. Writes beyond it fail with [`WriteError::Full`].
    pub quota: Option<u64>,
    /// The most bytes of objects, all of which are in memory. Writes that would make it more fail with
    /// [`WriteError::Full`]; deletions never do.
    pub objects_bytes: usize,
}

/// As much as etcd holds unless it is told otherwise.
/// So long a disk that was full is taken to be full still.
const FULL_FOR: Duration = Duration::from_secs(30);

const OBJECTS_BYTES: usize = 2 << 30;

impl Default for Options {
    fn default() -> Self {
        Self {
            history: HistoryLimits::default(),
            clock: Arc::new(SystemClock),
            quota: None,
            objects_bytes: OBJECTS_BYTES,
        }
    }
}

/// State that the writer, the readers and the watchers share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: RwLock<Arc<State>>,
    hub: Hub,
    meter: Meter,
}

impl Shared {
    fn state(&self) -> Arc<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn publish(&self, state: State) {
        let state = Arc::new(state);
        let old = std::mem::replace(&mut *self.state.write().unwrap_or_else(PoisonError::into_inner), state);
        // Freeing what only the old state held takes a while; readers do not wait for it.
        drop(old);
    }
}

/// A handle to a store; clones are the same store. Dropping the last one finishes what is queued and closes the files
/// before it returns, so that the folder can be opened again at once.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({:?} at {})", self.0.database, self.revision())
    }
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    /// `None` only while dropping.
    queue: Option<mpsc::Sender<Command>>,
    writer: Option<JoinHandle<()>>,
    database: Option<PathBuf>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The writer ends when the last sender is dropped.
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            // A panic there has been reported by its own thread.
            let _ = writer.join();
        }
    }
}

impl Store {
    /// Opens the store in `folder`, or makes one there, for this process alone. Blocks while it reads the database.
    pub fn open(folder: &Path, options: &Options) -> Result<Self, OpenError> {
        let (database, state) = Database::open(folder, options.quota)?;
        let path = database.path().to_owned();
        Self::start(Box::new(database), state, Some(path), options)
    }

    /// A new, empty store that lives as long as its handles: the same but for the files.
    pub fn in_memory(options: &Options) -> Result<Self, OpenError> {
        Self::start(Box::new(Nowhere), State::default(), None, options)
    }

    fn start(
        journal: Box<dyn Journal>,
        state: State,
        database: Option<PathBuf>,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let last = state.revision;
        let shared =
            Arc::new(Shared { state: RwLock::new(Arc::new(state)), hub: Hub::new(), meter: Meter::new() });
        let (sender, queue) = mpsc::channel(QUEUE);
        let writer = Writer {
            queue,
            shared: shared.clone(),
            clock: options.clock.clone(),
            limits: options.history,
            objects_bytes: options.objects_bytes,
            last,
            broken: None,
        };
        let writer = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(journal))
            .map_err(OpenError::Thread)?;
        Ok(Self(Arc::new(Inner { shared, queue: Some(sender), writer: Some(writer), database })))
    }

    /// Everything at the newest revision, for several reads that must agree.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.0.shared.state())
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        self.0.shared.state().revision
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.shared.state().get(key).cloned()
    }

    /// A list, or a page of it.
    pub fn list(&self, query: &ListQuery<'_>) -> Result<Page, ReadError> {
        self.snapshot().list(query)
    }

    /// Makes all of these changes, in this order, or none. Returns, for each step, the object it left, with its
    /// revision in place; for a deletion the last state. Once this future has been polled, the write may happen even if
    /// the future is dropped.
    pub async fn write(&self, ops: Vec<Op>) -> Result<Vec<Arc<Object>>, WriteError> {
        self.send(|answer| Command::Write { ops, answer }).await
    }

    /// Creates an object.
    pub async fn create(&self, key: Key, value: Value) -> Result<Arc<Object>, WriteError> {
        self.one(Op::Create { key, value }).await
    }

    /// Replaces an object, if it has the expected revision.
    pub async fn update(
        &self,
        key: Key,
        value: Value,
        expected: Option<Revision>,
    ) -> Result<Arc<Object>, WriteError> {
        self.one(Op::Update { key, value, expected }).await
    }

    /// Deletes an object, if it has the expected revision, and returns its last state with the revision of the
    /// deletion.
    pub async fn delete(&self, key: Key, expected: Option<Revision>) -> Result<Arc<Object>, WriteError> {
        self.one(Op::Delete { key, expected }).await
    }

    /// Watches the changes after `from`, which may be yet to come.
    pub fn watch(&self, filter: Filter, from: Revision) -> Result<Watcher, WatchError> {
        Watcher::start(self.0.shared.clone(), filter, from)
    }

    /// Drops history up to and including `revision`, before its limits would. Returns the revision it now starts at.
    pub async fn compact(&self, revision: Revision) -> Result<Revision, WriteError> {
        self.send(|answer| Command::Compact { revision, answer }).await
    }

    /// Finishes what is queued and closes the files, whoever still has a handle: what is read stays what it was, and
    /// what is written is refused.
    pub async fn close(&self) {
        // Closed before, then.
        let _ = self.send(|answer| Command::Close { answer }).await;
    }

    /// Why the store takes no more writes, when it does not.
    pub fn read_only(&self) -> Option<Arc<str>> {
        self.0.shared.meter.read().read_only
    }

    /// Reason that writes are refused: for good, or a moment ago for want of room.
    pub fn refuses_writes(&self) -> Option<Arc<str>> {
        let Readings { read_only, full, .. } = self.0.shared.meter.read();
        // With room again the next write says so; where nobody writes, nobody knows.
        read_only.or_else(|| full.filter(|(when, _)| when.elapsed() < FULL_FOR).map(|(_, reason)| reason))
    }

    /// Figures for monitoring.
    pub fn stats(&self) -> Stats {
        let Inner { shared, database, .. } = &*self.0;
        let snapshot = self.snapshot();
        let Readings { commit_seconds, group_writes, failed_commits, read_only, full: _ } =
            shared.meter.read();
        Stats {
            revision: snapshot.revision(),
            compacted: snapshot.compacted(),
            objects: snapshot.resources().map(|(resource, count)| (resource.clone(), count)).collect(),
            history_events: snapshot.0.history.len(),
            history_bytes: snapshot.0.history.cost(),
            disk_bytes: database.as_deref().map_or(0, disk_bytes),
            watchers: shared.hub.count(),
            commit_seconds,
            group_writes,
            failed_commits,
            read_only,
        }
    }

    async fn one(&self, op: Op) -> Result<Arc<Object>, WriteError> {
        let objects = self.write(vec![op]).await?;
        Ok(objects.into_iter().next().expect("a write of one step returns one object"))
    }

    async fn send<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, WriteError>>) -> Command,
    ) -> Result<T, WriteError> {
        let queue = self.0.queue.as_ref().ok_or(WriteError::Closed)?;
        let (answer, answered) = oneshot::channel();
        queue.send(command(answer)).await.map_err(|_| WriteError::Closed)?;
        answered.await.map_err(|_| WriteError::Closed)?
    }
}

/// The database and its write-ahead log; a file that is not there has no size.
fn disk_bytes(database: &Path) -> u64 {
    [database.to_owned(), sqlite::log_of(database)]
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .map(|file| file.len())
        .sum()
}
