//! The seam between who wants runs and how Terraform runs.
//!
//! ```text
//! controllers ── Executor ──┬── Engine       processes of this machine
//! capt logs   ── RunReader ─┤   Inspection   what an engine left in its data folder
//!                           └── test doubles
//! ```
//!
//! Nothing above knows whether a run is a process, or where its files are: runs are named by their workspace and their id. Whatever may
//! take long here is a future, so that no thread of the caller's runtime waits for it.

mod error;

use std::{io, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::broadcast;

pub(crate) use self::error::LARGEST;
pub use self::error::{ShowError, WorkspaceError};
use crate::{
    binary::Binary,
    failure::Failure,
    inputs::{Choice, Inputs, Revision},
    order::{Operation, Order, PlanId, Refused, RunId, WorkspaceId},
    state::State,
    stream::Change,
    view::{Finished, View},
};

/// Starts, observes, cancels and adopts runs.
pub trait Executor: RunReader + WorkspaceStore {
    /// Starts a run, or lets it wait for its turn. A destroy replaces a run that only waits.
    fn start_run(&self, order: Order) -> BoxFuture<'_, Result<RunId, Refused>>;

    /// Observes a workspace, from memory. One that was never adopted or run looks untouched.
    fn observe(&self, workspace: &WorkspaceId) -> View;

    /// Names of workspaces whose view changed. A receiver that lags should observe all.
    fn changes(&self) -> broadcast::Receiver<WorkspaceId>;

    /// Interrupts a run; false where it is over, or never was.
    fn cancel_run(&self, workspace: &WorkspaceId, run: &RunId, why: Interruption) -> bool;

    /// Makes a workspace known, with the run that an earlier process has started. Cheap where it is known already.
    fn adopt<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<View, WorkspaceError>>;

    /// Hashes inputs: no run is needed where the revision equals [`View::applied`].
    fn revision<'a>(&'a self, inputs: &'a Inputs) -> BoxFuture<'a, Result<Revision, Failure>>;

    /// Finds the binary that a choice means, and asks for its version.
    fn binary<'a>(&'a self, choice: &'a Choice) -> BoxFuture<'a, Result<Binary, Failure>>;
}

/// Why a run is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// A person asked for it.
    Cancelled,
    /// Its inputs are old. This says nothing about their revision, which may be wanted again.
    Superseded,
}

/// Keeps the states of workspaces between runs.
pub trait WorkspaceStore: Send + Sync + 'static {
    /// Returns true if states outlive the process.
    fn is_durable(&self) -> bool {
        true
    }

    /// Names the place that states are in, if it knows all that was ever begun there; `None` where that cannot be told.
    fn place(&self) -> Option<String> {
        None
    }

    /// Imports an existing state. Refused where one with resources is there, and where it is another workspace's.
    fn import_state<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        state: &'a [u8],
    ) -> BoxFuture<'a, Result<(), WorkspaceError>>;

    /// Restores a good copy of the state: the newest, or the one with that serial. Returns its serial. The next apply compares it with
    /// what is really there.
    fn restore_state<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        serial: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, WorkspaceError>>;

    /// Finds the workspace, among those that are known, that had objects of a state before.
    fn user_of<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        state: &'a State,
    ) -> BoxFuture<'a, Option<WorkspaceId>>;

    /// Forgets a workspace: folder, plan, inputs, state, wherever they are kept. Refused during a run. The log and the end of its last
    /// failed run stay for a while.
    fn forget<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), WorkspaceError>>;

    /// Returns true if a workspace was forgotten, and nobody was told yet that it is released.
    fn has_forgotten<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, bool>;

    /// Removes the trace of a workspace that was forgotten, once nobody can ask for it any more.
    fn released<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, ()>;

    /// Notes that the object of a workspace goes and what it built stays. Others may take up its state; where one has, the workspace is
    /// refused when an object of its name is there again.
    fn retain<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), WorkspaceError>>;

    /// Takes up again what was retained: an object of its name is there.
    fn take_up<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), WorkspaceError>>;
}

/// Reads what runs have left: their ends, logs and plans. Secrets are taken out.
pub trait RunReader: Send + Sync + 'static {
    /// Lists the runs of a workspace that are kept, the oldest first; `None` where nothing ever ran.
    fn runs<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, io::Result<Option<Vec<Run>>>>;

    /// Finds the last run that failed to build something, also of a workspace that is gone.
    fn last_failed<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, io::Result<Option<Run>>>;

    /// Opens the log of a run. One that has printed nothing yet is empty.
    fn read_log(&self, workspace: &WorkspaceId, run: &RunId) -> Box<dyn LogReader>;

    /// Reads a plan; `None` where it is not kept, or can be applied no more.
    fn read_plan<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        plan: &'a PlanSelector,
        format: &'a PlanFormat,
    ) -> BoxFuture<'a, io::Result<Option<ShownPlan>>>;
}

/// Reads a log from its first line that is kept, and on as it grows.
pub trait LogReader: Send {
    /// Reads what came since the last call.
    fn read(&mut self) -> BoxFuture<'_, io::Result<String>>;
}

/// A run that is kept.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Current state of the run.
    pub state: RunState,
}

/// State of a run.
#[derive(Clone, Debug)]
pub enum RunState {
    /// It is under way.
    UnderWay {
        /// Operation of the run.
        operation: Operation,
        /// Since when.
        since: Timestamp,
        /// A process of it lives. Where none does, the engine finds out how it ended.
        lives: bool,
    },
    /// It has ended.
    Ended(Box<Finished>),
    /// Nobody wrote down how it ended.
    Unknown,
}

/// One of the plans that are kept of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanSelector {
    /// The one that waits for approval.
    Waiting(PlanId),
    /// That of the last run, where it found drift.
    Drift,
}

/// Format to show a plan in.
#[derive(Clone, Copy, Debug)]
pub struct PlanFormat {
    /// In colours.
    pub colours: bool,
    /// Time limit: plugins have a say in how long it takes.
    pub limit: Duration,
}

/// A plan for people.
#[derive(Debug)]
pub struct ShownPlan {
    /// Object by object.
    pub changes: Vec<Change>,
    /// As Terraform shows it.
    pub text: Result<String, ShowError>,
}
