//! States that runs, crashes and people leave behind.

use std::fs;

use super::*;
use crate::{order::WorkspaceId, record::Seal};

fn state(serial: u64, lineage: &str) -> Vec<u8> {
    format!(
        r#"{{"version":4,"terraform_version":"1.11.4","serial":{serial},"lineage":"{lineage}","outputs":{{}},"resources":[{{"mode":"managed","type":"terraform_data","name":"a","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{{"schema_version":0,"attributes":{{"id":"1"}}}}]}}]}}"#
    )
    .into_bytes()
}

/// Names and contents.
type FileTable<'a> = &'a [(&'a str, &'a [u8])];

struct Case {
    _folder: tempfile::TempDir,
    workspace: WorkspaceFolder,
    start: PathBuf,
}

fn case(files: &[(&str, &[u8])]) -> Case {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = WorkspaceFolder(folder.path().join("w"));
    workspace.make().expect("folders");
    let start = workspace.guest().join(guest::WORK);
    fs::create_dir_all(&start).expect("a folder");
    for (name, bytes) in files {
        fs::write(workspace.0.join(name), bytes).expect("write");
    }
    Case { _folder: folder, workspace, start }
}

fn collected(case: &Case) -> Result<Option<u64>, Reason> {
    let state = collect(&case.workspace, &case.start, false, None, 0).map_err(|failure| failure.reason)?;
    let serial = state.map(|state| state.serial);
    let here = read(&case.workspace).expect("whole").map(|state| state.serial);
    assert_eq!(serial, here, "what is told is what is there");
    Ok(serial)
}

const STATE: &str = "state/terraform.tfstate";
const RUN: &str = "guest/state/terraform.tfstate";
const LEFT: &str = "guest/work/errored.tfstate";

#[test]
fn the_newest_whole_state_is_taken_in() {
    let half = b"{\"vers".as_slice();
    let (two, three, four) = (state(2, "a"), state(3, "a"), state(4, "a"));
    let table: &[(FileTable<'_>, Option<u64>)] = &[
        (&[], None),
        (&[(RUN, b"")], None),
        (&[(RUN, &three)], Some(3)),
        (&[(STATE, &three)], Some(3)),
        (&[(STATE, &three), (RUN, &four)], Some(4)),
        (&[(STATE, &three), (RUN, &two)], Some(3)),
        (&[(STATE, &three), (RUN, half)], Some(3)),
        (&[(STATE, &three), (RUN, b"")], Some(3)),
        (&[(STATE, &three), (LEFT, &four)], Some(4)),
        (&[(LEFT, &four)], Some(4)),
        (&[(STATE, &two), (RUN, &three), (LEFT, &four)], Some(4)),
        (&[(STATE, &two), (RUN, half), (LEFT, half)], Some(2)),
        (&[(STATE, half), (RUN, &four)], Some(4)),
    ];
    for (files, expected) in table {
        let case = case(files);
        assert_eq!(
            collected(&case),
            Ok(*expected),
            "{:?}",
            files.iter().map(|(name, _)| name).collect::<Vec<_>>()
        );
        assert!(!case.start.join(ERRORED).exists(), "taken in once");
        assert_eq!(collected(&case), Ok(*expected), "and again");
    }
}

#[test]
fn what_a_run_printed_counts_too() {
    let case = case(&[(STATE, &state(3, "a"))]);
    let state = collect(&case.workspace, &case.start, false, Some(&state(9, "a")), 0).expect("taken in");
    assert_eq!(state.map(|state| state.serial), Some(9));
}

#[test]
fn another_lineage_is_never_taken_in() {
    let foreign = case(&[(STATE, &state(3, "a")), (RUN, &state(9, "b"))]);
    assert_eq!(collected(&foreign), Err(Reason::StateDamaged));
    assert_eq!(read(&foreign.workspace).expect("whole").map(|state| state.serial), Some(3));
    let left = case(&[(STATE, &state(3, "a")), (LEFT, &state(9, "b"))]);
    assert_eq!(collected(&left), Ok(Some(3)));
    assert!(left.workspace.0.join("state").join(ERRORED).exists(), "kept for a person");
}

#[test]
fn one_of_a_backend_waits_to_be_handed_in() {
    let remote = case(&[(STATE, &state(3, "a")), (LEFT, &state(4, "a"))]);
    let copy = collect(&remote.workspace, &remote.start, true, None, 0).expect("settled").expect("a copy");
    assert_eq!(copy.serial, 3);
    assert_eq!(fs::read(remote.workspace.pending()).expect("kept"), state(4, "a"));
    assert!(!remote.start.join(ERRORED).exists());
}

#[test]
fn a_link_is_no_state() {
    // A link is none of Terraform's errored states; that the state itself is one means that it was replaced.
    for (name, expected) in [(RUN, Err(Reason::StateDamaged)), (LEFT, Ok(Some(3)))] {
        let case = case(&[(STATE, &state(3, "a")), ("secret", &state(9, "a"))]);
        std::os::unix::fs::symlink(case.workspace.0.join("secret"), case.workspace.0.join(name))
            .expect("linked");
        assert_eq!(collected(&case), expected, "{name}");
        assert_eq!(read(&case.workspace).expect("whole").map(|state| state.serial), Some(3));
    }
}

#[test]
fn a_damaged_state_is_not_an_empty_one() {
    for bytes in [b"".as_slice(), b"{\"vers", b"null", b"{}", b"\x00\x00"] {
        let case = case(&[(STATE, bytes)]);
        assert_eq!(collected(&case), Err(Reason::StateDamaged), "{bytes:?}");
    }
}

#[test]
fn a_state_of_too_many_objects_is_none() {
    let bomb = [
        br#"{"version":4,"serial":9,"lineage":"a","resources":[{"instances":["#.as_slice(),
        &b"{},".repeat(OBJECTS),
        b"{}]}]}",
    ]
    .concat();
    let values = [
        br#"{"version":4,"serial":9,"lineage":"a","resources":[],"outputs":{"x":{"value":["#.as_slice(),
        &b"0,".repeat(VALUES),
        b"0]}}}",
    ]
    .concat();
    for bomb in [bomb, values] {
        let case = case(&[(STATE, &state(3, "a")), (RUN, &bomb)]);
        assert_eq!(collected(&case), Ok(Some(3)));
    }
}

#[test]
fn a_run_that_changed_something_leaves_a_state_that_tells_of_it() {
    let half = b"{\"vers".as_slice();
    let (two, three, four) = (state(2, "a"), state(3, "a"), state(4, "a"));
    let table: &[(FileTable<'_>, Option<u64>)] = &[
        (&[(STATE, &three), (RUN, &four)], Some(4)),
        // It was looked at while the run went on.
        (&[(STATE, &four), (RUN, &four)], Some(4)),
        (&[(STATE, &three), (LEFT, &four)], Some(4)),
        (&[(RUN, &three)], Some(3)),
        (&[], None),
        (&[(RUN, half)], None),
        (&[(STATE, &three)], None),
        (&[(STATE, &three), (RUN, &two)], None),
        (&[(STATE, &three), (RUN, half)], None),
        (&[(STATE, &three), (RUN, b"")], None),
    ];
    for (files, expected) in table {
        let case = case(files);
        let found = collect(&case.workspace, &case.start, false, None, 1);
        let refused = case.workspace.0.join("state/refused.tfstate");
        match (found, expected) {
            (Ok(state), Some(serial)) => assert_eq!(state.map(|state| state.serial), Some(*serial)),
            (Err(failure), None) => {
                assert_eq!(failure.reason, Reason::StateDamaged);
                let left = files.iter().find(|(name, _)| *name == RUN).map(|(_, bytes)| bytes.to_vec());
                assert_eq!(fs::read(refused).ok(), left, "for a person to look at");
            }
            (found, _) => panic!("{files:?}: {:?}", found.map(|state| state.map(|state| state.serial))),
        }
    }
}

#[test]
fn brackets_in_texts_are_no_objects() {
    let text = "{\\\",".repeat(OBJECTS + 10);
    let long = String::from_utf8(state(4, "a"))
        .expect("text")
        .replace("\"id\":\"1\"", &format!("\"id\":\"{text}\""));
    let case = case(&[(STATE, &state(3, "a")), (RUN, long.as_bytes())]);
    assert_eq!(collected(&case), Ok(Some(4)));
}

#[test]
fn a_record_without_a_seal_still_has_copies() {
    let bytes = state(3, "a");
    let mut record = Record::new(WorkspaceId::new("a"));
    record.state = Some(Seal::of(&State::read(&bytes).expect("whole"), &bytes));
    let case = case(&[(STATE, &bytes)]);
    keep_copy(&case.workspace, &record);
    record.state = None;
    checked(&case.workspace, &record).expect("there");
    fs::remove_file(case.workspace.state()).expect("removed");
    assert_eq!(checked(&case.workspace, &record).expect_err("gone").reason, Reason::StateLost);
    fs::create_dir(case.workspace.state()).expect("a folder");
    assert_eq!(checked(&case.workspace, &record).expect_err("no state").reason, Reason::StateDamaged);
}

#[test]
fn the_lock_of_a_dead_process_goes() {
    let locked = case(&[("guest/state/.terraform.tfstate.lock.info", b"{}")]);
    assert_eq!(collected(&locked), Ok(None));
    assert!(!locked.workspace.0.join("guest/state/.terraform.tfstate.lock.info").exists());
}

#[tokio::test]
async fn a_run_is_followed_by_whole_states_only() {
    let case = case(&[(RUN, &state(1, "a"))]);
    let mut following = StateWatch::new(&case.workspace);
    following.look().await;
    let here = || read(&case.workspace).expect("whole").map(|state| state.serial);
    assert_eq!(here(), Some(1));
    fs::write(case.workspace.0.join(RUN), b"{").expect("write");
    following.look().await;
    assert_eq!(here(), Some(1));
    fs::write(case.workspace.0.join(RUN), state(2, "b")).expect("write");
    following.look().await;
    assert_eq!(here(), Some(1));
    fs::write(case.workspace.0.join(RUN), state(10, "a")).expect("write");
    following.look().await;
    assert_eq!(here(), Some(10));
}

#[test]
fn what_the_record_knows_is_asked_for() {
    let mut record = Record::new(WorkspaceId::new("a"));
    let three = state(3, "a");
    record.state = Some(Seal::of(&State::read(&three).expect("whole"), &three));
    let checked = |files: &[(&str, &[u8])]| {
        let case = case(files);
        checked(&case.workspace, &record)
            .map(|state| state.map(|state| state.serial))
            .map_err(|failure| failure.reason)
    };
    assert_eq!(checked(&[(STATE, &three)]), Ok(Some(3)));
    assert_eq!(checked(&[(STATE, &state(4, "a"))]), Ok(Some(4)), "of a run that was cut off");
    assert_eq!(checked(&[]), Err(Reason::StateLost));
    assert_eq!(checked(&[(STATE, b"")]), Err(Reason::StateDamaged));
    assert_eq!(checked(&[(STATE, &three[..90])]), Err(Reason::StateDamaged));
    assert_eq!(checked(&[(STATE, &state(3, "b"))]), Err(Reason::StateDamaged));
    assert_eq!(checked(&[(STATE, &state(2, "a"))]), Err(Reason::StateDamaged));
    let mut altered = three.clone();
    let at = altered.len() - 8;
    altered[at] = b'9';
    assert_eq!(checked(&[(STATE, &altered)]), Err(Reason::StateDamaged));
}

#[test]
fn the_last_good_states_are_kept_and_damaged_copies_left_out() {
    let case = case(&[]);
    let mut record = Record::new(WorkspaceId::new("a"));
    for serial in 1..=8 {
        let bytes = state(serial, "a");
        fs::write(case.workspace.state(), &bytes).expect("write");
        record.state = Some(Seal::of(&State::read(&bytes).expect("whole"), &bytes));
        keep_copy(&case.workspace, &record);
    }
    let serials = |record: &Record| {
        copies(&case.workspace, record).iter().map(|copy| copy.state.serial).collect::<Vec<_>>()
    };
    assert_eq!(serials(&record), [8, 7, 6, 5, 4]);
    let newest = copies(&case.workspace, &record).remove(0).path;
    fs::write(newest, state(8, "b")).expect("write");
    assert_eq!(serials(&record), [7, 6, 5, 4]);
}

#[test]
fn a_state_that_was_printed_is_kept_where_it_goes_on_from_the_one_of_record() {
    let (two, three, four, foreign) = (state(2, "a"), state(3, "a"), state(4, "a"), state(9, "b"));
    let files: FileTable<'_> = &[(STATE, &three)];
    for (dump, kept) in [
        (Some(&four), &four),
        (Some(&three), &three),
        (Some(&two), &three),
        (Some(&foreign), &three),
        (Some(&b"{\"vers".to_vec()), &three),
        (None, &three),
    ] {
        let newest = newest(&case(files).workspace, dump.map(Vec::as_slice), true);
        let dump = dump.map(|dump| String::from_utf8_lossy(dump));
        assert_eq!(String::from_utf8_lossy(&newest), String::from_utf8_lossy(kept), "{dump:?}");
    }
    assert_eq!(newest(&case(&[]).workspace, Some(&two), true), two, "the first one");
    assert_eq!(newest(&case(files).workspace, Some(&four), false), three, "one that changes nothing");
}

/// Programs of the module run in a plan, too.
#[test]
fn what_changes_nothing_leaves_no_state() {
    use crate::{inputs::Inputs, inputs::Revision, order::Operation, record::Stage};
    let (three, four) = (state(3, "a"), state(4, "a"));
    for (stage, expected) in
        [(Stage::Plan, 3), (Stage::Look, 3), (Stage::Apply, 4), (Stage::Destroy, 4), (Stage::Import, 4)]
    {
        let case = case(&[
            (STATE, &three),
            (RUN, &four),
            (LEFT, &four),
            ("guest/state/.terraform.tfstate.lock.info", b""),
        ]);
        let journal = Journal {
            id: RunId::from("r"),
            operation: Operation::Apply,
            revision: Revision::of(&Inputs::inline(""), "tofu", None),
            inputs: None,
            code: None,
            stage,
            start: case.start.clone(),
            remote: false,
            estimate: 0,
            started: jiff::Timestamp::UNIX_EPOCH,
            timeout: std::time::Duration::ZERO,
            max_destroy: None,
            shared: false,
        };
        let mut report = StreamReport::default();
        report.dump = Some(four.clone());
        let left = after(&case.workspace, &journal, &report).expect("settled").expect("a state");
        assert_eq!(left.serial, expected, "{stage:?}");
        let changes = stage.changes();
        let kept = newest(&case.workspace, report.dump.as_deref(), changes);
        assert_eq!(kept, if changes { four.clone() } else { three.clone() }, "{stage:?}");
        assert!(!case.workspace.0.join("guest/state/.terraform.tfstate.lock.info").exists(), "{stage:?}");
    }
}
