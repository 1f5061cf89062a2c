//! Errors of an executor.

use std::{io, path::PathBuf, time::Duration};

use crate::{
    order::{RunId, WorkspaceId},
    state_backend::StateBackendError,
};

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
        /// Number of resources.
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

/// Most bytes that are read of what a binary shows: a plan of some ten thousand resources. Plugins of the module have a say in it.
pub(crate) const LARGEST: u64 = 64 << 20;

/// Why a plan is not shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// There is none.
    #[error("no plan is kept")]
    NoPlan,
    /// No binary can show it.
    #[error("{0}")]
    Binary(String),
    /// The binary could not be started.
    #[error("start {program}")]
    Start {
        /// The binary.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The binary failed.
    #[error("{program} show: {words}")]
    Failed {
        /// The binary.
        program: PathBuf,
        /// Its words, redacted.
        words: String,
    },
    /// It shows more than anybody reads.
    #[error("{program} show: more than {} MiB", LARGEST >> 20)]
    TooLarge {
        /// The binary.
        program: PathBuf,
    },
    /// It did not end in time.
    #[error("{program} show: not finished after {} s", .limit.as_secs())]
    TooLong {
        /// The binary.
        program: PathBuf,
        /// Its time limit.
        limit: Duration,
    },
}
