//! Damaged states, records and folders: nothing that is damaged is taken for empty.

use std::{fs, path::Path, sync::Arc};

use capt_terraform::{
    Executor, WorkspaceStore,
    inputs::Backend,
    order::{Operation, Order, WorkspaceId},
    state::State,
    view::Outcome,
};

use crate::{
    lab::{Lab, PATIENCE, reason, tool},
    takeover::Shared,
};

const STATE: &str = "state/terraform.tfstate";

/// Damages the state of a workspace with one resource, and shows that no run goes on, before and after a restart, until the last good
/// copy is restored.
async fn stops_everything(name: &str, expected: &str, damage: impl Fn(&Path)) {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    assert_eq!(lab.apply("a", lab.traced("a")).await.outcome, Outcome::Done);
    damage(&lab.folder_of("a").join(STATE));
    for operation in [Operation::Apply, Operation::Plan, Operation::Refresh, Operation::Destroy] {
        let refused = lab.run("a", operation.clone(), Some(lab.traced("a"))).await;
        assert_eq!(reason(&refused), expected, "{name}: {operation:?}");
    }
    let lab = lab.restart().await;
    let view = lab.look("a");
    assert_eq!(view.trouble.expect("told at once").reason.as_str(), expected, "{name}");
    assert!(view.touched, "{name}: not taken for one that was never applied");
    assert_eq!(lab.trace(), ["create a"], "{name}: nothing was made twice");

    let id = WorkspaceId::new("a");
    Box::pin(lab.engine.restore_state(&id, Some(4711))).await.expect_err("there is no such copy");
    Box::pin(lab.engine.restore_state(&id, None)).await.expect("restored");
    assert!(lab.look("a").trouble.is_none());
    assert_eq!(lab.apply("a", lab.traced("a")).await.outcome, Outcome::Done, "{name}");
    assert_eq!(lab.trace(), ["create a"], "{name}: what exists is known again");
    assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done, "{name}");
    assert_eq!(lab.trace(), ["create a", "destroy a"], "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_gone_is_not_an_empty_one() {
    stops_everything("removed", "StateLost", |state| fs::remove_file(state).expect("removed")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_cut_is_not_an_empty_one() {
    stops_everything("empty", "StateDamaged", |state| fs::write(state, "").expect("written")).await;
    stops_everything("half", "StateDamaged", |state| {
        let bytes = fs::read(state).expect("a state");
        fs::write(state, &bytes[..bytes.len() / 2]).expect("written");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_was_altered_is_not_the_one_that_is_known() {
    let alter = |from: &'static str, to: &'static str| {
        move |state: &Path| {
            let text = fs::read_to_string(state).expect("a state");
            assert!(text.contains(from), "{text}");
            fs::write(state, text.replacen(from, to, 1)).expect("written");
        }
    };
    stops_everything("lineage", "StateDamaged", alter("\"lineage\": \"", "\"lineage\": \"f")).await;
    stops_everything("one letter", "StateDamaged", alter("terraform_data", "terraform_date")).await;
    stops_everything("never applied", "StateDamaged", |state| {
        let empty = r#"{"version":4,"terraform_version":"1.11.4","serial":0,"lineage":"","outputs":{},"resources":[]}"#;
        fs::write(state, empty).expect("written");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_stops_everything_and_is_told() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    assert_eq!(lab.apply("a", lab.traced("a")).await.outcome, Outcome::Done);
    let record = lab.folder_of("a").join("record.json");
    let whole = fs::read(&record).expect("a record");
    // Cut, empty, no JSON, and one bit in the middle of a text: JSON as before, and another record.
    let mut flipped = whole.clone();
    let at = whole.windows(6).position(|window| window == b"create").expect("the module's text");
    flipped[at] ^= 1;
    // And that of another workspace.
    assert_eq!(lab.apply("b", lab.inputs("")).await.outcome, Outcome::Done);
    let other = fs::read(lab.folder_of("b").join("record.json")).expect("a record");
    for damaged in [&whole[..whole.len() / 2], b"", b"null", flipped.as_slice(), &other] {
        fs::write(&record, damaged).expect("written");
        assert_eq!(reason(&lab.run("a", Operation::Apply, Some(lab.traced("a"))).await), "RecordDamaged");
    }
    let mut lab = lab.restart().await;
    for folder in [false, true] {
        if folder {
            // No record at all can be read from it.
            fs::remove_file(&record).expect("removed");
            fs::create_dir(&record).expect("made");
            lab = lab.restart().await;
        }
        let view = lab.engine.adopt(&WorkspaceId::new("a")).await.expect("opened");
        assert_eq!(view.trouble.expect("told").reason.as_str(), "RecordDamaged", "{folder}");
        assert!(view.touched);
    }
    Box::pin(lab.engine.restore_state(&WorkspaceId::new("a"), None))
        .await
        .expect_err("its inputs are not known");
    fs::remove_dir(&record).expect("removed");
    fs::write(&record, &other).expect("written");
    assert_eq!(reason(&lab.run("a", Operation::Destroy, None).await), "RecordDamaged");
    fs::write(&record, &whole).expect("written");
    assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    assert_eq!(lab.trace(), ["create a", "destroy a"]);
}

/// A state that a person worked on with Terraform is newer than the record knows, and of its lineage: it counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_state_of_the_same_lineage_is_fine() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    lab.apply("a", lab.traced("a")).await;
    let path = lab.folder_of("a").join(STATE);
    let mut state: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("a state")).expect("JSON");
    state["serial"] = (state["serial"].as_u64().expect("a number") + 7).into();
    fs::write(&path, state.to_string()).expect("written");
    assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    assert_eq!(lab.trace(), ["create a", "destroy a"]);
}

/// A run that changed something and left no state of it is no success: the next one would make it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_state_is_no_success() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let text = r#"
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "rm -f ../state/terraform.tfstate"
  }
}
"#;
    let done = lab.apply("a", lab.inputs(text)).await;
    assert_eq!(reason(&done), "StateDamaged", "{done:?}");
    assert!(lab.look("a").touched, "it is not let go without a word");
    // Nor by another process, which has only the record to go by.
    let lab = lab.restart().await;
    let view = lab.engine.adopt(&WorkspaceId::new("a")).await.expect("opened");
    assert_eq!(view.trouble.expect("told").reason.as_str(), "StateDamaged");
    for (operation, inputs) in [(Operation::Destroy, None), (Operation::Apply, Some(lab.inputs(text)))] {
        let refused = lab.run("a", operation, inputs).await;
        assert_eq!(reason(&refused), "StateDamaged", "{refused:?}");
    }
    // Until somebody gives a state.
    let given = r#"{"version":4,"terraform_version":"1.9.0","serial":1,"lineage":"given","outputs":{},"resources":[]}"#;
    lab.engine.import_state(&WorkspaceId::new("a"), given.as_bytes()).await.expect("taken");
    let done = lab.run("a", Operation::Destroy, None).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
}

/// What a failed run told is imported before it is destroyed, also where no state is left of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_state_tells_of_is_destroyed_all_the_same() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let text = r#"
resource "terraform_data" "first" {
  provisioner "local-exec" {
    command = "rm -f ../state/terraform.tfstate"
  }
}
resource "terraform_data" "second" {
  depends_on = [terraform_data.first]
}
resource "terraform_data" "last" {
  depends_on = [terraform_data.second]
  provisioner "local-exec" {
    command = "exit 1"
  }
}
"#;
    let failed = lab.apply("a", lab.inputs(text)).await;
    assert!(matches!(failed.outcome, Outcome::Failed(_)), "{failed:?}");
    let done = lab.run("a", Operation::Destroy, None).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
}

/// A file in the folder of the run is where a state is anyway: it is the state of record, and not something that a run planted.
#[tokio::test(flavor = "multi_thread")]
async fn a_local_backend_is_no_backend() {
    let Some(tool) = tool() else { return };
    for block in ["backend \"local\" {}", "backend \"local\" {\n  path = \"mine.tfstate\"\n}"] {
        let lab = Lab::new(&tool).await;
        let mut inputs = lab.traced("a");
        inputs.backend = Backend::Hcl(block.to_owned());
        for note in ["one", "two", "three"] {
            inputs.variables.insert("note".into(), note.into());
            let done = lab.apply("a", inputs.clone()).await;
            assert_eq!(done.outcome, Outcome::Done, "{block}: {done:?}");
        }
        assert_eq!(lab.trace(), ["create a"], "{block}");
        assert!(lab.folder_of("a").join(STATE).exists(), "{block}");
        assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done, "{block}");
        assert_eq!(lab.trace(), ["create a", "destroy a"], "{block}");
    }
}

/// A state that is gone from its backend, and a backend that comes to a workspace that stands.
#[tokio::test(flavor = "multi_thread")]
async fn a_backend_without_the_state_is_not_an_empty_one() {
    let Some(tool) = tool() else { return };
    for begins_there in [true, false] {
        let lab = Lab::new(&tool).await;
        let elsewhere = lab.path("elsewhere.tfstate");
        let there = Backend::Hcl(format!("backend \"local\" {{\n  path = \"{}\"\n}}", elsewhere.display()));
        let mut inputs = lab.traced("a");
        if begins_there {
            inputs.backend = there.clone();
        }
        assert_eq!(lab.apply("a", inputs.clone()).await.outcome, Outcome::Done);
        let aside = elsewhere.with_extension("aside");
        if begins_there {
            fs::rename(&elsewhere, &aside).expect("renamed");
        }
        inputs.backend = there;
        inputs.variables.insert("note".into(), "x".into());
        for operation in [Operation::Apply, Operation::Plan, Operation::Destroy] {
            let refused = lab.run("a", operation.clone(), Some(inputs.clone())).await;
            // What is destroyed is where the last apply left it.
            if begins_there || operation != Operation::Destroy {
                assert_eq!(reason(&refused), "StateLost", "{begins_there} {operation:?}: {refused:?}");
                assert_eq!(lab.trace(), ["create a"]);
            }
        }
        if begins_there {
            fs::rename(&aside, &elsewhere).expect("renamed");
            assert_eq!(lab.apply("a", inputs).await.outcome, Outcome::Done);
            assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
        }
        assert_eq!(lab.trace(), ["create a", "destroy a"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_removed_is_not_an_empty_one() {
    let Some(tool) = tool() else { return };
    for whole in [true, false] {
        let lab = Lab::new(&tool).await;
        assert_eq!(lab.apply("a", lab.traced("a")).await.outcome, Outcome::Done);
        let removed = if whole { lab.folder_of("a") } else { lab.folder_of("a").join("record.json") };
        fs::rename(&removed, lab.path("aside")).expect("renamed");
        let id = WorkspaceId::new("a");
        for operation in [Operation::Apply, Operation::Destroy, Operation::Plan, Operation::Destroy] {
            let refused = lab.run("a", operation.clone(), Some(lab.traced("a"))).await;
            assert_eq!(reason(&refused), "StateLost", "{whole} {operation:?}: {refused:?}");
            let view = lab.engine.adopt(&id).await.expect("opened");
            assert_eq!(view.trouble.expect("told").reason.as_str(), "StateLost");
            assert!(view.touched, "it is not let go without a word");
        }
        assert_eq!(lab.trace(), ["create a"]);
        if whole {
            clear_away(&removed);
        }
        fs::rename(lab.path("aside"), &removed).expect("renamed");
        assert!(lab.engine.adopt(&id).await.expect("opened").trouble.is_none(), "it is back");
        assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
        assert_eq!(lab.trace(), ["create a", "destroy a"]);
    }
}

/// Leftovers of refused runs in the place of a folder.
fn clear_away(folder: &Path) {
    assert!(!folder.join("record.json").exists(), "nothing says that nothing was built");
    if folder.exists() {
        fs::remove_dir_all(folder).expect("removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_folder_comes_back_from_the_keeper() {
    let Some(tool) = tool() else { return };
    for operation in [Operation::Apply, Operation::Destroy] {
        let state_backend = Arc::new(Shared::default());
        let lab = Lab::with(&tool, state_backend.options()).await;
        assert_eq!(lab.apply("a", lab.traced("a")).await.outcome, Outcome::Done);
        fs::remove_dir_all(lab.folder_of("a")).expect("removed");
        let mut inputs = lab.traced("a");
        inputs.variables.insert("note".into(), "x".into());
        let done = lab.run("a", operation.clone(), Some(inputs)).await;
        assert_eq!(done.outcome, Outcome::Done, "{done:?}");
        let expected: &[&str] =
            if operation == Operation::Apply { &["create a"] } else { &["create a", "destroy a"] };
        assert_eq!(lab.trace(), expected);
        // Gone there as well, it is lost.
        if operation == Operation::Apply {
            fs::remove_dir_all(lab.folder_of("a")).expect("removed");
            state_backend.kept.lock().expect("lock").clear();
            assert_eq!(reason(&lab.run("a", Operation::Destroy, None).await), "StateLost");
            assert_eq!(lab.trace(), expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_folder_is_found_in_the_backend() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let elsewhere = lab.path("elsewhere.tfstate");
    let mut inputs = lab.traced("a");
    inputs.backend = Backend::Hcl(format!("backend \"local\" {{\n  path = \"{}\"\n}}", elsewhere.display()));
    assert_eq!(lab.apply("a", inputs.clone()).await.outcome, Outcome::Done);
    inputs.variables.insert("note".into(), "x".into());
    fs::remove_dir_all(lab.folder_of("a")).expect("removed");
    let done = lab.apply("a", inputs.clone()).await;
    assert_eq!(done.outcome, Outcome::Done, "{done:?}");
    // Nor is it there.
    fs::remove_dir_all(lab.folder_of("a")).expect("removed");
    fs::rename(&elsewhere, lab.path("aside")).expect("renamed");
    for operation in [Operation::Apply, Operation::Destroy, Operation::Apply] {
        let refused = lab.run("a", operation.clone(), Some(inputs.clone())).await;
        assert_eq!(reason(&refused), "StateLost", "{operation:?}: {refused:?}");
    }
    assert_eq!(lab.trace(), ["create a"]);
    fs::rename(lab.path("aside"), &elsewhere).expect("renamed");
    assert_eq!(lab.run("a", Operation::Destroy, Some(inputs)).await.outcome, Outcome::Done);
    assert_eq!(lab.trace(), ["create a", "destroy a"]);
}

/// In the middle of a run.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_made_is_not_made_again_where_its_folder_was_removed() {
    let Some(tool) = tool() else { return };
    for kept in [false, true] {
        let state_backend = Arc::new(Shared::default());
        let lab = Lab::with(&tool, |options| {
            if kept {
                state_backend.options()(options);
            }
        })
        .await;
        let (gate, trace) = (lab.path("gate"), lab.path("trace"));
        let text = format!(
            "resource \"terraform_data\" \"first\" {{\n  provisioner \"local-exec\" {{\n    command = \"echo create first >> {}\"\n  }}\n}}\n\
             resource \"terraform_data\" \"slow\" {{\n  depends_on = [terraform_data.first]\n  provisioner \"local-exec\" {{\n    \
             command = \"until [ -e {} ]; do sleep 0.05; done\"\n  }}\n}}\n",
            trace.display(),
            gate.display()
        );
        let workspace = WorkspaceId::new("a");
        lab.engine
            .start_run(Order::new(workspace.clone(), Operation::Apply, Some(lab.inputs(&text))))
            .await
            .expect("taken");
        let saved = |bytes: &[u8]| State::read(bytes).is_ok_and(|state| !state.resources.is_empty());
        let made = async || {
            let there = if kept { saved(&state_backend.get()?.state) } else { !lab.trace().is_empty() };
            there.then_some(())
        };
        capt_e2e::until("the first is made", PATIENCE, made).await.expect("made");
        fs::remove_dir_all(lab.folder_of("a")).expect("removed");
        fs::write(&gate, "").expect("written");
        let ended = lab.ended(&workspace).await;
        assert!(matches!(ended.outcome, Outcome::Failed(_)), "{ended:?}");
        let next = lab.apply("a", lab.inputs(&text)).await;
        if kept {
            assert_eq!(next.outcome, Outcome::Done, "{next:?}");
        } else {
            assert_eq!(reason(&ended), "StateLost", "{ended:?}");
            assert_eq!(reason(&next), "StateLost", "{next:?}");
            assert_eq!(reason(&lab.run("a", Operation::Destroy, None).await), "StateLost");
        }
        assert_eq!(lab.trace(), ["create first"], "{kept}");
        if !kept {
            // It is so after a restart, too.
            let lab = lab.restart().await;
            assert_eq!(reason(&lab.apply("a", lab.inputs(&text)).await), "StateLost");
            assert_eq!(lab.trace(), ["create first"]);
        }
    }
}
