//! Requests for built-in kinds are answered as kube-apiserver answered them when the answers were recorded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use support::{answer, comparable, read};

/// Answers that differ, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("node: minimal", NOT_READY),
    ("node: status", NOT_READY),
    ("node: status only", NOT_READY),
    ("node: address twice", SHOWN),
    ("crd: no-storage", SHOWN),
    ("crd: two-storage", SHOWN),
    ("crd: dup", SHOWN),
    ("crd: status-root", SHOWN),
    ("crd: conv-wh", "conversion webhooks are refused, whatever their form"),
];

const NOT_READY: &str = "admission adds the not-ready taint of a new node, and not its rules";
const SHOWN: &str = "a value is shown with the names of its JSON and not of its Go type";

fn check(file: &str) {
    let mut wrong = Vec::new();
    for case in read(file) {
        let mut ours = comparable(&answer(&case));
        let mut theirs = comparable(&case.want);
        let reason = DIFFERENT.iter().find(|(name, _)| *name == case.name).map(|(_, reason)| *reason);
        let is_known = reason.is_some_and(|_| ours != theirs);
        if reason == Some(SHOWN) {
            (ours, theirs) = (without_messages(ours), without_messages(theirs));
        }
        let is_right = match reason {
            None => ours == theirs,
            Some(SHOWN) => is_known && ours == theirs,
            Some(_) => is_known,
        };
        if !is_right {
            wrong.push(format!("{}\n  ours   {ours}\n  theirs {theirs}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn without_messages(mut answer: Value) -> Value {
    for cause in answer["causes"].as_array_mut().into_iter().flatten().filter_map(Value::as_array_mut) {
        cause.truncate(2);
    }
    answer
}

#[test]
fn objects_are_decoded_completed_and_judged_as_recorded() {
    check("objects.json");
}

#[test]
fn definitions_are_completed_and_judged_as_recorded() {
    check("crds.json");
}
