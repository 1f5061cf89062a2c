//! The state after a process: whole, newest, and without its process's lock.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{
    failure::{Failure, Reason},
    folders::{WorkspaceFolder, read_optional, remove, write_durable, write_private},
    state::{State, StateError},
};

/// The state of a workspace; `None` where there is none.
pub(super) fn read(folder: &WorkspaceFolder) -> Result<Option<State>, Failure> {
    let bytes = read_optional(&folder.state()).map_err(|error| Failure::io("read the state", &error))?;
    bytes.map(|bytes| State::read(&bytes)).transpose().map_err(|error| unreadable(folder, &error))
}

fn unreadable(folder: &WorkspaceFolder, error: &StateError) -> Failure {
    Failure::new(Reason::StateUnreadable, format!("{}: {error}", folder.state().display()))
}

/// Puts the state in order after a process that ended, or died:
/// - a state that was only half written is replaced by its shadow; an empty one that was never more is none;
/// - `errored.tfstate`, which Terraform leaves when it cannot write the state, takes its place if it is newer;
/// - the information about a lock that died with its process goes.
pub(super) fn settle(folder: &WorkspaceFolder, start: &Path) -> Result<Option<State>, Failure> {
    let io = |error: io::Error| Failure::io("put the state in order", &error);
    remove(&folder.state().with_file_name(".terraform.tfstate.lock.info")).map_err(io)?;
    let path = folder.state();
    if let Some(bytes) = read_optional(&path).map_err(io)?
        && let Err(error @ (StateError::Empty | StateError::Malformed(_))) = State::read(&bytes)
    {
        match read_optional(&folder.shadow()).map_err(io)? {
            Some(shadow) if State::read(&shadow).is_ok() => write_durable(&path, &shadow).map_err(io)?,
            _ if bytes.is_empty() => remove(&path).map_err(io)?,
            _ => return Err(unreadable(folder, &error)),
        }
    }
    let errored = start.join("errored.tfstate");
    if let Some(bytes) = read_optional(&errored).map_err(io)?
        && let Ok(left) = State::read(&bytes)
    {
        let newer =
            read(folder)?.is_none_or(|state| state.lineage == left.lineage && state.serial <= left.serial);
        // Of another line: nobody can tell which is right. It stays for a person to look at.
        let place = if newer { path } else { folder.0.join("state/errored.tfstate") };
        write_durable(&place, &bytes).map_err(io)?;
        remove(&errored).map_err(io)?;
    }
    read(folder)
}

/// Copies the state whenever it changed and is whole.
pub(super) struct Shadow {
    state: PathBuf,
    copy: PathBuf,
    seen: Option<(i64, i64, u64)>,
}

impl Shadow {
    pub fn new(folder: &WorkspaceFolder) -> Self {
        Self { state: folder.state(), copy: folder.shadow(), seen: None }
    }

    /// Best effort: without a shadow a run is as safe as Terraform itself makes it.
    pub fn look(&mut self) {
        let Some(now) = fs::metadata(&self.state).ok().map(|metadata| stamp(&metadata)) else { return };
        if self.seen == Some(now) {
            return;
        }
        self.seen = Some(now);
        let Ok(bytes) = fs::read(&self.state) else { return };
        let same = fs::read(&self.copy).is_ok_and(|shadow| shadow == bytes);
        if !same && State::read(&bytes).is_ok() {
            let temporary = self.copy.with_extension("tmp");
            let _ = write_private(&temporary, &bytes).and_then(|()| fs::rename(temporary, &self.copy));
        }
    }
}

/// Tells one version of a file from the next.
pub(super) fn stamp(metadata: &Metadata) -> (i64, i64, u64) {
    (metadata.mtime(), metadata.mtime_nsec(), metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(serial: u64, lineage: &str) -> Vec<u8> {
        format!(
            r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"{lineage}","outputs":{{}},"resources":[]}}"#
        )
        .into_bytes()
    }

    struct Case {
        _folder: tempfile::TempDir,
        workspace: WorkspaceFolder,
        start: PathBuf,
    }

    fn case(files: &[(&str, &[u8])]) -> Case {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = WorkspaceFolder(folder.path().join("w"));
        workspace.make().expect("folders");
        for (name, bytes) in files {
            fs::write(workspace.0.join(name), bytes).expect("write");
        }
        let start = workspace.work();
        Case { _folder: folder, workspace, start }
    }

    fn serial(case: &Case) -> Option<u64> {
        settle(&case.workspace, &case.start).expect("settled").map(|state| state.serial)
    }

    const STATE: &str = "state/terraform.tfstate";
    const ERRORED: &str = "work/errored.tfstate";

    #[test]
    fn what_could_not_be_written_is_put_in_place() {
        assert_eq!(serial(&case(&[(STATE, &state(3, "a")), (ERRORED, &state(4, "a"))])), Some(4));
        assert_eq!(serial(&case(&[(ERRORED, &state(4, "a"))])), Some(4));
        assert_eq!(serial(&case(&[(STATE, b""), (ERRORED, &state(4, "a"))])), Some(4));
        let done = case(&[(STATE, &state(3, "a")), (ERRORED, &state(4, "a"))]);
        settle(&done.workspace, &done.start).expect("settled");
        assert!(!done.start.join("errored.tfstate").exists(), "once");
    }

    #[test]
    fn an_older_or_foreign_one_is_not() {
        assert_eq!(serial(&case(&[(STATE, &state(3, "a")), (ERRORED, &state(2, "a"))])), Some(3));
        let foreign = case(&[(STATE, &state(3, "a")), (ERRORED, &state(9, "b"))]);
        assert_eq!(serial(&foreign), Some(3));
        assert!(foreign.workspace.0.join("state/errored.tfstate").exists(), "kept for a person");
    }

    #[test]
    fn a_half_written_state_is_replaced_by_its_shadow() {
        assert_eq!(serial(&case(&[(STATE, b""), ("state/shadow.tfstate", &state(2, "a"))])), Some(2));
        assert_eq!(
            serial(&case(&[(STATE, b"{\"version\":4,"), ("state/shadow.tfstate", &state(2, "a"))])),
            Some(2)
        );
        assert_eq!(serial(&case(&[(STATE, b"")])), None, "made by the lock, and never written");
        let lost = case(&[(STATE, b"{\"vers")]);
        let failure = settle(&lost.workspace, &lost.start).expect_err("nothing to replace it");
        assert_eq!(failure.reason, Reason::StateUnreadable);
    }

    #[test]
    fn the_lock_of_a_dead_process_goes() {
        let locked = case(&[("state/.terraform.tfstate.lock.info", b"{}")]);
        assert_eq!(serial(&locked), None);
        assert!(!locked.workspace.0.join("state/.terraform.tfstate.lock.info").exists());
    }

    #[test]
    fn a_shadow_follows_whole_states_only() {
        let case = case(&[(STATE, &state(1, "a"))]);
        let mut shadow = Shadow::new(&case.workspace);
        shadow.look();
        assert_eq!(fs::read(case.workspace.shadow()).expect("a shadow"), state(1, "a"));
        fs::write(case.workspace.state(), b"{").expect("write");
        shadow.look();
        assert_eq!(fs::read(case.workspace.shadow()).expect("a shadow"), state(1, "a"));
    }
}
