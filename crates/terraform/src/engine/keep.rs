//! Exchange with the state backend.

use std::{io, path::Path, time::Duration};

use tokio::{task::JoinHandle, time::sleep};

use super::{
    backend_wait::{LONGEST, Moment, Wait},
    inner::{Inner, Room},
    job::{Halt, Job},
    latest::{Latest, latest, restored},
    prepare::RunContext,
    state_recovery,
    stream_recovery::StreamReport,
    table::Why,
};
use crate::{
    beneath::read_optional,
    blocking::blocking,
    executor::WorkspaceError,
    failure::{Failure, Reason},
    folders::WorkspaceFolder,
    guard::{Fence, term::ends_within},
    order::{Operation, WorkspaceId},
    private_files::is_damage,
    process::ProcessFiles,
    record::{Journal, Record, Stage},
    seen::Seen,
    state_backend::{Kept, Running, StateBackendError},
};

/// Why a guard stops a run.
const OVER: &str = "the controller that began the run lost its lease";

/// Changes of a workspace by other controllers since an adopted run was begun.
pub(super) enum Since {
    /// Nobody else has touched it.
    Nothing,
    /// Another controller has made this of it.
    Kept(Kept),
    /// Another controller has forgotten it.
    Ended,
}

/// Interval of checks of the state during a run.
const LOOK: Duration = Duration::from_millis(200);

impl Job {
    /// Keeps record and state, or what was printed of it where it could not be written. Where the run is over, tries until it succeeds: a
    /// run whose state is only in one place is not over. Where a process is to start, gives up before it does.
    pub async fn keep(&self, record: &mut Record, dump: Option<&[u8]>, at: Moment) -> Result<(), Halt> {
        let Some(state_backend) = &self.inner.options.state_backend else { return Ok(()) };
        let mut wait = Wait::new(self, at);
        let changes = record.current.as_ref().is_none_or(|journal| journal.stage.changes());
        loop {
            let (folder, dump) = (self.folder.clone(), dump.map(<[u8]>::to_vec));
            let state = blocking(move || state_recovery::newest(&folder, dump.as_deref(), changes)).await;
            let running = (at == Moment::Start).then(|| self.running());
            let kept = record.kept(state, running);
            let seen = Seen::written(&kept);
            match state_backend.keep(&self.workspace, kept).await {
                Ok(()) => {
                    if self.shared() {
                        record.seen = Some(seen);
                    }
                    return Ok(());
                }
                Err(StateBackendError::Fenced(who)) => return Err(Halt::Stopped(Why::Fenced(who))),
                // What goes away needs no place.
                Err(StateBackendError::TooLarge(_) | StateBackendError::Closed(_))
                    if self.operation == Operation::Destroy =>
                {
                    return Ok(());
                }
                Err(StateBackendError::TooLarge(why)) => {
                    return Err(Failure::new(Reason::StateUnreadable, why).into());
                }
                Err(StateBackendError::Closed(why)) if at == Moment::End => {
                    // The object goes as well, and what is here is what its destroy needs.
                    tracing::warn!(workspace = %self.workspace, why, "the last state is in the data folder alone");
                    return Ok(());
                }
                // What is damaged there is not written over by a run: nobody knows who wrote it last.
                Err(
                    error @ (StateBackendError::Failed(_)
                    | StateBackendError::Unsettled(_)
                    | StateBackendError::Closed(_)
                    | StateBackendError::Damaged(_)),
                ) => wait.pause(error).await?,
            }
        }
    }

    /// Keeps the state while the run goes on, whenever it changed.
    pub fn mirror(&self, context: &RunContext) -> Option<JoinHandle<()>> {
        let state_backend = self.inner.options.state_backend.clone()?;
        if !self.operation.changes() {
            return None;
        }
        let (workspace, folder) = (self.workspace.clone(), self.folder.clone());
        let kept = context.record.kept(Vec::new(), Some(self.running()));
        let inner = self.inner.clone();
        Some(tokio::spawn(async move {
            let mut following = state_recovery::StateWatch::new(&folder);
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
                match state_backend.keep(&workspace, Kept { state, ..kept.clone() }).await {
                    // The end of the run tells of one that is not kept.
                    Ok(()) | Err(StateBackendError::TooLarge(_) | StateBackendError::Closed(_)) => {
                        due = false;
                    }
                    Err(
                        StateBackendError::Failed(_)
                        | StateBackendError::Unsettled(_)
                        | StateBackendError::Damaged(_),
                    ) => {}
                    Err(StateBackendError::Fenced(who)) => {
                        inner.fence(&workspace, who);
                        return;
                    }
                }
            }
        }))
    }
}

impl Job {
    /// Returns true if another controller can continue with the workspace.
    pub fn shared(&self) -> bool {
        self.inner
            .options
            .state_backend
            .as_ref()
            .is_some_and(|state_backend| state_backend.shares(&self.workspace))
    }

    fn running(&self) -> Running {
        let options = &self.inner.options;
        let ends_within =
            options.lease.as_ref().map_or(Duration::ZERO, |lease| lease.lasts + ends_within(options.grace));
        Running { run: self.id.as_str().to_owned(), ends_within }
    }

    /// Fence that ends a process of this run when the lease's term is over; `last`: the state after it is handed in.
    pub fn fence(&self, context: &RunContext, last: bool) -> Option<Fence> {
        self.inner.options.lease.as_ref()?;
        let shared = self.shared();
        (shared || context.remote).then(|| Fence {
            term: self.inner.folders.term(),
            grace: self.inner.options.grace,
            stopped: self.files(Stage::Apply).stopped(),
            why: serde_json::to_string(&Why::Fenced(OVER.to_owned())).expect("plain data"),
            hand_in: (shared && last).then(|| self.folder.0.clone()),
        })
    }

    /// The same as `since`, with the room of the run as long as a process of it lives: what damages the Secret of one workspace takes
    /// none from others.
    pub async fn since_with(
        &self,
        here: &Record,
        journal: &Journal,
        room: Room,
    ) -> Result<(Since, Option<Room>), Halt> {
        let files = self.files(journal.stage);
        let mut room = Some(room).filter(|_| files.lives());
        let mut since = Box::pin(self.since(here, journal));
        loop {
            tokio::select! {
                since = &mut since => return Ok((since?, room)),
                () = sleep(LONGEST), if room.is_some() => room = room.filter(|_| files.lives()),
            }
        }
    }

    /// Looks for changes by other controllers since this run was begun.
    pub async fn since(&self, here: &Record, journal: &Journal) -> Result<Since, Halt> {
        if !journal.shared || self.inner.options.state_backend.is_none() {
            return Ok(Since::Nothing);
        }
        let Some(kept) = self.kept_unless_closing().await? else { return Ok(Since::Nothing) };
        let running = kept.as_ref().and_then(|kept| kept.running.as_ref());
        if running.is_some_and(|running| running.run == journal.id.as_str()) {
            return Ok(Since::Nothing);
        }
        let folder = self.folder.clone();
        let state = blocking(move || read_optional(&folder.state())).await.ok().flatten();
        let began = journal.stage.changes() && self.files(journal.stage).output().exists();
        let counts = latest(here, state.as_deref(), kept.as_ref(), true);
        Ok(match (kept, counts) {
            (None, Latest::Gone) => Since::Ended,
            // No process starts before its run is kept.
            (None, _) if began => Since::Ended,
            (Some(kept), Latest::Kept) => Since::Kept(kept),
            // Of an older version, which noted nothing: a run that changes something is kept as such until it is over.
            (Some(kept), _) if here.seen.is_none() && journal.stage.changes() => Since::Kept(kept),
            _ => Since::Nothing,
        })
    }

    /// Loads the kept copy; retries until the state backend answers.
    pub async fn kept(&self) -> Result<Option<Kept>, Halt> {
        Ok(self.kept_unless_closing().await?.flatten())
    }

    /// The same; nothing where the place took it along.
    async fn kept_unless_closing(&self) -> Result<Option<Option<Kept>>, Halt> {
        let Some(state_backend) = &self.inner.options.state_backend else { return Ok(Some(None)) };
        let mut wait = Wait::new(self, Moment::End);
        loop {
            let loaded = match state_backend.load(&self.workspace).await {
                Ok(None) => match state_backend.is_closing(&self.workspace).await {
                    Ok(true) => return Ok(None),
                    Ok(false) => Ok(None),
                    Err(error) => Err(error),
                },
                loaded => loaded,
            };
            match loaded {
                Ok(kept) => return Ok(Some(kept)),
                Err(StateBackendError::Fenced(who)) => return Err(Halt::Stopped(Why::Fenced(who))),
                Err(error) => wait.pause(error).await?,
            }
        }
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

    /// The record of a workspace: from its folder, else from the state backend. The state backend is asked once; what it has may be newer than
    /// what an engine left here long ago. It is asked again where the folder of a workspace was removed meanwhile, which is none that was
    /// never used.
    pub async fn load(&self, workspace: &WorkspaceId) -> Result<Record, WorkspaceError> {
        let folder = self.folders.workspace(workspace);
        let trouble = |source: io::Error| trouble(workspace, &folder, source);
        let own = folder.clone();
        let here = blocking(move || Record::read(&own)).await.map_err(trouble)?;
        let (known, removed) = {
            let mut table = self.table();
            let entry = table.entry(workspace);
            (entry.known, here.is_none() && entry.view.touched && !entry.unread)
        };
        let record = match &self.options.state_backend {
            Some(state_backend) if !known || removed => {
                let kept = state_backend.load(workspace).await?;
                settled(here.as_ref(), kept.as_ref())?;
                // What a namespace took along with itself was ended by nobody: what is here is gone on with.
                let taken_along = kept.is_none()
                    && here.as_ref().is_some_and(|here| here.seen.is_some())
                    && state_backend.is_closing(workspace).await?;
                let (into, shared) = (folder.clone(), state_backend.shares(workspace) && !taken_along);
                blocking(move || restored(&into, here, kept.as_ref(), shared)).await.map_err(trouble)?
            }
            _ => here,
        };
        let lost = removed && record.is_none();
        self.table().entry(workspace).known = !lost;
        if lost {
            return Err(WorkspaceError::Removed { workspace: workspace.clone(), record: folder.record() });
        }
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

/// Nothing is made of a state while a run of another controller may still change it.
fn settled(here: Option<&Record>, kept: Option<&Kept>) -> Result<(), StateBackendError> {
    let Some(running) = kept.and_then(|kept| kept.running.as_ref()) else { return Ok(()) };
    let own = here.and_then(|here| here.current.as_ref()).is_some_and(|own| own.id.as_str() == running.run);
    if own || running.ends_within.is_zero() {
        return Ok(());
    }
    Err(StateBackendError::Unsettled(format!(
        "run {} of another controller may still be under way, for {} s at most",
        running.run,
        running.ends_within.as_secs() + 1
    )))
}

/// Content to store for a workspace whose run ended while its engine was not running: its record, and its state in order.
pub fn last_state(folder: &Path) -> Result<Option<(WorkspaceId, Kept)>, Failure> {
    let folder = WorkspaceFolder(folder.to_owned());
    let io = |error: io::Error| Failure::io("read the end of a run", &error);
    let Some(mut record) = Record::read(&folder).map_err(io)? else { return Ok(None) };
    let Some(journal) = record.current.clone() else { return Ok(None) };
    let report =
        StreamReport::read(ProcessFiles::new(folder.run(&journal.id), journal.stage.as_str()).output())
            .map_err(io)?;
    let (state, changes) = (state_recovery::after(&folder, &journal, &report)?, journal.stage.changes());
    if changes {
        record.unsaved.extend(report.unsaved(state.as_ref()));
    }
    let state = state_recovery::newest(&folder, report.dump.as_deref(), changes);
    Ok(Some((record.workspace.clone(), record.kept(state, None))))
}
