//! The durable place beside the folder: Secrets in a cluster, where the folder may be gone after a restart.

use futures::future::BoxFuture;

use crate::order::WorkspaceId;

/// Keeps what must not be lost. The engine calls it on every change of state and inputs, and a run is not over before its
/// last state is kept.
pub trait Keeper: Send + Sync + 'static {
    /// What is kept of a workspace.
    fn load<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<Option<Kept>, KeepError>>;
    /// Keeps it, in place of what was kept.
    fn keep<'a>(&'a self, workspace: &'a WorkspaceId, kept: Kept) -> BoxFuture<'a, Result<(), KeepError>>;
    /// Forgets it.
    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), KeepError>>;
}

/// What is kept of a workspace. Both are secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The inputs of the last apply and its revision.
    pub record: Vec<u8>,
    /// The state file; empty where there is none.
    pub state: Vec<u8>,
}

/// Why it could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// Somebody else owns the workspace: its run is stopped gracefully.
    #[error("{0}")]
    Fenced(String),
    /// It is tried again.
    #[error("{0}")]
    Failed(String),
}
