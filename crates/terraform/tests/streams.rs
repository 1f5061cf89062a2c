//! Streams recorded from Terraform 1.11.4 and OpenTofu 1.12.6 (times, ids and names of machines are made up), tallied.
//! The drifts are those of an `aws_vpc` on moto: its tag was changed, then it was deleted.

use std::{fs, path::Path};

use capt_terraform::stream::{self, Action, Counts, Line, Tally};
use proptest::prelude::*;

fn recording(binary: &str, case: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/streams/{binary}/{case}.jsonl"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn tally(text: &str) -> Tally {
    let mut tally = Tally::new();
    for line in text.lines() {
        tally.push(&stream::parse(line));
    }
    tally
}

fn counts(counts: Counts) -> String {
    let Counts { add, change, destroy, import, forget } = counts;
    format!("+{add} ~{change} -{destroy} i{import} f{forget}")
}

/// A tally on one line, so that the table below stays readable.
fn short(tally: &Tally) -> String {
    let progress = tally.progress();
    let first = tally.errors.first().map_or("", |error| error.summary.as_str());
    format!(
        "{} | {} | {}/{} | {}{}{}| drift {} | warnings {} | errors {} {first}",
        counts(tally.plan),
        counts(tally.applied),
        progress.done,
        progress.total,
        if tally.planned { "planned " } else { "" },
        if tally.finished { "finished " } else { "" },
        if tally.has_changes() { "changes " } else { "" },
        tally.drift.len(),
        tally.warnings.len(),
        tally.errors.len(),
    )
    .trim_end()
    .to_owned()
}

/// Plan, then what was applied, then progress.
#[rustfmt::skip]
const BOTH: &[(&str, &str)] = &[
    ("badstate", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Error acquiring the state lock"),
    ("change", "+0 ~2 -0 i0 f0 | +0 ~2 -0 i0 f0 | 2/2 | planned finished changes | drift 0 | warnings 0 | errors 0"),
    ("create", "+4 ~0 -0 i0 f0 | +4 ~0 -0 i0 f0 | 4/4 | planned finished changes | drift 0 | warnings 0 | errors 0"),
    ("destroy", "+0 ~0 -4 i0 f0 | +0 ~0 -4 i0 f0 | 4/4 | planned finished changes | drift 0 | warnings 0 | errors 0"),
    ("drift", "+0 ~1 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/1 | planned changes | drift 1 | warnings 0 | errors 0"),
    ("drift_gone", "+1 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/1 | planned changes | drift 1 | warnings 0 | errors 0"),
    ("fail", "+2 ~0 -0 i0 f0 | +1 ~0 -0 i0 f0 | 1/2 | planned changes | drift 0 | warnings 0 | errors 1 local-exec provisioner error"),
    ("forget_apply", "+0 ~0 -0 i0 f1 | +0 ~0 -0 i0 f1 | 0/0 | planned finished changes | drift 0 | warnings 1 | errors 0"),
    ("import", "+0 ~0 -0 i1 f0 | +0 ~0 -0 i1 f0 | 0/0 | planned finished changes | drift 0 | warnings 0 | errors 0"),
    ("interrupted", "+1 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/1 | planned changes | drift 0 | warnings 0 | errors 2 local-exec provisioner error"),
    ("invalid", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Reference to undeclared input variable"),
    ("locked", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Error acquiring the state lock"),
    ("missing", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 No value for required variable"),
    ("move", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | planned changes | drift 0 | warnings 0 | errors 0"),
    ("move_apply", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | planned finished changes | drift 0 | warnings 0 | errors 0"),
    ("newstate", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Error acquiring the state lock"),
    ("noinit", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Inconsistent dependency lock file"),
    ("nomod", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 3 Unreadable module directory"),
    ("noop", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | planned | drift 0 | warnings 0 | errors 0"),
    ("provisioner", "+1 ~0 -0 i0 f0 | +1 ~0 -0 i0 f0 | 1/1 | planned finished changes | drift 0 | warnings 0 | errors 0"),
    ("replace", "+2 ~0 -2 i0 f0 | +2 ~0 -2 i0 f0 | 4/4 | planned finished changes | drift 0 | warnings 0 | errors 0"),
    ("saved", "+1 ~0 -0 i0 f0 | +1 ~0 -0 i0 f0 | 1/1 | finished changes | drift 0 | warnings 0 | errors 0"),
    ("slow", "+1 ~0 -0 i0 f0 | +1 ~0 -0 i0 f0 | 1/1 | planned finished changes | drift 0 | warnings 0 | errors 0"),
    ("stale", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Saved plan is stale"),
    ("syntax", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Invalid expression"),
    ("tainted", "+1 ~0 -1 i0 f0 | +0 ~0 -0 i0 f0 | 0/2 | planned changes | drift 0 | warnings 0 | errors 0"),
    ("validation", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | planned changes | drift 0 | warnings 0 | errors 1 Invalid value for variable"),
    ("wrongtype", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | planned | drift 0 | warnings 0 | errors 1 Invalid value for input variable"),
];

/// Where they part: in words; OpenTofu wrote no state before the data source read it, and a plan of an empty module passes
/// any `required_version` there.
#[rustfmt::skip]
const EACH: &[(&str, &str, &str)] = &[
    ("terraform", "noprov", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Failed to query available provider packages"),
    ("tofu", "noprov", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Failed to resolve provider packages"),
    ("terraform", "prevent", "+0 ~0 -1 i0 f0 | +0 ~0 -0 i0 f0 | 0/1 | planned changes | drift 0 | warnings 0 | errors 1 Instance cannot be destroyed"),
    ("tofu", "prevent", "+0 ~0 -1 i0 f0 | +0 ~0 -0 i0 f0 | 0/1 | planned changes | drift 0 | warnings 0 | errors 1 Resource instance cannot be destroyed"),
    ("terraform", "read_and_check", "+1 ~0 -0 i0 f0 | +1 ~0 -0 i0 f0 | 1/1 | planned finished changes | drift 0 | warnings 1 | errors 0"),
    ("tofu", "read_and_check", "+1 ~0 -0 i0 f0 | +1 ~0 -0 i0 f0 | 1/1 | planned changes | drift 0 | warnings 1 | errors 2 Unable to find remote state"),
    ("terraform", "reqver", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | | drift 0 | warnings 0 | errors 1 Unsupported Terraform Core version"),
    ("tofu", "reqver", "+0 ~0 -0 i0 f0 | +0 ~0 -0 i0 f0 | 0/0 | planned | drift 0 | warnings 0 | errors 0"),
];

#[test]
fn recordings_add_up() {
    let both = BOTH
        .iter()
        .flat_map(|(case, expected)| ["terraform", "tofu"].map(|binary| (binary, *case, *expected)));
    for (binary, case, expected) in both.chain(EACH.iter().copied()) {
        assert_eq!(short(&tally(&recording(binary, case))), expected, "{case} of {binary}");
    }
}

#[test]
fn the_summary_agrees_with_the_changes_before_it() {
    for (case, _) in BOTH {
        for binary in ["terraform", "tofu"] {
            let text = recording(binary, case);
            let without: String = text
                .lines()
                .filter(|line| !line.contains("\"change_summary\""))
                .flat_map(|line| [line, "\n"])
                .collect();
            let (whole, counted) = (tally(&text), tally(&without));
            assert_eq!(whole.plan, counted.plan, "{case} of {binary}");
            // Imports and forgets print no line of their own while they are applied.
            assert_eq!(whole.applied.steps(), counted.applied.steps(), "{case} of {binary}");
        }
    }
}

#[test]
fn changes_say_what_why_and_from_where() {
    let replace = tally(&recording("terraform", "replace"));
    let first = &replace.changes[0];
    assert_eq!((first.address.as_str(), first.action), ("terraform_data.b[\"x\"]", Action::Replace));
    assert_eq!(first.reason.as_deref(), Some("cannot_update"));
    let moved = tally(&recording("tofu", "move"));
    assert_eq!(moved.changes[0].action, Action::Move);
    assert_eq!(moved.changes[0].previous.as_deref(), Some("terraform_data.a"));
    let gone = tally(&recording("terraform", "drift_gone"));
    assert_eq!(gone.drift[0].action, Action::Delete);
    assert_eq!(gone.changes[0].action, Action::Create);
}

#[test]
fn a_diagnostic_knows_its_place() {
    let failed = tally(&recording("terraform", "fail"));
    let error = &failed.errors[0];
    assert_eq!(error.address.as_deref(), Some("terraform_data.bad"));
    assert_eq!((error.file.as_deref(), error.line), (Some("main.tf"), Some(4)));
    assert!(error.snippet.as_deref().is_some_and(|code| code.contains("provisioner")));
    assert!(error.detail.contains("exit status 3"));
}

#[test]
fn a_sensitive_output_has_no_value_in_the_stream() {
    let text = recording("terraform", "create");
    let last = text.lines().last().expect("a last line");
    assert_eq!(stream::parse(last), Line::Outputs { changed: 0 }, "values, and no changes");
    let outputs = &serde_json::from_str::<serde_json::Value>(last).expect("JSON")["outputs"];
    assert!(outputs["secret"]["sensitive"] == true && outputs["secret"].get("value").is_none());
    assert_eq!(outputs["first"]["value"], "one-0");
    assert!(!text.contains("hunter2"));
}

#[test]
fn progress_names_what_runs() {
    let text = recording("terraform", "slow");
    let mut tally = Tally::new();
    let mut seen = Vec::new();
    for line in text.lines() {
        tally.push(&stream::parse(line));
        let progress = tally.progress();
        seen.push((progress.done, progress.total, progress.current.is_some()));
    }
    seen.dedup();
    assert_eq!(seen, [(0, 0, false), (0, 1, false), (0, 1, true), (1, 1, false)]);
}

#[test]
fn provisioners_are_heard() {
    let text = recording("tofu", "provisioner");
    let said: Vec<_> = text
        .lines()
        .filter_map(|line| match stream::parse(line) {
            Line::Provisioned { output, .. } => Some(output),
            _ => None,
        })
        .collect();
    assert_eq!(said[1..], ["hello", "world"]);
}

#[test]
fn a_thousand_equal_errors_are_one_and_different_ones_are_bounded() {
    let error = |n: u32| {
        stream::parse(&format!(
            r#"{{"type":"diagnostic","diagnostic":{{"severity":"error","summary":"no {n}","detail":""}}}}"#
        ))
    };
    let mut tally = Tally::new();
    (0..1000).for_each(|_| tally.push(&error(1)));
    assert_eq!((tally.errors.len(), tally.more_errors), (1, 0));
    (0..1000).for_each(|n| tally.push(&error(n)));
    assert_eq!((tally.errors.len(), tally.more_errors), (100, 900));
}

#[test]
fn what_is_not_known_is_kept() {
    let rows = [
        ("", "", ""),
        ("panic: runtime error", "", "panic: runtime error"),
        ("[1,2]\r\n", "", "[1,2]"),
        (r#"{"type":"planned_change","@message":"half"}"#, "planned_change", "half"),
        (
            r#"{"type":"change_summary","@message":"m","changes":{"operation":"dance"}}"#,
            "change_summary",
            "m",
        ),
        (r#"{"type":"brand_new","@message":"hello"}"#, "brand_new", "hello"),
        (r#"{"type":7}"#, "", ""),
    ];
    for (line, kind, message) in rows {
        assert_eq!(stream::parse(line), Line::Other { kind: kind.into(), message: message.into() }, "{line}");
    }
}

#[test]
fn a_message_is_what_a_person_reads() {
    assert_eq!(stream::message(r#"{"@message":"a \"b\"","type":"log"}"#), "a \"b\"");
    assert_eq!(stream::message("plain"), "plain");
    assert_eq!(stream::message(r#"{"type":"log"}"#), r#"{"type":"log"}"#);
}

proptest! {
    /// A recording cut, doubled or garbled anywhere is still read to its end.
    #[test]
    fn no_line_is_fatal(cut in 0usize..4000, garbage in ".{0,40}") {
        let text = recording("terraform", "replace");
        let (head, tail) = text.split_at(cut.min(text.len()));
        let tally = tally(&format!("{head}{garbage}{tail}"));
        prop_assert!(tally.progress().done <= tally.progress().total);
    }
}
