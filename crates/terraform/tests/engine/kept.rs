//! The state_backend: what it gets, when, and what is made of it where the folder is gone.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex},
};

use capt_terraform::{
    Executor, WorkspaceStore,
    inputs::Backend,
    order::{Operation, Order, WorkspaceId},
    state::State,
    state_backend::{Kept, StateBackend, StateBackendError},
    view::Outcome,
};
use futures::{FutureExt, future::BoxFuture};

use crate::lab::{Lab, reason, tool};

#[derive(Default)]
struct Memory {
    kept: Mutex<BTreeMap<WorkspaceId, Kept>>,
    /// Answers to come before all goes well.
    trouble: Mutex<Vec<StateBackendError>>,
    serials: Mutex<Vec<u64>>,
}

impl StateBackend for Memory {
    fn load<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Option<Kept>, StateBackendError>> {
        async { Ok(self.kept.lock().expect("lock").get(workspace).cloned()) }.boxed()
    }

    fn keep<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        kept: Kept,
    ) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async move {
            if let Some(error) = self.trouble.lock().expect("lock").pop() {
                return Err(error);
            }
            self.serials.lock().expect("lock").push(State::read(&kept.state).map_or(0, |state| state.serial));
            self.kept.lock().expect("lock").insert(workspace.clone(), kept);
            Ok(())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async { Ok(self.kept.lock().expect("lock").remove(workspace)).map(|_| ()) }.boxed()
    }
}

async fn lab(state_backend: &Arc<Memory>) -> Option<Lab> {
    let tool = tool()?;
    let state_backend = state_backend.clone();
    Some(Lab::with(&tool, |options| options.state_backend = Some(state_backend)).await)
}

#[tokio::test]
async fn a_workspace_comes_back_where_its_folder_is_gone() {
    let state_backend = Arc::new(Memory::default());
    let Some(lab) = lab(&state_backend).await else { return };
    assert_eq!(lab.apply("a", lab.traced("a")).await.outcome, Outcome::Done);
    let view = lab.look("a");
    let trace = lab.path("trace");
    let Some(other) = self::lab(&state_backend).await else { return };
    assert_eq!(other.look("a").applied, None, "not known yet");
    let opened = other.engine.adopt(&WorkspaceId::new("a")).await.expect("opened");
    assert_eq!((opened.applied.clone(), opened.resources, opened.serial), (view.applied, 1, view.serial));
    // Template and variables are gone: the kept inputs destroy it.
    assert_eq!(other.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    assert_eq!(crate::lab::trace(&trace), ["create a", "destroy a"]);
    other.engine.forget(&WorkspaceId::new("a")).await.expect("forgotten");
    assert!(state_backend.kept.lock().expect("lock").is_empty());
}

#[tokio::test]
async fn the_state_is_kept_while_the_run_goes_on() {
    let state_backend = Arc::new(Memory::default());
    let Some(lab) = lab(&state_backend).await else { return };
    let gate = lab.path("gate");
    let text = format!(
        "resource \"terraform_data\" \"a\" {{}}\nresource \"terraform_data\" \"b\" {{\n  depends_on = [terraform_data.a]\n  provisioner \"local-exec\" {{\n    command = \"until [ -e {} ]; do sleep 0.05; done\"\n  }}\n}}\n",
        gate.display()
    );
    let workspace = WorkspaceId::new("a");
    lab.engine
        .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(&text))))
        .await
        .expect("taken");
    capt_e2e::until("the first resource is kept", crate::lab::PATIENCE, async || {
        let kept = state_backend.kept.lock().expect("lock").get(&workspace).is_some_and(|kept| {
            State::read(&kept.state).is_ok_and(|state| {
                state.resources.iter().any(|resource| resource.address == "terraform_data.a")
            })
        });
        kept.then_some(())
    })
    .await
    .expect("kept");
    fs::write(gate, "").expect("write");
    assert_eq!(lab.ended(&workspace).await.outcome, Outcome::Done);
    let serial = lab.look("a").serial;
    assert_eq!(
        state_backend.serials.lock().expect("lock").last(),
        Some(&serial),
        "the last state is kept before the run is over"
    );
}

#[tokio::test]
async fn a_keeper_in_trouble_is_asked_again() {
    let state_backend = Arc::new(Memory::default());
    let Some(lab) = lab(&state_backend).await else { return };
    state_backend.trouble.lock().expect("lock").extend(vec![StateBackendError::Failed("busy".into()); 3]);
    assert_eq!(lab.apply("a", lab.traced("a")).await.outcome, Outcome::Done);
    assert_eq!(state_backend.serials.lock().expect("lock").last(), Some(&lab.look("a").serial));
}

#[tokio::test]
async fn a_fenced_run_never_starts() {
    let state_backend = Arc::new(Memory::default());
    let Some(lab) = lab(&state_backend).await else { return };
    state_backend.trouble.lock().expect("lock").push(StateBackendError::Fenced("pod-2".into()));
    let fenced = lab.apply("a", lab.traced("a")).await;
    assert_eq!(reason(&fenced), "StateLocked", "{fenced:?}");
    assert!(format!("{fenced:?}").contains("pod-2"));
    assert!(lab.trace().is_empty());
}

/// As a run leaves it whose backend did not take its last state.
#[tokio::test]
async fn what_a_backend_did_not_take_is_handed_in_before_the_next_run() {
    for tool in crate::lab::tools() {
        let lab = Lab::new(&tool).await;
        let elsewhere = lab.path("elsewhere.tfstate");
        let mut inputs = lab.traced("a");
        inputs.backend =
            Backend::Hcl(format!("backend \"local\" {{\n  path = \"{}\"\n}}", elsewhere.display()));
        assert_eq!(lab.apply("a", inputs.clone()).await.outcome, Outcome::Done);
        let taken = fs::read(&elsewhere).expect("a state");
        let state = State::read(&taken).expect("a state");
        fs::write(lab.folder_of("a").join("state/pending.tfstate"), &taken).expect("write");
        let older = format!(
            r#"{{"version":4,"terraform_version":"1.0.0","serial":0,"lineage":"{}","outputs":{{}},"resources":[]}}"#,
            state.lineage
        );
        fs::write(&elsewhere, older).expect("write");
        // Something has to be done, or no process would be needed.
        inputs.variables.insert("note".into(), "x".into());
        let done = lab.apply("a", inputs).await;
        assert_eq!(done.outcome, Outcome::Done, "{done:?}");
        assert_eq!(lab.trace(), ["create a"], "not made again");
        assert!(!lab.folder_of("a").join("state/pending.tfstate").exists());
        assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
        assert_eq!(lab.trace(), ["create a", "destroy a"]);
    }
}

#[tokio::test]
async fn a_backend_of_its_own_keeps_the_state_elsewhere() {
    for tool in crate::lab::tools() {
        let lab = Lab::new(&tool).await;
        let elsewhere = lab.path("elsewhere.tfstate");
        let mut inputs = lab.traced("a");
        inputs.backend =
            Backend::Hcl(format!("backend \"local\" {{\n  path = \"{}\"\n}}", elsewhere.display()));
        let done = lab.apply("a", inputs.clone()).await;
        assert_eq!(done.outcome, Outcome::Done, "{done:?}");
        assert!(
            State::read(&fs::read(&elsewhere).expect("a state"))
                .is_ok_and(|state| state.resources.len() == 1)
        );
        assert_eq!(lab.look("a").outputs.get("v").unwrap().value, "1", "a copy is here");
        let lab = lab.restart().await;
        assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
        assert_eq!(lab.trace(), ["create a", "destroy a"]);
        assert!(State::read(&fs::read(&elsewhere).expect("a state")).is_ok_and(|state| state.is_empty()));
        assert!(!lab.look("a").touched);
    }
}
