//! The first list of a cache or a watch: before it is here, nothing can be decided by what is missing.

use std::borrow::Cow;

use tokio::sync::watch;

/// Tells whether the objects of one kind were listed once.
#[derive(Clone, Debug)]
pub struct FirstList {
    kind: Cow<'static, str>,
    listed: watch::Receiver<bool>,
}

impl FirstList {
    pub(super) fn new(kind: impl Into<Cow<'static, str>>, listed: watch::Receiver<bool>) -> Self {
        Self { kind: kind.into(), listed }
    }

    /// The kind of the objects.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns true if they were listed.
    pub fn is_here(&self) -> bool {
        *self.listed.borrow()
    }
}
