//! Bad modules, bad values, bad binaries: each has a reason, and disturbs nobody else.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use capt_terraform::{
    failure::Failure,
    inputs::{BinaryName, Choice, Variable},
    module::Module,
    order::Operation,
    view::Outcome,
};
use serde_json::json;

use crate::lab::{Lab, Tool, reason, tool, tools};

/// Writes a program. A process of its own does: had this one the file open for writing, one that another test starts at that
/// moment would have it open, too, and nothing that is open for writing can be run.
pub fn program(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("starts");
    writer.stdin.take().expect("piped").write_all(text.as_bytes()).expect("write");
    assert!(writer.wait().expect("ends").success());
}

fn failure(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => failure,
        other => panic!("did not fail: {other:?}"),
    }
}

#[tokio::test]
async fn bad_modules_say_what_and_where() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let cases = [
            ("broken", "resource \"terraform_data\" \"a\" {\n  input = \n}\n", "InvalidModule", Some(2)),
            ("unknown", "output \"x\" {\n  value = var.nothing\n}\n", "InvalidModule", Some(2)),
            (
                "missing",
                "variable \"must\" {}\noutput \"x\" {\n  value = var.must\n}\n",
                "MissingVariable",
                Some(1),
            ),
            ("nosource", "module \"m\" {\n  source = \"/does/not/exist\"\n}\n", "ModuleNotFound", None),
        ];
        for (name, text, expected, line) in cases {
            let failed = failure(lab.apply(name, lab.inputs(text)).await.outcome);
            assert_eq!(failed.reason.as_str(), expected, "{name}: {failed:?}");
            if line.is_some() {
                assert_eq!(
                    (failed.file.as_deref(), failed.line),
                    (Some("main.tf"), line),
                    "{name}: {failed:?}"
                );
            }
        }
        let mut wrong =
            lab.inputs("variable \"n\" {\n  type = number\n}\noutput \"x\" {\n  value = var.n\n}\n");
        wrong.variables.insert("n".into(), Variable::from(json!({"not": "a number"})));
        assert_eq!(reason(&lab.apply("wrong", wrong).await), "InvalidVariable");
        let mut bad = lab.inputs("output \"x\" { value = 1 }");
        bad.module = Module::Source { source: "/does/not/exist".into(), version: None, entrypoint: None };
        assert_eq!(reason(&lab.apply("gone", bad).await), "ModuleNotFound");
        assert_eq!(lab.apply("good", lab.traced("good")).await.outcome, Outcome::Done, "undisturbed");
    }
}

#[tokio::test]
async fn odd_names_and_large_modules_are_fine() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        for name in ["../../etc", "日本/語", "a b\n\"'$(touch x)", &"x".repeat(5000)] {
            assert_eq!(
                lab.apply(name, lab.inputs("output \"x\" { value = 1 }")).await.outcome,
                Outcome::Done
            );
        }
        let large = format!(
            "output \"x\" {{\n  value = 1\n}}\n{}",
            "# a comment that goes on and on and on\n".repeat(130_000)
        );
        assert_eq!(lab.apply("large", lab.inputs(&large)).await.outcome, Outcome::Done);
    }
}

#[tokio::test]
async fn bad_binaries_are_told_apart() {
    let cases = [
        ("old", "echo '{\"terraform_version\":\"1.4.6\"}'", "BinaryTooOld"),
        ("garbage", "echo hello", "BinaryBroken"),
        ("silent", "exit 3", "BinaryBroken"),
        ("hanging", "sleep 600", "BinaryBroken"),
        ("odd", "echo '{\"terraform_version\":\"yes\"}'", "BinaryBroken"),
    ];
    for (name, text, expected) in cases {
        let bin = tempfile::tempdir().expect("a folder");
        program(&bin.path().join("terraform"), &format!("#!/bin/sh\n{text}\n"));
        let path =
            std::env::join_paths([bin.path(), Path::new("/bin"), Path::new("/usr/bin")]).expect("a path");
        let tool = Tool { name: BinaryName::Terraform, path };
        // Only one of them takes for ever.
        let patience = if name == "hanging" { Duration::from_millis(500) } else { crate::lab::PATIENCE };
        let lab = Lab::with(&tool, |options| options.version_timeout = patience).await;
        let failed = lab.apply("a", lab.inputs("output \"x\" { value = 1 }")).await;
        assert_eq!(reason(&failed), expected, "{name}: {failed:?}");
        assert!(lab.engine.revision(&lab.inputs("")).is_err());
    }
    let lab = Lab::new(&Tool { name: BinaryName::Auto, path: "/nowhere".into() }).await;
    assert_eq!(reason(&lab.apply("a", lab.inputs("output \"x\" { value = 1 }")).await), "BinaryNotFound");
    // What is no program at all.
    let bin = tempfile::tempdir().expect("a folder");
    program(&bin.path().join("terraform"), "\u{0}\u{1}ELF no more");
    let lab = Lab::new(&Tool { name: BinaryName::Terraform, path: bin.path().into() }).await;
    assert_eq!(reason(&lab.apply("a", lab.inputs("output \"x\" { value = 1 }")).await), "BinaryBroken");
}

#[tokio::test]
async fn versions_can_be_asked_for() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let choose = |constraint: &str| Choice { name: tool.name, constraint: Some(constraint.into()) };
    assert!(lab.engine.binary(&choose(">= 1.5, < 99")).is_ok());
    for constraint in ["> 99", "nonsense"] {
        assert!(lab.engine.binary(&choose(constraint)).is_err(), "{constraint}");
    }
}

#[tokio::test]
async fn a_state_that_cannot_be_read_stops_everything() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    lab.apply("a", lab.traced("a")).await;
    let state = lab.folder_of("a").join("state/terraform.tfstate");
    fs::write(&state, "{ \"version\": 9 }").expect("write");
    for operation in [Operation::Apply, Operation::Destroy, Operation::Plan] {
        assert_eq!(reason(&lab.run("a", operation, None).await), "StateUnreadable");
    }
    assert_eq!(lab.trace(), ["create a"], "nothing was made twice");
}

#[tokio::test]
async fn files_go_where_they_may_only() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    for name in ["../out", "/abs", "", "main.tf", "x.auto.tfvars", "a/../../b"] {
        let mut inputs = lab.traced("a");
        inputs.files.insert(name.into(), b"x".to_vec());
        assert_eq!(reason(&lab.apply("a", inputs).await), "InvalidVariable", "{name}");
    }
}
