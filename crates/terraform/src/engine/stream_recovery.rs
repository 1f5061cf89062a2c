//! Recovers from a stream what must not be lost, in case it is written nowhere else.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::state_recovery;
use crate::{
    log::Tail,
    state::State,
    stream::{self, Action, Line, Severity},
    unsaved::Unsaved,
};

/// More than these objects are not kept, nor longer addresses and ids: a run can print what it likes.
const MOST: usize = 10_000;
const LONGEST: usize = 4096;

/// Objects of one address that are being destroyed: that of now, and those that it replaced. Their ends do not say which is which.
#[derive(Default)]
struct Deletions {
    ids: Vec<String>,
    begun: usize,
    ended: usize,
}

/// Events that a stream reported.
#[derive(Default)]
pub(super) struct StreamReport {
    /// Objects that were created and not destroyed again, with their ids.
    pub made: BTreeMap<String, String>,
    /// The ids that were destroyed, by their addresses.
    gone: BTreeMap<String, BTreeSet<String>>,
    /// Destructions under way, by address.
    going: BTreeMap<String, Deletions>,
    /// Number of ids added to `going`.
    destroyed: usize,
    /// Number of objects that were created, changed or destroyed.
    pub changed: usize,
    /// An error was told.
    pub failed: bool,
    /// Work on an object was begun.
    pub begun: bool,
    /// The state, printed because it could be written neither to its place nor beside the module.
    pub dump: Option<Vec<u8>>,
}

impl StreamReport {
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
            Line::Start { address, action: Action::Delete, id } => self.destroying(address, id.as_ref()),
            Line::Complete { address, action: Action::Delete, .. } => self.was_destroyed(address),
            Line::Other { kind, .. } if kind == "log" => self.dump = dump(raw).or(self.dump.take()),
            _ => {}
        }
    }

    /// Returns true if Terraform failed before it began to change anything. It reports planned changes also where the plan has errors.
    pub fn is_refused(&self) -> bool {
        self.failed && !self.begun && self.changed == 0
    }

    fn destroying(&mut self, address: &str, id: Option<&String>) {
        if self.destroyed >= MOST || address.len() + id.map_or(0, String::len) > LONGEST {
            // The end of this one is not that of another.
            self.going.entry(address.to_owned()).and_modify(|going| going.begun += 1);
            return;
        }
        self.destroyed += 1;
        let going = self.going.entry(address.to_owned()).or_default();
        going.begun += 1;
        going.ids.extend(id.cloned());
    }

    /// Nothing is gone before all of that address is: one whose destruction fails, or goes on, is still there.
    fn was_destroyed(&mut self, address: &str) {
        let Some(going) = self.going.get_mut(address) else { return };
        going.ended += 1;
        if going.ended < going.begun {
            return;
        }
        let ids = self.going.remove(address).unwrap_or_default().ids;
        if self.made.get(address).is_some_and(|made| ids.contains(made)) {
            self.made.remove(address);
        }
        self.gone.entry(address.to_owned()).or_default().extend(ids);
    }

    /// Objects that were created and are not in a state.
    pub fn unsaved(&self, state: Option<&State>) -> BTreeMap<String, Unsaved> {
        let saved = |address: &str, id: &str| state.is_some_and(|state| state.holds(address, id));
        let unsaved = self.made.iter().filter(|(address, id)| !saved(address, id));
        let with_gone = |(address, id): (&String, &String)| {
            let gone = self.gone.get(address).cloned().unwrap_or_default();
            (address.clone(), Unsaved { id: id.clone(), gone })
        };
        unsaved.map(with_gone).collect()
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
    state_recovery::sound(state).map(|_| state.to_vec())
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

    fn told(lines: &[&str]) -> StreamReport {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stream");
        fs::write(&path, lines.join("\n")).expect("write");
        StreamReport::read(path).expect("read")
    }

    #[test]
    fn the_state_is_found_in_the_stream() {
        let [a, b] = ["a", "b"].map(|name| complete(name, "create"));
        let told = told(&[&a, &b, DUMP, "{\"type\":\"log\",\"@message\":\"more\"}"]);
        let state = State::read(&told.dump.clone().expect("a dump")).expect("whole");
        assert_eq!((state.serial, state.resources.len()), (61, 1));
        let of_another_id = Unsaved { id: "id of a".to_owned(), gone: BTreeSet::new() };
        let of_b = Unsaved { id: "id of b".to_owned(), gone: BTreeSet::new() };
        let left: Vec<_> = told.unsaved(Some(&state)).into_iter().collect();
        assert_eq!(
            left,
            [("terraform_data.a".to_owned(), of_another_id), ("terraform_data.b".to_owned(), of_b)]
        );
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

    fn destroying(id: &str) -> String {
        format!(
            r#"{{"@message":"x","hook":{{"resource":{{"addr":"terraform_data.a"}},"action":"delete","id_key":"id","id_value":"{id}"}},"type":"apply_start"}}"#
        )
    }

    #[test]
    fn what_is_destroyed_again_was_not_made() {
        let (made, start, gone) = (complete("a", "create"), destroying("id of a"), complete("a", "delete"));
        assert!(told(&[&made, &start, &gone]).made.is_empty());
        assert!(told(&[]).made.is_empty());
    }

    #[test]
    fn what_was_replaced_is_not_what_replaced_it() {
        let (made, gone, failed) = (
            complete("a", "create"),
            complete("a", "delete"),
            complete("a", "delete").replace("apply_complete", "apply_errored"),
        );
        let (one, two) = (destroying("1"), destroying("2"));
        // Lines -> the ids that are gone.
        let rows: [(&[&str], &[&str]); 7] = [
            (&[&one, &gone, &made], &["1"]),
            (&[&made, &one, &gone], &["1"]),
            (&[&made, &one], &[]),
            (&[&made, &one, &failed], &[]),
            (&[&made, &one, &two, &gone], &[]),
            (&[&made, &one, &two, &failed, &gone], &[]),
            (&[&made, &one, &two, &gone, &gone], &["1", "2"]),
        ];
        for (lines, expected) in rows {
            let unsaved = told(lines).unsaved(None);
            let unsaved = unsaved.get("terraform_data.a").expect("it is there");
            assert_eq!(unsaved.id, "id of a");
            assert!(unsaved.gone.iter().eq(expected), "{lines:?}: {unsaved:?}");
        }
    }

    #[test]
    fn what_is_destroyed_is_bounded_too() {
        let (start, gone) = (destroying("1"), complete("a", "delete"));
        let mut lines: Vec<_> = (0..MOST + 10).map(|id| destroying(&id.to_string())).collect();
        lines.push(destroying(&"x".repeat(LONGEST)));
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(told(&lines).going["terraform_data.a"].ids.len(), MOST);
        let many: Vec<_> = (0..MOST + 10).flat_map(|_| [start.as_str(), &gone]).collect();
        assert_eq!(told(&many).destroyed, MOST);
    }
}
