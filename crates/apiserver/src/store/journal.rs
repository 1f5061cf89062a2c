//! The durable journal, as the writer sees it.

use std::{fmt, sync::Arc};

use super::{clock::Millis, history::Event, key::Revision};

/// Why changes were not written.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// There was no room; the journal is as it was before and can be used on.
    #[error("{0}")]
    Full(Arc<str>),
    /// It is not known what was written; the journal must not be used on.
    #[error("{0}")]
    Broken(Arc<str>),
}

/// Takes changes in the order of their revisions. When a call returns `Ok`, all of it survives a crash and a loss of
/// power; when it returns [`JournalError::Full`], none of it does.
pub(crate) trait Journal: fmt::Debug + Send {
    fn append(&mut self, events: &[Event], written: Millis) -> Result<(), JournalError>;

    /// Drops what only the events in `forgotten`, all up to `compacted`, needed.
    fn compact(&mut self, compacted: Revision, forgotten: &[Event]) -> Result<(), JournalError>;

    /// Leaves the files tidy. What was appended lasts without it.
    fn close(self: Box<Self>);
}

/// Keeps nothing: the store lives as long as the process.
#[derive(Debug)]
pub(crate) struct Nowhere;

impl Journal for Nowhere {
    fn append(&mut self, _: &[Event], _: Millis) -> Result<(), JournalError> {
        Ok(())
    }

    fn compact(&mut self, _: Revision, _: &[Event]) -> Result<(), JournalError> {
        Ok(())
    }

    fn close(self: Box<Self>) {}
}
