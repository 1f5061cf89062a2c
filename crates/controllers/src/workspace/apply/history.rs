//! History of the runs of each workspace, as far as retries need it. What a restart forgets, the status knows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use capt_terraform::order::RunId;
use capt_terraform::view::{Finished, Outcome};
use jiff::Timestamp;

use crate::runtime::Name;

/// History of the runs of all workspaces.
#[derive(Debug, Default)]
pub struct RunHistory(Mutex<HashMap<Name, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    last: Option<RunId>,
    failures: u32,
    progress_shown: Option<Timestamp>,
}

impl RunHistory {
    /// Takes note of the last run of a workspace; gives how many failed in a row. `known`: what the status says of that.
    pub fn note(&self, name: &Name, last: Option<&Finished>, known: u32) -> u32 {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A last run was counted already by whoever wrote the status. There is none where the engine has lost its folder.
        let before = if last.is_some() { known.saturating_sub(1) } else { known };
        let first = || Entry { failures: before, ..Entry::default() };
        let entry = entries.entry(name.clone()).or_insert_with(first);
        let Some(last) = last else { return entry.failures };
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

    /// Returns the time at which progress was last shown.
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

#[cfg(test)]
mod tests {
    use capt_terraform::failure::{Failure, Reason};
    use capt_terraform::order::Operation;

    use super::*;

    fn run(id: &str, outcome: Outcome) -> Finished {
        Finished {
            id: RunId::from(id),
            operation: Operation::Apply,
            revision: None,
            started: Timestamp::UNIX_EPOCH,
            ended: Timestamp::UNIX_EPOCH,
            outcome,
            plan: None,
            drift: Vec::new(),
            warnings: Vec::new(),
            undeclared: Vec::new(),
        }
    }

    #[test]
    fn failures_in_a_row_survive_a_restart() {
        let failed = |id| run(id, Outcome::Failed(Failure::new(Reason::Network, "no route")));
        let name = Name::new("default", "a");
        let history = RunHistory::default();
        assert_eq!(history.note(&name, None, 0), 0);
        assert_eq!(history.note(&name, Some(&failed("1")), 0), 1);
        assert_eq!(history.note(&name, Some(&failed("2")), 1), 2);
        assert_eq!(history.note(&name, Some(&failed("2")), 2), 2, "seen already");
        let restarted = RunHistory::default();
        assert_eq!(restarted.note(&name, Some(&failed("2")), 2), 2);
        assert_eq!(restarted.note(&name, Some(&failed("3")), 2), 3);
        assert_eq!(restarted.note(&name, Some(&run("4", Outcome::Done)), 3), 0);
        let elsewhere = RunHistory::default();
        assert_eq!(elsewhere.note(&name, None, 3), 3, "the folder of the engine is gone");
        assert_eq!(elsewhere.note(&name, Some(&failed("1")), 3), 4);
    }
}
