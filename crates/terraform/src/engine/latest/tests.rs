use std::collections::BTreeSet;

use super::*;
use crate::{order::WorkspaceId, state_backend::Running, unsaved::Unsaved};

fn state(lineage: &str, serial: u64) -> Vec<u8> {
    format!(
        r#"{{"version":4,"terraform_version":"1.9.0","serial":{serial},"lineage":"{lineage}","outputs":{{}},"resources":[]}}"#
    )
    .into_bytes()
}

/// The write of a controller that had seen so many writes; `note` tells it from others.
fn kept(turns: Option<u64>, note: &str, state: &[u8]) -> Kept {
    let mut record = Record::new(WorkspaceId::new("n/a"));
    let made = Unsaved { id: note.to_owned(), gone: BTreeSet::new() };
    record.unsaved.insert("note".into(), made);
    record.seen = turns.map(|turn| Seen { turn: turn - 1, sha256: String::new(), run: None });
    let mut kept = record.kept(state.to_vec(), None);
    if turns.is_none() {
        let mut old: serde_json::Value = serde_json::from_slice(&kept.record).expect("JSON");
        old.as_object_mut().expect("a record").remove("turn");
        kept.record = old.to_string().into_bytes();
    }
    kept
}

fn here(seen: Option<Seen>) -> Record {
    Record { seen, ..Record::new(WorkspaceId::new("n/a")) }
}

#[test]
fn what_counts() {
    let (old, new, other) = (state("l", 3), state("l", 4), state("m", 1));
    let ours = kept(Some(5), "ours", &old);
    let seen = || here(Some(Seen::of(&ours)));
    let rows = vec![
        ("ours", seen(), &old, Some(ours.clone()), Latest::Here),
        ("ours, and the state is newer by now", seen(), &new, Some(ours.clone()), Latest::Here),
        ("a later one", seen(), &old, Some(kept(Some(6), "theirs", &new)), Latest::Kept),
        ("a later one of the same state", seen(), &old, Some(kept(Some(6), "theirs", &old)), Latest::Kept),
        ("a later one of an older state", seen(), &new, Some(kept(Some(6), "theirs", &old)), Latest::Kept),
        ("built anew", seen(), &new, Some(kept(Some(1), "theirs", &other)), Latest::Kept),
        ("built anew, without a state", seen(), &new, Some(kept(Some(1), "theirs", b"")), Latest::Kept),
        ("put back", seen(), &old, Some(kept(Some(4), "ours", &old)), Latest::Here),
        ("of an older version", seen(), &old, Some(kept(None, "theirs", &old)), Latest::Kept),
        ("put back, of an older version", seen(), &new, Some(kept(None, "ours", &old)), Latest::Here),
        ("ended", seen(), &old, None, Latest::Gone),
        // What an older version left here tells by its state alone.
        ("upgraded", here(None), &new, Some(kept(None, "ours", &old)), Latest::Here),
        ("upgraded, the same", here(None), &old, Some(kept(None, "ours", &old)), Latest::Here),
        ("upgraded, and newer there", here(None), &old, Some(kept(None, "theirs", &new)), Latest::Kept),
        ("upgraded, and never kept", here(None), &old, None, Latest::Here),
    ];
    for (name, here, state, kept, expected) in rows {
        assert_eq!(latest(&here, Some(state), kept.as_ref(), true), expected, "{name}");
    }
    assert_eq!(latest(&seen(), None, None, false), Latest::Here, "kept no more, as the config says");
}

#[test]
fn what_an_own_run_wrote_meanwhile_is_ours() {
    let running = |run: &str| Some(Running { run: run.into(), ends_within: std::time::Duration::ZERO });
    let begun = Kept { running: running("r"), ..kept(Some(5), "ours", b"") };
    let here = here(Some(Seen::written(&begun)));
    let rows = [("r", Latest::Here), ("theirs", Latest::Kept)];
    for (run, expected) in rows {
        let later = Kept { running: running(run), ..kept(Some(6), "ours", &state("l", 1)) };
        assert_eq!(latest(&here, None, Some(&later), true), expected, "{run}");
    }
}

#[test]
fn what_is_put_aside_stays_for_a_person() {
    let lab = tempfile::tempdir().expect("a folder");
    let workspace = WorkspaceId::new("n/a");
    let folder = WorkspaceFolder(lab.path().join(workspace.folder()));
    folder.make().expect("made");
    let record = Record { touched: true, ..Record::new(workspace) };
    for text in ["one", "two"] {
        record.write(&folder).expect("written");
        write_durable(&folder.state(), text.as_bytes()).expect("written");
        // Cut off before the record went, it is gone on with.
        put_aside(&folder, &[folder.0.join(STATES)]).expect("put aside");
        assert!(set_aside(&folder, &record).expect("put aside").is_blank());
        assert_eq!(fs::read(folder.gone().join("state/terraform.tfstate")).expect("there"), text.as_bytes());
        assert!(folder.gone_record().exists() && !folder.state().exists());
        assert!(Record::read(&folder).expect("read").expect("a record").is_blank());
    }
}
