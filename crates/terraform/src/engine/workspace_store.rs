//! Workspaces between runs: made known, forgotten, their states imported and restored.

use jiff::Timestamp;

use super::{adopt, end, inner::Inner, state_recovery, state_recovery::copies};
use crate::{
    blocking::blocking,
    executor::WorkspaceError,
    failure::Failure,
    order::WorkspaceId,
    private_files::write_durable,
    record::{Record, Seal},
    seen::Seen,
    state::State,
    state_backend::StateBackendError,
    view::{Claim, View},
};

impl Inner {
    /// Makes a workspace known: from the folder, else from the state backend. Cheap where it is known already.
    pub async fn open(&self, workspace: &WorkspaceId) -> Result<View, WorkspaceError> {
        let done = {
            let mut table = self.table();
            let entry = table.entry(workspace);
            (entry.known || entry.run.is_some()).then(|| entry.view.clone())
        };
        if let Some(view) = done {
            return Ok(view);
        }
        let loaded = match self.load(workspace).await {
            Err(error @ WorkspaceError::Removed { .. }) => {
                return Ok(self.view_of_removed(workspace, &error));
            }
            Err(
                error @ (WorkspaceError::Damaged { .. }
                | WorkspaceError::StateBackend(StateBackendError::Damaged(_))),
            ) => Err(Failure::of_workspace(&error)),
            loaded => Ok(loaded?),
        };
        // What is damaged is looked at again: the state backend may have it.
        let known = loaded.is_ok();
        let folder = self.folders.workspace(workspace);
        let view = blocking(move || match loaded {
            Ok(record) => adopt::view_of(&folder, &record),
            Err(trouble) => {
                let here = state_recovery::read(&folder).ok().flatten();
                let claim = here.and_then(|state| Claim::unknown(&state.lineage));
                View { trouble: Some(trouble), touched: true, claim, ..View::default() }
            }
        })
        .await;
        let mut table = self.table();
        let entry = table.entry(workspace);
        (entry.known, entry.unread) = (known, !known);
        if entry.run.is_none() {
            entry.view = view;
        }
        Ok(entry.view.clone())
    }

    /// Observes a workspace, from memory. One that was never opened or run looks untouched.
    pub fn observe(&self, workspace: &WorkspaceId) -> View {
        self.table().entries.get(workspace).map(|entry| entry.view.clone()).unwrap_or_default()
    }

    /// Forgets a workspace: folder, plan, inputs, state, here and with the state backend. Refused during a run. The log and the end of its
    /// last failed run stay for a while.
    pub async fn forget(&self, workspace: &WorkspaceId) -> Result<(), WorkspaceError> {
        let _reserved = self.reserve(workspace)?;
        if let Some(state_backend) = &self.options.state_backend {
            state_backend.remove(workspace).await?;
        }
        let folder = self.folders.workspace(workspace);
        let scratch = self.folders.scratch(workspace.as_str());
        let (folders, id) = (self.folders.clone(), workspace.clone());
        let kept = move || {
            // Without it there is less to read, and nothing else.
            if let Err(error) = crate::failed::keep(&folders, &id) {
                tracing::warn!(workspace = %id, %error, "its failed run is not kept");
            }
            folder.forget(&scratch)
        };
        blocking(kept)
            .await
            .map_err(|source| WorkspaceError::Folder { workspace: workspace.clone(), source })?;
        self.table().entries.remove(workspace);
        self.changed(workspace);
        Ok(())
    }

    /// Returns true if a workspace was forgotten, and nobody was told yet that it is released.
    pub async fn has_forgotten(&self, workspace: &WorkspaceId) -> bool {
        let folder = self.folders.workspace(workspace);
        let state_backend = self.options.state_backend.as_ref();
        let shared = match state_backend.filter(|state_backend| state_backend.shares(workspace)) {
            // A place that goes away takes along what nobody has ended.
            Some(state_backend) => matches!(state_backend.is_closing(workspace).await, Ok(false)),
            None => false,
        };
        // What this engine knew of one that is kept no more may be all that is left of it.
        blocking(move || folder.forgotten().exists() || (shared && !folder.gone_record().exists())).await
    }

    /// Removes the trace of a workspace that was forgotten, once nobody can ask for it any more.
    pub async fn released(&self, workspace: &WorkspaceId) {
        let folder = self.folders.workspace(workspace);
        let is_here = blocking(move || {
            if folder.forgotten().exists() {
                // Best effort: what is left is one empty file.
                let _ = crate::beneath::remove(&folder.0);
            }
            folder.record().exists()
        })
        .await;
        if !is_here {
            self.disremember(workspace);
        }
    }

    /// Imports an existing state.
    pub async fn import_state(&self, workspace: &WorkspaceId, state: &[u8]) -> Result<(), WorkspaceError> {
        let taken = State::read(state).map_err(|error| WorkspaceError::BadState(error.to_string()))?;
        self.open(workspace).await?;
        let _reserved = self.reserve(workspace)?;
        let resources = self.observe(workspace).resources;
        if resources > 0 {
            return Err(WorkspaceError::HasState { workspace: workspace.clone(), resources });
        }
        if let Some(user) = self.user_of(workspace, &taken).await {
            let user = Inner::shown(workspace, &user);
            return Err(WorkspaceError::SharedState { workspace: workspace.clone(), user });
        }
        let record = self.load_or_new(workspace).await?;
        // Whoever gave it, nobody vouches for it.
        self.put_in_place(workspace, Record { made_by: None, ..record }, taken, state.to_vec()).await
    }

    /// Restores a good copy of the state: the newest, or the one with that serial. Returns its serial. The next apply compares it with what
    /// is really there.
    pub async fn restore_state(
        &self,
        workspace: &WorkspaceId,
        serial: Option<u64>,
    ) -> Result<u64, WorkspaceError> {
        let _reserved = self.reserve(workspace)?;
        let (record, damaged) = match self.load(workspace).await {
            Err(WorkspaceError::StateBackend(StateBackendError::Damaged(_))) => {
                (self.here(workspace).await?, true)
            }
            Err(WorkspaceError::Removed { .. }) => (Record::new(workspace.clone()), false),
            loaded => (loaded?, false),
        };
        let (folder, known) = (self.folders.workspace(workspace), record.clone());
        let copies = blocking(move || copies(&folder, &known)).await;
        let wanted = copies.into_iter().find(|copy| serial.is_none_or(|serial| serial == copy.state.serial));
        let Some(copy) = wanted else {
            return Err(WorkspaceError::NoCopy { workspace: workspace.clone(), serial });
        };
        let serial = copy.state.serial;
        let made_by = record.made_by.clone().filter(|_| copy.is_theirs);
        if let (Some(state_backend), true) = (&self.options.state_backend, damaged) {
            // What a state backend keeps is written over where somebody can tell who wrote it. A person has decided here. What is here must not
            // look as if somebody had ended it, should this be cut off.
            let (folder, unseen) =
                (self.folders.workspace(workspace), Record { seen: None, ..record.clone() });
            blocking(move || folder.make().and_then(|()| unseen.write(&folder)))
                .await
                .map_err(|source| WorkspaceError::Folder { workspace: workspace.clone(), source })?;
            state_backend.remove(workspace).await?;
            self.table().entry(workspace).known = true;
        }
        self.put_in_place(workspace, Record { made_by, ..record }, copy.state, copy.bytes).await?;
        Ok(serial)
    }

    /// Makes a state the state of record.
    async fn put_in_place(
        &self,
        workspace: &WorkspaceId,
        mut record: Record,
        state: State,
        bytes: Vec<u8>,
    ) -> Result<(), WorkspaceError> {
        record.touched = true;
        record.applied = None;
        record.planned = None;
        record.state = Some(Seal::of(&state, &bytes));
        record.doubt = None;
        record.hold(Some(&state), Timestamp::now());
        // Kept first: what is newer there counts, should this be cut off.
        if let Some(state_backend) = &self.options.state_backend {
            let kept = record.kept(bytes.clone(), None);
            let seen = Seen::written(&kept);
            state_backend.keep(workspace, kept).await?;
            record.seen = Some(seen).filter(|_| state_backend.shares(workspace));
        }
        let (folder, written) = (self.folders.workspace(workspace), record.clone());
        blocking(move || {
            folder.make()?;
            write_durable(&folder.state(), &bytes)?;
            written.write(&folder)
        })
        .await
        .map_err(|source| {
            self.table().entry(workspace).known = false;
            WorkspaceError::Folder { workspace: workspace.clone(), source }
        })?;
        self.table().entry(workspace).known = true;
        self.update(workspace, |view| *view = end::view(&record, Some(state)));
        Ok(())
    }
}
