//! The state of record, and the copy of it that runs work on.
//!
//! ```text
//! state/terraform.tfstate ──lend──> guest/state/terraform.tfstate ──(run)──> checks ──collect──> state/terraform.tfstate
//! ```
//! A run never touches the state of record. What it leaves behind is taken in only if it is a regular file of our own, whole, of the same
//! lineage and not older. What is damaged is never taken for empty: see [`crate::record::Seal`].

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::task::spawn_blocking;

use super::stream_recovery::StreamReport;
use crate::{
    beneath::{Dir, Stamp, read_optional, remove},
    failure::{Failure, Reason},
    folders::{WorkspaceFolder, guest},
    hash::sha256,
    order::RunId,
    private_files::{is_damage, write_durable, write_private, write_whole},
    process::ProcessFiles,
    record::{Damage, Doubt, Journal, Record, Seal, way_out},
    state::{State, StateError},
};

/// No state is larger.
pub(super) const LARGEST: u64 = 256 << 20;
/// No state has more objects.
const OBJECTS: usize = 1_000_000;
/// Nor more values.
const VALUES: usize = 4_000_000;
/// File that Terraform leaves beside the module when it cannot write the state.
const ERRORED: &str = "errored.tfstate";
/// Lock file that a killed process leaves behind.
const LOCK: &str = "state/.terraform.tfstate.lock.info";

/// The state of record; `None` where there is none.
pub(super) fn read(folder: &WorkspaceFolder) -> Result<Option<State>, Failure> {
    Ok(whole(folder)?.map(|(state, _)| state))
}

/// The state of record, or the copy of one that is kept elsewhere, with what is known of it.
pub(super) fn known(folder: &WorkspaceFolder) -> Result<Option<(State, Seal)>, Failure> {
    let sealed = |(state, bytes): (State, Vec<u8>)| {
        let seal = Seal::of(&state, &bytes);
        (state, seal)
    };
    Ok(whole(folder)?.map(sealed))
}

/// The state of record, after comparing it with what the record knows of it.
pub(super) fn checked(folder: &WorkspaceFolder, record: &Record) -> Result<Option<State>, Failure> {
    let kept = || copies(folder, record).len();
    let found = whole(folder).map_err(|mut failure| {
        if failure.reason == Reason::StateDamaged {
            failure.message.extend(["; ", &way_out(kept())]);
        }
        failure
    })?;
    if let Some(doubt) = &record.doubt
        && doubt.is_about(found.as_ref().map(|(_, bytes)| bytes.as_slice()))
    {
        return Err(doubt.failure.clone());
    }
    if let Some(seal) = &record.state {
        let found = found.as_ref().map(|(state, bytes)| (state, bytes.as_slice()));
        seal.check(found).map_err(|damage| damage.failure(&folder.state(), kept()))?;
    } else if found.is_none()
        && let Some(copy) = copies(folder, record).first()
    {
        let missing = Damage::Missing { resources: copy.state.resources.len() };
        return Err(missing.failure(&folder.state(), kept()));
    }
    Ok(found.map(|(state, _)| state))
}

fn whole(folder: &WorkspaceFolder) -> Result<Option<(State, Vec<u8>)>, Failure> {
    let bytes = read_optional(&folder.state()).map_err(|error| {
        if is_damage(&error) {
            return Failure::new(Reason::StateDamaged, format!("{}: {error}", folder.state().display()));
        }
        Failure::io("read the state", &error)
    })?;
    let Some(bytes) = bytes else { return Ok(None) };
    match State::read(&bytes) {
        Ok(state) => Ok(Some((state, bytes))),
        Err(error) => Err(unreadable(folder, &error)),
    }
}

fn unreadable(folder: &WorkspaceFolder, error: &StateError) -> Failure {
    let reason = match error {
        StateError::Empty | StateError::Malformed(_) => Reason::StateDamaged,
        StateError::Encrypted | StateError::Version { .. } => Reason::StateUnreadable,
    };
    Failure::new(reason, format!("{}: {error}", folder.state().display()))
}

/// A state that a run left, where it is whole. One of more objects or values than any real one has would take all memory.
pub(super) fn sound(bytes: &[u8]) -> Option<State> {
    let (mut objects, mut values) = (0, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => objects += 1,
            b',' if !quoted => values += 1,
            _ => {}
        }
    }
    if objects <= OBJECTS && values <= VALUES { State::read(bytes).ok() } else { None }
}

/// Gives the next process its copy of the state, and of the kept plan where it `applies` that.
pub(super) fn lend(folder: &WorkspaceFolder, applies: bool) -> io::Result<()> {
    let run = folder.open_guest()?;
    // Where nothing was initialised, Terraform looks there for backends and workspaces.
    run.remove(Path::new(guest::DATA))?;
    place(&run, guest::STATE, read_optional(&folder.state())?)?;
    place(&run, guest::PLAN, if applies { read_optional(&folder.plan())? } else { None })
}

fn place(run: &Dir, name: &str, bytes: Option<Vec<u8>>) -> io::Result<()> {
    let path = Path::new(name);
    match bytes {
        None => run.remove(path),
        // Also what is the same: somebody may still have the file open that the run before left.
        Some(bytes) => run.write(path, &bytes),
    }
}

/// The plan that a process left.
pub(super) fn collect_plan(folder: &WorkspaceFolder) -> io::Result<Vec<u8>> {
    let plan = folder.open_guest()?.read(Path::new(guest::PLAN), LARGEST)?;
    let plan = plan.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    write_private(&folder.plan(), &plan)?;
    Ok(plan)
}

/// Keeps the plan of a look that found drift, for people; without one, that of an earlier look goes.
pub(super) fn keep_drift(folder: &WorkspaceFolder, found: bool) -> io::Result<bool> {
    let plan = if found { folder.open_guest()?.read(Path::new(guest::PLAN), LARGEST)? } else { None };
    match &plan {
        Some(plan) => write_private(&folder.drift(), plan)?,
        None => remove(&folder.drift())?,
    }
    Ok(plan.is_some())
}

/// Takes in what a process left that ended, or died, and what it printed because it could write it nowhere. The newest that is whole
/// counts; a state that was only half written is passed over, unless the process ended well and says that it `changed` something. One that
/// belongs to a backend waits to be handed in.
pub(super) fn collect(
    folder: &WorkspaceFolder,
    start: &Path,
    remote: bool,
    dump: Option<&[u8]>,
    changed: usize,
) -> Result<Option<State>, Failure> {
    let io = |error: io::Error| Failure::io("take in the state", &error);
    let run = folder.open_guest().map_err(io)?;
    run.remove(Path::new(LOCK)).map_err(io)?;
    // A run of an older layout started elsewhere.
    let errored = start.strip_prefix(folder.guest()).map(|start| start.join(ERRORED)).ok();
    let left = match &errored {
        Some(path) => match run.read(path, LARGEST) {
            // No file of Terraform's: a link, a folder.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
            read => read.map_err(io)?,
        },
        None => None,
    };
    let left = [dump.map(<[u8]>::to_vec), left].into_iter().flatten();
    // Half of one, on a full disk, is none.
    let left: Vec<_> = left.filter_map(|bytes| Some((sound(&bytes)?, bytes))).collect();
    let discard = || errored.as_ref().map_or(Ok(()), |path| run.remove(path)).map_err(io);
    if remote {
        if let Some((_, bytes)) = left.into_iter().max_by_key(|(state, _)| state.serial) {
            write_durable(&folder.pending(), &bytes).map_err(io)?;
            discard()?;
        }
        return read(folder);
    }
    let found = run.read(Path::new(guest::STATE), LARGEST).map_err(|error| left_behind(&error))?;
    let worked_on = found.as_ref().and_then(|bytes| Some((sound(bytes)?, bytes.clone())));
    let here = match whole(folder) {
        Err(failure) if left.is_empty() && worked_on.is_none() => return Err(failure),
        here => here.unwrap_or_default(),
    };
    if let (Some((here, _)), Some((other, bytes))) = (&here, &worked_on)
        && here.lineage != other.lineage
    {
        write_private(&folder.0.join("state/foreign.tfstate"), bytes).map_err(io)?;
        let message =
            "the run left a state of another lineage, which is not taken in (kept as state/foreign.tfstate)";
        return Err(Failure::new(Reason::StateDamaged, message));
    }
    let mut newest = here;
    let before = newest.as_ref().map(|(_, bytes)| bytes.clone());
    let serial = newest.as_ref().map(|(state, _)| state.serial);
    let worked_on_serial = worked_on.as_ref().map(|(state, _)| state.serial);
    for (state, bytes) in worked_on.into_iter().chain(left) {
        match &newest {
            Some((known, _)) if known.lineage != state.lineage => {
                // Nobody can tell which is right. It stays for a person to look at.
                write_private(&folder.0.join("state").join(ERRORED), &bytes).map_err(io)?;
            }
            Some((known, _)) if known.serial > state.serial => {}
            _ => newest = Some((state, bytes)),
        }
    }
    let told = newest.as_ref().is_some_and(|(state, _)| {
        worked_on_serial == Some(state.serial) || serial.is_none_or(|serial| state.serial > serial)
    });
    if changed > 0 && !told {
        return Err(untold(folder, changed, found.as_deref()));
    }
    if let Some((_, bytes)) = newest.as_ref().filter(|(_, bytes)| before.as_ref() != Some(bytes)) {
        write_whole(&folder.state(), bytes).map_err(io)?;
    }
    discard()?;
    Ok(newest.map(|(state, _)| state))
}

/// A run that ended well, and left no state that tells of it. What it left is kept for a person to look at.
fn untold(folder: &WorkspaceFolder, changed: usize, found: Option<&[u8]>) -> Failure {
    const REFUSED: &str = "state/refused.tfstate";
    let kept = found.is_some_and(|bytes| write_private(&folder.0.join(REFUSED), bytes).is_ok());
    let left = if kept { format!("what it left is kept as {REFUSED}") } else { "it left none".to_owned() };
    let message = format!(
        "the run left no state that tells of the objects that it made, changed or destroyed: {changed}; {left}"
    );
    Failure::new(Reason::StateDamaged, message)
}

/// A state that a run left, and that is none: a link, a device, an endless file.
fn left_behind(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::InvalidData {
        return Failure::new(
            Reason::StateDamaged,
            format!("the state that the run left is not taken in: {error}"),
        );
    }
    Failure::io("take in the state", error)
}

/// Takes in what a process left whose stream told this. The space that was set aside for the stream is free again. Where it was not to
/// change anything, nothing is taken in: a plan runs programs of the module, too, and a state of their making is nobody's.
pub(super) fn after(
    folder: &WorkspaceFolder,
    journal: &Journal,
    report: &StreamReport,
) -> Result<Option<State>, Failure> {
    let files = ProcessFiles::new(folder.run(&journal.id), journal.stage.as_str());
    files.release();
    if !journal.stage.changes() {
        let removed = folder.open_guest().and_then(|run| run.remove(Path::new(LOCK)));
        removed.map_err(|error| Failure::io("take in the state", &error))?;
        return read(folder);
    }
    let changed = if files.code() == Some(0) { report.changed } else { 0 };
    collect(folder, &journal.start, journal.remote, report.dump.as_deref(), changed)
}

/// Notes that the state of record is not the whole truth.
pub(super) fn doubt(folder: &WorkspaceFolder, failure: &Failure) -> Doubt {
    let state = read_optional(&folder.state()).ok().flatten().map(|bytes| sha256([bytes.as_slice()]));
    Doubt { failure: failure.clone(), state }
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
    let files = ProcessFiles::new(folder.run(&journal.id), journal.stage.as_str());
    if files.lives() {
        return Err(Failure::new(
            Reason::StateLocked,
            format!("run {} is still under way", journal.id.as_str()),
        ));
    }
    let report = StreamReport::read(files.output()).map_err(io)?;
    let settled = after(folder, &journal, &report);
    let state = match &settled {
        Ok(state) => state.clone(),
        Err(failure) if failure.reason.is_damage() => {
            record.doubt = Some(Box::new(doubt(folder, failure)));
            read(folder).ok().flatten()
        }
        Err(failure) => return Err(failure.clone()),
    };
    if journal.stage.changes() {
        record.unsaved.extend(report.unsaved(state.as_ref()));
        record.end(report.is_refused(), state.as_ref());
    }
    record.current = None;
    record.write(folder).map_err(io)?;
    files.clear();
    Ok(record)
}

/// The newest state that is whole, to be kept elsewhere; nothing where there is none. That of a run counts where it `changes` something.
pub(super) fn newest(folder: &WorkspaceFolder, dump: Option<&[u8]>, changes: bool) -> Vec<u8> {
    let here = whole(folder).ok().flatten();
    let state = here.as_ref().map(|(state, _)| state);
    let dumped = dump.filter(|dump| sound(dump).is_some_and(|dumped| goes_on(&dumped, state)));
    let left = || dumped.map(<[u8]>::to_vec).or_else(|| WorkingState::new(folder).whole(state));
    let run = changes.then(left).flatten();
    run.or(here.map(|(_, bytes)| bytes)).unwrap_or_default()
}

/// Returns true if a state that a run left continues the state of record.
fn goes_on(left: &State, here: Option<&State>) -> bool {
    here.is_none_or(|here| here.lineage == left.lineage && here.serial <= left.serial)
}

/// Follows the state that a run works on. It can be large, so it is read off the threads that serve the API.
pub(super) struct StateWatch {
    worked_on: Arc<WorkingState>,
    seen: Option<Stamp>,
    size: u64,
}

impl StateWatch {
    pub fn new(folder: &WorkspaceFolder) -> Self {
        Self { worked_on: Arc::new(WorkingState::new(folder)), seen: None, size: 0 }
    }

    /// Size of the state at the last check.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns true if it changed since the last call.
    pub fn changed(&mut self) -> bool {
        let now = self.worked_on.run.as_ref().and_then(|run| run.stamp(Path::new(guest::STATE)));
        let changed = now.is_some() && now != self.seen;
        if let Some((_, _, size, _)) = now {
            self.seen = now;
            self.size = size;
        }
        changed
    }

    /// The state that the run works on, where it is whole and goes on from the state of record.
    pub async fn whole(&self) -> Option<Vec<u8>> {
        let worked_on = Arc::clone(&self.worked_on);
        let read = spawn_blocking(move || worked_on.whole(read(&worked_on.folder).ok().flatten().as_ref()));
        read.await.ok().flatten()
    }

    /// Takes it in where it changed and is whole. Best effort: the end of the run takes it in, too.
    pub async fn look(&mut self) {
        if self.changed() {
            let worked_on = Arc::clone(&self.worked_on);
            let _ = spawn_blocking(move || worked_on.take_in()).await;
        }
    }
}

/// The state that a run works on.
struct WorkingState {
    folder: WorkspaceFolder,
    run: Option<Dir>,
}

impl WorkingState {
    fn new(folder: &WorkspaceFolder) -> Self {
        Self { folder: folder.clone(), run: folder.open_guest().ok() }
    }

    /// Returns the state if it is whole and continues `here`.
    fn whole(&self, here: Option<&State>) -> Option<Vec<u8>> {
        let bytes = self.run.as_ref()?.read(Path::new(guest::STATE), LARGEST).ok()??;
        goes_on(&sound(&bytes)?, here).then_some(bytes)
    }

    fn take_in(&self) {
        let Ok(here) = whole(&self.folder) else { return };
        if let Some(bytes) = self.whole(here.as_ref().map(|(state, _)| state))
            && here.is_none_or(|(_, here)| here != bytes)
        {
            let _ = write_whole(&self.folder.state(), &bytes);
        }
    }
}

/// As many good states are kept.
const KEPT: usize = 5;

/// Keeps a copy of a state that a run ended with, and removes the oldest.
pub(super) fn keep_copy(folder: &WorkspaceFolder, record: &Record) {
    let Some(seal) = record.state.as_ref().filter(|seal| seal.resources > 0) else { return };
    let name = seal.copy_name(record.made_by.as_deref());
    let path = folder.copies().join(&name);
    if path.exists() {
        return;
    }
    // Best effort: on a full disk the state itself matters more.
    let kept = read_optional(&folder.state())
        .and_then(|bytes| {
            crate::private_files::make_private(&folder.copies()).map(|()| bytes.unwrap_or_default())
        })
        .and_then(|bytes| write_private(&path, &bytes));
    if kept.is_err() {
        let _ = std::fs::remove_file(&path);
        return;
    }
    let mut names = copy_names(folder);
    names.truncate(names.len().saturating_sub(KEPT));
    for old in names {
        let _ = std::fs::remove_file(folder.copies().join(old));
    }
}

/// A good state that can be restored.
pub(crate) struct StateCopy {
    pub state: State,
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    /// Made by the code that made what the record describes.
    pub is_theirs: bool,
}

/// The good states that can be restored, the newest first. What was damaged itself is left out.
pub(crate) fn copies(folder: &WorkspaceFolder, record: &Record) -> Vec<StateCopy> {
    let lineage = record.state.as_ref().map(|seal| seal.lineage.as_str());
    let mut names = copy_names(folder);
    names.reverse();
    let good = names.into_iter().filter_map(|name| {
        let path = folder.copies().join(&name);
        let bytes = std::fs::read(&path).ok()?;
        let state = State::read(&bytes).ok()?;
        let seal = Seal::of(&state, &bytes);
        let is_theirs = seal.copy_name(record.made_by.as_deref()) == name;
        let whole = name.strip_prefix(&seal.copy_stem()).is_some_and(|rest| rest.starts_with(['.', '-']));
        let ours = lineage.is_none_or(|lineage| lineage == state.lineage);
        (whole && ours).then_some(StateCopy { state, path, bytes, is_theirs })
    });
    good.collect()
}

/// Their names sort by serial.
fn copy_names(folder: &WorkspaceFolder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.copies()).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests;
