//! One state has one workspace, whatever names the place that it is kept in, and whoever gave it.
//!
//! Two addresses may mean one place (a link, an alias of a bucket), and a file can be given to two. What a state cannot hide is its lineage
//! and its objects. Its lineage alone says less: a state that people copied to split it has the lineage of the other part.

use std::fs;

use super::{Engine, WorkspaceError, blocking, inner::Inner, job::Job, prepare::Ground, table::Table};
use crate::{
    failure::{Failure, Reason},
    folders::{remove, write_private},
    order::WorkspaceId,
    state::State,
};

/// A state that another workspace has under another address of its backend.
pub(super) const ELSEWHERE: &str = "its backend keeps, under another address,";

impl Table {
    /// Every other workspace that has built something, with the lineage of its state.
    fn others(&self, workspace: &WorkspaceId) -> impl Iterator<Item = (&WorkspaceId, &String)> {
        let built = self.entries.iter().filter(|(_, entry)| entry.view.resources > 0 && !entry.retained);
        built.filter(move |(other, _)| *other != workspace).map(|(other, entry)| (other, &entry.view.lineage))
    }

    /// Those of them with a state of this lineage.
    fn siblings(&self, workspace: &WorkspaceId, state: &State) -> Vec<WorkspaceId> {
        if state.is_empty() || state.lineage.is_empty() {
            return Vec::new();
        }
        let siblings = self.others(workspace).filter(|(_, lineage)| **lineage == state.lineage);
        siblings.map(|(other, _)| other.clone()).collect()
    }
}

impl Inner {
    /// Whether nobody else can have a state.
    pub fn is_alone(&self, workspace: &WorkspaceId) -> bool {
        self.table().others(workspace).next().is_none()
    }

    /// Whether the state that a workspace has here has the lineage of another one's.
    pub fn has_siblings(&self, workspace: &WorkspaceId) -> bool {
        let table = self.table();
        let own = table.entries.get(workspace).filter(|own| !own.view.lineage.is_empty());
        own.is_some_and(|own| table.others(workspace).any(|(_, lineage)| *lineage == own.view.lineage))
    }

    /// Names another workspace to one: what another namespace has is not told.
    pub fn shown(workspace: &WorkspaceId, other: &WorkspaceId) -> String {
        if other.tenant() == workspace.tenant() {
            format!("workspace {other}")
        } else {
            "a workspace of another namespace".to_owned()
        }
    }

    /// Another workspace whose state has this lineage: of a state that was just begun, it is the same.
    pub fn sibling(&self, workspace: &WorkspaceId, state: &State) -> Option<String> {
        self.table().siblings(workspace, state).first().map(|other| Self::shown(workspace, other))
    }

    /// Another workspace that has objects of this state.
    pub async fn user_of(&self, workspace: &WorkspaceId, state: &State) -> Option<String> {
        let siblings = self.table().siblings(workspace, state);
        for other in siblings {
            let file = self.folders.workspace(&other).state();
            let known =
                blocking(move || fs::read(file).ok().and_then(|bytes| State::read(&bytes).ok())).await;
            // What cannot be read may be all of it.
            if known.is_none_or(|known| known.overlaps(state)) {
                return Some(Self::shown(workspace, &other));
            }
        }
        None
    }
}

impl Job {
    /// Refuses a state that is another workspace's.
    pub async fn alone(&self, state: Option<&State>, what: &str) -> Result<(), Failure> {
        let Some(state) = state else { return Ok(()) };
        let Some(user) = self.inner.user_of(&self.workspace, state).await else { return Ok(()) };
        let message = format!(
            "{what} the state of {user}: they share one state, and nothing is built, changed or destroyed in it by this one; give each a \
             state of its own, or delete one of the two with retainWorkspaceOnDelete"
        );
        Err(Failure::new(Reason::BackendInUse, message))
    }

    /// Refuses to call done what began beside another in one backend: neither found anything of the other.
    pub fn began_alone(&self, ground: &Ground, state: Option<&State>) -> Result<(), Failure> {
        let sibling =
            state.filter(|_| ground.anew).and_then(|state| self.inner.sibling(&self.workspace, state));
        let Some(user) = sibling else { return Ok(()) };
        let message = format!(
            "its backend keeps the state of {user}, under another address, and both began at once: one wrote over what the other had \
             written; look which of them is missing there, import it, and give each a place of its own"
        );
        Err(Failure::new(Reason::BackendInUse, message))
    }
}

impl Engine {
    /// Notes that the object of a workspace goes and what it built stays: others may have its state, until it is taken up
    /// again.
    pub async fn retain(&self, workspace: &WorkspaceId) -> Result<(), WorkspaceError> {
        let folder = self.inner.folders.workspace(workspace);
        let noted = blocking(move || {
            // Without a record nobody finds it there after a restart.
            if folder.record().exists() { write_private(&folder.retained(), b"") } else { Ok(()) }
        });
        noted.await.map_err(|source| WorkspaceError::Folder { workspace: workspace.clone(), source })?;
        if let Some(entry) = self.inner.table().entries.get_mut(workspace) {
            entry.retained = true;
        }
        Ok(())
    }

    /// Takes up again what was retained: an object of its name is there.
    pub async fn take_up(&self, workspace: &WorkspaceId) -> Result<(), WorkspaceError> {
        let retained = self.inner.table().entries.get(workspace).is_some_and(|entry| entry.retained);
        if !retained {
            return Ok(());
        }
        self.inner.table().entry(workspace).retained = false;
        let mark = self.inner.folders.workspace(workspace).retained();
        let removed = blocking(move || remove(&mark)).await;
        removed.map_err(|source| WorkspaceError::Folder { workspace: workspace.clone(), source })
    }
}
