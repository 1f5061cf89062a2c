//! What a stream tells that must not be forgotten, for when it is written nowhere else.

use std::{collections::BTreeMap, io, path::PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::settle;
use crate::{
    log::Tail,
    state::State,
    stream::{self, Action, Line, Severity},
};

/// More than these objects are not kept, nor longer addresses and ids: a run can print what it likes.
const MOST: usize = 10_000;
const LONGEST: usize = 4096;

/// What a stream told.
#[derive(Default)]
pub(super) struct Told {
    /// What was made, and not destroyed again, with its ids.
    pub made: BTreeMap<String, String>,
    /// How many objects were made, changed or destroyed.
    pub changed: usize,
    /// An error was told.
    pub failed: bool,
    /// Work on an object was begun.
    pub begun: bool,
    /// The state, printed because it could be written neither to its place nor beside the module.
    pub dump: Option<Vec<u8>>,
}

impl Told {
    /// Reads a stream that ended.
    pub fn read(stream: PathBuf) -> io::Result<Self> {
        let (mut told, mut tail) = (Self::default(), Tail::new(stream));
        loop {
            let part = tail.lines(true)?;
            for raw in part.lines {
                told.note(&raw, &stream::parse(&raw));
            }
            if !part.more {
                return Ok(told);
            }
        }
    }

    /// Takes one line in.
    pub fn note(&mut self, raw: &str, line: &Line) {
        if let Line::Complete {
            action: Action::Create | Action::Update | Action::Delete | Action::Replace,
            ..
        } = line
        {
            self.changed += 1;
        }
        match line {
            Line::Diagnostic(diagnostic) => self.failed |= diagnostic.severity == Severity::Error,
            Line::Start { action: Action::NoOp | Action::Read | Action::Ephemeral, .. } => {}
            Line::Start { .. } => self.begun = true,
            _ => {}
        }
        match line {
            Line::Complete { address, action: Action::Create, id, .. } => {
                let fits = |id: &&String| id.len() + address.len() <= LONGEST && self.made.len() < MOST;
                let id = id.as_ref().filter(fits);
                self.made.extend(id.map(|id| (address.clone(), id.clone())));
            }
            Line::Complete { address, action: Action::Delete, .. } => {
                self.made.remove(address);
            }
            Line::Other { kind, .. } if kind == "log" => self.dump = dump(raw).or(self.dump.take()),
            _ => {}
        }
    }

    /// Whether Terraform refused to begin. It tells what a plan would do also where that has errors.
    pub fn is_refused(&self) -> bool {
        self.failed && !self.begun && self.changed == 0
    }

    /// What was made and is not in a state.
    pub fn unsaved(&self, state: Option<&State>) -> BTreeMap<String, String> {
        let saved = |address: &str| {
            state.is_some_and(|state| state.resources.iter().any(|resource| resource.address == address))
        };
        let unsaved = self.made.iter().filter(|(address, _)| !saved(address));
        unsaved.map(|(address, id)| (address.clone(), id.clone())).collect()
    }
}

/// The state in a line, where there is a whole one.
fn dump(raw: &str) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Dump<'a> {
        #[serde(borrow)]
        state: &'a RawValue,
    }
    let state = serde_json::from_str::<Dump<'_>>(raw).ok()?.state.get().as_bytes();
    settle::sound(state).map(|_| state.to_vec())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As Terraform 1.11 and OpenTofu 1.12 print it.
    const DUMP: &str = r#"{"@level":"info","@message":"Emergency state dump","@module":"terraform.ui","@timestamp":"2026-01-01T00:00:00Z","state":{"version":4,"terraform_version":"1.11.4","serial":61,"lineage":"l","outputs":{},"resources":[{"mode":"managed","type":"terraform_data","name":"a","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"schema_version":0,"attributes":{"id":"1"}}]}]},"type":"log"}"#;

    fn complete(name: &str, action: &str) -> String {
        format!(
            r#"{{"@message":"x","hook":{{"resource":{{"addr":"terraform_data.{name}"}},"action":"{action}","id_key":"id","id_value":"id of {name}","elapsed_seconds":0}},"type":"apply_complete"}}"#
        )
    }

    fn told(lines: &[&str]) -> Told {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stream");
        fs::write(&path, lines.join("\n")).expect("write");
        Told::read(path).expect("read")
    }

    #[test]
    fn the_state_is_found_in_the_stream() {
        let [a, b] = ["a", "b"].map(|name| complete(name, "create"));
        let told = told(&[&a, &b, DUMP, "{\"type\":\"log\",\"@message\":\"more\"}"]);
        let state = State::read(&told.dump.clone().expect("a dump")).expect("whole");
        assert_eq!((state.serial, state.resources.len()), (61, 1));
        let left: Vec<_> = told.unsaved(Some(&state)).into_iter().collect();
        assert_eq!(left, [("terraform_data.b".to_owned(), "id of b".to_owned())]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let lines: Vec<_> = (0..MOST + 10).map(|name| complete(&format!("t{name}"), "create")).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(told(&lines).made.len(), MOST);
        assert!(told(&[&complete(&"t".repeat(LONGEST), "create")]).made.is_empty());
    }

    #[test]
    fn half_a_state_is_none() {
        assert!(told(&[&DUMP[..DUMP.len() - 40]]).dump.is_none());
        assert!(told(&[r#"{"type":"log","state":"fine"}"#]).dump.is_none());
    }

    #[test]
    fn a_state_of_too_many_objects_is_none() {
        let many = |count| {
            let more = format!("\"serial\":61,\"x\":[{}],", vec!["{}"; count].join(","));
            DUMP.replace("\"serial\":61,", &more)
        };
        assert!(told(&[&many(1000)]).dump.is_some());
        assert!(told(&[&many(1_000_001)]).dump.is_none());
    }

    #[test]
    fn what_is_destroyed_again_was_not_made() {
        let (made, gone) = (complete("a", "create"), complete("a", "delete"));
        assert!(told(&[&made, &gone]).made.is_empty());
        assert!(told(&[]).made.is_empty());
    }
}
