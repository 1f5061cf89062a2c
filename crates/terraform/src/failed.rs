//! The last failed run of each workspace that was forgotten, for who asks why: its log, and its end with the plan.
//!
//! Whoever could not be built is mostly replaced, and its workspace goes with it. What it printed is kept then, that of the last
//! [`MOST`] workspaces.

use std::{fs, io, path::Path, time::SystemTime};

use crate::{
    beneath::{read_optional, remove},
    folders::{END, Folders},
    order::{Operation, WorkspaceId},
    private_files::{make_private, write_private},
    record::Record,
    view::{Finished, Outcome},
};

/// Workspaces of which a failed run is kept.
const MOST: usize = 100;

/// Keeps the last failed run of a workspace that is about to be forgotten; a newer one of its name takes its place.
pub(crate) fn keep(folders: &Folders, workspace: &WorkspaceId) -> io::Result<()> {
    let folder = folders.workspace(workspace);
    let last = Record::read(&folder)?.and_then(|record| record.last);
    let mut runs: Vec<_> = fs::read_dir(folder.runs()).into_iter().flatten().flatten().collect();
    runs.sort_by_key(fs::DirEntry::file_name);
    let ended = |run: &fs::DirEntry| {
        let known = last.clone().filter(|last| run.file_name().to_str() == Some(last.id.as_str()));
        known.or_else(|| end(&run.path())).filter(failed)
    };
    let Some((run, end)) = runs.iter().rev().find_map(|run| Some((run.path(), ended(run)?))) else {
        return Ok(());
    };
    let target = folders.failed_of(workspace);
    remove(&target)?;
    make_private(&target)?;
    match fs::rename(run.join("log"), target.join("log")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_private(&target.join(END), &serde_json::to_vec(&end)?)?;
    prune(&folders.failed())
}

/// The end of the run that was kept.
pub(crate) fn find(folders: &Folders, workspace: &WorkspaceId) -> Option<Finished> {
    end(&folders.failed_of(workspace))
}

/// Returns true if a run failed to build something; a destroy can be inspected through what still exists.
pub(crate) fn failed(end: &Finished) -> bool {
    matches!(end.outcome, Outcome::Failed(_) | Outcome::TimedOut) && end.operation != Operation::Destroy
}

fn end(folder: &Path) -> Option<Finished> {
    serde_json::from_slice(&read_optional(&folder.join(END)).ok()??).ok()
}

fn prune(root: &Path) -> io::Result<()> {
    let mut all: Vec<_> = fs::read_dir(root)?.flatten().collect();
    let age = |entry: &fs::DirEntry| {
        entry.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    all.sort_by_key(age);
    let surplus = all.len().saturating_sub(MOST);
    all.iter().take(surplus).try_for_each(|old| remove(&old.path()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{failure::Failure, order::RunId};

    fn ended(id: &str, operation: &Operation, outcome: &Outcome) -> Finished {
        let end = json!({
            "id": RunId(id.into()), "operation": operation, "outcome": outcome,
            "started": Timestamp::UNIX_EPOCH, "ended": Timestamp::UNIX_EPOCH,
            "revision": null, "plan": null, "drift": [], "warnings": [],
        });
        serde_json::from_value(end).unwrap()
    }

    fn broken() -> Outcome {
        Outcome::Failed(Failure::io("build it", &io::Error::other("no capacity")))
    }

    fn lay(folders: &Folders, workspace: &WorkspaceId, end: &Finished) {
        let run = folders.workspace(workspace).run(&end.id);
        make_private(&run).unwrap();
        write_private(&run.join("log"), format!("log of {}", end.id).as_bytes()).unwrap();
        write_private(&run.join(END), &serde_json::to_vec(end).unwrap()).unwrap();
    }

    #[test]
    fn the_last_run_that_failed_outlives_its_workspace() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::make(root.path()).unwrap();
        let web = WorkspaceId::new("default/web-0-machine");
        lay(&folders, &web, &ended("1", &Operation::Apply, &broken()));
        lay(&folders, &web, &ended("2", &Operation::Apply, &broken()));
        lay(&folders, &web, &ended("3", &Operation::Apply, &Outcome::Cancelled));
        lay(&folders, &web, &ended("4", &Operation::Destroy, &Outcome::Done));
        keep(&folders, &web).unwrap();
        folders.workspace(&web).forget(&folders.scratch(web.as_str())).unwrap();
        let kept = find(&folders, &web).unwrap();
        assert_eq!(kept.id.as_str(), "2");
        assert_eq!(fs::read_to_string(folders.failed_of(&web).join("log")).unwrap(), "log of 2");

        let fine = WorkspaceId::new("default/web-1-machine");
        lay(&folders, &fine, &ended("1", &Operation::Apply, &Outcome::Done));
        keep(&folders, &fine).unwrap();
        assert!(find(&folders, &fine).is_none());
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::make(root.path()).unwrap();
        for number in 0..MOST + 3 {
            let id = WorkspaceId::new(format!("default/web-{number}-machine"));
            lay(&folders, &id, &ended("1", &Operation::Apply, &broken()));
            keep(&folders, &id).unwrap();
        }
        assert_eq!(fs::read_dir(folders.failed()).unwrap().count(), MOST);
    }
}
