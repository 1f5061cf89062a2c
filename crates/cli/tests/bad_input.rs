//! Whatever is handed to `capt validate`: one clear error with a place, and no panic.

use std::io::Write;
use std::process::{Command, Stdio};

struct Said {
    code: i32,
    out: String,
}

fn validate(arguments: &[&str], input: &[u8]) -> Said {
    let mut child = Command::new(env!("CARGO_BIN_EXE_capt"))
        .arg("validate")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("capt runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // capt may have seen enough before it has read all.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("capt ends");
    writer.join().expect("the writer ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    Said {
        code: output.status.code().expect("an exit code"),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
    }
}

const GOOD: &str = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplateApply\nmetadata: {name: a}\nspec: {templateRef: {name: t}}\n";

#[test]
fn each_mistake_gets_one_error_with_a_place() {
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "text",
            b"just words".to_vec(),
            "standard input:1:1: error: a manifest is a map with apiVersion and kind, this is a string\n",
        ),
        (
            "a list",
            b"- a\n- b\n".to_vec(),
            "standard input:1:1: error: a manifest is a map with apiVersion and kind, this is a list\n",
        ),
        (
            "a number",
            b"42\n".to_vec(),
            "standard input:1:1: error: a manifest is a map with apiVersion and kind, this is a number\n",
        ),
        ("not YAML", b"a: [1, 2\nb: }\n".to_vec(), "standard input:2:"),
        (
            "not text",
            b"kind: \xff\xfe\n".to_vec(),
            "standard input:1:7: error: is not text: byte 7 of the file is not UTF-8\n",
        ),
        ("nothing", b"# nothing\n---\n".to_vec(), "standard input: error: holds no object\n"),
        (
            "no kind",
            b"apiVersion: v1\nmetadata: {}\n".to_vec(),
            "standard input:1:1: error: kind is missing: a manifest is a map with apiVersion and kind\n",
        ),
        (
            "a kind that is no text",
            b"apiVersion: v1\nkind: [a]\n".to_vec(),
            "standard input:2:7: error: kind is text, for example CaptMachineDeployment\n",
        ),
        (
            "an unknown kind",
            b"apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: CaptMachineDeploymnt\n".to_vec(),
            "standard input:2:7: error: there is no kind CaptMachineDeploymnt in infrastructure.cluster.x-k8s.io/v1beta1\n    help: did you mean CaptMachineDeployment?\n",
        ),
        (
            "a kind of nobody",
            b"apiVersion: v1\nkind: Sekret\n".to_vec(),
            "standard input:2:7: error: there is no kind Sekret in v1\n    help: did you mean Secret?\n",
        ),
        (
            "a kind of another group",
            b"apiVersion: apps/v1\nkind: CaptMachine\n".to_vec(),
            "standard input:1:13: error: there is no CaptMachine in apps/v1\n    help: write apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n",
        ),
        (
            "two documents, one bad",
            format!("{GOOD}---\nkind: [\n").into_bytes(),
            "1 error: 1 object checked in 1 file\n",
        ),
        (
            "two documents, one bad first",
            format!("kind: [\n---\n{GOOD}").into_bytes(),
            "1 error: 1 object checked in 1 file\n",
        ),
        (
            "10 MB of one letter",
            vec![b'a'; 10_000_000],
            "standard input:1:1: error: a manifest is a map with apiVersion and kind, this is a string\n",
        ),
        (
            "10 MB of brackets",
            vec![b'['; 10_000_000],
            "standard input:1:256: error: not YAML: recursion limit exceeded\n",
        ),
        ("10 MB of braces and colons", b"{a: ".repeat(2_500_000), "not YAML: recursion limit exceeded\n"),
        ("10 MB of zeros", vec![0; 10_000_000], "standard input:1:1: error: not YAML: "),
        ("10 MB of list", b"- x\n".repeat(2_500_000), "error: "),
        (
            "10 MB of keys",
            (0..600_000).flat_map(|n| format!("key-{n}: v\n").into_bytes()).collect(),
            "error: ",
        ),
        (
            "33 MB",
            vec![b'a'; 33 * 1024 * 1024],
            "standard input: error: is larger than 32 MiB: not a manifest\n",
        ),
    ];
    for (name, input, expected) in rows {
        let said = validate(&["-f", "-"], &input);
        let shown: String = said.out.chars().take(2000).collect();
        assert!(said.out.contains(expected), "{name}: {shown}");
        assert_eq!(said.code, 1, "{name}: {shown}");
        assert_eq!(said.out.matches(": error: ").count(), 1, "{name}: {shown}");
    }
}

#[test]
fn files_that_are_not_there_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.yaml");
    let said = validate(&["-f", missing.to_str().expect("text")], b"");
    assert_eq!(said.code, 1);
    assert!(
        said.out.contains("missing.yaml: error: cannot be read: No such file or directory"),
        "{}",
        said.out
    );
    let said = validate(&["-f", folder.path().to_str().expect("text")], b"");
    assert_eq!(said.code, 1);
    assert!(said.out.contains("error: has no *.yaml, *.yml or *.json file"), "{}", said.out);
    assert_eq!(validate(&[], b"").code, 2, "no file at all is wrong usage");
}

#[test]
fn mistakes_in_a_manifest_have_line_field_and_a_suggestion() {
    let manifest = "\
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CaptMachineDeployment
metadata:
  name: workers
  lables: {a: b}
spec:
  replica: 3
  selector:
    matchLabels: {role: worker}
  strategy:
    type: Rolling
  template:
    metadata:
      labels: {role: worker}
    spec:
      workspaceTemplateRef: {name: machine}
      nodeGroupRef: {name: workers}
      instanceType: 3
";
    let said = validate(&["-f", "-"], manifest.as_bytes());
    let expected = "\
standard input:5:3: error: CaptMachineDeployment workers: metadata.lables: unknown field
    help: did you mean labels?
standard input:7:3: error: CaptMachineDeployment workers: spec.replica: unknown field
    help: did you mean replicas?
standard input:11:5: error: CaptMachineDeployment workers: spec.strategy.type: Unsupported value: \"Rolling\": supported values: \"RollingUpdate\", \"Recreate\", \"OnDelete\"
standard input:18:7: error: CaptMachineDeployment workers: spec.template.spec.instanceType: Invalid value: \"integer\": spec.template.spec.instanceType in body must be of type string: \"integer\"
    help: put it in quotes: \"3\"
4 errors: 1 object checked in 1 file; more may show once these are fixed
";
    assert_eq!(said.out, expected);
    assert_eq!(said.code, 1);
}

#[test]
fn what_a_schema_cannot_say_is_checked_too() {
    let manifest = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplate\nmetadata: {name: t}\nspec:\n  template:\n    spec:\n      module: {sauce: x}\n";
    let said = validate(&["-f", "-"], manifest.as_bytes());
    assert!(
        said.out.contains("standard input:7:7: error: WorkspaceTemplate t: spec.template.spec.module: "),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("module is HCL text, or {source, version} of a registry, git or local module"),
        "{}",
        said.out
    );
}

#[test]
fn programs_get_json() {
    let said = validate(&["-o", "json", "-f", "-"], b"apiVersion: v1\nkind: Sekret\n");
    let report: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(report["findings"][0]["line"], 2);
    assert_eq!(report["findings"][0]["column"], 7);
    assert_eq!(report["findings"][0]["help"], "did you mean Secret?");
    assert_eq!(report["summary"]["errors"], 1);
    assert_eq!(said.code, 1);
}

#[test]
fn lists_are_taken_apart_and_other_kinds_left_alone() {
    let item = "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: WorkspaceTemplateApply, metadata: {name: a}, spec: {templateRef: {name: t}}}";
    let input = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {item}\n- {{apiVersion: v1, kind: Secret, metadata: {{name: s}}}}\n"
    );
    let said = validate(&["-f", "-"], input.as_bytes());
    assert_eq!(said.out, "ok: 1 object checked in 1 file, 1 of other kinds left alone\n");
    assert_eq!(said.code, 0);
}

#[test]
fn the_change_from_an_earlier_version_is_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("new.yaml");
    std::fs::write(&file, GOOD.replace("name: t", "name: other")).expect("a file");
    let file = file.to_str().expect("text");
    let said = validate(&["-f", file, "--against", "-"], GOOD.as_bytes());
    assert!(
        said.out.contains("new.yaml:4:8: error: WorkspaceTemplateApply a: spec.templateRef: Invalid value: "),
        "{}",
        said.out
    );
    assert!(said.out.contains("templateRef is immutable"), "{}", said.out);
    assert_eq!(validate(&["-f", file], b"").code, 0);
}
