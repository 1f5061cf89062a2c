//! The executor of this machine: runs Terraform and OpenTofu as processes, and knows how far every workspace is.

mod adopt;
mod alone;
mod arguments;
mod backend_wait;
mod end;
mod errors;
mod executor;
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
mod workspace_store;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{broadcast, watch};

pub use crate::settings::Settings;
pub use keep::last_state;
pub use options::{Lease, Options};
pub(crate) use state_recovery::copies;

use self::{inner::Inner, table::Table};
use crate::{
    binary::Binaries,
    blocking::blocking,
    environment::Environment,
    folders::Folders,
    init_cache::{InitCache, Initializer},
    inputs::Choice,
    metrics::Snapshot,
    order::WorkspaceId,
    private_files::create_private,
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
        let settings = Settings {
            sandbox: options.sandbox,
            allow_paths: options.allow_paths.clone(),
            refuse_paths: options.refuse_paths.clone(),
        };
        let of_place = folders.clone();
        // No reason not to start on a full disk: the one is for people who look, and without the other nothing is noted.
        let place = blocking(move || {
            let _ = settings.write(&of_place.settings());
            of_place.id().ok()
        })
        .await;
        let binaries = Binaries::new(options.path.clone(), options.version_timeout);
        let environment =
            Environment::new(folders.clone(), binaries.path().to_owned(), options.sandbox, options.roots());
        let init_cache =
            InitCache::new(Initializer::new(folders.clone(), environment, options.guard.clone()));
        let runtime = tokio::runtime::Handle::current();
        let inner = Arc::new_cyclic(|own| Inner {
            table: Mutex::new(Table::new(options.slots)),
            options,
            folders,
            place,
            binaries,
            init_cache,
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

    /// Every workspace that is known.
    pub fn workspaces(&self) -> Vec<WorkspaceId> {
        self.inner.table().entries.keys().cloned().collect()
    }

    /// Returns true if there is a binary for a choice at all. Asks it for nothing.
    pub async fn has_binary(&self, choice: &Choice) -> bool {
        let (inner, choice) = (self.inner.clone(), choice.clone());
        blocking(move || inner.binaries.is_there(&choice)).await
    }

    /// The data folder, and the program that guards runs.
    pub(crate) fn place(&self) -> (Folders, PathBuf) {
        (self.inner.folders.clone(), self.inner.options.guard.clone())
    }

    /// Starts nothing more, and waits until what runs has ended; what waits for its turn is left alone.
    pub async fn finish(&self) {
        let mut changes = self.inner.changes.subscribe();
        self.inner.table().closed = true;
        while self.under_way() > 0 {
            // One that lags looks again, too.
            let _ = changes.recv().await;
        }
    }

    /// Number of runs that have begun and not ended.
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
