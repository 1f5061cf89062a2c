//! What is known of a workspace across restarts: one file, written whole and durably.
//!
//! The intent of a run is in it before the run's first process starts, together with the inputs a later destroy needs.

use std::{collections::BTreeMap, io, path::PathBuf, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    folders::{WorkspaceFolder, read_optional, write_durable, write_whole},
    inputs::{Inputs, Revision},
    order::{Operation, RunId, WorkspaceId},
    view::{Finished, Plan},
};

/// The record of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub workspace: WorkspaceId,
    /// Of the last apply that was started, whatever became of it.
    pub inputs: Option<Inputs>,
    pub applied: Option<Revision>,
    pub touched: bool,
    pub planned: Option<Planned>,
    pub current: Option<Journal>,
    pub last: Option<Finished>,
    /// The shape the workspace uses, which must not be cleaned away.
    pub shape: Option<String>,
    /// The state is not here but where the backend says.
    #[serde(default)]
    pub remote: bool,
    /// Addresses and ids of what a killed run made and did not write to its state any more.
    #[serde(default)]
    pub unsaved: BTreeMap<String, String>,
}

/// A kept plan with what it takes to apply it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Planned {
    pub plan: Plan,
    pub inputs: Inputs,
    pub lineage: String,
    /// SHA-256 of the plan's file.
    pub file: String,
}

/// A run under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub id: RunId,
    pub operation: Operation,
    pub revision: Revision,
    /// Where they are not those of the record: a plan and a look at drift leave those alone.
    pub inputs: Option<Inputs>,
    pub stage: Stage,
    /// Where its process started.
    pub start: PathBuf,
    /// The state is not here but where the backend says.
    pub remote: bool,
    /// The memory it was expected to need.
    pub estimate: u64,
    pub started: Timestamp,
    pub timeout: Duration,
    pub max_destroy: Option<u32>,
}

/// A process of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// `plan`, kept.
    Plan,
    /// `plan`, not kept.
    Look,
    /// `apply`, which plans by itself.
    Apply,
    /// `apply` of the kept plan.
    ApplyPlan,
    Destroy,
    Import,
}

impl Stage {
    /// Whether it changes anything but files of its own.
    pub const fn changes(self) -> bool {
        !matches!(self, Self::Plan | Self::Look)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Look => "look",
            Self::Apply => "apply",
            Self::ApplyPlan => "apply-plan",
            Self::Destroy => "destroy",
            Self::Import => "import",
        }
    }
}

/// The part of a record that a keeper keeps.
#[derive(Serialize, Deserialize)]
struct Essence {
    workspace: WorkspaceId,
    inputs: Option<Inputs>,
    applied: Option<Revision>,
    touched: bool,
    remote: bool,
    #[serde(default)]
    unsaved: BTreeMap<String, String>,
}

impl Record {
    pub fn new(workspace: WorkspaceId) -> Self {
        Self {
            workspace,
            inputs: None,
            applied: None,
            touched: false,
            planned: None,
            current: None,
            last: None,
            shape: None,
            remote: false,
            unsaved: BTreeMap::new(),
        }
    }

    pub fn read(folder: &WorkspaceFolder) -> io::Result<Option<Self>> {
        let Some(bytes) = read_optional(&folder.record())? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from)
    }

    pub fn write(&self, folder: &WorkspaceFolder) -> io::Result<()> {
        write_durable(&folder.record(), &serde_json::to_vec(self)?)
    }

    /// Writes the end of a run. Should the machine crash now, the end is found again in the run's files, which go later.
    pub fn write_end(&self, folder: &WorkspaceFolder) -> io::Result<()> {
        write_whole(&folder.record(), &serde_json::to_vec(self)?)
    }

    /// What a keeper keeps.
    pub fn essence(&self) -> Vec<u8> {
        let Self { workspace, inputs, applied, touched, remote, unsaved, .. } = self.clone();
        serde_json::to_vec(&Essence { workspace, inputs, applied, touched, remote, unsaved })
            .expect("maps with text as keys are JSON")
    }

    /// From what a keeper kept.
    pub fn from_essence(bytes: &[u8]) -> serde_json::Result<Self> {
        let Essence { workspace, inputs, applied, touched, remote, unsaved } = serde_json::from_slice(bytes)?;
        Ok(Self { inputs, applied, touched, remote, unsaved, ..Self::new(workspace) })
    }
}
