//! Objects of killed runs, and states in backends: nothing is made twice or forgotten.

use std::fs;

use capt_terraform::{
    Executor,
    failure::Class,
    inputs::Inputs,
    order::{Operation, Order, WorkspaceId},
    view::{Finished, Outcome},
};

use crate::{
    lab::{Lab, Tool, files_named, reason, tool, tools},
    served::Served,
    stopped::kill_runs_in,
};

/// One resource that `v` replaces, and one that takes until there is a gate.
fn module(lab: &Lab, served: &Served, name: &str, further: &str, further_slow: &str) -> String {
    format!(
        r#"{backend}
variable "v" {{}}
resource "terraform_data" "{name}" {{
  triggers_replace = var.v
  {further}
}}
resource "terraform_data" "slow" {{
  triggers_replace = var.v
  {further_slow}
  provisioner "local-exec" {{
    command = "[ ${{var.v}} = 1 ] || until [ -e {gate} ]; do sleep 0.05; done"
  }}
}}
"#,
        backend = served.block(),
        gate = lab.path("gate").display(),
    )
}

const BEFORE: &str = "lifecycle {\n    create_before_destroy = true\n  }";

/// With a value of `v`.
fn of(lab: &Lab, text: &str, v: &str) -> Inputs {
    let mut inputs = lab.inputs(text);
    inputs.variables.insert("v".into(), v.into());
    inputs
}

/// Applies until the log says this, and kills the run then.
async fn killed_after(lab: &Lab, inputs: Inputs, said: &str) -> Finished {
    let workspace = WorkspaceId::new("a");
    lab.engine.start_run(Order::new(workspace.clone(), Operation::Apply, Some(inputs))).await.expect("taken");
    let told = capt_e2e::until(said, crate::lab::PATIENCE, async || {
        let run = lab.look("a").run?;
        lab.log("a", &run.id).await.contains(said).then_some(())
    });
    told.await.expect("its log says it");
    kill_runs_in(lab.folder.path());
    let killed = lab.ended(&workspace).await;
    assert_eq!(reason(&killed), "Killed", "{killed:?}");
    killed
}

/// The ids that follow words in the logs of all runs: what was made, and what was destroyed. Destroy-time provisioners do not tell of all.
fn ids(lab: &Lab, words: &str) -> Vec<String> {
    let mut logs = files_named(&lab.path("data/workspaces"), "log");
    logs.sort();
    let text: String = logs.iter().map(|log| fs::read_to_string(log).expect("a log")).collect();
    let of_r = text.lines().filter(|line| line.contains("terraform_data.r") && line.contains(words));
    of_r.filter_map(|line| Some(line.split_once("[id=")?.1.split_once(']')?.0.to_owned())).collect()
}

fn made(lab: &Lab) -> Vec<String> {
    ids(lab, "Creation complete")
}

fn gone(lab: &Lab) -> Vec<String> {
    ids(lab, "Destroying...")
}

/// Every id that was made is in the state, or was destroyed once.
fn assert_none_lost(lab: &Lab, served: &Served) {
    let (made, gone, there) = (made(lab), gone(lab), served.ids());
    assert!(!made.is_empty());
    for id in &made {
        let known = [&gone, &there].map(|ids| ids.iter().filter(|known| *known == id).count());
        assert!(known.iter().sum::<usize>() == 1, "{id} is not one of {there:?} or {gone:?}; made: {made:?}");
    }
}

fn message(finished: &Finished) -> &str {
    match &finished.outcome {
        Outcome::Failed(failure) => &failure.message,
        other => panic!("did not fail: {other:?}"),
    }
}

fn is_transient(finished: &Finished) -> bool {
    matches!(&finished.outcome, Outcome::Failed(failure) if failure.class == Class::Transient)
}

#[tokio::test]
async fn what_a_killed_run_replaced_is_taken_in() {
    for tool in tools() {
        for (further, said) in [("", "Creation"), (BEFORE, "Destruction")] {
            let (lab, served) = (Lab::new(&tool).await, Served::new());
            let text = module(&lab, &served, "r", further, "");
            assert_eq!(lab.apply("a", of(&lab, &text, "1")).await.outcome, Outcome::Done);
            killed_after(&lab, of(&lab, &text, "2"), &format!("terraform_data.r: {said} complete")).await;
            assert_eq!((made(&lab).len(), gone(&lab).len()), (2, 1), "{said}");
            fs::write(lab.path("gate"), "").expect("write");
            let done = lab.apply("a", of(&lab, &text, "2")).await;
            assert_eq!(done.outcome, Outcome::Done, "{done:?}");
            assert_none_lost(&lab, &served);
        }
    }
}

/// Its predecessor is there as well: nobody but a person can tell which of the two is to stay.
#[tokio::test]
async fn what_cannot_be_taken_in_holds_its_object() {
    let Some(tool) = tool() else { return };
    let (lab, served) = (Lab::new(&tool).await, Served::new());
    // What it replaces goes when all that depends on it knows its successor.
    let text = module(&lab, &served, "r", BEFORE, "depends_on = [terraform_data.r]");
    assert_eq!(lab.apply("a", of(&lab, &text, "1")).await.outcome, Outcome::Done);
    killed_after(&lab, of(&lab, &text, "2"), "terraform_data.r: Creation complete").await;
    let ids = made(&lab);
    assert_eq!((ids.len(), gone(&lab).len()), (2, 0));
    fs::write(lab.path("gate"), "").expect("write");
    let lab = lab.restart().await;
    for operation in [Operation::Apply, Operation::Destroy] {
        let held = lab.run("a", operation, Some(of(&lab, &text, "2"))).await;
        assert_eq!(reason(&held), "ImportFailed", "{held:?}");
        assert!(is_transient(&held));
        for told in ["terraform_data.r", &ids[0], &ids[1]] {
            assert!(message(&held).contains(told), "{told}: {held:?}");
        }
        assert_eq!((made(&lab).len(), gone(&lab).len()), (2, 0));
    }
    // A person has destroyed the older one.
    served.alter(|state| {
        state["serial"] = (state["serial"].as_u64().expect("a number") + 1).into();
        state["resources"].as_array_mut().expect("objects").retain(|object| object["name"] != "r");
    });
    assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    assert_eq!(gone(&lab), ids[1..]);
}

#[tokio::test]
async fn what_a_killed_run_made_is_taken_in_under_its_own_name() {
    for tool in tools() {
        let (lab, served) = (Lab::new(&tool).await, Served::new());
        let [before, after] = ["r1", "r2"].map(|name| of(&lab, &module(&lab, &served, name, "", ""), "2"));
        killed_after(&lab, before, "terraform_data.r1: Creation complete").await;
        fs::write(lab.path("gate"), "").expect("write");
        let done = lab.apply("a", after).await;
        assert_eq!(done.outcome, Outcome::Done, "{done:?}");
        assert_eq!((made(&lab).len(), gone(&lab).len()), (2, 1));
        assert_none_lost(&lab, &served);
    }
}

/// A plan that was approved, and killed while it was applied, is made again.
#[tokio::test]
async fn an_approved_plan_that_was_killed_makes_nothing_twice() {
    let Some(tool) = tool() else { return };
    let (lab, served) = (Lab::new(&tool).await, Served::new());
    let (workspace, inputs) = (WorkspaceId::new("a"), of(&lab, &module(&lab, &served, "r", "", ""), "2"));
    let planned = lab.run("a", Operation::Plan, Some(inputs.clone())).await;
    let approved = Operation::ApplyPlan(planned.plan.expect("a plan").id);
    lab.engine.start_run(Order::new(workspace.clone(), approved.clone(), None)).await.expect("taken");
    lab.until(&workspace, |_| !made(&lab).is_empty()).await;
    lab.until(&workspace, |view| view.run.as_ref().is_some_and(|run| run.progress.done == 1)).await;
    kill_runs_in(lab.folder.path());
    assert_eq!(reason(&lab.ended(&workspace).await), "Killed");
    fs::write(lab.path("gate"), "").expect("write");
    let stale = lab.run("a", approved, Some(inputs.clone())).await;
    assert_eq!(reason(&stale), "PlanStale", "{stale:?}");
    assert_eq!(made(&lab).len(), 1);
    assert_eq!(lab.apply("a", inputs).await.outcome, Outcome::Done);
    assert_none_lost(&lab, &served);
}

/// A lab whose Terraform imports nothing, as of a resource whose provider knows no import.
async fn without_imports(tool: &Tool, says: &str) -> Lab {
    let bin = tempfile::tempdir().expect("a folder").keep();
    let name = format!("{:?}", tool.name).to_lowercase();
    let mut programs = std::env::split_paths(&tool.path).map(|folder| folder.join(&name));
    let real = programs.find(|path| path.is_file()).expect("found before");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = import ] && {{ echo \"Error: {says}\" >&2; exit 1; }}\nexec {} \"$@\"\n",
        real.display()
    );
    crate::bad::program(&bin.join(&name), &script);
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&tool.path)));
    Lab::new(&Tool { name: tool.name, path: path.expect("a path") }).await
}

#[tokio::test]
async fn what_can_never_be_taken_in_is_told_before_it_is_made_anew() {
    let Some(tool) = tool() else { return };
    let rows = [
        ("resource terraform_data doesn't support import", true),
        ("Cannot import non-existent remote object", true),
        ("unexpected format of ID, expected A/B", false),
    ];
    for (says, goes_on) in rows {
        let (lab, served) = (without_imports(&tool, says).await, Served::new());
        let inputs = of(&lab, &module(&lab, &served, "r", "", ""), "2");
        killed_after(&lab, inputs.clone(), "terraform_data.r: Creation complete").await;
        let id = made(&lab).remove(0);
        fs::write(lab.path("gate"), "").expect("write");
        let told = lab.apply("a", inputs.clone()).await;
        assert_eq!((reason(&told), is_transient(&told)), ("ImportFailed", true), "{told:?}");
        assert!(message(&told).contains("terraform_data.r") && message(&told).contains(&id), "{told:?}");
        assert_eq!(made(&lab).len(), 1);
        let next = lab.apply("a", inputs).await;
        assert_eq!(next.outcome == Outcome::Done, goes_on, "{says}: {next:?}");
        assert_eq!(made(&lab).len(), if goes_on { 2 } else { 1 }, "{says}");
    }
}

#[tokio::test]
async fn a_backend_that_does_not_answer_is_not_an_empty_one() {
    let Some(tool) = tool() else { return };
    let (lab, served) = (Lab::new(&tool).await, Served::new());
    let inputs = of(&lab, &module(&lab, &served, "r", "", ""), "1");
    assert_eq!(lab.apply("a", inputs.clone()).await.outcome, Outcome::Done);
    let aside = served.held().state.take();
    for operation in [Operation::Apply, Operation::Plan, Operation::Destroy] {
        served.held().failing = 1;
        let failed = lab.run("a", operation.clone(), Some(inputs.clone())).await;
        assert!(is_transient(&failed), "{operation:?}: {failed:?}");
        assert_eq!(served.held().failing, 0, "it was asked");
        let lost = lab.run("a", operation, Some(inputs.clone())).await;
        assert_eq!(reason(&lost), "StateLost", "{lost:?}");
        assert_eq!(made(&lab).len(), 1);
    }
    served.held().state = aside;
    assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    assert_eq!((made(&lab).len(), gone(&lab).len()), (1, 1));
}

#[tokio::test]
async fn a_state_that_was_altered_in_its_backend_is_not_believed() {
    let Some(tool) = tool() else { return };
    let (lab, served) = (Lab::new(&tool).await, Served::new());
    let inputs = of(&lab, &module(&lab, &served, "r", "", ""), "1");
    assert_eq!(lab.apply("a", inputs.clone()).await.outcome, Outcome::Done);
    let good = served.state();
    served.alter(|state| state["resources"] = serde_json::json!([]));
    for operation in [Operation::Apply, Operation::Destroy] {
        let held = lab.run("a", operation, Some(inputs.clone())).await;
        assert_eq!(reason(&held), "StateDamaged", "{held:?}");
        assert_eq!(made(&lab).len(), 1);
    }
    // The same in other bytes.
    served.alter(|state| *state = good);
    assert_eq!(lab.apply("a", inputs).await.outcome, Outcome::Done);
    assert_eq!(made(&lab).len(), 1);
}

#[tokio::test]
async fn no_run_is_done_before_its_state_was_read() {
    let Some(tool) = tool() else { return };
    for (failing, done) in [(1, true), (100, false)] {
        let (lab, served) = (Lab::new(&tool).await, Served::new());
        let inputs = of(&lab, &module(&lab, &served, "r", "", ""), "1");
        served.held().failing_after_write = failing;
        let ended = lab.apply("a", inputs.clone()).await;
        assert_eq!(ended.outcome == Outcome::Done, done, "{ended:?}");
        if !done {
            assert!(is_transient(&ended), "{ended:?}");
            assert_eq!(lab.look("a").applied, None);
            served.held().failing = 0;
            assert_eq!(lab.apply("a", inputs).await.outcome, Outcome::Done);
        }
        assert_eq!((lab.look("a").resources, made(&lab).len()), (2, 1));
    }
}
