//! The rules of the CRDs for arguments and environment variables, and the engine's own: the same verdict on each.

use capt_terraform::inputs::allowed::{self, ALLOWED_ENV, Command, REFUSED_ENV};
use serde_json::json;

use crate::cases::{Case, Expected, Verdict};
use crate::offline;

/// Names that a pattern stands for, and some beside it.
fn names() -> Vec<String> {
    let patterns = REFUSED_ENV.iter().map(|(pattern, _)| *pattern).chain(ALLOWED_ENV.iter().copied());
    let mut names: Vec<String> = patterns
        .flat_map(|pattern| {
            let start = pattern.trim_end_matches('*');
            [start.to_owned(), format!("{start}X"), format!("X{start}"), start.to_lowercase()]
        })
        .collect();
    names.extend(["AWS_REGION", "HTTPS_PROXY", "TF", "GIT", "TFX", "1A", "A-B", "A"].map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

/// Every argument that some command allows, in good and bad forms, and some that none does.
fn arguments() -> Vec<String> {
    let allowed = Command::ALL.into_iter().flat_map(Command::allowed).map(|argument| argument.name);
    let known = [
        "help",
        "h",
        "version",
        "state",
        "lock",
        "target",
        "var",
        "var-file",
        "out",
        "json",
        "chdir",
        "plugin-dir",
    ];
    let values = [
        "",
        "=",
        "=true",
        "=false",
        "=TRUE",
        "=1",
        "=0",
        "=20",
        "=99999",
        "=60s",
        "=1h",
        "=5",
        "=s",
        "=k=v",
        "=k=",
        "=/a=b",
        "=/etc/passwd",
        "=a.b-c=d e",
        " true",
        "=true ",
        "=60s\n",
        "=k=a\nb",
        "=k=a\0b",
        "=k=a\u{1b}b",
        "=k=a\u{202e}b",
        "=999999999999h",
        "=99h",
        "=100h",
        "=100000s",
        "=100000000ms",
    ];
    let mut all = vec![String::new(), "-".into(), "--".into(), "a.b".into(), "5".into()];
    for name in allowed.chain(known) {
        for dashes in ["-", "--", "---", ""] {
            all.extend(values.iter().map(|value| format!("{dashes}{name}{value}")));
        }
    }
    all.sort();
    all.dedup();
    all
}

fn case(name: &str, field: &str, value: &serde_json::Value) -> Case {
    let new = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate", "metadata": {"name": "demo"},
        "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": "locals {}", field: [value]}}}},
    });
    Case { file: "engine".into(), name: name.into(), old: None, new, expected: Expected::Accept }
}

fn assert_agree(cases: &[Case], engine: &[bool]) {
    let verdicts = offline::verdicts(cases);
    let differ: Vec<String> = (cases.iter().zip(&verdicts).zip(engine))
        .filter(|((_, verdict), engine)| (**verdict == Verdict::Accepted) != **engine)
        .map(|((case, verdict), engine)| {
            format!("{:?}: the engine allows it: {engine}, {verdict:?}", case.name)
        })
        .collect();
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn the_engine_refuses_the_same_arguments() {
    let (mut cases, mut engine) = (Vec::new(), Vec::new());
    for command in Command::ALL {
        for text in arguments() {
            let field = format!("{}Args", command.as_str());
            engine.push(allowed::argument(command, &text).is_ok());
            cases.push(case(&format!("{field} {text}"), &field, &json!(text)));
        }
    }
    assert!(engine.iter().any(|allowed| *allowed) && cases.len() > 1000);
    assert_agree(&cases, &engine);
}

#[test]
fn the_engine_refuses_the_same_environment() {
    let names = names();
    let engine: Vec<bool> = names.iter().map(|name| allowed::environment(name).is_ok()).collect();
    let cases: Vec<Case> =
        names.iter().map(|name| case(name, "env", &json!({"name": name, "value": "x"}))).collect();
    assert_agree(&cases, &engine);
    let values = ["", "x", "a\nb\tc", "a\0b", "\0", "a\u{1b}b"];
    let engine = values.map(|value| allowed::environment_value(value).is_ok());
    let cases = values.map(|value| case(value, "env", &json!({"name": "A", "value": value})));
    assert_agree(&cases, &engine);
}
