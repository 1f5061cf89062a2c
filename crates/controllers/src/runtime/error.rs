//! Errors of a reconcile, and their retries.

use std::time::Duration;

use super::backoff::Backoff;

/// A reconcile that could not be finished. What the user did wrong is no error but a condition.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused or did not answer.
    #[error("{attempt}")]
    Api {
        /// Action that was attempted.
        attempt: String,
        /// Why it failed.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API took too long.
    #[error("{0}: no answer in time")]
    Slow(String),
    /// The Terraform engine could not do its part.
    #[error("{attempt}: {problem}")]
    Engine {
        /// Action that was attempted.
        attempt: String,
        /// Why it failed.
        problem: String,
    },
}

/// Class of an error, by which it is retried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// Somebody else was faster: our view is old. Again, soon, and nothing to tell.
    Stale,
    /// It may work next time.
    Transient,
}

impl Error {
    /// An error of the API.
    pub fn api(attempt: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let attempt = attempt.into();
        move |source| Self::Api { attempt, source: Box::new(source) }
    }

    /// The API's answer as a number, where it did answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Slow(_) | Self::Engine { .. } => None,
        }
    }

    /// Returns the class of the error.
    pub fn class(&self) -> Class {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                // A conflict: the cache is behind. Not found: deleted meanwhile. Already there: created by the run before.
                kube::Error::Api(status) if matches!(status.code, 404 | 409) => Class::Stale,
                _ => Class::Transient,
            },
            Self::Slow(_) | Self::Engine { .. } => Class::Transient,
        }
    }

    /// A word for metrics.
    pub fn label(&self) -> &'static str {
        match (self, self.class()) {
            (_, Class::Stale) => "stale",
            (Self::Api { .. }, _) => "api",
            (Self::Slow(_), _) => "slow",
            (Self::Engine { .. }, _) => "engine",
        }
    }

    /// Returns the delay until the next attempt, after `failures` in a row.
    pub fn retry(&self, failures: u32, backoff: &Backoff) -> Duration {
        match self.class() {
            Class::Stale => Backoff::STALE.delay(failures),
            Class::Transient => backoff.delay(failures),
        }
    }
}
