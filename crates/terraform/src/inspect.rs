//! A visit to a data folder: what people may see of workspaces and their runs, beside the engine that works there or without
//! one. Changes nothing, and takes no lock that an engine wants.

mod reader;
mod show;
mod tail;

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{
    beneath::read_optional,
    executor::{Run, RunState},
    folders::{END, Folders, WorkspaceFolder},
    guard::THIS_PROGRAM,
    order::{Operation, RunId, WorkspaceId},
    process::ProcessFiles,
    record::Record,
    settings::Settings,
    state::State,
    view::{Finished, Plan},
};

/// A data folder that an engine has used.
#[derive(Clone, Debug)]
pub struct Inspection {
    folders: Folders,
    /// The program that guards the binary which shows a plan, as it guards a run.
    guard: PathBuf,
}

impl Inspection {
    /// Visits a folder; `None` where no engine ever worked.
    pub fn to(root: &Path) -> Option<Self> {
        let folders = Folders::at(fs::canonicalize(root).ok()?);
        folders.workspaces().is_dir().then(|| Self::of(folders, THIS_PROGRAM.into()))
    }

    /// Visits the folder of an engine.
    pub(crate) fn of(folders: Folders, guard: PathBuf) -> Self {
        Self { folders, guard }
    }

    /// The process id of the engine that works there now. Without `/proc` nobody knows.
    pub fn engine(&self) -> Option<u32> {
        let inode = fs::metadata(self.folders.lock()).ok()?.ino();
        let locks = fs::read_to_string("/proc/locks").ok()?;
        locks.lines().find_map(|line| holder(line, inode))
    }

    /// Settings of the engine that was started last.
    pub fn settings(&self) -> Option<Settings> {
        Settings::read(&self.folders.settings())
    }

    /// Every workspace that can be read, and the folders of those that cannot.
    pub fn workspaces(&self) -> io::Result<(Vec<WorkspaceOnDisk>, Vec<PathBuf>)> {
        let (mut read, mut unreadable) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(self.folders.workspaces())? {
            let folder = WorkspaceFolder(entry?.path());
            match Record::read(&folder) {
                Ok(Some(record)) => {
                    read.push(self.on_disk(folder, record));
                }
                Ok(None) => {}
                Err(_) => unreadable.push(folder.0),
            }
        }
        read.sort_by(|one, other| one.id().cmp(other.id()));
        Ok((read, unreadable))
    }

    /// One workspace; `None` where nothing ever ran for it here.
    pub fn workspace(&self, id: &WorkspaceId) -> io::Result<Option<WorkspaceOnDisk>> {
        let folder = self.folders.workspace(id);
        let record = Record::read(&folder)?;
        Ok(record.map(|record| self.on_disk(folder, record)))
    }

    fn on_disk(&self, folder: WorkspaceFolder, record: Record) -> WorkspaceOnDisk {
        WorkspaceOnDisk {
            folders: self.folders.clone(),
            guard: self.guard.clone(),
            folder,
            record: Box::new(record),
        }
    }
}

/// Returns the process that holds the lock on a file, from a line such as `1: FLOCK  ADVISORY  WRITE 4711 08:02:1234 0 EOF`.
fn holder(line: &str, inode: u64) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    if words.next() != Some("FLOCK") {
        return None;
    }
    let pid = words.nth(2)?;
    let found = words.next()?.rsplit(':').next()?;
    (found.parse() == Ok(inode)).then(|| pid.parse().ok()).flatten()
}

/// A workspace as it is on the disk.
#[derive(Clone, Debug)]
pub struct WorkspaceOnDisk {
    folders: Folders,
    guard: PathBuf,
    folder: WorkspaceFolder,
    record: Box<Record>,
}

impl WorkspaceOnDisk {
    /// Its name.
    pub fn id(&self) -> &WorkspaceId {
        &self.record.workspace
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// The run that ended last.
    pub(crate) fn last(&self) -> Option<&Finished> {
        self.record.last.as_ref()
    }

    /// The last run, where it is a look that found drift.
    pub(crate) fn drift(&self) -> Option<&Finished> {
        self.last().filter(|last| last.operation == Operation::Refresh && !last.drift.is_empty())
    }

    /// The kept plan, while it can still be applied.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        let planned = self.record.planned.as_ref()?;
        let state = self.state().unwrap_or_default();
        (planned.plan.serial == state.serial && planned.lineage == state.lineage).then_some(&planned.plan)
    }

    /// The good copies of its state that can be restored, the newest first: serial, resources, file.
    pub fn state_copies(&self) -> Vec<(u64, usize, PathBuf)> {
        let copies = crate::engine::copies(&self.folder, &self.record).into_iter();
        copies.map(|copy| (copy.state.serial, copy.state.resources.len(), copy.path)).collect()
    }

    /// The file of a Terraform that holds the lock on the state, where one was left behind and no process lives.
    pub fn stale_lock(&self) -> Option<PathBuf> {
        let lock = self.folder.guest().join("state/.terraform.tfstate.lock.info");
        let lives = self.runs().iter().any(|run| matches!(run.state, RunState::UnderWay { lives: true, .. }));
        // A run can leave a link there.
        (lock.symlink_metadata().is_ok() && !lives).then_some(lock)
    }

    /// The runs whose logs are kept, the oldest first.
    pub fn runs(&self) -> Vec<Run> {
        let entries = fs::read_dir(self.folder.runs()).into_iter().flatten().flatten();
        let mut ids: Vec<RunId> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).map(RunId).collect();
        ids.sort();
        ids.into_iter().map(|id| self.run(id)).collect()
    }

    /// The last of them that failed to build something.
    pub(crate) fn last_failed(&self) -> Option<Run> {
        let failed = |run: &Run| matches!(&run.state, RunState::Ended(end) if crate::failed::failed(end));
        self.runs().into_iter().rev().find(failed)
    }

    fn run(&self, id: RunId) -> Run {
        let folder = self.folder.run(&id);
        let current = self.record.current.as_ref().filter(|journal| journal.id == id);
        let state = if let Some(journal) = current {
            let lives = ProcessFiles::new(folder, journal.stage.as_str()).lives();
            RunState::UnderWay { operation: journal.operation.clone(), since: journal.started, lives }
        } else if let Some(last) = self.record.last.as_ref().filter(|last| last.id == id) {
            RunState::Ended(Box::new(last.clone()))
        } else {
            let end = read_optional(&folder.join(END)).ok().flatten();
            let end = end.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            end.map_or(RunState::Unknown, |end| RunState::Ended(Box::new(end)))
        };
        Run { id, state }
    }

    fn state(&self) -> Option<State> {
        State::read(&fs::read(self.folder.state()).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_by_the_file() {
        let line = "3: FLOCK  ADVISORY  WRITE 4711 08:02:1234 0 EOF";
        assert_eq!(holder(line, 1234), Some(4711));
        assert_eq!(holder(line, 234), None);
        assert_eq!(holder("1: POSIX  ADVISORY  WRITE 4711 08:02:1234 0 EOF", 1234), None);
        assert_eq!(holder("", 1234), None);
    }

    #[test]
    fn a_folder_without_an_engine_is_no_place_to_visit() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Inspection::to(folder.path()).is_none());
        assert!(Inspection::to(&folder.path().join("missing")).is_none());
    }
}
