//! The engine behind the seam.

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::broadcast;

use super::Engine;
use crate::{
    binary::Binary,
    blocking::blocking,
    executor::{Executor, Interruption, WorkspaceError, WorkspaceStore},
    failure::Failure,
    inputs::{Choice, Inputs, Revision},
    order::{Order, Refused, RunId, WorkspaceId},
    state::State,
    view::View,
};

impl Executor for Engine {
    fn start_run(&self, order: Order) -> BoxFuture<'_, Result<RunId, Refused>> {
        self.inner.order(order).boxed()
    }

    fn observe(&self, workspace: &WorkspaceId) -> View {
        self.inner.observe(workspace)
    }

    fn changes(&self) -> broadcast::Receiver<WorkspaceId> {
        self.inner.changes.subscribe()
    }

    fn cancel_run(&self, workspace: &WorkspaceId, run: &RunId, why: Interruption) -> bool {
        self.inner.interrupt(workspace, Some(run), why.into())
    }

    fn adopt<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<View, WorkspaceError>> {
        self.inner.open(workspace).boxed()
    }

    fn revision<'a>(&'a self, inputs: &'a Inputs) -> BoxFuture<'a, Result<Revision, Failure>> {
        let (inner, inputs) = (self.inner.clone(), inputs.clone());
        blocking(move || inner.revision(&inputs)).boxed()
    }

    fn binary<'a>(&'a self, choice: &'a Choice) -> BoxFuture<'a, Result<Binary, Failure>> {
        let (inner, choice) = (self.inner.clone(), choice.clone());
        blocking(move || inner.binaries.find(&choice)).boxed()
    }
}

impl WorkspaceStore for Engine {
    fn place(&self) -> Option<String> {
        self.inner.place.clone()
    }

    fn import_state<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        state: &'a [u8],
    ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        self.inner.import_state(workspace, state).boxed()
    }

    fn restore_state<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        serial: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, WorkspaceError>> {
        self.inner.restore_state(workspace, serial).boxed()
    }

    fn user_of<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        state: &'a State,
    ) -> BoxFuture<'a, Option<WorkspaceId>> {
        self.inner.user_of(workspace, state).boxed()
    }

    fn forget<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        self.inner.forget(workspace).boxed()
    }

    fn has_forgotten<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, bool> {
        self.inner.has_forgotten(workspace).boxed()
    }

    fn released<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, ()> {
        self.inner.released(workspace).boxed()
    }

    fn retain<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        self.inner.retain(workspace).boxed()
    }

    fn take_up<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        self.inner.take_up(workspace).boxed()
    }
}
