//! How the runs of each workspace went, as far as retries need it. A restart forgets it: the next failure counts as
//! the first again, which only makes the next retry come sooner.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use capt_terraform::order::RunId;
use capt_terraform::view::{Finished, Outcome};
use jiff::Timestamp;

use crate::runtime::Name;

/// How the runs of all workspaces went.
#[derive(Debug, Default)]
pub struct RunHistory(Mutex<HashMap<Name, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    last: Option<RunId>,
    failures: u32,
    progress_shown: Option<Timestamp>,
}

impl RunHistory {
    /// Takes note of the last run of a workspace; gives how many failed in a row.
    pub fn note(&self, name: &Name, last: Option<&Finished>) -> u32 {
        let Some(last) = last else { return 0 };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.entry(name.clone()).or_default();
        if entry.last.as_ref() != Some(&last.id) {
            entry.last = Some(last.id.clone());
            tracing::info!(
                namespace = %name.namespace, name = %name.name, run = %last.id,
                operation = last.operation.as_str(), outcome = last.outcome.as_str(),
                seconds = last.ended.duration_since(last.started).as_secs_f64(), "run ended"
            );
            entry.failures = match last.outcome {
                Outcome::Failed(_) | Outcome::TimedOut => entry.failures.saturating_add(1),
                Outcome::Done | Outcome::Planned | Outcome::Held | Outcome::Cancelled => 0,
            };
        }
        entry.failures
    }

    /// When progress was last shown.
    pub fn progress_shown(&self, name: &Name) -> Option<Timestamp> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(name).and_then(|entry| entry.progress_shown)
    }

    /// Progress is shown now.
    pub fn show_progress(&self, name: &Name, now: Timestamp) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.entry(name.clone()).or_default().progress_shown = Some(now);
    }

    /// Drops what is known of a workspace that is gone.
    pub fn forget(&self, name: &Name) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}
