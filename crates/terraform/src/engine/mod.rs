//! The engine: takes orders, runs them, and knows how every workspace stands.

mod options;

use tokio::sync::broadcast;

pub use options::Options;

use crate::{
    binary::Binary,
    failure::Failure,
    inputs::{Choice, Inputs, Revision},
    keeper::KeepError,
    metrics::Snapshot,
    order::{Order, Refused, RunId, WorkspaceId},
    view::View,
};

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another engine uses the folder.
    #[error("another engine uses {0}")]
    InUse(std::path::PathBuf),
    /// The folder cannot be used.
    #[error("use the data folder {folder}")]
    Folder {
        /// The folder.
        folder: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Why a workspace could not be opened, forgotten or taken over.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// A run is not over.
    #[error("{workspace}: run {run} is not over yet")]
    Busy {
        /// The workspace.
        workspace: WorkspaceId,
        /// That run.
        run: RunId,
    },
    /// A state with resources is there already.
    #[error("{workspace} has a state with {resources} resources already")]
    HasState {
        /// The workspace.
        workspace: WorkspaceId,
        /// How many.
        resources: usize,
    },
    /// The state that was given is none.
    #[error("read the given state: {0}")]
    BadState(String),
    /// The keeper failed.
    #[error(transparent)]
    Keeper(#[from] KeepError),
    /// The folder failed.
    #[error("use the folder of {workspace}")]
    Folder {
        /// The workspace.
        workspace: WorkspaceId,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Runs Terraform and OpenTofu. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    #[expect(dead_code, reason = "soon")]
    options: std::sync::Arc<Options>,
}

impl Engine {
    /// Starts in a folder: adopts runs that are still alive, and finishes those that are not.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let _ = options;
        std::future::ready(()).await;
        todo!()
    }
    /// Names of workspaces whose view changed. A receiver that lags should look at all.
    pub fn changes(&self) -> broadcast::Receiver<WorkspaceId> {
        todo!()
    }
    /// Makes a workspace known: from the folder, else from the keeper. Cheap where it is known already.
    pub async fn open(&self, workspace: &WorkspaceId) -> Result<View, WorkspaceError> {
        let _ = workspace;
        std::future::ready(()).await;
        todo!()
    }
    /// How a workspace stands, from memory. One that was never opened or run looks untouched: with a keeper, open it first.
    pub fn look(&self, workspace: &WorkspaceId) -> View {
        let _ = workspace;
        todo!()
    }
    /// Takes an order, and returns at once. A destroy replaces a run that only waits.
    pub fn run(&self, order: Order) -> Result<RunId, Refused> {
        let _ = order;
        todo!()
    }
    /// Interrupts the run of a workspace; false where there is none.
    pub fn cancel(&self, workspace: &WorkspaceId) -> bool {
        let _ = workspace;
        todo!()
    }
    /// Forgets a workspace: folder, plan, inputs, state, here and with the keeper. Refused during a run.
    pub async fn forget(&self, workspace: &WorkspaceId) -> Result<(), WorkspaceError> {
        let _ = workspace;
        std::future::ready(()).await;
        todo!()
    }
    /// Takes over an existing state. Refused where one with resources is there.
    pub async fn take_over(&self, workspace: &WorkspaceId, state: &[u8]) -> Result<(), WorkspaceError> {
        let _ = (workspace, state);
        std::future::ready(()).await;
        todo!()
    }
    /// The revision of inputs: no process is needed where it equals [`View::applied`].
    pub fn revision(&self, inputs: &Inputs) -> Result<Revision, Failure> {
        let _ = inputs;
        todo!()
    }
    /// The binary a choice means. Asks for its version once per path and modification time, which blocks for that long.
    pub fn binary(&self, choice: &Choice) -> Result<Binary, Failure> {
        let _ = choice;
        todo!()
    }
    /// Starts nothing more. What runs lives on, and is adopted by the next engine.
    pub async fn stop(self) {
        std::future::ready(()).await;
    }
    /// Numbers.
    pub fn metrics(&self) -> Snapshot {
        todo!()
    }
}
