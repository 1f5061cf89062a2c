//! What a module says in the name of Terraform: its commands can get hold of the stream of their run.

use std::{fs, path::Path};

use capt_terraform::{
    inputs::BinaryName,
    redact::Redactor,
    stream::{self, Line},
    view::Outcome,
};

use crate::{
    alone,
    lab::{Lab, Tool, reason, tool},
    peak,
};

/// A binary of a path of its own, which nobody has asked yet, and which notes how it is called.
fn unasked(tool: &Tool, bin: &Path) -> Tool {
    use std::os::unix::fs::PermissionsExt;
    let name = if tool.name == BinaryName::Tofu { "tofu" } else { "terraform" };
    let real = std::env::split_paths(&tool.path).map(|folder| folder.join(name)).find(|path| path.is_file());
    let (real, notes, path) = (real.expect("the tool is there"), bin.join("notes"), bin.join(name));
    let text = format!("#!/bin/sh\necho $1 >> {}\nexec {} \"$@\"\n", notes.display(), real.display());
    fs::write(&path, text).expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    let path = std::env::join_paths([bin, Path::new("/bin"), Path::new("/usr/bin")]).expect("a path");
    Tool { name: tool.name, path }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_run_tells_the_version_of_a_binary_to_others() {
    let Some(tool) = tool() else { return };
    let name = if tool.name == BinaryName::Tofu { "tofu" } else { "terraform" };
    // What Terraform prints later it writes where it stopped, over what was forged: seldom over what was read already, after a
    // while surely.
    for meanwhile in ["true", "sleep 1"] {
        let bin = tempfile::tempdir().expect("a folder");
        let lab = Lab::new(&unasked(&tool, bin.path())).await;
        let called = || {
            let notes = fs::read_to_string(bin.path().join("notes")).expect("called");
            notes.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        // Far behind what Terraform still has to print.
        let forges = format!(
            r#"resource "terraform_data" "a" {{
  provisioner "local-exec" {{
    command = "(yes '' | head -c 65536; echo '{{\"type\":\"version\",\"{name}\":\"0.0.1\"}}') >> /proc/$PPID/fd/1; {meanwhile}"
  }}
}}
"#
        );
        let forged = lab.apply("forger", lab.inputs(&forges)).await;
        // A module that hides the summary of its run does itself no good.
        let is_its_own_loss = || reason(&forged) == "NoSummary";
        assert!(forged.outcome == Outcome::Done || is_its_own_loss(), "{forged:?}");
        // It was doubted, and asked once.
        assert_eq!(called(), ["apply", "version"], "{meanwhile}");
        for other in ["b", "c"] {
            let done = lab.apply(other, lab.inputs("resource \"terraform_data\" \"a\" {}")).await;
            assert_eq!(done.outcome, Outcome::Done, "{done:?}");
        }
        assert_eq!(called(), ["apply", "version", "apply", "apply"], "{meanwhile}");
    }
}

/// More memory than these bytes is too much.
const MOST: u64 = 32 << 20;

#[test]
fn a_large_secret_takes_little_more_memory_than_its_length() {
    if !alone("said::a_large_secret_takes_little_more_memory_than_its_length", "true") {
        return;
    }
    let secret = "0123456789abcdef\n".repeat(1 << 20);
    let before = peak();
    let redactor = Redactor::new([secret, "another".to_owned()]);
    let taken = peak() - before;
    assert!(taken < MOST, "{taken} bytes");
    // What it cannot look for it does not show.
    assert_eq!(redactor.clean("a text"), "(sensitive)");
}

#[test]
fn a_line_takes_little_more_memory_than_its_length() {
    // Memory is that of all tests together.
    if !alone("said::a_line_takes_little_more_memory_than_its_length", "true") {
        return;
    }
    let many = |one: &str| vec![one; (4 << 20) / one.len()].join(",");
    let objects = many(r#"{"":0}"#);
    let named: Vec<_> = (0..200_000).map(|n| format!(r#""{n:07}":{{"action":"create"}}"#)).collect();
    let lines = [
        format!("[{objects}]"),
        format!(r#"{{"type":"log","@message":"m","x":[{objects}]}}"#),
        format!(r#"{{"type":"outputs","outputs":{{"x":{{"action":"noop","value":[{objects}]}}}}}}"#),
        format!(r#"{{"type":"outputs","outputs":{{{}}}}}"#, named.join(",")),
        format!(
            r#"{{"type":"apply_complete","hook":{{"resource":{{"addr":"a","x":[{objects}]}},"action":"create"}}}}"#
        ),
        format!(
            r#"{{"type":"diagnostic","diagnostic":{{"severity":"error","summary":"s","range":[{objects}]}}}}"#
        ),
        format!(
            r#"{{"type":"planned_change","change":{{"resource":{{"addr":"a"}},"action":"create","importing":{{"x":[{objects}]}}}}}}"#
        ),
    ];
    let before = peak();
    let read: Vec<_> = lines.iter().map(|line| stream::parse(line)).collect();
    let more = peak() - before;
    assert!(more < MOST, "{more} bytes for lines of {} bytes each", objects.len());
    assert_eq!(read[2], Line::Outputs { changed: 0 });
    assert_eq!(read[3], Line::Outputs { changed: 200_000 });
    assert!(matches!(&read[4], Line::Complete { address, .. } if address == "a"));
    assert!(matches!(&read[5], Line::Diagnostic(error) if error.summary == "s" && error.file.is_none()));
    assert!(matches!(&read[6], Line::PlannedChange(change) if change.imported));
}
