//! What goes to the keeper, and what comes back from it.

use std::{fs, io, time::Duration};

use tokio::{task::JoinHandle, time::sleep};

use super::{
    WorkspaceError, blocking,
    inner::Inner,
    job::{Halt, Job},
    prepare::Ground,
    settle,
    table::Why,
};
use crate::{
    folders::{WorkspaceFolder, read_optional, write_durable},
    keeper::{KeepError, Kept},
    order::WorkspaceId,
    record::Record,
    state::State,
};

/// How often the state is looked at during a run.
const LOOK: Duration = Duration::from_millis(200);
/// The longest wait before it is tried again.
const LONGEST: Duration = Duration::from_secs(5);

impl Job {
    /// Keeps record and state, or what was printed of it where it could not be written. Tries until it succeeds: a run whose state is only in one place is not over.
    pub async fn keep(&self, record: &Record, dump: Option<&[u8]>) -> Result<(), Halt> {
        let Some(keeper) = &self.inner.options.keeper else { return Ok(()) };
        let mut wait = Duration::from_millis(100);
        loop {
            let state = settle::newest(&self.folder, dump);
            match keeper.keep(&self.workspace, Kept { record: record.essence(), state }).await {
                Ok(()) => return Ok(()),
                Err(KeepError::Fenced(who)) => return Err(Halt::Stopped(Why::Fenced(who))),
                Err(KeepError::Failed(_)) => {}
            }
            let mut stopping = self.inner.stopping.subscribe();
            tokio::select! {
                () = sleep(wait) => {}
                _ = stopping.wait_for(|stopping| *stopping) => return Err(Halt::Stopping),
            }
            wait = (wait * 2).min(LONGEST);
        }
    }

    /// Keeps the state while the run goes on, whenever it changed.
    pub fn mirror(&self, ground: &Ground) -> Option<JoinHandle<()>> {
        let keeper = self.inner.options.keeper.clone()?;
        if !self.operation.changes() {
            return None;
        }
        let (workspace, path, record) =
            (self.workspace.clone(), self.folder.state(), ground.record.essence());
        let inner = self.inner.clone();
        Some(tokio::spawn(async move {
            let stamp = || fs::metadata(&path).ok().map(|metadata| settle::stamp(&metadata));
            let mut kept = stamp();
            loop {
                sleep(LOOK).await;
                let now = stamp();
                if now == kept {
                    continue;
                }
                let state = fs::read(&path).unwrap_or_default();
                // Half written: the next look sees the whole of it.
                if State::read(&state).is_err() {
                    continue;
                }
                match keeper.keep(&workspace, Kept { record: record.clone(), state }).await {
                    Ok(()) => kept = now,
                    Err(KeepError::Failed(_)) => {}
                    Err(KeepError::Fenced(who)) => {
                        inner.fence(&workspace, who);
                        return;
                    }
                }
            }
        }))
    }
}

impl Inner {
    /// Stops the run of a workspace that somebody else owns.
    fn fence(&self, workspace: &WorkspaceId, who: String) {
        if let Some(run) = &self.table().entry(workspace).run {
            run.stop.send_if_modified(|why| {
                let first = why.is_none();
                why.get_or_insert(Why::Fenced(who));
                first
            });
        }
    }

    /// The record of a workspace: from its folder, else from the keeper. The keeper is asked once; what it has may be newer than
    /// what an engine left here long ago.
    pub async fn load(&self, workspace: &WorkspaceId) -> Result<Record, WorkspaceError> {
        let folder = self.folders.workspace(workspace);
        let trouble = |source: io::Error| WorkspaceError::Folder { workspace: workspace.clone(), source };
        let own = folder.clone();
        let here = blocking(move || Record::read(&own)).await.map_err(trouble)?;
        let known = self.table().entry(workspace).known;
        let record = match (&self.options.keeper, known) {
            (Some(keeper), false) => {
                let kept = keeper.load(workspace).await?;
                blocking(move || restored(&folder, here, kept)).await.map_err(trouble)?
            }
            _ => here,
        };
        self.table().entry(workspace).known = true;
        Ok(record.unwrap_or_else(|| Record::new(workspace.clone())))
    }
}

/// The newer of what is here and what was kept, which is then here.
fn restored(
    folder: &WorkspaceFolder,
    here: Option<Record>,
    kept: Option<Kept>,
) -> io::Result<Option<Record>> {
    let Some(kept) = kept else { return Ok(here) };
    let serial = |bytes: &[u8]| State::read(bytes).ok().map(|state| (state.lineage, state.serial));
    if let Some(here) = &here {
        let ours = read_optional(&folder.state())?.and_then(|bytes| serial(&bytes));
        let newer = match (&ours, serial(&kept.state)) {
            (Some((ours, mine)), Some((theirs, other))) => *ours == theirs && other > *mine,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if !newer || here.current.is_some() {
            return Ok(Some(here.clone()));
        }
    }
    let record = Record::from_essence(&kept.record)?;
    folder.make()?;
    if !kept.state.is_empty() {
        write_durable(&folder.state(), &kept.state)?;
    }
    record.write(folder)?;
    Ok(Some(record))
}
