//! One state has one workspace, whatever names the place that it is kept in, and whoever gave it.
//!
//! Two addresses may mean one place (a link, an alias of a bucket), and a file can be given to two. What a state cannot hide is its lineage
//! and its objects. Its lineage alone says less: a state that people copied to split it has the lineage of the other part.
//!
//! Who has it first keeps it, and whoever comes later is refused: a copy of a state, wherever it was put, holds up nobody who had it before.

use std::fs;

use jiff::Timestamp;

use super::{inner::Inner, job::Job, prepare::RunContext, state_recovery, table::Table};
use crate::{
    beneath::remove,
    blocking::blocking,
    executor::WorkspaceError,
    failure::{Class, Failure, Reason},
    order::WorkspaceId,
    private_files::write_private,
    record::Record,
    seen::Seen,
    state::State,
    state_backend::StateBackendError,
    view::{Claim, View},
};

/// A state that another workspace has under another address of its backend.
pub(super) const ELSEWHERE: &str = "its backend keeps, under another address,";

/// The contents that the state of a workspace may have.
enum StateContents {
    Nothing,
    Objects,
    Anything,
}

impl Table {
    /// Every other workspace that has a state since then or before. One that is empty now is its, too: it builds there again, unless it
    /// was destroyed.
    fn others(
        &self,
        workspace: &WorkspaceId,
        then: Timestamp,
    ) -> impl Iterator<Item = (&WorkspaceId, &View, &Claim)> {
        let others = self.entries.iter().filter(move |(other, entry)| *other != workspace && entry.counts());
        let claims =
            others.filter_map(|(other, entry)| Some((other, &entry.view, entry.view.claim.as_ref()?)));
        claims.filter(move |(_, view, claim)| (view.touched || view.trouble.is_some()) && claim.since <= then)
    }

    /// Those of them with a state of this lineage, and what they may have in it.
    fn siblings(
        &self,
        workspace: &WorkspaceId,
        state: &State,
        then: Timestamp,
    ) -> Vec<(WorkspaceId, StateContents)> {
        if state.lineage.is_empty() {
            return Vec::new();
        }
        let siblings = self.others(workspace, then).filter(|(_, _, claim)| claim.lineage == state.lineage);
        let holds = |view: &View| match view.resources {
            // What cannot be read may be all of it.
            _ if view.trouble.is_some() => StateContents::Anything,
            0 => StateContents::Nothing,
            _ => StateContents::Objects,
        };
        siblings.map(|(other, view, _)| (other.clone(), holds(view))).collect()
    }

    /// Since when a workspace has a state of this lineage; from now on where it never had one.
    fn since(&self, workspace: &WorkspaceId, lineage: &str) -> Timestamp {
        let own = self.entries.get(workspace).and_then(|own| own.view.claim.as_ref());
        own.filter(|claim| claim.lineage == lineage).map_or(Timestamp::MAX, |claim| claim.since)
    }
}

impl Inner {
    /// Returns true if no other workspace can have a state.
    pub fn is_alone(&self, workspace: &WorkspaceId) -> bool {
        self.table().others(workspace, Timestamp::MAX).next().is_none()
    }

    /// Returns true if the state that a workspace has here has the lineage of one that another had before.
    pub fn has_siblings(&self, workspace: &WorkspaceId) -> bool {
        let table = self.table();
        let own = table.entries.get(workspace).and_then(|own| own.view.claim.as_ref());
        own.is_some_and(|own| {
            table.others(workspace, own.since).any(|(_, _, claim)| claim.lineage == own.lineage)
        })
    }

    /// Names another workspace to one: what another namespace has is not told.
    pub fn shown(workspace: &WorkspaceId, other: &WorkspaceId) -> String {
        if other.tenant() == workspace.tenant() {
            format!("workspace {other}")
        } else {
            "a workspace of another namespace".to_owned()
        }
    }

    /// Another workspace whose state has this lineage: of a state that was just begun, or that is found empty, it is the same.
    pub fn sibling(&self, workspace: &WorkspaceId, state: &State) -> Option<String> {
        let siblings = self.table().siblings(workspace, state, Timestamp::MAX);
        siblings.first().map(|(other, _)| Self::shown(workspace, other))
    }

    /// Another workspace that had objects of this state before.
    pub async fn user_of(&self, workspace: &WorkspaceId, state: &State) -> Option<WorkspaceId> {
        let siblings = {
            let table = self.table();
            table.siblings(workspace, state, table.since(workspace, &state.lineage))
        };
        for (other, holds) in siblings.into_iter().filter(|_| !state.is_empty()) {
            let is_user = match holds {
                StateContents::Nothing => false,
                StateContents::Anything => true,
                StateContents::Objects => {
                    let file = self.folders.workspace(&other).state();
                    let read = move || fs::read(file).ok().and_then(|bytes| State::read(&bytes).ok());
                    blocking(read).await.is_none_or(|known| known.overlaps(state))
                }
            };
            if is_user {
                return Some(other);
            }
        }
        None
    }
}

impl Job {
    /// Returns true if the workspace had a state of this lineage before: a part of what was split may be left empty, and is still its own.
    fn had(&self, state: &State) -> bool {
        let table = self.inner.table();
        let claim = table.entries.get(&self.workspace).and_then(|own| own.view.claim.as_ref());
        claim.is_some_and(|claim| claim.lineage == state.lineage)
    }

    /// Refuses the empty state that another workspace keeps its own in, under another address of its backend.
    pub fn begins_alone(&self, found: Option<&State>) -> Result<(), Failure> {
        let empty = found.filter(|found| found.is_empty() && !self.had(found));
        match empty.and_then(|found| self.inner.sibling(&self.workspace, found)) {
            Some(user) => Err(shared(ELSEWHERE, &user)),
            None => Ok(()),
        }
    }

    /// Refuses a state that is another workspace's.
    pub async fn alone(&self, state: Option<&State>, what: &str) -> Result<(), Failure> {
        let Some(state) = state else { return Ok(()) };
        let Some(user) = self.inner.user_of(&self.workspace, state).await else { return Ok(()) };
        Err(shared(what, &Inner::shown(&self.workspace, &user)))
    }

    /// Refuses to call done what left a state that another had before, wherever it got that from, or what began beside another in one
    /// backend: neither found anything of the other.
    pub async fn ended_alone(&self, context: &RunContext, state: Option<&State>) -> Result<(), Failure> {
        let begun = state.filter(|state| context.anew && !self.had(state));
        let sibling = begun.and_then(|state| self.inner.sibling(&self.workspace, state));
        let Some(user) = sibling else { return self.alone(state, "its run left").await };
        let message = format!(
            "its backend keeps the state of {user}, under another address, and both began at once: one wrote over what the other had \
             written; look which of them is missing there, import it, and give each a place of its own"
        );
        // The next run would find what it has written itself, and nothing of what the other lost.
        Err(Failure { class: Class::Terminal, ..Failure::new(Reason::BackendInUse, message) })
    }
}

fn shared(what: &str, user: &str) -> Failure {
    let message = format!(
        "{what} the state of {user}: they share one state, and nothing is built, changed or destroyed in it by this one; give each a state \
         of its own, or delete one of the two with retainWorkspaceOnDelete"
    );
    Failure::new(Reason::BackendInUse, message)
}

impl Inner {
    /// Notes that the object of a workspace goes and what it built stays. Others may take up its state; where one has, the workspace is
    /// refused when an object of its name is there again.
    pub async fn retain(&self, workspace: &WorkspaceId) -> Result<(), WorkspaceError> {
        Box::pin(self.give_up(workspace)).await?;
        let folder = self.folders.workspace(workspace);
        let noted = blocking(move || {
            // Without a record nobody finds it there after a restart.
            if folder.record().exists() { write_private(&folder.retained(), b"") } else { Ok(()) }
        });
        noted.await.map_err(|source| WorkspaceError::Folder { workspace: workspace.clone(), source })?;
        if let Some(entry) = self.table().entries.get_mut(workspace) {
            entry.retained = true;
            entry.view.claim = entry.view.claim.as_ref().and_then(|claim| Claim::unknown(&claim.lineage));
        }
        Ok(())
    }

    /// Writes down that a workspace has its state since nobody knows when, wherever another controller looks for that.
    async fn give_up(&self, workspace: &WorkspaceId) -> Result<(), WorkspaceError> {
        let record = match self.load(workspace).await {
            Ok(record) if record.claim.is_some() => record,
            // The next look tries it again.
            Err(error @ WorkspaceError::StateBackend(StateBackendError::Failed(_))) => return Err(error),
            // What cannot be read has nothing to give up.
            Ok(_) | Err(_) => return Ok(()),
        };
        let folder = self.folders.workspace(workspace);
        let mut record = Record { claim: None, ..record };
        if let Some(state_backend) = &self.options.state_backend {
            let from = folder.clone();
            let kept = record.kept(blocking(move || state_recovery::newest(&from, None, false)).await, None);
            let seen = Seen::written(&kept);
            state_backend.keep(workspace, kept).await?;
            record.seen = Some(seen).filter(|_| state_backend.shares(workspace));
        }
        let written = blocking(move || record.write(&folder)).await;
        written.map_err(|source| WorkspaceError::Folder { workspace: workspace.clone(), source })
    }

    /// Takes up again what was retained: an object of its name is there.
    pub async fn take_up(&self, workspace: &WorkspaceId) -> Result<(), WorkspaceError> {
        let retained = self.table().entries.get(workspace).is_some_and(|entry| entry.retained);
        if !retained {
            return Ok(());
        }
        self.table().entry(workspace).retained = false;
        let mark = self.folders.workspace(workspace).retained();
        let removed = blocking(move || remove(&mark)).await;
        removed.map_err(|source| WorkspaceError::Folder { workspace: workspace.clone(), source })
    }
}
