//! Engines that lose their lease in the middle of a run: it ends with the term, is handed in, and is not written over what
//! the next holder made.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use capt_terraform::{
    Executor, Options,
    engine::{Lease, last_state},
    guard::term::{HandIn, Moment, Term},
    order::{Operation, Order, WorkspaceId},
    state::State,
    state_backend::{Kept, Running, StateBackend, StateBackendError},
    view::Outcome,
};
use futures::{FutureExt, future::BoxFuture};

use crate::lab::{Lab, PATIENCE, reason, start, tool};

const LONG: Duration = Duration::from_secs(3600);

/// The state backend that controllers share.
#[derive(Default)]
struct Shared(Mutex<BTreeMap<WorkspaceId, Kept>>);

impl StateBackend for Shared {
    fn load<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Option<Kept>, StateBackendError>> {
        async { Ok(self.0.lock().expect("lock").get(workspace).cloned()) }.boxed()
    }

    fn keep<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        kept: Kept,
    ) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async move {
            self.0.lock().expect("lock").insert(workspace.clone(), kept);
            Ok(())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, workspace: &'a WorkspaceId) -> BoxFuture<'a, Result<(), StateBackendError>> {
        async {
            self.0.lock().expect("lock").remove(workspace);
            Ok(())
        }
        .boxed()
    }
}

fn under_a_lease(options: &mut Options, state_backend: &Arc<Shared>) {
    options.lease = Some(Lease { lasts: LONG });
    options.state_backend = Some(state_backend.clone());
}

/// An engine that holds a lease.
async fn holder() -> Option<(Lab, Term, Arc<Shared>)> {
    let state_backend = Arc::new(Shared::default());
    let mut held = None;
    let lab = Lab::with(&tool()?, |options| {
        let term = Term::open(&options.folder).expect("a term");
        term.renew(Moment::now().after(LONG)).expect("renewed");
        held = Some(term);
        under_a_lease(options, &state_backend);
    })
    .await;
    Some((lab, held.expect("just opened"), state_backend))
}

/// One thing that is made, and one that never is.
async fn begin(lab: &Lab) -> WorkspaceId {
    let workspace = WorkspaceId::new("a");
    let text = "resource \"terraform_data\" \"first\" {}\nresource \"terraform_data\" \"slow\" {\n  depends_on = [terraform_data.first]\n  provisioner \"local-exec\" {\n    command = \"echo > begun; exec sleep 1000\"\n  }\n}\n";
    lab.engine
        .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(text))))
        .await
        .expect("taken");
    let begun = || fs::read_dir(lab.path("data/workspaces")).is_ok_and(|mut all| all.next().is_some());
    let begun = async || (begun() && lab.folder_of("a").join("guest/work/begun").exists()).then_some(());
    capt_e2e::until("it runs", PATIENCE, begun).await.expect("runs");
    workspace
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_with_its_term_and_saves_what_it_made() {
    let Some((lab, term, _)) = holder().await else { return };
    let workspace = begin(&lab).await;
    term.renew(Moment::now()).expect("over");
    let ended = lab.ended(&workspace).await;
    assert!(matches!(&ended.outcome, Outcome::Failed(_)), "{ended:?}");
    assert_eq!(lab.look("a").resources, 2, "interrupted in good order");
    // And none is begun: an engine that stood still may not know yet.
    let late = lab.apply("b", lab.traced("b")).await;
    assert_eq!(reason(&late), "ApplyFailed", "{late:?}");
    assert!(format!("{late:?}").contains("term is over"), "{late:?}");
    assert_eq!(lab.trace(), [""; 0]);
    // Renewed, it goes on.
    term.renew(Moment::now().after(LONG)).expect("renewed");
    assert_eq!(lab.apply("b", lab.traced("b")).await.outcome, Outcome::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_is_handed_in_where_no_engine_takes_it_in() {
    let Some((lab, term, state_backend)) = holder().await else { return };
    let marker = lab.path("handed-in");
    let script = format!("echo \"$TOLD $0\" > {}", marker.display());
    let (args, env) = (vec!["-c".into(), script], vec![("TOLD".into(), "told".into())]);
    HandIn { program: "/bin/sh".into(), args, env }.write(&lab.path("data")).expect("written");
    let workspace = begin(&lab).await;
    let folder = lab.folder_of("a");
    let Lab { folder: kept_folder, tool, engine } = lab;
    engine.stop().await;
    assert!(!marker.exists());
    term.renew(Moment::now()).expect("over");
    let handed = async || fs::read_to_string(&marker).ok().filter(|text| text.ends_with('\n'));
    let handed = capt_e2e::until("it is handed in", PATIENCE, handed).await.expect("handed in");
    let canonical = fs::canonicalize(&folder).expect("there");
    assert_eq!(handed, format!("told {}\n", canonical.display()));
    let (named, kept) = last_state(&folder).expect("read").expect("a run");
    assert_eq!((&named, kept.running.clone()), (&workspace, None));
    assert_eq!(State::read(&kept.state).expect("a state").resources.len(), 2);
    // The next engine of this folder takes it in as what it is.
    let running = state_backend.0.lock().expect("lock")[&workspace].running.clone().expect("under way");
    assert!(running.ends_within > LONG, "{running:?}");
    term.renew(Moment::now().after(LONG)).expect("renewed");
    let engine = start(kept_folder.path(), &tool, |options| under_a_lease(options, &state_backend)).await;
    let lab = Lab { folder: kept_folder, tool, engine };
    let ended = lab.ended(&workspace).await;
    assert_eq!(reason(&ended), "StateLocked", "{ended:?}");
    let kept = state_backend.0.lock().expect("lock")[&workspace].clone();
    assert_eq!(kept.running, None);
    assert_eq!(State::read(&kept.state).expect("a state").resources.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_next_holder_made_is_not_written_over() {
    let Some((lab, _term, state_backend)) = holder().await else { return };
    let workspace = begin(&lab).await;
    let Lab { folder, tool, engine } = lab;
    engine.stop().await;
    // Another controller has gone on with it meanwhile, and finished it.
    let theirs = {
        let mut all = state_backend.0.lock().expect("lock");
        let kept = all.get_mut(&workspace).expect("kept");
        let text = r#"{"version":4,"terraform_version":"1.11.4","serial":99,"lineage":"theirs","outputs":{},"resources":[]}"#;
        (kept.running, kept.state) = (None, text.as_bytes().to_vec());
        kept.clone()
    };
    let engine = start(folder.path(), &tool, |options| under_a_lease(options, &state_backend)).await;
    let lab = Lab { folder, tool, engine };
    let ended = lab.ended(&workspace).await;
    assert_eq!(reason(&ended), "StateLocked", "{ended:?}");
    assert!(state_backend.0.lock().expect("lock")[&workspace] == theirs);
    assert_eq!(lab.look("a").serial, 99, "theirs is here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_workspace_that_was_ended_is_not_gone_on_with() {
    let Some((lab, _term, state_backend)) = holder().await else { return };
    let workspace = begin(&lab).await;
    let Lab { folder, tool, engine } = lab;
    engine.stop().await;
    state_backend.0.lock().expect("lock").remove(&workspace);
    let engine = start(folder.path(), &tool, |options| under_a_lease(options, &state_backend)).await;
    let lab = Lab { folder, tool, engine };
    let ended = lab.ended(&workspace).await;
    assert_eq!(reason(&ended), "StateLocked", "{ended:?}");
    assert!(state_backend.0.lock().expect("lock").is_empty(), "it does not come back");
    let view = lab.engine.adopt(&workspace).await.expect("opened");
    assert_eq!((view.touched, view.resources), (false, 0), "{view:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_another_controller_is_waited_for() {
    let Some((lab, _term, state_backend)) = holder().await else { return };
    assert_eq!(lab.apply("a", lab.traced("a")).await.outcome, Outcome::Done);
    let workspace = WorkspaceId::new("a");
    let running = |ends_within| Some(Running { run: "theirs".into(), ends_within });
    state_backend.0.lock().expect("lock").get_mut(&workspace).expect("kept").running =
        running(Duration::from_secs(60));
    let other = Lab::with(&lab.tool, |options| under_a_lease(options, &state_backend)).await;
    let refused = other.engine.adopt(&workspace).await.expect_err("not settled").to_string();
    assert!(refused.contains("run theirs of another controller may still be under way"), "{refused}");
    let refused = other.run("a", Operation::Destroy, None).await;
    assert_eq!(reason(&refused), "StateLocked", "{refused:?}");
    assert_eq!(lab.trace(), ["create a"]);
    // It must have ended by now.
    state_backend.0.lock().expect("lock").get_mut(&workspace).expect("kept").running =
        running(Duration::ZERO);
    assert_eq!(other.engine.adopt(&workspace).await.expect("settled").resources, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_for_one_workspace_speaks_for_no_other() {
    let Some((lab, _term, state_backend)) = holder().await else { return };
    for name in ["a", "b"] {
        assert_eq!(lab.apply(name, lab.traced(name)).await.outcome, Outcome::Done);
    }
    // Whoever may write where `b` is kept puts the record of `a` there.
    let forged = {
        let mut all = state_backend.0.lock().expect("lock");
        let forged = all[&WorkspaceId::new("a")].clone();
        all.insert(WorkspaceId::new("b"), forged.clone());
        forged
    };
    let other = Lab::with(&lab.tool, |options| under_a_lease(options, &state_backend)).await;
    let view = other.engine.adopt(&WorkspaceId::new("b")).await.expect("opened");
    assert_eq!(view.trouble.as_ref().expect("told").reason.as_str(), "RecordDamaged", "{view:?}");
    assert_eq!(reason(&other.run("b", Operation::Destroy, None).await), "RecordDamaged");
    assert!(state_backend.0.lock().expect("lock")[&WorkspaceId::new("a")] == forged);
    assert_eq!(lab.trace(), ["create a", "create b"]);
}
