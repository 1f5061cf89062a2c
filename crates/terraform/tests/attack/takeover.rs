//! Controllers with a data folder each that take turns: one that comes back goes on with what the others made, and with nothing that they
//! ended.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use capt_terraform::{
    Executor, WorkspaceStore,
    order::{Operation, WorkspaceId},
    state_backend::{Kept, StateBackend, StateBackendError},
    view::{Outcome, View},
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lab::{Lab, Tool, reason, start, tool};

/// The state backend that controllers share.
#[derive(Default)]
pub struct Shared {
    pub kept: Mutex<BTreeMap<WorkspaceId, Kept>>,
    /// It is out of reach.
    pub away: Mutex<bool>,
}

impl Shared {
    pub fn options(self: &Arc<Self>) -> impl FnOnce(&mut capt_terraform::Options) + use<> {
        let state_backend = Arc::clone(self);
        move |options| options.state_backend = Some(state_backend)
    }

    pub fn get(&self) -> Option<Kept> {
        self.kept.lock().expect("lock").get(&id()).cloned()
    }

    /// Writes what is kept as another controller does.
    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut all = self.kept.lock().expect("lock");
        let kept = all.get_mut(&id()).expect("kept");
        let mut record: Value = serde_json::from_slice(&kept.record).expect("a record");
        if let Some(turn) = record["turn"].as_u64() {
            record["turn"] = (turn + 1).into();
        }
        change(&mut record);
        kept.record = record.to_string().into_bytes();
    }
}

impl StateBackend for Shared {
    fn load<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Option<Kept>, StateBackendError>> {
        async {
            if *self.away.lock().expect("lock") {
                return Err(StateBackendError::Failed("out of reach".into()));
            }
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
            self.kept.lock().expect("lock").insert(workspace.clone(), kept);
            Ok(())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async {
            self.kept.lock().expect("lock").remove(workspace);
            Ok(())
        }
        .boxed()
    }
}

fn id() -> WorkspaceId {
    WorkspaceId::new("a")
}

/// A controller that does not run.
struct Resting(TempDir, Tool);

impl Resting {
    async fn wakes(self, state_backend: &Arc<Shared>) -> (Lab, View) {
        let engine = start(self.0.path(), &self.1, state_backend.options()).await;
        let view = engine.adopt(&id()).await.expect("opened");
        (Lab { folder: self.0, tool: self.1, engine }, view)
    }
}

async fn rests(lab: Lab) -> Resting {
    let Lab { folder, tool, engine } = lab;
    engine.stop().await;
    Resting(folder, tool)
}

/// Two of them, the first of which has built `a`.
async fn two() -> Option<(Resting, Lab, Arc<Shared>)> {
    let (tool, state_backend) = (tool()?, Arc::new(Shared::default()));
    let first = Lab::with(&tool, state_backend.options()).await;
    assert_eq!(first.apply("a", first.traced("first")).await.outcome, Outcome::Done);
    let first = rests(first).await;
    let second = Lab::with(&tool, state_backend.options()).await;
    second.engine.adopt(&id()).await.expect("opened");
    Some((first, second, state_backend))
}

async fn ends(lab: &Lab) {
    assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    lab.engine.forget(&id()).await.expect("forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_was_built_anew_is_not_the_old_one() {
    let Some((first, second, state_backend)) = two().await else { return };
    ends(&second).await;
    let mut anew = second.traced("second");
    anew.variables.insert("v".into(), "2".into());
    assert_eq!(second.apply("a", anew).await.outcome, Outcome::Done);
    let theirs = second.look("a");
    let second = rests(second).await;

    let (first, view) = first.wakes(&state_backend).await;
    assert_eq!(view.outputs.get("v").expect("an output").value, "2");
    assert_eq!((view.applied, view.serial), (theirs.applied, theirs.serial));
    ends(&first).await;
    assert_eq!(first.trace(), ["create first", "destroy first"]);
    assert_eq!(crate::lab::trace(&second.0.path().join("trace")), ["create second", "destroy second"]);
}

/// It was built anew, and its first apply has left no state yet.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_has_no_state_yet_has_not_that_of_the_old_one() {
    let Some((first, second, state_backend)) = two().await else { return };
    ends(&second).await;
    let failed = second
        .apply("a", second.inputs("resource \"terraform_data\" \"a\" {\n  input = file(\"none\")\n}\n"))
        .await;
    assert!(matches!(failed.outcome, Outcome::Failed(_)), "{failed:?}");
    let (first, view) = first.wakes(&state_backend).await;
    assert_eq!((view.applied, view.resources, view.trouble, view.touched), (None, 0, None, true));
    assert_eq!(first.apply("a", first.traced("anew")).await.outcome, Outcome::Done);
    assert_eq!(first.trace(), ["create first", "destroy first", "create anew"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_was_ended_is_not_gone_on_with() {
    let Some((first, second, state_backend)) = two().await else { return };
    // One that is out of reach says nothing.
    *state_backend.away.lock().expect("lock") = true;
    let engine = start(first.0.path(), &first.1, state_backend.options()).await;
    engine.adopt(&id()).await.expect_err("out of reach");
    let first = rests(Lab { folder: first.0, tool: first.1, engine }).await;
    *state_backend.away.lock().expect("lock") = false;
    ends(&second).await;

    let (first, view) = first.wakes(&state_backend).await;
    assert_eq!((view.applied.clone(), view.touched, view.resources), (None, false, 0), "{view:?}");
    // Who deletes an object that it knew does not let go of it for that.
    assert!(!first.engine.has_forgotten(&id()).await);
    assert!(first.folder_of("a").join("gone/state/terraform.tfstate").exists(), "a person may need it");
    assert_eq!(first.apply("a", first.traced("anew")).await.outcome, Outcome::Done);
    assert_eq!(first.trace(), ["create first", "destroy first", "create anew"]);
    let (first, view) = rests(first).await.wakes(&state_backend).await;
    assert_eq!(view.resources, 1, "what it made itself");
    ends(&first).await;
    assert!(first.engine.has_forgotten(&id()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_run_of_another_made_is_not_made_again() {
    let Some((first, second, state_backend)) = two().await else { return };
    let trace = first.0.path().join("trace");
    let text = crate::lab::traced(&trace, "first");
    let more = format!(
        "resource \"terraform_data\" \"more\" {{\n  provisioner \"local-exec\" {{\n    command = \"echo create more >> {}\"\n  }}\n}}\n",
        trace.display()
    );
    let inputs = second.inputs(&(text + &more));
    rests(second).await;
    state_backend.edit(|record| record["unsaved"] = json!({"terraform_data.more": "id-of-more"}));
    // Those of the run that was killed.
    let built = serde_json::to_vec(&inputs).expect("JSON");
    state_backend.kept.lock().expect("lock").get_mut(&id()).expect("kept").inputs = built;
    let (first, _) = first.wakes(&state_backend).await;
    let done = first.apply("a", inputs).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    assert_eq!(first.trace(), ["create first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_destroyed_is_destroyed_with_the_code_that_came_last() {
    let Some((first, second, state_backend)) = two().await else { return };
    let trace = first.0.path().join("trace");
    let newer = crate::lab::traced(&trace, "first").replace("echo destroy first", "echo destroy newer");
    let serial = second.look("a").serial;
    assert_eq!(second.apply("a", second.inputs(&newer)).await.outcome, Outcome::Done);
    assert_eq!(second.look("a").serial, serial, "nothing was to do");
    rests(second).await;
    let (first, _) = first.wakes(&state_backend).await;
    ends(&first).await;
    assert_eq!(first.trace(), ["create first", "destroy newer"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_restored_stays_restored() {
    let Some((first, second, state_backend)) = two().await else { return };
    let mut serials = Vec::new();
    for v in ["2", "3"] {
        let mut inputs = second.traced("second");
        inputs.variables.insert("v".into(), v.into());
        assert_eq!(second.apply("a", inputs).await.outcome, Outcome::Done);
        serials.push(second.look("a").serial);
    }
    let second = rests(second).await;
    let (first, view) = first.wakes(&state_backend).await;
    assert_eq!(view.serial, serials[1]);
    let first = rests(first).await;
    let (second, _) = second.wakes(&state_backend).await;
    Box::pin(second.engine.restore_state(&id(), Some(serials[0]))).await.expect("restored");
    let _second = rests(second).await;
    let (first, view) = first.wakes(&state_backend).await;
    assert_eq!(view.serial, serials[0]);
    // Put back with the whole cluster, it is older than what was made since.
    let backup = state_backend.get().expect("kept");
    let mut inputs = first.traced("first");
    inputs.variables.insert("v".into(), "4".into());
    assert_eq!(first.apply("a", inputs).await.outcome, Outcome::Done);
    let serial = first.look("a").serial;
    let first = rests(first).await;
    state_backend.kept.lock().expect("lock").insert(id(), backup);
    assert_eq!(first.wakes(&state_backend).await.1.serial, serial);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_imported_counts() {
    let Some(tool) = tool() else { return };
    let state_backend = Arc::new(Shared::default());
    let first = Lab::with(&tool, state_backend.options()).await;
    // Built, with nothing in it.
    assert_eq!(
        first.apply("a", first.inputs("output \"v\" {\n  value = 1\n}\n")).await.outcome,
        Outcome::Done
    );
    let first = rests(first).await;
    let second = Lab::with(&tool, state_backend.options()).await;
    let given = r#"{"version":4,"terraform_version":"1.9.0","serial":1,"lineage":"given","outputs":{},"resources":[]}"#;
    second.engine.import_state(&id(), given.as_bytes()).await.expect("taken");
    rests(second).await;
    let (_first, view) = first.wakes(&state_backend).await;
    assert_eq!((view.serial, view.applied, view.outputs.get("v").is_none()), (1, None, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_doubts_is_doubted() {
    let Some((first, second, state_backend)) = two().await else { return };
    let text = "resource \"terraform_data\" \"more\" {\n  provisioner \"local-exec\" {\n    command = \"rm -f ../state/terraform.tfstate\"\n  }\n}\n";
    let mut both = crate::lab::traced(&first.0.path().join("trace"), "first");
    both.push_str(text);
    assert_eq!(reason(&second.apply("a", second.inputs(&both)).await), "StateDamaged");
    rests(second).await;
    let (first, view) = first.wakes(&state_backend).await;
    assert_eq!(view.trouble.expect("told").reason.as_str(), "StateDamaged");
    assert_eq!(reason(&first.run("a", Operation::Destroy, None).await), "StateDamaged");
}

/// What an engine noted for itself outlives its restart.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_else_wrote_is_as_it_was_here() {
    let Some((first, second, state_backend)) = two().await else { return };
    rests(second).await;
    let (first, _) = first.wakes(&state_backend).await;
    let mut inputs = first.traced("first");
    inputs.variables.insert("note".into(), "x".into());
    assert_eq!(first.run("a", Operation::Plan, Some(inputs.clone())).await.outcome, Outcome::Planned);
    let (first, view) = rests(first).await.wakes(&state_backend).await;
    let plan = view.plan.expect("it waits still").id;
    assert_eq!(first.run("a", Operation::ApplyPlan(plan), Some(inputs)).await.outcome, Outcome::Done);
    let (first, view) = rests(first).await.wakes(&state_backend).await;
    assert!(matches!(view.last.expect("it ran").operation, Operation::ApplyPlan(_)));
    assert_eq!(first.trace(), ["create first"]);
}
