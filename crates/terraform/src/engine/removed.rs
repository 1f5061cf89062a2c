//! A workspace whose folder was removed while the engine runs. Nothing says then what was built but memory, and it is not built again.

use super::{
    end::damage,
    inner::Inner,
    job::{Halt, Job, SINCE, Verdict},
    prepare::RunContext,
    state_recovery,
    table::Why,
};
use crate::{
    blocking::blocking,
    executor::WorkspaceError,
    failure::Failure,
    folders::WorkspaceFolder,
    order::WorkspaceId,
    private_files::write_durable,
    record::Record,
    view::{Outcome, View},
};

impl Inner {
    /// The view of a workspace whose record was removed. Where a backend should hold its state, a run looks there before it does anything.
    pub fn view_of_removed(&self, workspace: &WorkspaceId, error: &WorkspaceError) -> View {
        let mut table = self.table();
        let entry = table.entry(workspace);
        if entry.run.is_none() && entry.view.backend.is_none() {
            let View { last, origin, begun, selected, .. } = std::mem::take(&mut entry.view);
            let trouble = Some(Failure::of_workspace(error));
            entry.view = View { last, origin, begun, selected, trouble, touched: true, ..View::default() };
        }
        entry.view.clone()
    }

    /// The record of a workspace that is given a state: none is needed.
    pub async fn load_or_new(&self, workspace: &WorkspaceId) -> Result<Record, WorkspaceError> {
        match self.load(workspace).await {
            Err(WorkspaceError::Removed { .. }) => Ok(Record::new(workspace.clone())),
            loaded => loaded,
        }
    }

    /// Forgets what is only in memory of a workspace that is no more.
    pub fn disremember(&self, workspace: &WorkspaceId) {
        let mut table = self.table();
        if table.entries.get(workspace).is_some_and(|entry| entry.run.is_none() && !entry.reserved) {
            table.entries.remove(workspace);
        }
    }
}

impl Job {
    /// The record of a run that begins, and whether it is none because that was removed, and the backend is to be asked.
    pub async fn record(&self) -> Result<(Record, bool), Failure> {
        match self.inner.load(&self.workspace).await {
            Err(WorkspaceError::Removed { .. })
                if self.inner.table().entry(&self.workspace).view.backend.is_some() =>
            {
                Ok((Record::new(self.workspace.clone()), true))
            }
            loaded => loaded.map(|record| (record, false)).map_err(|error| Failure::of_workspace(&error)),
        }
    }

    /// Returns true if the record of a workspace that was used before this run is gone.
    pub async fn was_removed(&self, record: &Record) -> bool {
        let touched = self.inner.table().entry(&self.workspace).view.touched;
        (touched || !record.is_blank()) && !is_here(&self.folder).await
    }

    /// Ends a run whose record is gone: another one in its place would say that nothing was ever built.
    pub fn tell_of_removed(&self, verdict: Verdict) {
        let trouble = damage(&verdict.outcome);
        self.tell(verdict, None, None, None);
        self.inner.update(&self.workspace, |view| {
            view.touched = true;
            view.trouble = trouble.or(view.trouble.take());
        });
        self.inner.table().entry(&self.workspace).known = false;
    }

    /// Makes good for a folder that was removed during the run: the record is in memory, and the state where it is kept. Where it is kept
    /// nowhere, it is lost.
    pub async fn refound(&self, context: &mut RunContext, verdict: &mut Verdict) -> Result<(), Halt> {
        if is_here(&self.folder).await {
            return Ok(());
        }
        let changes = context.record.current.as_ref().is_some_and(|journal| journal.stage.changes());
        let kept = if self.shared() { self.kept().await? } else { None };
        let running = kept.as_ref().and_then(|kept| kept.running.as_ref());
        if kept.is_some() && changes && running.is_none_or(|running| running.run != self.id.as_str()) {
            self.inner.table().entry(&self.workspace).known = false;
            return Err(Halt::Stopped(Why::Fenced(SINCE.to_owned())));
        }
        let lost = kept.is_none() && !context.remote && (changes || !context.record.is_blank());
        let (folder, record) = (self.folder.clone(), context.record.clone());
        let state = kept.map(|kept| kept.state).filter(|state| !state.is_empty());
        let made = blocking(move || {
            folder.make()?;
            state.map_or(Ok(()), |state| write_durable(&folder.state(), &state))?;
            if lost { Ok(()) } else { record.write(&folder) }
        });
        made.await.map_err(|error| Failure::io("make the workspace's folder again", &error))?;
        if !lost {
            // What the run did last is not in what was kept of it.
            if verdict.outcome == Outcome::Done {
                let message = "the folder of the workspace was removed during the run; what was kept of its state is gone on with";
                verdict.outcome = Outcome::Failed(Failure::killed(message.to_owned()));
            }
            return Ok(());
        }
        context.record.unsaved.extend(context.report.unsaved(None));
        let error =
            WorkspaceError::Removed { workspace: self.workspace.clone(), record: self.folder.record() };
        let failure = Failure::of_workspace(&error);
        context.record.doubt = Some(Box::new(state_recovery::doubt(&self.folder, &failure)));
        Err(failure.into())
    }
}

/// Returns true if there is a record, or anything else in its place.
async fn is_here(folder: &WorkspaceFolder) -> bool {
    let record = folder.record();
    blocking(move || record.try_exists()).await.unwrap_or(true)
}
