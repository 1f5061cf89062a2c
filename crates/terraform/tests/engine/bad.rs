//! Bad modules, bad values, bad binaries: each has a reason, and disturbs nobody else.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use capt_terraform::{
    Executor,
    failure::{Class, Failure},
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
            (
                "broken",
                "resource \"terraform_data\" \"a\" {\n  input = \n}\n",
                "InvalidModule",
                "(main.tf:2)",
            ),
            ("unknown", "output \"x\" {\n  value = var.nothing\n}\n", "InvalidModule", "(main.tf:2)"),
            (
                "missing",
                "variable \"must\" {}\noutput \"x\" {\n  value = var.must\n}\n",
                "MissingVariable",
                "has no default for it",
            ),
            ("nosource", "module \"m\" {\n  source = \"/does/not/exist\"\n}\n", "ModuleNotFound", ""),
        ];
        for (name, text, expected, part) in cases {
            let failed = failure(lab.apply(name, lab.inputs(text)).await.outcome);
            assert_eq!(failed.reason.as_str(), expected, "{name}: {failed:?}");
            assert!(failed.message.contains(part), "{name}: {failed:?}");
        }
        let mut wrong =
            lab.inputs("variable \"n\" {\n  type = number\n}\noutput \"x\" {\n  value = var.n\n}\n");
        wrong.variables.insert("n".into(), Variable::from(json!({"not": "a number"})));
        assert_eq!(reason(&lab.apply("wrong", wrong).await), "InvalidVariable");
        let mut bad = lab.inputs("output \"x\" { value = 1 }");
        let source = lab.path("no-such-module").display().to_string();
        bad.module = Module::Source { source, version: None, entrypoint: None };
        assert_eq!(reason(&lab.apply("gone", bad).await), "ModuleNotFound");
        assert_eq!(lab.apply("good", lab.traced("good")).await.outcome, Outcome::Done, "undisturbed");
    }
}

/// What a real binary says of values and sources, in the words of whoever gave them.
#[tokio::test]
async fn values_and_sources_are_named_not_flags_and_files() {
    for tool in tools() {
        let lab = Lab::new(&tool).await;
        let rule = "validation {\n condition = var.n < 3\n error_message = \"At most 2 of them.\"\n }";
        let module = |body: &str| {
            format!("variable \"n\" {{\n type = number\n {body}\n}}\noutput \"x\" {{ value = var.n }}\n")
        };
        let rows = [
            (
                "missing",
                module(""),
                None,
                "spec.variables.n is not set, and the module has no default for it",
            ),
            ("wrong", module(""), Some(json!("many")), "spec.variables.n: a number is required"),
            ("rule", module(rule), Some(json!(5)), "spec.variables.n: At most 2 of them"),
        ];
        for (name, text, value, expected) in rows {
            let mut inputs = lab.inputs(&text);
            inputs.variables.extend(value.map(|value| ("n".to_owned(), Variable::from(value))));
            let failed = failure(lab.apply(name, inputs).await.outcome);
            let told = failed.clone().given_as(|name| format!("spec.variables.{name}"));
            assert_eq!(told.message, expected, "{failed:?}");
        }
        let mut nowhere = lab.inputs("");
        let source = "https://127.0.0.1:9/x.zip".to_owned();
        nowhere.module = Module::Source { source, version: None, entrypoint: None };
        let failed = failure(lab.apply("nowhere", nowhere).await.outcome);
        assert_eq!(failed.reason.as_str(), "Network", "{failed:?}");
        assert!(
            failed.message.starts_with("module https://127.0.0.1:9/x.zip cannot be fetched: "),
            "{failed:?}"
        );
        assert!(!failed.message.contains(".tf.json"), "{failed:?}");
        // Of a module in a folder only the binary knows what it declares.
        fs::create_dir_all(lab.path("module")).expect("a folder");
        fs::write(lab.path("module/main.tf"), "output \"x\" { value = 1 }\n").expect("write");
        let mut typo = lab.inputs("");
        let source = lab.path("module").display().to_string();
        typo.module = Module::Source { source, version: None, entrypoint: None };
        typo.variables.insert("sise".into(), Variable::from(json!(1)));
        let done = lab.apply("typo", typo).await;
        assert_eq!((done.outcome, done.undeclared), (Outcome::Done, vec!["sise".to_owned()]));
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
    let tells = r#"case "$1" in
apply) echo '{"type":"version","terraform":"1.4.6","ui":"1.0"}'; exit 1;;
version) echo '{"terraform_version":"1.4.6"}';;
esac"#;
    let cases = [
        ("old and run before it is asked", tells, "BinaryTooOld"),
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
        assert!(lab.engine.revision(&lab.inputs("")).await.is_err());
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
async fn a_binary_that_will_do_at_last_goes_on_with_the_same_inputs() {
    for tool in tools() {
        let bin = tempfile::tempdir().expect("a folder");
        let newer = noted(&tool, bin.path(), &bin.path().join("notes"));
        let name = if tool.name == BinaryName::Tofu { "tofu" } else { "terraform" };
        let (path, kept) = (bin.path().join(name), bin.path().join("kept"));
        fs::rename(&path, &kept).expect("moved");
        program(&path, "#!/bin/sh\necho '{\"terraform_version\":\"1.4.6\"}'\n");
        let lab = Lab::new(&newer).await;
        let inputs = lab.inputs("resource \"terraform_data\" \"a\" {}");
        let failed = failure(lab.apply("a", inputs.clone()).await.outcome);
        assert_eq!((failed.reason.as_str(), failed.class), ("BinaryTooOld", Class::Transient));
        assert_eq!(lab.engine.revision(&inputs).await.expect_err("known").class, Class::Terminal);
        fs::rename(&kept, &path).expect("moved back");
        lab.engine.revision(&inputs).await.expect("another one");
        assert_eq!(lab.apply("a", inputs).await.outcome, Outcome::Done);
    }
}

/// What a program is called with, a word for each call, before it does what the tool does.
fn noted(tool: &Tool, bin: &Path, notes: &Path) -> Tool {
    let name = if tool.name == BinaryName::Tofu { "tofu" } else { "terraform" };
    let real = std::env::split_paths(&tool.path).map(|folder| folder.join(name)).find(|path| path.is_file());
    let (real, notes) = (real.expect("the tool is there"), notes.display().to_string());
    program(&bin.join(name), &format!("#!/bin/sh\necho $1 >>{notes}\nexec {} \"$@\"\n", real.display()));
    let path = std::env::join_paths([bin, Path::new("/bin"), Path::new("/usr/bin")]).expect("a path");
    Tool { name: tool.name, path }
}

#[tokio::test]
async fn a_binary_is_asked_for_its_version_only_where_that_matters() {
    let plain = "resource \"terraform_data\" \"a\" {}";
    let backend = "terraform {\n  backend \"local\" {}\n}";
    for tool in tools() {
        let cases = [
            ("any will do", plain, None, "apply version"),
            ("one is asked for", plain, Some(">= 1.5"), "version apply"),
            ("it is initialised", backend, None, "version init apply"),
        ];
        for (case, text, constraint, expected) in cases {
            let bin = tempfile::tempdir().expect("a folder");
            let notes = bin.path().join("notes");
            let lab = Lab::new(&noted(&tool, bin.path(), &notes)).await;
            let mut inputs = lab.inputs(text);
            inputs.binary.constraint = constraint.map(Into::into);
            assert_eq!(lab.apply("a", inputs.clone()).await.outcome, Outcome::Done, "{case}");
            // And then it is known: asked once, where a run has not done so.
            let choice = Choice { name: tool.name, constraint: Some(">= 1.5, < 99".into()) };
            lab.engine.binary(&choice).await.expect("known");
            lab.engine.binary(&choice).await.expect("known");
            lab.engine.revision(&inputs).await.expect("known");
            let called = fs::read_to_string(&notes).expect("called");
            assert_eq!(called.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{case}");
        }
    }
}

/// One that is run before it is asked refuses by itself what it is too old for. No OpenTofu is too old.
#[tokio::test]
async fn modules_that_any_version_runs_say_which_is_the_oldest() {
    for tool in tools().into_iter().filter(|tool| tool.name == BinaryName::Terraform) {
        let lab = Lab::new(&tool).await;
        lab.apply("a", lab.inputs("resource \"terraform_data\" \"a\" {}")).await;
        let file = lab.folder_of("a").join("guest/work/capt_version.tf");
        let text = fs::read_to_string(&file).expect("rendered");
        let other = lab.inputs(&text.replace("1.5.0", "99.0.0"));
        assert_eq!(reason(&lab.apply("b", other).await), "BinaryTooOld", "{text}");
    }
}

#[tokio::test]
async fn versions_can_be_asked_for() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let choose = |constraint: &str| Choice { name: tool.name, constraint: Some(constraint.into()) };
    assert!(lab.engine.binary(&choose(">= 1.5, < 99")).await.is_ok());
    for constraint in ["> 99", "nonsense"] {
        assert!(lab.engine.binary(&choose(constraint)).await.is_err(), "{constraint}");
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
