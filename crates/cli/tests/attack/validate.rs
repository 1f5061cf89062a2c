//! Manifests that could cost `capt validate` the square of what they have.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

use crate::sized;

/// Four times the input may take this many times the work: linear, with room for what a tick hides. Squares take sixteen.
const MOST_OF_FOUR: u64 = 9;
/// Ticks that starting the binary may take.
const START: u64 = 10;

/// Processor time of a process that has ended and was not waited for, in the kernel's ticks.
fn ticks(child: &Child) -> u64 {
    loop {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let mut fields = stat.rsplit(')').next().unwrap().split_whitespace();
        if fields.next() == Some("Z") {
            return fields.skip(10).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        }
        // It has closed its output, and ends.
        thread::yield_now();
    }
}

/// The number of errors that are told, and the ticks that took.
fn validate(manifest: String) -> (usize, u64) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_capt"))
        .args(["validate", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writing = thread::spawn(move || input.write_all(manifest.as_bytes()).unwrap());
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    writing.join().unwrap();
    let ticks = ticks(&child);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{}", said.chars().take(2000).collect::<String>());
    (said.matches(": error: ").count(), ticks)
}

/// Checks that each of `count` mistakes is told, at a cost that grows as they do.
fn is_linear(count: usize, manifest: impl Fn(usize) -> String) {
    let (few, one) = validate(manifest(count / 4));
    let (many, four) = validate(manifest(count));
    assert_eq!((few, many), (count / 4, count));
    assert!(four <= MOST_OF_FOUR * one.max(START), "{one} ticks, and {four} for four times as much");
}

const GOOD: &str = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplateApply\nmetadata: {name: a}\nspec:\n  templateRef: {name: t}\n";

#[test]
fn unknown_fields_cost_what_they_are() {
    is_linear(sized(20_000, 100_000), |count| {
        let mut text = GOOD.to_owned();
        (0..count).for_each(|n| writeln!(text, "  unknown{n}: 1").unwrap());
        text
    });
}

#[test]
fn documents_cost_what_they_are() {
    is_linear(sized(20_000, 100_000), |count| "kind: X\n---\n".repeat(count));
}
