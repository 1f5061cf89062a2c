//! The cases through `capt validate`: one run over all of them.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cases::{Case, Refusal, Verdict};

/// What `capt validate` says of each case.
pub fn verdicts(cases: &[Case]) -> Vec<Verdict> {
    let folder = tempfile::tempdir().expect("a folder");
    let (new, old) = (folder.path().join("new"), folder.path().join("old"));
    for path in [&new, &old] {
        std::fs::create_dir(path).expect("a folder");
    }
    for (index, case) in cases.iter().enumerate() {
        write(&new, index, &case.new);
        if let Some(object) = &case.old {
            write(&old, index, object);
        }
    }
    let output = Command::new(env!("CARGO_BIN_EXE_capt"))
        .args(["validate", "-o", "json", "-f"])
        .arg(&new)
        .arg("--against")
        .arg(&old)
        .output()
        .expect("capt runs");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let findings = report["findings"].as_array().expect("findings");
    // An API has no warnings about what a module or another file says.
    let refusals: Vec<&Value> = findings.iter().filter(|finding| finding["severity"] == "error").collect();
    (0..cases.len())
        .map(|index| {
            let file = new.join(name(index));
            let of_case = refusals.iter().filter(|finding| Path::new(text(finding, "file")) == file);
            Verdict::of(of_case.map(|finding| refusal(finding)).collect())
        })
        .collect()
}

/// Each case has a namespace of its own, which tells it from the other cases of its kind.
fn write(folder: &Path, index: usize, object: &Value) {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!(format!("case-{index}"));
    std::fs::write(folder.join(name(index)), object.to_string()).expect("a file");
}

fn name(index: usize) -> String {
    format!("{index:04}.json")
}

fn refusal(finding: &Value) -> Refusal {
    let field = finding["path"].as_str().unwrap_or_default().to_owned();
    Refusal { field, message: text(finding, "message").to_owned() }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}
