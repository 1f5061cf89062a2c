//! `capt rollout simulate` on its examples, and on what makes no sense.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rollouts")
}

fn capt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_capt")).args(["rollout", "simulate"]).args(arguments).output().unwrap()
}

fn refused(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.yaml");
    std::fs::write(&file, text).unwrap();
    let output = capt(&["-f", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn every_example_ends_ready_within_its_bounds() {
    let mut seen = 0;
    for entry in std::fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        let output = capt(&["-f", path.to_str().unwrap(), "-o", "json"]);
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["violations"], serde_json::json!([]), "{}", path.display());
        assert_eq!(report["end"]["ready"], true, "{}: {}", path.display(), report["end"]);
        assert!(report["steps"].as_array().unwrap().len() > 5, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 4, "the examples are gone");
}

#[test]
fn a_step_says_when_why_and_how_many() {
    let file = examples().join("rolling-update.yaml");
    let output = capt(&["-f", file.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    let step = text.lines().find(|line| line.contains("3->2")).unwrap();
    assert!(step.contains("90s") && step.contains("4/4") && step.contains("4 >= 3"), "{step}");
    assert!(step.contains("4 available, at least 3 must be"), "{step}");
    assert!(text.ends_with("at most 4 machines existed, at least 3 were available\n"), "{text}");
}

#[test]
fn a_programs_report_has_the_reason_as_data() {
    let file = examples().join("rolling-update.yaml");
    let output = capt(&["-f", file.to_str().unwrap(), "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let step = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|step| step["action"]["action"] == "ChangeSet")
        .unwrap();
    assert_eq!(step["action"]["reasons"][0]["reason"], "Replaced");
    assert_eq!(step["action"]["reasons"][0]["minAvailable"], 3);
    assert_eq!(step["counts"]["ceiling"], 4);
}

#[test]
fn nonsense_is_named() {
    let deployment = "kind: CaptMachineDeployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  selector: {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {workspaceTemplateRef: {name: t}}}\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n---\n";
    for (text, said) in [
        ("", "exactly one CaptMachineDeployment; there are 0"),
        ("kind: Pod", "Pod: not a kind of a simulation"),
        ("a: [", "not YAML"),
        (&format!("{deployment}kind: RolloutSimulation\nsoon: true"), "unknown field `soon`"),
        (
            &format!("{deployment}kind: RolloutSimulation\nevents: [{{at: 1, explode: {{}}}}]"),
            "RolloutSimulation: ",
        ),
        (
            &format!("{deployment}kind: RolloutSimulation\nevents: [{{at: 1, fail: {{name: x}}}}]"),
            "at 1 s: no machine",
        ),
        (&format!("{deployment}kind: RolloutSimulation\nevents: [{{at: 1, undo: 7}}]"), "no revision 7"),
        (&format!("{deployment}{deployment}"), "there are 2"),
    ] {
        let words = refused(text);
        assert!(words.contains(said), "{text}: {words}");
    }
}
