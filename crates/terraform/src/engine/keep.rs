//! What goes to the keeper, and what comes back from it.

use std::{fs, io, path::Path, time::Duration};

use tokio::{task::JoinHandle, time::sleep};

use super::{
    WorkspaceError, blocking,
    inner::Inner,
    job::{Halt, Job},
    prepare::Ground,
    settle,
    table::Why,
    told::Told,
};
use crate::{
    failure::{Failure, Reason},
    folders::{WorkspaceFolder, is_damage, read_optional, remove, write_durable},
    guard::{Fence, term::ends_within},
    keeper::{KeepError, Kept, Running},
    order::{Operation, WorkspaceId},
    process::Files,
    record::{Journal, Record, Stage},
};

/// Why a guard stops a run.
const OVER: &str = "the controller that began the run lost its lease";
/// How often the state is looked at during a run.
const LOOK: Duration = Duration::from_millis(200);
/// The longest wait before it is tried again.
const LONGEST: Duration = Duration::from_secs(5);

impl Job {
    /// Keeps record and state, or what was printed of it where it could not be written. Tries until it succeeds: a run whose state is only in one place is not over.
    /// `under_way`: the run is not over yet.
    pub async fn keep(&self, record: &Record, dump: Option<&[u8]>, under_way: bool) -> Result<(), Halt> {
        let Some(keeper) = &self.inner.options.keeper else { return Ok(()) };
        let mut wait = Duration::from_millis(100);
        let changes = record.current.as_ref().is_none_or(|journal| journal.stage.changes());
        loop {
            let (folder, dump) = (self.folder.clone(), dump.map(<[u8]>::to_vec));
            let state = blocking(move || settle::newest(&folder, dump.as_deref(), changes)).await;
            let running = under_way.then(|| self.running());
            match keeper.keep(&self.workspace, record.kept(state, running)).await {
                Ok(()) => return Ok(()),
                Err(KeepError::Fenced(who)) => return Err(Halt::Stopped(Why::Fenced(who))),
                // What goes away needs no place.
                Err(KeepError::TooLarge(_)) if self.operation == Operation::Destroy => return Ok(()),
                Err(KeepError::TooLarge(why)) => {
                    return Err(Failure::new(Reason::StateUnreadable, why).into());
                }
                // What is damaged there is not written over by a run: nobody knows who wrote it last.
                Err(KeepError::Failed(_) | KeepError::Unsettled(_) | KeepError::Damaged(_)) => {}
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
        let (workspace, folder) = (self.workspace.clone(), self.folder.clone());
        let kept = ground.record.kept(Vec::new(), Some(self.running()));
        let inner = self.inner.clone();
        Some(tokio::spawn(async move {
            let mut following = settle::Following::new(&folder);
            following.changed();
            let mut due = false;
            loop {
                sleep(LOOK).await;
                due |= following.changed();
                if !due {
                    continue;
                }
                // Half written: the next look sees the whole of it.
                let Some(state) = following.whole().await else { continue };
                match keeper.keep(&workspace, Kept { state, ..kept.clone() }).await {
                    // The end of the run tells of one that is too large.
                    Ok(()) | Err(KeepError::TooLarge(_)) => due = false,
                    Err(KeepError::Failed(_) | KeepError::Unsettled(_) | KeepError::Damaged(_)) => {}
                    Err(KeepError::Fenced(who)) => {
                        inner.fence(&workspace, who);
                        return;
                    }
                }
            }
        }))
    }
}

impl Job {
    /// Whether somebody else can go on with the workspace.
    pub fn shared(&self) -> bool {
        self.inner.options.keeper.as_ref().is_some_and(|keeper| keeper.shares(&self.workspace))
    }

    fn running(&self) -> Running {
        let options = &self.inner.options;
        let ends_within =
            options.lease.as_ref().map_or(Duration::ZERO, |lease| lease.lasts + ends_within(options.grace));
        Running { run: self.id.as_str().to_owned(), ends_within }
    }

    /// What ends a process of this run when the lease's term is over; `last`: the state after it is handed in.
    pub fn fence(&self, ground: &Ground, last: bool) -> Option<Fence> {
        self.inner.options.lease.as_ref()?;
        let shared = self.shared();
        (shared || ground.remote).then(|| Fence {
            term: self.inner.folders.term(),
            grace: self.inner.options.grace,
            stopped: self.files(Stage::Apply).stopped(),
            why: serde_json::to_string(&Why::Fenced(OVER.to_owned())).expect("plain data"),
            hand_in: (shared && last).then(|| self.folder.0.clone()),
        })
    }

    /// What another controller made of the workspace since this run was begun; `None` where nobody has touched it.
    pub async fn superseded(&self, journal: &Journal) -> Result<Option<Kept>, Halt> {
        let Some(keeper) = self.inner.options.keeper.as_ref().filter(|_| journal.shared) else {
            return Ok(None);
        };
        let mut wait = Duration::from_millis(100);
        let kept = loop {
            match keeper.load(&self.workspace).await {
                Ok(kept) => break kept,
                Err(KeepError::Fenced(who)) => return Err(Halt::Stopped(Why::Fenced(who))),
                Err(
                    KeepError::Failed(_)
                    | KeepError::Unsettled(_)
                    | KeepError::Damaged(_)
                    | KeepError::TooLarge(_),
                ) => {}
            }
            let mut stopping = self.inner.stopping.subscribe();
            tokio::select! {
                () = sleep(wait) => {}
                _ = stopping.wait_for(|stopping| *stopping) => return Err(Halt::Stopping),
            }
            wait = (wait * 2).min(LONGEST);
        };
        let Some(kept) = kept else { return Ok(None) };
        let ours = if journal.stage.changes() {
            kept.running.as_ref().is_some_and(|running| running.run == journal.id.as_str())
        } else {
            !newer(read_optional(&self.folder.state()).ok().flatten().as_deref(), &kept.state)
        };
        Ok((!ours).then_some(kept))
    }
}

impl Inner {
    /// Stops the run of a workspace that somebody else owns.
    pub fn fence(&self, workspace: &WorkspaceId, who: String) {
        if let Some(run) = &self.table().entry(workspace).run {
            run.stop.send_if_modified(|why| {
                let first = why.is_none();
                why.get_or_insert(Why::Fenced(who));
                first
            });
        }
    }

    /// The record of a workspace as it is in its folder.
    pub async fn here(&self, workspace: &WorkspaceId) -> Result<Record, WorkspaceError> {
        let folder = self.folders.workspace(workspace);
        let own = folder.clone();
        let here = blocking(move || Record::read(&own)).await;
        let here = here.map_err(|source| trouble(workspace, &folder, source))?;
        Ok(here.unwrap_or_else(|| Record::new(workspace.clone())))
    }

    /// The record of a workspace: from its folder, else from the keeper. The keeper is asked once; what it has may be newer than
    /// what an engine left here long ago.
    pub async fn load(&self, workspace: &WorkspaceId) -> Result<Record, WorkspaceError> {
        let folder = self.folders.workspace(workspace);
        let trouble = |source: io::Error| trouble(workspace, &folder, source);
        let own = folder.clone();
        let here = blocking(move || Record::read(&own)).await.map_err(trouble)?;
        let known = self.table().entry(workspace).known;
        let record = match (&self.options.keeper, known) {
            (Some(keeper), false) => {
                let kept = keeper.load(workspace).await?;
                settled(here.as_ref(), kept.as_ref())?;
                let into = folder.clone();
                blocking(move || restored(&into, here, kept)).await.map_err(trouble)?
            }
            _ => here,
        };
        self.table().entry(workspace).known = true;
        Ok(record.unwrap_or_else(|| Record::new(workspace.clone())))
    }
}

fn trouble(workspace: &WorkspaceId, folder: &WorkspaceFolder, source: io::Error) -> WorkspaceError {
    let workspace = workspace.clone();
    if is_damage(&source) {
        return WorkspaceError::Damaged { workspace, record: folder.record(), source };
    }
    WorkspaceError::Folder { workspace, source }
}

/// The newer of what is here and what was kept, which is then here.
fn restored(
    folder: &WorkspaceFolder,
    here: Option<Record>,
    kept: Option<Kept>,
) -> io::Result<Option<Record>> {
    let Some(kept) = kept else { return Ok(here) };
    if let Some(here) = &here {
        let newer = newer(read_optional(&folder.state())?.as_deref(), &kept.state);
        if !newer || here.current.is_some() {
            return Ok(Some(here.clone()));
        }
    }
    replaced(folder, &kept).map(Some)
}

/// What was kept, which is then here.
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
    }
    record.write(folder)?;
    Ok(record)
}

/// Whether a kept state follows on the one that is here.
fn newer(here: Option<&[u8]>, kept: &[u8]) -> bool {
    let serial = |bytes: &[u8]| settle::sound(bytes).map(|state| (state.lineage, state.serial));
    match (here.and_then(serial), serial(kept)) {
        (Some((ours, mine)), Some((theirs, other))) => ours == theirs && other > mine,
        (None, Some(_)) => true,
        (_, None) => false,
    }
}

/// Nothing is made of a state while a run of another controller may still change it.
fn settled(here: Option<&Record>, kept: Option<&Kept>) -> Result<(), KeepError> {
    let Some(running) = kept.and_then(|kept| kept.running.as_ref()) else { return Ok(()) };
    let own = here.and_then(|here| here.current.as_ref()).is_some_and(|own| own.id.as_str() == running.run);
    if own || running.ends_within.is_zero() {
        return Ok(());
    }
    Err(KeepError::Unsettled(format!(
        "run {} of another controller may still be under way, for {} s at most",
        running.run,
        running.ends_within.as_secs() + 1
    )))
}

/// What is to be kept of a workspace whose run ended while its engine did not look: its record, and its state in order.
pub fn last_state(folder: &Path) -> Result<Option<(WorkspaceId, Kept)>, Failure> {
    let folder = WorkspaceFolder(folder.to_owned());
    let io = |error: io::Error| Failure::io("read the end of a run", &error);
    let Some(mut record) = Record::read(&folder).map_err(io)? else { return Ok(None) };
    let Some(journal) = record.current.clone() else { return Ok(None) };
    let told =
        Told::read(Files::new(folder.run(&journal.id), journal.stage.as_str()).output()).map_err(io)?;
    let (state, changes) = (settle::after(&folder, &journal, &told)?, journal.stage.changes());
    if changes {
        record.unsaved.extend(told.unsaved(state.as_ref()));
    }
    let state = settle::newest(&folder, told.dump.as_deref(), changes);
    Ok(Some((record.workspace.clone(), record.kept(state, None))))
}
