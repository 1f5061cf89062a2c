//! Runs that are only imagined: each has succeeded the moment it is started, and no process and no file tells of it. So controllers can be
//! measured and tested with thousands of workspaces.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use capt_terraform::Executor;
use capt_terraform::binary::Binary;
use capt_terraform::executor::WorkspaceError;
use capt_terraform::executor::{
    Interruption, LogReader, PlanFormat, PlanSelector, Run, RunReader, RunState, ShownPlan, WorkspaceStore,
};
use capt_terraform::failure::Failure;
use capt_terraform::inputs::{Choice, Inputs, Revision};
use capt_terraform::order::{Operation, Order, Refused, RunId, WorkspaceId};
use capt_terraform::state::{Output, Outputs, State};
use capt_terraform::view::{Finished, Outcome, View};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use tokio::sync::broadcast;

/// The outputs that a workspace has after a run.
type Imagine = fn(&Order) -> BTreeMap<String, Output>;

pub struct FakeExecutor {
    imagine: Imagine,
    workspaces: Mutex<BTreeMap<WorkspaceId, View>>,
    runs: Mutex<u64>,
    changes: broadcast::Sender<WorkspaceId>,
}

impl FakeExecutor {
    pub fn new(imagine: Imagine) -> Self {
        let changes = broadcast::channel(4096).0;
        Self { imagine, workspaces: Mutex::default(), runs: Mutex::default(), changes }
    }

    /// Every workspace that has run and was not forgotten.
    pub fn workspaces(&self) -> Vec<WorkspaceId> {
        self.table().keys().cloned().collect()
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<WorkspaceId, View>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, order: &Order) -> RunId {
        let number = {
            let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            *runs += 1;
            *runs
        };
        let (id, now) = (RunId::from(format!("{number:09}").as_str()), Timestamp::now());
        let outputs = (self.imagine)(order);
        let mut table = self.table();
        let view = table.entry(order.workspace.clone()).or_default();
        match order.operation {
            Operation::Apply | Operation::ApplyPlan(_) => {
                view.applied.clone_from(&order.revision);
                view.touched = true;
                view.outputs = outputs.into();
                view.resources = 1;
                view.serial += 1;
            }
            Operation::Destroy => {
                view.applied = None;
                view.touched = false;
                view.outputs = Outputs::default();
                view.resources = 0;
            }
            Operation::Plan | Operation::Refresh | Operation::Import { .. } => {}
        }
        view.last = Some(Finished {
            id: id.clone(),
            operation: order.operation.clone(),
            revision: order.revision.clone(),
            started: now,
            ended: now,
            outcome: Outcome::Done,
            plan: None,
            drift: Vec::new(),
            warnings: Vec::new(),
            undeclared: Vec::new(),
        });
        drop(table);
        self.changed(&order.workspace);
        id
    }

    fn changed(&self, workspace: &WorkspaceId) {
        // Nobody may be listening yet.
        let _ = self.changes.send(workspace.clone());
    }
}

impl Executor for FakeExecutor {
    fn start_run(&self, order: Order) -> BoxFuture<'_, Result<RunId, Refused>> {
        ready(Ok(self.run(&order))).boxed()
    }

    fn observe(&self, workspace: &WorkspaceId) -> View {
        self.table().get(workspace).cloned().unwrap_or_default()
    }

    fn changes(&self) -> broadcast::Receiver<WorkspaceId> {
        self.changes.subscribe()
    }

    fn cancel_run(&self, _workspace: &WorkspaceId, _run: &RunId, _why: Interruption) -> bool {
        false
    }

    fn adopt<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<View, WorkspaceError>> {
        ready(Ok(self.observe(workspace))).boxed()
    }

    fn revision<'a>(&'a self, inputs: &'a Inputs) -> BoxFuture<'a, Result<Revision, Failure>> {
        ready(Ok(Revision::of(inputs, "none", None))).boxed()
    }

    fn binary<'a>(&'a self, _choice: &'a Choice) -> BoxFuture<'a, Result<Binary, Failure>> {
        let binary = Binary { name: "none".into(), path: "/none".into(), version: "0.0.0".into() };
        ready(Ok(binary)).boxed()
    }
}

impl WorkspaceStore for FakeExecutor {
    fn is_durable(&self) -> bool {
        false
    }

    fn import_state<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        _state: &'a [u8],
    ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        ready(Err(WorkspaceError::BadState(format!("{workspace} is imagined")))).boxed()
    }

    fn restore_state<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        serial: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, WorkspaceError>> {
        ready(Err(WorkspaceError::NoCopy { workspace: workspace.clone(), serial })).boxed()
    }

    fn user_of<'a>(
        &'a self,
        _workspace: &'a WorkspaceId,
        _state: &'a State,
    ) -> BoxFuture<'a, Option<WorkspaceId>> {
        ready(None).boxed()
    }

    fn forget<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        self.table().remove(workspace);
        self.changed(workspace);
        ready(Ok(())).boxed()
    }

    fn has_forgotten<'a>(&'a self, _workspace: &'a WorkspaceId) -> BoxFuture<'a, bool> {
        ready(false).boxed()
    }

    fn released<'a>(&'a self, _workspace: &'a WorkspaceId) -> BoxFuture<'a, ()> {
        ready(()).boxed()
    }

    fn retain<'a>(&'a self, _workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        ready(Ok(())).boxed()
    }

    fn take_up<'a>(&'a self, _workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        ready(Ok(())).boxed()
    }
}

impl RunReader for FakeExecutor {
    fn runs<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, io::Result<Option<Vec<Run>>>> {
        let last = self.observe(workspace).last;
        let run = |last: Finished| Run { id: last.id.clone(), state: RunState::Ended(Box::new(last)) };
        ready(Ok(last.map(|last| vec![run(last)]))).boxed()
    }

    fn last_failed<'a>(&'a self, _workspace: &'a WorkspaceId) -> BoxFuture<'a, io::Result<Option<Run>>> {
        ready(Ok(None)).boxed()
    }

    fn read_log(&self, _workspace: &WorkspaceId, _run: &RunId) -> Box<dyn LogReader> {
        Box::new(Silence)
    }

    fn read_plan<'a>(
        &'a self,
        _workspace: &'a WorkspaceId,
        _plan: &'a PlanSelector,
        _format: &'a PlanFormat,
    ) -> BoxFuture<'a, io::Result<Option<ShownPlan>>> {
        ready(Ok(None)).boxed()
    }
}

/// The log of a run that prints nothing.
struct Silence;

impl LogReader for Silence {
    fn read(&mut self) -> BoxFuture<'_, io::Result<String>> {
        ready(Ok(String::new())).boxed()
    }
}
