//! Logs and plans of a data folder, for who reads them by their ids.

use std::io;

use futures::future::{BoxFuture, FutureExt};

use super::{Inspection, tail::Follow};
use crate::{
    blocking::blocking,
    engine::Engine,
    executor::{LogReader, PlanFormat, PlanSelector, Run, RunReader, RunState, ShownPlan},
    failed,
    order::{RunId, WorkspaceId},
};

impl RunReader for Inspection {
    fn runs<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, io::Result<Option<Vec<Run>>>> {
        let (own, id) = (self.clone(), workspace.clone());
        blocking(move || Ok(own.workspace(&id)?.map(|visited| visited.runs()))).boxed()
    }

    fn last_failed<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, io::Result<Option<Run>>> {
        let (own, id) = (self.clone(), workspace.clone());
        blocking(move || {
            let lives = own.workspace(&id)?.and_then(|visited| visited.last_failed());
            let forgotten = || {
                let end = failed::find(&own.folders, &id)?;
                Some(Run { id: end.id.clone(), state: RunState::Ended(Box::new(end)) })
            };
            Ok(lives.or_else(forgotten))
        })
        .boxed()
    }

    fn read_log(&self, workspace: &WorkspaceId, run: &RunId) -> Box<dyn LogReader> {
        let folder = self.folders.workspace(workspace).run(run);
        let folder = if folder.exists() { folder } else { self.folders.failed_of(workspace) };
        Box::new(LocalLog(Some(Follow::new(folder.join("log")))))
    }

    fn read_plan<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        plan: &'a PlanSelector,
        format: &'a PlanFormat,
    ) -> BoxFuture<'a, io::Result<Option<ShownPlan>>> {
        let (own, id, plan, format) = (self.clone(), workspace.clone(), plan.clone(), *format);
        blocking(move || {
            let Some(visited) = own.workspace(&id)? else { return Ok(None) };
            Ok(match plan {
                PlanSelector::Waiting(wanted) => {
                    let plan = visited.plan().filter(|plan| plan.id == wanted);
                    plan.map(|plan| (plan.changes.clone(), visited.show_plan(&format)))
                }
                PlanSelector::Drift => {
                    visited.drift().map(|last| (last.drift.clone(), visited.show_drift(&format)))
                }
            }
            .map(|(changes, text)| ShownPlan { changes, text }))
        })
        .boxed()
    }
}

impl Engine {
    /// Reads what runs leave behind in the same way as inspections by other processes do.
    fn reader(&self) -> Inspection {
        let (folders, guard) = self.place();
        Inspection::of(folders, guard)
    }
}

impl RunReader for Engine {
    fn runs<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, io::Result<Option<Vec<Run>>>> {
        async move { self.reader().runs(workspace).await }.boxed()
    }

    fn last_failed<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, io::Result<Option<Run>>> {
        async move { self.reader().last_failed(workspace).await }.boxed()
    }

    fn read_log(&self, workspace: &WorkspaceId, run: &RunId) -> Box<dyn LogReader> {
        self.reader().read_log(workspace, run)
    }

    fn read_plan<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        plan: &'a PlanSelector,
        format: &'a PlanFormat,
    ) -> BoxFuture<'a, io::Result<Option<ShownPlan>>> {
        async move { self.reader().read_plan(workspace, plan, format).await }.boxed()
    }
}

/// A log in a file.
struct LocalLog(Option<Follow>);

impl LogReader for LocalLog {
    fn read(&mut self) -> BoxFuture<'_, io::Result<String>> {
        async move {
            // Lost only where an earlier read was given up half way.
            let Some(mut follow) = self.0.take() else { return Ok(String::new()) };
            let (follow, text) = blocking(move || {
                let text = follow.read();
                (follow, text)
            })
            .await;
            self.0 = Some(follow);
            text
        }
        .boxed()
    }
}
