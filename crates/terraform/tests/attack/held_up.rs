//! State backends that take nothing of some workspaces: these are told and held up, and nobody else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use capt_terraform::{
    Executor, Options,
    order::{Operation, Order, WorkspaceId},
    state_backend::{Kept, StateBackend, StateBackendError},
    view::Outcome,
};
use futures::{FutureExt, future::BoxFuture};

use crate::lab::{Lab, reason, start, tool};

/// Workspaces of the tenant who tries it: more than have places at a time, deletions included.
const MANY: usize = 8;

/// What is refused.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Start,
    End,
    Load,
}

/// Keeps all workspaces but those of one tenant.
#[derive(Default)]
struct Picky {
    kept: Mutex<BTreeMap<WorkspaceId, Kept>>,
    refuses: Mutex<Option<(When, StateBackendError)>>,
}

impl Picky {
    fn refuse(&self, refusal: Option<(When, StateBackendError)>) {
        *self.refuses.lock().expect("lock") = refusal;
    }

    fn check(&self, workspace: &WorkspaceId, now: When) -> Result<(), StateBackendError> {
        match &*self.refuses.lock().expect("lock") {
            Some((when, error)) if *when == now && workspace.as_str().starts_with("bad") => {
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }
}

impl StateBackend for Picky {
    fn load<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Option<Kept>, StateBackendError>> {
        async {
            self.check(workspace, When::Load)?;
            Ok(self.kept.lock().expect("lock").get(workspace).cloned())
        }
        .boxed()
    }

    fn keep<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        kept: Kept,
    ) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async move {
            self.check(workspace, if kept.running.is_some() { When::Start } else { When::End })?;
            self.kept.lock().expect("lock").insert(workspace.clone(), kept);
            Ok(())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async { Ok(self.kept.lock().expect("lock").remove(workspace)).map(|_| ()) }.boxed()
    }
}

fn one_slot(options: &mut Options, state_backend: &Arc<Picky>) {
    options.slots = 1;
    options.state_backend = Some(state_backend.clone());
}

async fn begin() -> Option<(Lab, Arc<Picky>)> {
    let state_backend = Arc::new(Picky::default());
    let lab = Lab::with(&tool()?, |options| one_slot(options, &state_backend)).await;
    Some((lab, state_backend))
}

fn bad() -> impl Iterator<Item = WorkspaceId> {
    (0..MANY).map(|at| WorkspaceId::new(format!("bad{at}")))
}

async fn order(lab: &Lab, operation: &Operation) {
    for workspace in bad() {
        let inputs = lab.traced(workspace.as_str());
        lab.engine.start_run(Order::new(workspace, operation.clone(), Some(inputs))).await.expect("taken");
    }
}

async fn all_wait(lab: &Lab, text: &str) {
    let says = |why: &Option<String>| why.as_ref().is_some_and(|why| why.contains(text));
    for workspace in bad() {
        lab.until(&workspace, |view| view.run.as_ref().is_some_and(|run| says(&run.waits_for))).await;
    }
}

fn failed(why: &str) -> StateBackendError {
    StateBackendError::Failed(why.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_start_is_not_kept_fails_and_takes_no_place() {
    let Some((lab, state_backend)) = begin().await else { return };
    state_backend.refuse(Some((When::Start, failed("field is immutable"))));
    order(&lab, &Operation::Apply).await;
    all_wait(&lab, "field is immutable").await;
    assert_eq!(lab.apply("good", lab.traced("good")).await.outcome, Outcome::Done);
    for workspace in bad() {
        let ended = lab.ended(&workspace).await;
        assert_eq!(reason(&ended), "StateNotKept", "{ended:?}");
        assert!(!lab.look(workspace.as_str()).touched, "nothing was begun");
    }
    assert_eq!(lab.trace(), ["create good"]);
    // What is damaged is told at once, and not written over.
    let damaged = StateBackendError::Damaged("Secret capt-state-bad0 holds no state".to_owned());
    state_backend.refuse(Some((When::Start, damaged)));
    let ended = lab.apply("bad0", lab.traced("bad0")).await;
    assert_eq!(reason(&ended), "StateDamaged", "{ended:?}");
    // It is back.
    state_backend.refuse(None);
    lab.engine.adopt(&WorkspaceId::new("bad0")).await.expect("opened");
    assert_eq!(lab.apply("bad0", lab.traced("bad0")).await.outcome, Outcome::Done);
    assert_eq!(lab.trace(), ["create good", "create bad0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_end_is_not_kept_goes_on_trying_and_takes_no_place() {
    let Some((lab, state_backend)) = begin().await else { return };
    let refusal = |when| Some((when, StateBackendError::Damaged("holds no state".to_owned())));
    state_backend.refuse(refusal(When::End));
    order(&lab, &Operation::Apply).await;
    all_wait(&lab, "holds no state").await;
    assert_eq!(lab.apply("good", lab.traced("good")).await.outcome, Outcome::Done);
    assert_eq!(lab.trace().len(), MANY + 1);
    // Nor do those that the next engine adopts.
    state_backend.refuse(refusal(When::Load));
    let Lab { folder, tool, engine } = lab;
    engine.stop().await;
    let engine = start(folder.path(), &tool, |options| one_slot(options, &state_backend)).await;
    let lab = Lab { folder, tool, engine };
    all_wait(&lab, "holds no state").await;
    assert_eq!(lab.run("good", Operation::Destroy, None).await.outcome, Outcome::Done);
    // They are kept as soon as that is possible.
    state_backend.refuse(None);
    for workspace in bad() {
        let ended = lab.ended(&workspace).await;
        assert_eq!(ended.outcome, Outcome::Done, "{ended:?}");
        let kept = state_backend.kept.lock().expect("lock")[&workspace].clone();
        assert!(kept.running.is_none() && !kept.state.is_empty());
    }
    assert_eq!(lab.trace().len(), MANY + 2, "each was made once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_goes_away_holds_up_no_destroy() {
    let Some((lab, state_backend)) = begin().await else { return };
    assert_eq!(lab.apply("bad0", lab.traced("bad0")).await.outcome, Outcome::Done);
    state_backend.kept.lock().expect("lock").clear();
    let closed = || StateBackendError::Closed("because it is being terminated".to_owned());
    // One that was under way ends, so that the destroy can begin.
    state_backend.refuse(Some((When::End, closed())));
    let mut changed = lab.traced("bad0");
    changed.variables.insert("note".into(), "x".into());
    assert_eq!(lab.apply("bad0", changed.clone()).await.outcome, Outcome::Done);
    // None begins that would make something.
    state_backend.refuse(Some((When::Start, closed())));
    changed.variables.insert("v".into(), "2".into());
    assert_eq!(reason(&lab.apply("bad0", changed).await), "StateNotKept");
    assert_eq!(lab.run("bad0", Operation::Destroy, None).await.outcome, Outcome::Done);
    assert_eq!(lab.trace(), ["create bad0", "destroy bad0"]);
}
