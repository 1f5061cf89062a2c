//! The state after a process: whole, newest, and without its process's lock.

use std::{
    fs::{self, Metadata, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use super::told::Told;
use crate::{
    failure::{Failure, Reason},
    folders::{WorkspaceFolder, read_optional, remove, write_durable, write_private, write_whole},
    order::RunId,
    process::Files,
    record::{Journal, Record},
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
/// - `errored.tfstate`, which Terraform leaves when it cannot write the state, takes its place if it is newer; one that belongs
///   to a backend waits to be handed in;
/// - the information about a lock that died with its process goes.
pub(super) fn settle(folder: &WorkspaceFolder, start: &Path, remote: bool) -> Result<Option<State>, Failure> {
    let io = |error: io::Error| Failure::io("put the state in order", &error);
    remove(&folder.state().with_file_name(".terraform.tfstate.lock.info")).map_err(io)?;
    let path = folder.state();
    let errored = start.join("errored.tfstate");
    // Half of one, on a full disk, is none.
    let left = read_optional(&errored).map_err(io)?.and_then(|bytes| State::read(&bytes).ok());
    if remote {
        if left.is_some() {
            put(&errored, &folder.pending()).map_err(io)?;
        }
        return read(folder);
    }
    let (here, copy) = match whole(folder) {
        Ok((here, copy)) => (here, copy),
        Err(_) if left.is_some() => (None, None),
        Err(failure) => return Err(failure),
    };
    let newer = |left: &State| {
        here.as_ref().is_none_or(|here| here.lineage == left.lineage && here.serial <= left.serial)
    };
    if left.as_ref().is_some_and(newer) {
        put(&errored, &path).map_err(io)?;
        return read(folder);
    }
    if left.is_some() {
        // Of another line: nobody can tell which is right. It stays for a person to look at.
        put(&errored, &folder.0.join("state/errored.tfstate")).map_err(io)?;
    }
    match (&here, copy) {
        (_, Some(copy)) => write_durable(&path, &copy).map_err(io)?,
        (None, None) => remove(&path).map_err(io)?,
        (Some(_), None) => {}
    }
    Ok(here)
}

/// The state, and the copy of it where it is whole only there.
fn whole(folder: &WorkspaceFolder) -> Result<(Option<State>, Option<Vec<u8>>), Failure> {
    let io = |error: io::Error| Failure::io("read the state", &error);
    let Some(bytes) = read_optional(&folder.state()).map_err(io)? else { return Ok((None, None)) };
    let error = match State::read(&bytes) {
        Ok(state) => return Ok((Some(state), None)),
        Err(error) => error,
    };
    if let StateError::Empty | StateError::Malformed(_) = error {
        let shadow = read_optional(&folder.shadow()).map_err(io)?;
        if let Some((state, bytes)) = shadow.and_then(|bytes| Some((State::read(&bytes).ok()?, bytes))) {
            return Ok((Some(state), Some(bytes)));
        }
        if bytes.is_empty() {
            return Ok((None, None));
        }
    }
    Err(unreadable(folder, &error))
}

/// Moves a file of Terraform's to where it is kept, durably. That takes no space, which a full disk would not give.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    fs::set_permissions(from, Permissions::from_mode(0o600))?;
    fs::File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    fs::File::open(to.parent().expect("a file of the data folder has a folder"))?.sync_all()
}

/// Puts the state in order after a process whose stream told this. What it printed because it could write it nowhere is written
/// now: the space that was set aside for the stream is free again.
pub(super) fn after(
    folder: &WorkspaceFolder,
    journal: &Journal,
    told: &Told,
) -> Result<Option<State>, Failure> {
    Files::new(folder.run(&journal.id), journal.stage.as_str()).release();
    if let Some(dump) = &told.dump {
        write_whole(&journal.start.join("errored.tfstate"), dump)
            .map_err(|error| Failure::io("write the state that a run printed", &error))?;
    }
    settle(folder, &journal.start, journal.remote)
}

/// Writes down the end of the run before, where a full disk kept that from being done.
pub(super) fn catch_up(
    folder: &WorkspaceFolder,
    mut record: Record,
    next: &RunId,
) -> Result<Record, Failure> {
    let Some(journal) = record.current.clone().filter(|journal| journal.id != *next) else {
        return Ok(record);
    };
    let io = |error: io::Error| Failure::io("write down the end of the run before", &error);
    let files = Files::new(folder.run(&journal.id), journal.stage.as_str());
    let told = Told::read(files.output()).map_err(io)?;
    let state = after(folder, &journal, &told)?;
    record.unsaved.extend(told.unsaved(state.as_ref()));
    record.current = None;
    record.write(folder).map_err(io)?;
    files.clear();
    Ok(record)
}

/// The newest state that is whole, to be kept elsewhere; nothing where there is none.
pub(super) fn newest(folder: &WorkspaceFolder, dump: Option<&[u8]>) -> Vec<u8> {
    let at = |path: PathBuf| fs::read(path).ok().filter(|bytes| State::read(bytes).is_ok());
    dump.map(<[u8]>::to_vec)
        .or_else(|| at(folder.state()))
        .or_else(|| at(folder.shadow()))
        .unwrap_or_default()
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

    /// How large the state was when it was last looked at.
    pub fn size(&self) -> u64 {
        self.seen.map_or(0, |(_, _, size)| size)
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
            let copied = write_private(&temporary, &bytes).and_then(|()| fs::rename(&temporary, &self.copy));
            if copied.is_err() {
                // On a full disk half a copy is in the way of the state itself.
                let _ = fs::remove_file(temporary);
            }
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
        settle(&case.workspace, &case.start, false).expect("settled").map(|state| state.serial)
    }

    const STATE: &str = "state/terraform.tfstate";
    const ERRORED: &str = "work/errored.tfstate";

    #[test]
    fn what_could_not_be_written_is_put_in_place() {
        assert_eq!(serial(&case(&[(STATE, &state(3, "a")), (ERRORED, &state(4, "a"))])), Some(4));
        assert_eq!(serial(&case(&[(ERRORED, &state(4, "a"))])), Some(4));
        assert_eq!(serial(&case(&[(STATE, b""), (ERRORED, &state(4, "a"))])), Some(4));
        let done = case(&[(STATE, &state(3, "a")), (ERRORED, &state(4, "a"))]);
        settle(&done.workspace, &done.start, false).expect("settled");
        assert!(!done.start.join("errored.tfstate").exists(), "once");
    }

    #[test]
    fn half_a_state_gives_way_to_a_whole_one() {
        assert_eq!(
            serial(&case(&[(STATE, b"{\"vers"), (ERRORED, &state(4, "a"))])),
            Some(4),
            "without a copy"
        );
        let (shadow, half) = (("state/shadow.tfstate", state(3, "a")), b"{\"vers".as_slice());
        assert_eq!(
            serial(&case(&[(STATE, half), (shadow.0, &shadow.1), (ERRORED, &state(4, "a"))])),
            Some(4)
        );
        assert_eq!(
            serial(&case(&[(STATE, half), (shadow.0, &shadow.1), (ERRORED, &state(2, "a"))])),
            Some(3)
        );
        assert_eq!(serial(&case(&[(STATE, half), (shadow.0, &shadow.1), (ERRORED, half)])), Some(3));
    }

    #[test]
    fn one_of_a_backend_waits_to_be_handed_in() {
        let remote = case(&[(STATE, &state(3, "a")), (ERRORED, &state(4, "a"))]);
        let copy = settle(&remote.workspace, &remote.start, true).expect("settled").expect("a copy");
        assert_eq!(copy.serial, 3);
        assert_eq!(fs::read(remote.workspace.pending()).expect("kept"), state(4, "a"));
        assert!(!remote.start.join("errored.tfstate").exists());
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
        let failure = settle(&lost.workspace, &lost.start, false).expect_err("nothing to replace it");
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
