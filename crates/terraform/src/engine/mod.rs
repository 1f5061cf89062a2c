//! The engine: takes orders, runs them, and knows how every workspace stands.

mod adopt;
mod alone;
mod arguments;
mod end;
mod errors;
mod fake;
mod follow;
mod inner;
mod job;
mod judge;
mod keep;
mod latest;
mod options;
mod origin;
mod prepare;
mod pull;
mod removed;
mod state_recovery;
mod stream_recovery;
mod table;
mod taken;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

pub use crate::settings::Settings;
pub use fake::Imagine;
pub use keep::last_state;
pub use options::{Lease, Options};
pub(crate) use state_recovery::copies;

use self::{
    inner::Inner,
    table::{Table, Why},
};
use crate::{
    binary::{Binaries, Binary},
    environment::Environment,
    failure::Failure,
    folders::Folders,
    init_cache::{Initializer, Shapes},
    inputs::{Choice, Inputs, Revision},
    metrics::Snapshot,
    order::{Order, Refused, RunId, WorkspaceId},
    private_files::{create_private, write_durable},
    record::{Record, Seal},
    seen::Seen,
    state::State,
    state_backend::StateBackendError,
    view::{Claim, View},
};

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another engine uses the folder.
    #[error("another engine uses {0}")]
    InUse(PathBuf),
    /// The folder cannot be used.
    #[error("use the data folder {folder}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Why a workspace could not be opened, forgotten or taken over.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// A run is not over.
    #[error("{workspace}: run {run} is not over yet")]
    Busy {
        /// The workspace.
        workspace: WorkspaceId,
        /// That run.
        run: RunId,
    },
    /// A state with resources is there already.
    #[error("{workspace} has a state already; resources in it: {resources}")]
    HasState {
        /// The workspace.
        workspace: WorkspaceId,
        /// How many.
        resources: usize,
    },
    /// The state that was given is another workspace's.
    #[error(
        "{workspace}: the given state holds infrastructure of {user}, and two would change and destroy it; delete that one with \
         retainWorkspaceOnDelete first"
    )]
    SharedState {
        /// The workspace.
        workspace: WorkspaceId,
        /// The other one, as this one may name it.
        user: String,
    },
    /// The state that was given is none.
    #[error("read the given state: {0}")]
    BadState(String),
    /// The record is damaged.
    #[error(
        "{workspace}: the record {record} is damaged ({source}); nothing is run until it is back: restore the file, or remove it and give \
         the state with `capt import-state`"
    )]
    Damaged {
        /// The workspace.
        workspace: WorkspaceId,
        /// The file.
        record: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its folder was there, and is gone.
    #[error(
        "{workspace}: its record {record} was removed while it was in use, and is kept nowhere else; nothing is built, changed or destroyed \
         until it is back: restore the folder, or give the state with `capt import-state`"
    )]
    Removed {
        /// The workspace.
        workspace: WorkspaceId,
        /// The file.
        record: PathBuf,
    },
    /// No good copy of the state is kept.
    #[error("{workspace}: no good copy of the state is kept{}", serial.map(|serial| format!(" with serial {serial}")).unwrap_or_default())]
    NoCopy {
        /// The workspace.
        workspace: WorkspaceId,
        /// The one that was asked for.
        serial: Option<u64>,
    },
    /// The state backend failed.
    #[error(transparent)]
    StateBackend(#[from] StateBackendError),
    /// The folder failed.
    #[error("use the folder of {workspace}")]
    Folder {
        /// The workspace.
        workspace: WorkspaceId,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Runs Terraform and OpenTofu. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

impl Engine {
    /// Starts in a folder: adopts runs that are still alive, and finishes those that are not. Must be called in a runtime, which the
    /// engine then uses.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let folder = options.folder.clone();
        let trouble = |source| StartError::Folder { folder: folder.clone(), source };
        let root = folder.clone();
        let (folders, lock) = blocking(move || {
            let folders = Folders::make(&root)?;
            let lock = create_private(&folders.lock())?;
            let free = lock.try_lock().is_ok();
            Ok((folders, free.then_some(lock)))
        })
        .await
        .map_err(trouble)?;
        let Some(lock) = lock else { return Err(StartError::InUse(folder)) };
        let (place, settings) = (
            folders.settings(),
            Settings { sandbox: options.sandbox, allow_paths: options.allow_paths.clone() },
        );
        // For people who look: no reason not to start on a full disk.
        let _ = blocking(move || settings.write(&place)).await;
        let binaries = Binaries::new(options.path.clone(), options.version_timeout);
        let environment = Environment::new(folders.clone(), binaries.path().to_owned(), options.sandbox);
        let shapes = Shapes::new(Initializer::new(folders.clone(), environment, options.guard.clone()));
        let runtime = tokio::runtime::Handle::current();
        let inner = Arc::new_cyclic(|own| Inner {
            table: Mutex::new(Table::new(options.slots)),
            options,
            folders,
            binaries,
            shapes,
            changes: broadcast::channel(4096).0,
            stopping: watch::channel(false).0,
            runtime,
            tasks: Mutex::default(),
            lock: Mutex::new(Some(lock)),
            own: own.clone(),
        });
        let adopting = inner.clone();
        blocking(move || adopting.adopt()).await.map_err(trouble)?;
        Ok(Self { inner })
    }

    /// Names of workspaces whose view changed. A receiver that lags should look at all.
    pub fn changes(&self) -> broadcast::Receiver<WorkspaceId> {
        self.inner.changes.subscribe()
    }

    /// Makes a workspace known: from the folder, else from the state backend. Cheap where it is known already.
    pub async fn open(&self, workspace: &WorkspaceId) -> Result<View, WorkspaceError> {
        let done = {
            let mut table = self.inner.table();
            let entry = table.entry(workspace);
            (entry.known || entry.run.is_some() || self.inner.options.imagine.is_some())
                .then(|| entry.view.clone())
        };
        if let Some(view) = done {
            return Ok(view);
        }
        let loaded = match self.inner.load(workspace).await {
            Err(error @ WorkspaceError::Removed { .. }) => {
                return Ok(self.inner.view_of_removed(workspace, &error));
            }
            Err(
                error @ (WorkspaceError::Damaged { .. }
                | WorkspaceError::StateBackend(StateBackendError::Damaged(_))),
            ) => Err(Failure::of_workspace(&error)),
            loaded => Ok(loaded?),
        };
        // What is damaged is looked at again: the state backend may have it.
        let known = loaded.is_ok();
        let folder = self.inner.folders.workspace(workspace);
        let view = blocking(move || match loaded {
            Ok(record) => adopt::view_of(&folder, &record),
            Err(trouble) => {
                let here = state_recovery::read(&folder).ok().flatten();
                let claim = here.and_then(|state| Claim::unknown(&state.lineage));
                View { trouble: Some(trouble), touched: true, claim, ..View::default() }
            }
        })
        .await;
        let mut table = self.inner.table();
        let entry = table.entry(workspace);
        (entry.known, entry.unread) = (known, !known);
        if entry.run.is_none() {
            entry.view = view;
        }
        Ok(entry.view.clone())
    }

    /// How a workspace stands, from memory. One that was never opened or run looks untouched: with a state backend, open it first.
    pub fn look(&self, workspace: &WorkspaceId) -> View {
        self.inner.table().entries.get(workspace).map(|entry| entry.view.clone()).unwrap_or_default()
    }

    /// Every workspace that is known.
    pub fn workspaces(&self) -> Vec<WorkspaceId> {
        self.inner.table().entries.keys().cloned().collect()
    }

    /// Takes an order, and returns at once. A destroy replaces a run that only waits.
    pub fn run(&self, order: Order) -> Result<RunId, Refused> {
        self.inner.order(order)
    }

    /// Interrupts the run of a workspace; false where there is none.
    pub fn cancel(&self, workspace: &WorkspaceId) -> bool {
        self.inner.stop(workspace, Why::Cancelled)
    }

    /// Cancels a run whose inputs are old. Unlike one that a person cancels, it says nothing about its revision, which may be wanted again.
    pub fn supersede(&self, workspace: &WorkspaceId) -> bool {
        self.inner.stop(workspace, Why::Superseded)
    }

    /// Forgets a workspace: folder, plan, inputs, state, here and with the state backend. Refused during a run. The log and the end of its
    /// last failed run stay for a while.
    pub async fn forget(&self, workspace: &WorkspaceId) -> Result<(), WorkspaceError> {
        let _reserved = self.inner.reserve(workspace)?;
        if self.inner.options.imagine.is_some() {
            self.inner.table().entries.remove(workspace);
            self.inner.changed(workspace);
            return Ok(());
        }
        if let Some(state_backend) = &self.inner.options.state_backend {
            state_backend.remove(workspace).await?;
        }
        let folder = self.inner.folders.workspace(workspace);
        let scratch = self.inner.folders.scratch(workspace.as_str());
        let (folders, id) = (self.inner.folders.clone(), workspace.clone());
        let kept = move || {
            // Without it there is less to read, and nothing else.
            if let Err(error) = crate::failed::keep(&folders, &id) {
                tracing::warn!(workspace = %id, %error, "its failed run is not kept");
            }
            folder.forget(&scratch)
        };
        blocking(kept)
            .await
            .map_err(|source| WorkspaceError::Folder { workspace: workspace.clone(), source })?;
        self.inner.table().entries.remove(workspace);
        self.inner.changed(workspace);
        Ok(())
    }

    /// Whether a workspace was forgotten, and nobody was told yet that it is released.
    pub fn has_forgotten(&self, workspace: &WorkspaceId) -> bool {
        let folder = self.inner.folders.workspace(workspace);
        let shared = self
            .inner
            .options
            .state_backend
            .as_ref()
            .is_some_and(|state_backend| state_backend.shares(workspace));
        // What this engine knew of one that is kept no more may be all that is left of it.
        folder.forgotten().exists() || (shared && !folder.gone_record().exists())
    }

    /// Removes the trace of a workspace that was forgotten, once nobody can ask for it any more.
    pub async fn released(&self, workspace: &WorkspaceId) {
        let folder = self.inner.folders.workspace(workspace);
        let is_here = blocking(move || {
            if folder.forgotten().exists() {
                // Best effort: what is left is one empty file.
                let _ = crate::beneath::remove(&folder.0);
            }
            folder.record().exists()
        })
        .await;
        if !is_here && self.remembers() {
            self.inner.disremember(workspace);
        }
    }

    /// Whether it knows after a restart what it did before.
    pub fn remembers(&self) -> bool {
        self.inner.options.imagine.is_none()
    }

    /// Takes over an existing state. Refused where one with resources is there, and where it is another workspace's.
    pub async fn take_over(&self, workspace: &WorkspaceId, state: &[u8]) -> Result<(), WorkspaceError> {
        let taken = State::read(state).map_err(|error| WorkspaceError::BadState(error.to_string()))?;
        self.open(workspace).await?;
        let _reserved = self.inner.reserve(workspace)?;
        let resources = self.look(workspace).resources;
        if resources > 0 {
            return Err(WorkspaceError::HasState { workspace: workspace.clone(), resources });
        }
        if let Some(user) = self.inner.user_of(workspace, &taken).await {
            let user = Inner::shown(workspace, &user);
            return Err(WorkspaceError::SharedState { workspace: workspace.clone(), user });
        }
        let record = self.inner.load_or_new(workspace).await?;
        // Whoever gave it, nobody vouches for it.
        self.put_in_place(workspace, Record { made_by: None, ..record }, taken, state.to_vec()).await
    }

    /// Restores a good copy of the state: the newest, or the one with that serial. Returns its serial. The next apply compares it with what
    /// is really there.
    pub async fn restore_state(
        &self,
        workspace: &WorkspaceId,
        serial: Option<u64>,
    ) -> Result<u64, WorkspaceError> {
        let _reserved = self.inner.reserve(workspace)?;
        let (record, damaged) = match self.inner.load(workspace).await {
            Err(WorkspaceError::StateBackend(StateBackendError::Damaged(_))) => {
                (self.inner.here(workspace).await?, true)
            }
            Err(WorkspaceError::Removed { .. }) => (Record::new(workspace.clone()), false),
            loaded => (loaded?, false),
        };
        let (folder, known) = (self.inner.folders.workspace(workspace), record.clone());
        let copies = blocking(move || copies(&folder, &known)).await;
        let wanted = copies.into_iter().find(|copy| serial.is_none_or(|serial| serial == copy.state.serial));
        let Some(copy) = wanted else {
            return Err(WorkspaceError::NoCopy { workspace: workspace.clone(), serial });
        };
        let serial = copy.state.serial;
        let made_by = record.made_by.clone().filter(|_| copy.is_theirs);
        if let (Some(state_backend), true) = (&self.inner.options.state_backend, damaged) {
            // What a state backend keeps is written over where somebody can tell who wrote it. A person has decided here. What is here must not
            // look as if somebody had ended it, should this be cut off.
            let (folder, unseen) =
                (self.inner.folders.workspace(workspace), Record { seen: None, ..record.clone() });
            blocking(move || folder.make().and_then(|()| unseen.write(&folder)))
                .await
                .map_err(|source| WorkspaceError::Folder { workspace: workspace.clone(), source })?;
            state_backend.remove(workspace).await?;
            self.inner.table().entry(workspace).known = true;
        }
        self.put_in_place(workspace, Record { made_by, ..record }, copy.state, copy.bytes).await?;
        Ok(serial)
    }

    /// Makes a state the state of record.
    async fn put_in_place(
        &self,
        workspace: &WorkspaceId,
        mut record: Record,
        state: State,
        bytes: Vec<u8>,
    ) -> Result<(), WorkspaceError> {
        record.touched = true;
        record.applied = None;
        record.planned = None;
        record.state = Some(Seal::of(&state, &bytes));
        record.doubt = None;
        record.hold(Some(&state), Timestamp::now());
        // Kept first: what is newer there counts, should this be cut off.
        if let Some(state_backend) = &self.inner.options.state_backend {
            let kept = record.kept(bytes.clone(), None);
            let seen = Seen::written(&kept);
            state_backend.keep(workspace, kept).await?;
            record.seen = Some(seen).filter(|_| state_backend.shares(workspace));
        }
        let (folder, written) = (self.inner.folders.workspace(workspace), record.clone());
        blocking(move || {
            folder.make()?;
            write_durable(&folder.state(), &bytes)?;
            written.write(&folder)
        })
        .await
        .map_err(|source| {
            self.inner.table().entry(workspace).known = false;
            WorkspaceError::Folder { workspace: workspace.clone(), source }
        })?;
        self.inner.table().entry(workspace).known = true;
        self.inner.update(workspace, |view| *view = end::view(&record, Some(state)));
        Ok(())
    }

    /// The revision of inputs: no process is needed where it equals [`View::applied`]. A module in a folder of this machine is read for it,
    /// off the runtime's threads.
    pub async fn revision(&self, inputs: &Inputs) -> Result<Revision, Failure> {
        if crate::init_cache::local_folder(&inputs.module).is_none() {
            return self.inner.revision(inputs);
        }
        let (inner, inputs) = (self.inner.clone(), inputs.clone());
        blocking(move || inner.revision(&inputs)).await
    }

    /// The binary a choice means. Asks for its version once per path and modification time, which blocks for that long.
    pub fn binary(&self, choice: &Choice) -> Result<Binary, Failure> {
        self.inner.binaries.find(choice)
    }

    /// Whether there is a binary for a choice at all. Asks it for nothing.
    pub fn has_binary(&self, choice: &Choice) -> bool {
        self.inner.binaries.is_there(choice)
    }

    /// Starts nothing more, and waits until what runs has ended; what waits for its turn is left alone.
    pub async fn finish(&self) {
        let mut changes = self.changes();
        self.inner.table().closed = true;
        while self.under_way() > 0 {
            // One that lags looks again, too.
            let _ = changes.recv().await;
        }
    }

    /// How many runs have begun and not ended.
    pub fn under_way(&self) -> usize {
        let table = self.inner.table();
        table.entries.values().filter(|entry| entry.run.as_ref().is_some_and(|run| !run.queued)).count()
    }

    /// Starts nothing more. What runs lives on, and is adopted by the next engine.
    pub async fn stop(self) {
        self.inner.stopping.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
        self.inner.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Numbers.
    pub fn metrics(&self) -> Snapshot {
        self.inner.metrics()
    }
}

/// Runs what waits for the disk where it keeps nobody else waiting.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
