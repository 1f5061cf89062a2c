//! Failures that are none of Terraform's.

use std::io;

use crate::{
    executor::WorkspaceError,
    failure::{Failure, Reason},
    redact::Redactor,
    state_backend::StateBackendError,
};

impl Failure {
    /// The disk failed. What it was for says more than which file it was.
    pub(crate) fn io(attempt: &str, error: &io::Error) -> Self {
        let reason = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Reason::DiskFull,
            _ => Reason::InitFailed,
        };
        Self::new(reason, format!("{attempt}: {error}"))
    }

    /// The binary cannot be started.
    pub(crate) fn not_started(error: &io::Error) -> Self {
        let reason = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Reason::DiskFull,
            io::ErrorKind::NotFound => Reason::BinaryNotFound,
            _ => Reason::BinaryBroken,
        };
        Self::new(reason, format!("start the binary: {error}"))
    }

    pub(crate) fn killed(message: String) -> Self {
        Self::new(Reason::Killed, message)
    }

    pub(crate) fn of_workspace(error: &WorkspaceError) -> Self {
        match error {
            WorkspaceError::Damaged { .. } => Self::new(Reason::RecordDamaged, error.to_string()),
            WorkspaceError::Folder { source, .. } => Self::io("read the record", source),
            WorkspaceError::StateBackend(StateBackendError::Failed(_)) => {
                Self::new(Reason::Network, error.to_string())
            }
            WorkspaceError::StateBackend(StateBackendError::Closed(_)) => {
                Self::new(Reason::StateNotKept, error.to_string())
            }
            WorkspaceError::StateBackend(StateBackendError::TooLarge(_)) => {
                Self::new(Reason::StateUnreadable, error.to_string())
            }
            WorkspaceError::SharedState { .. } => Self::new(Reason::BackendInUse, error.to_string()),
            WorkspaceError::Removed { .. } => Self::new(Reason::StateLost, error.to_string()),
            WorkspaceError::BadState(_)
            | WorkspaceError::NoCopy { .. }
            | WorkspaceError::StateBackend(StateBackendError::Damaged(_)) => {
                Self::new(Reason::StateDamaged, error.to_string())
            }
            WorkspaceError::StateBackend(StateBackendError::Fenced(_) | StateBackendError::Unsettled(_))
            | WorkspaceError::Busy { .. }
            | WorkspaceError::HasState { .. } => Self::new(Reason::StateLocked, error.to_string()),
        }
    }

    /// Without secrets.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        self.message = redactor.clean(&self.message).into_owned();
        self
    }
}
