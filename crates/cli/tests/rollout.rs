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
fn a_summary_comes_first_and_a_moment_is_a_row() {
    let file = examples().join("rolling-update.yaml");
    let output = capt(&["-f", file.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("finishes in 6m45s: 3 machines created, 3 deleted; peak 4 "), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("1m30s ")).collect();
    let [row] = rows[..] else { panic!("{text}") };
    assert!(row.contains("4/4 (1 going)") && row.contains("3 >= 3"), "{row}");
    assert!(row.contains("3->2 (4 available, at least 3 must be)"), "{row}");

    let output = capt(&["-f", file.to_str().unwrap(), "-o", "steps"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let step = text.lines().find(|line| line.contains("3->2")).unwrap();
    assert!(step.contains("90s") && step.contains("4/4") && step.contains("4 >= 3"), "{step}");
    assert!(text.ends_with("at most 4 machines existed, at least 3 were available\n"), "{text}");

    let output = capt(&["-f", file.to_str().unwrap(), "--until", "2m"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("not finished: stopped after 2m (until)"), "{text}");
}

#[test]
fn from_one_version_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(examples().join("rolling-update.yaml")).unwrap();
    let old = text.split("---").next().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let old_file = file("old.yaml", old);
    let run = |new: &str, more: &[&str]| {
        let new = file("new.yaml", new);
        let output = capt(&[&["--from", &old_file, "--to", &new][..], more].concat());
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said)
    };
    let (code, said) = run(&old.replace("t3.medium", "t3.large"), &["--ready-after", "4m"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("finishes in 13m30s: 3 machines created, 3 deleted; peak 4 "), "{said}");
    let (_, said) = run(old, &[]);
    assert!(said.starts_with("nothing to do: 0 machines created"), "{said}");
    for (new, words) in [
        (old.replace("name: web", "name: other"), "two versions of one deployment"),
        (old.replace("app: web", "app: other"), "selector"),
        (
            old.replace("maxSurge: 1", "maxSurge: abc"),
            "new.yaml:16:7: error: CaptMachineDeployment web: spec.strategy.rollingUpdate.maxSurge",
        ),
    ] {
        let (code, said) = run(&new, &[]);
        assert!(code == Some(1) && said.contains(words), "{words}: {said}");
    }
}

/// What `capt validate` refuses is not simulated: today's numbers would be made up.
#[test]
fn input_is_checked_as_the_api_would() {
    let good = std::fs::read_to_string(examples().join("rolling-update.yaml")).unwrap();
    for (from, to, said) in [
        ("app: web\n  strategy", "app: other\n  strategy", "selector must match template.metadata.labels"),
        ("replicas: 3", "replicas: 1000000000", "spec.replicas"),
        ("maxSurge: 1", "maxSurge: abc", "spec.strategy.rollingUpdate.maxSurge"),
        ("maxSurge: 1", "maxSurg: 1", "did you mean maxSurge?"),
        (
            "          instanceType: t3.large",
            "          instanceTyp: t3.large",
            "at 0 s: spec.template.spec.instanceTyp: unknown field",
        ),
        ("readyAfter: 90", "readyAftr: 90", "readyAftr"),
        (
            "- at: 0\n  patch:",
            "- at: 0\n  scale: 1\n  patch:",
            "an event has `at` and one thing that happens",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let words = refused(&good.replace(from, to));
        assert!(words.contains(said), "{to}: {words}");
    }
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
    let deployment = "kind: CaptMachineDeployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  selector: {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {workspaceTemplateRef: {name: t}, nodeGroupRef: {name: g}, instanceType: a}}\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n---\n";
    for (text, said) in [
        ("", "exactly one CaptMachineDeployment; there are 0"),
        ("kind: Pod", "Pod: not a kind of a simulation"),
        ("a: [", "not YAML"),
        (
            &format!("{deployment}kind: RolloutSimulation\nuntill: 7d"),
            "scenario.yaml:10:1: error: untill: unknown field\n    help: did you mean until?",
        ),
        (
            &format!("{deployment}kind: RolloutSimulation\nsoon: true"),
            "scenario.yaml:10:1: error: soon: unknown field\n    help: known here: ",
        ),
        (
            &format!("{deployment}kind: RolloutSimulation\nevents: [{{at: 1, explode: {{}}}}]"),
            "scenario.yaml:10:18: error: events[0].explode: unknown field",
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
