//! Decides between the workspace's folder and its stored copy. Another controller may have continued with the workspace since, or
//! have ended it.

use std::{fs, io, path::PathBuf};

use super::state_recovery;
use crate::{
    beneath::{read_optional, remove},
    folders::WorkspaceFolder,
    private_files::{make_private, write_durable},
    record::Record,
    seen::{Seen, turn},
    state_backend::Kept,
};

/// Folder of the state and its copies.
const STATES: &str = "state";

/// The copy of a workspace that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latest {
    Here,
    Kept,
    /// Neither: what was kept is gone, and what is here may have been destroyed since.
    Gone,
}

/// Compares them; `shared`: the workspace is kept at all.
pub(super) fn latest(here: &Record, state: Option<&[u8]>, kept: Option<&Kept>, shared: bool) -> Latest {
    match (kept, &here.seen) {
        (None, Some(_)) if shared => Latest::Gone,
        (None, _) => Latest::Here,
        // Of an older version.
        (Some(kept), None) => if_newer(newer(state, &kept.state)),
        (Some(kept), Some(seen)) => if_newer(!seen.is_last(kept) && !put_back(seen, state, kept)),
    }
}

fn if_newer(newer: bool) -> Latest {
    if newer { Latest::Kept } else { Latest::Here }
}

/// Returns true if a kept state is a later one of the same lineage as the local state.
fn newer(here: Option<&[u8]>, kept: &[u8]) -> bool {
    let serial = |bytes: &[u8]| state_recovery::sound(bytes).map(|state| (state.lineage, state.serial));
    match (here.and_then(serial), serial(kept)) {
        (Some((ours, mine)), Some((theirs, other))) => ours == theirs && other > mine,
        (None, Some(_)) => true,
        (_, None) => false,
    }
}

/// Returns true if an earlier copy was put back into the state backend, for instance with the whole cluster from a backup. A workspace that was
/// built anew counts from the start, too, and has a state of another lineage.
fn put_back(seen: &Seen, state: Option<&[u8]>, kept: &Kept) -> bool {
    let (Some(ours), Some(theirs)) =
        (state.and_then(state_recovery::sound), state_recovery::sound(&kept.state))
    else {
        return false;
    };
    let before = turn(kept).map_or(theirs.serial < ours.serial, |turn| turn < seen.turn);
    before && ours.lineage == theirs.lineage
}

/// The record of what counts, which is then here.
pub(super) fn restored(
    folder: &WorkspaceFolder,
    here: Option<Record>,
    kept: Option<&Kept>,
    shared: bool,
) -> io::Result<Option<Record>> {
    let Some(here) = here else { return kept.map(|kept| replaced(folder, kept)).transpose() };
    if here.current.is_some() {
        return Ok(Some(here));
    }
    let state = read_optional(&folder.state())?;
    match (latest(&here, state.as_deref(), kept, shared), kept) {
        (Latest::Kept, Some(kept)) => replaced(folder, kept).map(Some),
        (Latest::Gone, _) => set_aside(folder, &here).map(Some),
        _ => Ok(Some(here)),
    }
}

/// Replaces the local copy by the kept one.
pub(super) fn replaced(folder: &WorkspaceFolder, kept: &Kept) -> io::Result<Record> {
    // Whoever may write where it is kept must not speak for another workspace.
    let record = Record::from_kept(kept)?.of(folder)?;
    folder.make()?;
    // A plan and a state to hand in that are here belong to what was here before. The latter may be of use to a person.
    remove(&folder.plan())?;
    if folder.pending().exists() {
        fs::rename(folder.pending(), folder.pending().with_file_name("errored.tfstate"))?;
    }
    if !kept.state.is_empty() {
        write_durable(&folder.state(), &kept.state)?;
    } else if record.state.is_none() {
        // It was built anew, and has none yet: what is here is of what was destroyed.
        put_aside(folder, &[folder.0.join(STATES)])?;
        folder.make()?;
    }
    record.write(folder)?;
    Ok(record)
}

/// Puts aside what is here and is not to be gone on with: a person may need it. A workspace with nothing is left.
pub(super) fn set_aside(folder: &WorkspaceFolder, here: &Record) -> io::Result<Record> {
    // The record last: it says that there is something to put aside.
    let mut all = vec![folder.0.join(STATES), folder.plan(), folder.drift()];
    all.extend((!here.is_blank()).then(|| folder.record()));
    put_aside(folder, &all)?;
    let record = Record::new(here.workspace.clone());
    folder.make()?;
    record.write(folder)?;
    Ok(record)
}

fn put_aside(folder: &WorkspaceFolder, paths: &[PathBuf]) -> io::Result<()> {
    make_private(&folder.gone())?;
    for path in paths {
        // One that is missing went there before this was cut off.
        if let Some(name) = path.file_name().filter(|_| path.exists()) {
            let aside = folder.gone().join(name);
            remove(&aside)?;
            fs::rename(path, aside)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
