//! The durable place beside the folder: Secrets in a cluster, where the folder may be gone after a restart.

use std::{future::ready, time::Duration};

use futures::{FutureExt, future::BoxFuture};

use crate::order::WorkspaceId;

/// Keeps what must not be lost. The engine calls it on every change of state and inputs, and a run is not over before its
/// last state is kept.
pub trait StateBackend: Send + Sync + 'static {
    /// Loads the stored content of a workspace.
    fn load<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Option<Kept>, StateBackendError>>;
    /// Stores it, in place of the content before.
    fn keep<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        kept: Kept,
    ) -> BoxFuture<'a, Result<(), StateBackendError>>;
    /// Returns true if a workspace is stored at all, so that another controller can continue with it.
    fn shares(&self, _workspace: &WorkspaceId) -> bool {
        true
    }
    /// Returns true if the place itself goes away: that a workspace is not kept there then does not say that somebody ended it.
    fn is_closing<'a>(
        &'a self,
        _workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<bool, StateBackendError>> {
        ready(Ok(false)).boxed()
    }
    /// Deletes it.
    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), StateBackendError>>;
}

/// Stored content of a workspace.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Record of the workspace: the revision of the last apply, and its state at that time.
    pub record: Vec<u8>,
    /// The inputs of the last apply, for a destroy when what they were made from is gone. Nobody but an engine may read them: they
    /// hold credentials. Empty where there are none, or none any more that were kept together with this record
    /// and this state: then those of the order are taken.
    pub inputs: Vec<u8>,
    /// The state file, which is secret; empty where there is none.
    pub state: Vec<u8>,
    /// The run that is under way: it may have made more than the state knows.
    pub running: Option<Running>,
}

/// A run that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its id.
    pub run: String,
    /// By when it has ended and handed in its state, once its controller has lost its lease: counted from there where it is kept,
    /// and from now where it is loaded.
    pub ends_within: Duration,
}

/// Reason why a workspace could not be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateBackendError {
    /// Another controller owns the workspace: its run is stopped gracefully.
    #[error("{0}")]
    Fenced(String),
    /// A run of the controller before may still be under way.
    #[error("{0}")]
    Unsettled(String),
    /// A failed attempt, which is repeated.
    #[error("{0}")]
    Failed(String),
    /// The stored content is cut, altered, or none of this workspace. A user has to inspect it.
    #[error("{0}")]
    Damaged(String),
    /// It is not kept any more: the place itself goes away, with all that is in it.
    #[error("{0}")]
    Closed(String),
    /// The content is too large to be stored, however often it is tried.
    #[error("{0}")]
    TooLarge(String),
}
