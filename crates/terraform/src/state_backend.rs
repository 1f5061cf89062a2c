//! The durable place beside the folder: Secrets in a cluster, where the folder may be gone after a restart.

use std::{future::ready, time::Duration};

use futures::{FutureExt, future::BoxFuture};

use crate::order::WorkspaceId;

/// Keeps what must not be lost. The engine calls it on every change of state and inputs, and a run is not over before its
/// last state is kept.
pub trait StateBackend: Send + Sync + 'static {
    /// What is kept of a workspace.
    fn load<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Option<Kept>, StateBackendError>>;
    /// Keeps it, in place of what was kept.
    fn keep<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        kept: Kept,
    ) -> BoxFuture<'a, Result<(), StateBackendError>>;
    /// Whether a workspace is kept at all, so that somebody else can go on with it.
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
    /// Forgets it.
    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), StateBackendError>>;
}

/// What is kept of a workspace.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// What is known of it: the revision of the last apply, and what its state was then.
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

/// Why it could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateBackendError {
    /// Somebody else owns the workspace: its run is stopped gracefully.
    #[error("{0}")]
    Fenced(String),
    /// A run of the controller before may still be under way.
    #[error("{0}")]
    Unsettled(String),
    /// It is tried again.
    #[error("{0}")]
    Failed(String),
    /// What is kept is cut, altered, or none of this workspace. Somebody has to look at it.
    #[error("{0}")]
    Damaged(String),
    /// It is not kept any more: the place itself goes away, with all that is in it.
    #[error("{0}")]
    Closed(String),
    /// It is not kept, however often it is tried: there is too much of it.
    #[error("{0}")]
    TooLarge(String),
}
