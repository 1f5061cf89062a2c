//! Runs that do not get to their end: cancelled, timed out, interrupted by a restart, killed.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use capt_terraform::{
    Executor,
    inputs::BinaryName,
    order::{Operation, Order, WorkspaceId},
    view::{Outcome, Phase},
};

use crate::lab::{Lab, Tool, reason, tools, trace};

/// Makes one thing, and then waits for a file.
fn waits(lab: &Lab) -> String {
    format!(
        "resource \"terraform_data\" \"first\" {{\n  provisioner \"local-exec\" {{\n    command = \"echo create first >> {trace}\"\n  }}\n}}\n\
         resource \"terraform_data\" \"slow\" {{\n  depends_on = [terraform_data.first]\n  provisioner \"local-exec\" {{\n    command = \"echo create slow >> {trace}; until [ -e {gate} ]; do sleep 0.05; done\"\n  }}\n}}\n",
        trace = lab.path("trace").display(),
        gate = lab.path("gate").display()
    )
}

async fn reach_the_slow_one(lab: &Lab, workspace: &WorkspaceId) {
    let view = lab
        .until(workspace, |view| {
            view.run
                .as_ref()
                .is_some_and(|run| run.progress.current.as_deref() == Some("terraform_data.slow"))
                // What is being made has begun to be: on a busy machine that takes a while.
                && trace(&lab.path("trace")).iter().any(|line| line == "create slow")
        })
        .await;
    let run = view.run.expect("runs");
    assert_eq!((run.phase, run.progress.done, run.progress.total), (Phase::Applying, 1, 2));
    assert!(
        lab.log(workspace.as_str(), &run.id).await.contains("terraform_data.first: Creation complete"),
        "can be followed"
    );
}

#[tokio::test]
async fn a_cancelled_run_saves_what_it_made() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let workspace = WorkspaceId::new("a");
        lab.engine
            .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(&waits(&lab)))))
            .await
            .expect("taken");
        reach_the_slow_one(&lab, &workspace).await;
        assert!(lab.cancel(&workspace));
        let cancelled = lab.ended(&workspace).await;
        assert_eq!(cancelled.outcome, Outcome::Cancelled, "{cancelled:?}");
        assert!(!lab.cancel(&workspace), "nothing left to cancel");
        let view = lab.look("a");
        assert_eq!((view.applied, view.resources), (None, 2), "one made, one tainted");
        fs::write(lab.path("gate"), "").expect("write");
        assert_eq!(lab.run("a", Operation::Apply, None).await.outcome, Outcome::Done);
        assert_eq!(trace(&lab.path("trace")), ["create first", "create slow", "create slow"]);
        assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    }
}

/// Terraform ends the shell of a provisioner, and not what that started.
#[tokio::test]
async fn what_a_cancelled_run_started_ends_with_it() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let workspace = WorkspaceId::new("a");
        let pid = lab.path("pid");
        let module = format!(
            "resource \"terraform_data\" \"slow\" {{\n  provisioner \"local-exec\" {{\n    command = \"sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait\"\n  }}\n}}\n",
            pid.display()
        );
        lab.engine
            .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(&module))))
            .await
            .expect("taken");
        lab.until(&workspace, |_| pid.exists()).await;
        let started = fs::read_to_string(&pid).expect("a pid");
        let started = Path::new("/proc").join(started.trim()).join("environ");
        let lives = || fs::read(&started).is_ok_and(|environment| !environment.is_empty());
        // One that is just becoming `sleep` has no environment for a moment.
        lab.until(&workspace, |_| lives()).await;
        assert!(lab.cancel(&workspace));
        assert_eq!(lab.ended(&workspace).await.outcome, Outcome::Cancelled);
        lab.until(&workspace, |_| !lives()).await;
    }
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_stopped() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let mut order = Order::new(WorkspaceId::new("a"), Operation::Apply, Some(lab.inputs(&waits(&lab))));
        order.timeout = Duration::from_secs(2);
        let late = lab.run_order(order).await;
        assert_eq!(late.outcome, Outcome::TimedOut, "{late:?}");
    }
}

/// A lab whose binary is a script that does this instead of any command but `version`.
async fn scripted(does: &str) -> Lab {
    let bin = tempfile::tempdir().expect("a folder").keep();
    let version = "if [ \"$1\" = version ]; then echo '{\"terraform_version\":\"1.11.0\"}'; exit; fi";
    crate::bad::program(&bin.join("terraform"), &format!("#!/bin/sh\n{version}\n{does}\n"));
    let path =
        std::env::join_paths([bin.as_path(), Path::new("/bin"), Path::new("/usr/bin")]).expect("a path");
    let tool = Tool { name: BinaryName::Terraform, path };
    Lab::with(&tool, |options| options.grace = Duration::from_millis(300)).await
}

#[tokio::test]
async fn one_that_does_not_listen_is_killed() {
    let lab = scripted("trap '' INT\nwhile :; do sleep 0.1; done").await;
    let mut order =
        Order::new(WorkspaceId::new("a"), Operation::Apply, Some(lab.inputs("output \"x\" { value = 1 }")));
    order.timeout = Duration::from_millis(300);
    assert_eq!(lab.run_order(order).await.outcome, Outcome::TimedOut);
}

#[tokio::test]
async fn a_plan_that_was_interrupted_and_ends_well_is_no_plan() {
    let lab = scripted("trap 'exit 0' INT\necho '{\"type\":\"change_summary\",\"changes\":{\"add\":1,\"change\":0,\"remove\":0,\"operation\":\"plan\"}}'\nwhile :; do sleep 0.1; done").await;
    let workspace = WorkspaceId::new("a");
    lab.engine
        .start_run(Order::new(
            workspace.clone(),
            Operation::Plan,
            Some(lab.inputs("output \"x\" { value = 1 }")),
        ))
        .await
        .expect("taken");
    lab.until(&workspace, |view| view.run.as_ref().is_some_and(|run| run.progress.total == 1)).await;
    assert!(lab.cancel(&workspace));
    assert_eq!(lab.ended(&workspace).await.outcome, Outcome::Cancelled);
    assert_eq!(lab.look("a").plan, None);
}

#[tokio::test]
async fn an_end_that_a_run_writes_down_itself_is_none() {
    // Longer than an engine takes to look for it.
    let lab = scripted("echo 0 > \"$CAPT_RUN/apply.exit\"\nsleep 2; exit 7").await;
    let ended = lab.apply("a", lab.inputs("output \"x\" { value = 1 }")).await;
    assert_eq!(reason(&ended), "ApplyFailed", "{ended:?}");
}

#[tokio::test]
async fn a_run_outlives_its_engine() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let workspace = WorkspaceId::new("a");
        let id = lab
            .engine
            .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(&waits(&lab)))))
            .await
            .expect("taken");
        reach_the_slow_one(&lab, &workspace).await;
        let lab = lab.restart().await;
        let run = lab.look("a").run.expect("adopted");
        assert_eq!(run.id, id);
        lab.engine
            .start_run(Order::new(workspace.clone(), Operation::Destroy, None))
            .await
            .expect_err("still busy");
        reach_the_slow_one(&lab, &workspace).await;
        fs::write(lab.path("gate"), "").expect("write");
        let finished = lab.ended(&workspace).await;
        assert_eq!((finished.id, finished.outcome), (id, Outcome::Done));
        assert!(lab.look("a").applied.is_some());
        assert_eq!(trace(&lab.path("trace")), ["create first", "create slow"]);
    }
}

#[tokio::test]
async fn an_adopted_run_can_be_cancelled() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let workspace = WorkspaceId::new("a");
        lab.engine
            .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(&waits(&lab)))))
            .await
            .expect("taken");
        reach_the_slow_one(&lab, &workspace).await;
        let lab = lab.restart().await;
        assert!(lab.cancel(&workspace));
        assert_eq!(lab.ended(&workspace).await.outcome, Outcome::Cancelled);
        assert_eq!(lab.look("a").resources, 2);
    }
}

#[tokio::test]
async fn what_ended_while_nobody_looked_is_taken_in() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let workspace = WorkspaceId::new("a");
        lab.engine
            .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(&waits(&lab)))))
            .await
            .expect("taken");
        reach_the_slow_one(&lab, &workspace).await;
        let Lab { folder, tool, engine } = lab;
        engine.stop().await;
        fs::write(folder.path().join("gate"), "").expect("write");
        // The exit code is the last thing that is written.
        capt_e2e::until("the run ends", crate::lab::PATIENCE, async || {
            let ended = crate::lab::files_named(&folder.path().join("data"), "apply.exit")
                .iter()
                .any(|path| fs::read(path).is_ok_and(|code| code == b"0\n"));
            ended.then_some(())
        })
        .await
        .expect("ends");
        let engine = crate::lab::start(folder.path(), &tool, |_| ()).await;
        let lab = Lab { folder, tool, engine };
        assert_eq!(lab.ended(&workspace).await.outcome, Outcome::Done);
        assert!(lab.look("a").applied.is_some());
    }
}

#[tokio::test]
async fn a_killed_process_loses_nothing_that_was_saved() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let workspace = WorkspaceId::new("a");
        lab.engine
            .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(&waits(&lab)))))
            .await
            .expect("taken");
        reach_the_slow_one(&lab, &workspace).await;
        kill_runs_in(lab.folder.path());
        let killed = lab.ended(&workspace).await;
        assert_eq!(reason(&killed), "Killed", "{killed:?}");
        // OpenTofu had not written its state yet: the first is then taken in again by the id that the stream told.
        fs::write(lab.path("gate"), "").expect("write");
        assert_eq!(lab.run("a", Operation::Apply, None).await.outcome, Outcome::Done);
        let made = trace(&lab.path("trace"));
        assert_eq!(made.iter().filter(|line| *line == "create first").count(), 1, "{made:?}");
        assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    }
}

/// Kills every process that carries the mark of a run in this folder; whether there was one.
pub fn kill_runs_in(folder: &Path) -> bool {
    let mut any = false;
    let folder = fs::canonicalize(folder).expect("a folder");
    let mark = format!("CAPT_RUN={}", folder.display());
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|byte| *byte == 0).any(|variable| variable.starts_with(mark.as_bytes())) {
            let pid = entry.file_name().into_string().expect("a number");
            // It may be gone by now.
            let killed = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
            any |= killed.is_ok_and(|status| status.success());
        }
    }
    any
}
