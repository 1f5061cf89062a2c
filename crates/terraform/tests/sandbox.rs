//! Landlock around a run.

use std::{fs, time::Duration};

use capt_terraform::{
    Engine, Executor, Options,
    inputs::{Choice, Inputs},
    order::{Operation, Order, WorkspaceId},
    sandbox,
    view::{Finished, Outcome},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_sees_its_own_folder_only() {
    if capt_terraform::binary::find(&Choice::default()).is_err() {
        assert!(!capt_e2e::required(), "neither terraform nor tofu is installed");
        capt_e2e::skip("neither terraform nor tofu is installed");
        return;
    }
    // Not below the temporary folder of the system, which a run may use where the data folder lies deep.
    let lab = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let outside = lab.path().join("outside");
    fs::write(&outside, "a secret of somebody else").expect("write");
    let mut options = Options::new(lab.path().join("data"));
    options.guard = env!("CARGO_BIN_EXE_capt-guard").into();
    options.sandbox = true;
    let engine = Engine::start(options).await.expect("starts");

    let inside = apply(
        &engine,
        "inside",
        "echo x > here; cat here main.tf /etc/passwd > /dev/null; echo y > $TMPDIR/z",
    )
    .await;
    assert_eq!(inside.outcome, Outcome::Done, "its own folder, scratch and the system: {inside:?}");
    if !sandbox::available() {
        capt_e2e::skip("the kernel has no Landlock");
        return;
    }
    let attempts = [
        format!("cat {}", outside.display()),
        format!("echo x > {}", lab.path().join("new").display()),
        format!("ls {}", lab.path().join("data/workspaces").display()),
        format!("cat {}/data/workspaces/inside-*/record.json", lab.path().display()),
    ];
    for (at, attempt) in attempts.iter().enumerate() {
        let shut = apply(&engine, &format!("w{at}"), attempt).await;
        let Outcome::Failed(failure) = &shut.outcome else { panic!("{attempt}: {shut:?}") };
        assert_eq!(failure.reason.as_str(), "ApplyFailed", "{attempt}: {failure:?}");
    }
    assert!(!lab.path().join("new").exists());
    engine.stop().await;
}

async fn apply(engine: &Engine, name: &str, command: &str) -> Finished {
    let text = format!(
        "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = {}\n  }}\n}}\n",
        serde_json::to_string(command).expect("text")
    );
    let workspace = WorkspaceId::new(name);
    let mut changes = engine.changes();
    engine
        .start_run(Order::new(workspace.clone(), Operation::Apply, Some(Inputs::inline(text))))
        .await
        .expect("taken");
    loop {
        let view = engine.observe(&workspace);
        if let (None, Some(last)) = (view.run, view.last) {
            return last;
        }
        // Lagging is fine: the view is looked at again in any case.
        let _ = tokio::time::timeout(Duration::from_secs(1), changes.recv()).await;
    }
}
