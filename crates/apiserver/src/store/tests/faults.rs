//! Damage, lack of room and failing commits: reported, and never a wrong success.

use std::{fs, path::PathBuf, sync::mpsc};

use rusqlite::Connection;

use super::*;
use crate::store::journal::JournalError;

/// A journal whose every commit waits for a verdict.
#[derive(Debug)]
struct Judged {
    /// The number of events of each commit that has begun.
    begun: mpsc::Sender<usize>,
    verdicts: mpsc::Receiver<Result<(), JournalError>>,
}

impl Journal for Judged {
    fn append(&mut self, events: &[Event], _: Millis) -> Result<(), JournalError> {
        self.begun.send(events.len()).unwrap();
        self.verdicts.recv().unwrap()
    }

    fn compact(&mut self, _: Revision, _: &[Event]) -> Result<(), JournalError> {
        Ok(())
    }

    fn close(self: Box<Self>) {}
}

pub(crate) type Court = (Store, mpsc::Receiver<usize>, mpsc::Sender<Result<(), JournalError>>);

/// A store whose every commit waits for a verdict.
pub(crate) fn court() -> Court {
    let (begun, begins) = mpsc::channel();
    let (verdict, verdicts) = mpsc::channel();
    let journal = Box::new(Judged { begun, verdicts });
    (Store::start(journal, State::default(), None, &Options::default()).unwrap(), begins, verdict)
}

/// The verdict of a full disk.
pub(crate) fn no_room() -> Result<(), JournalError> {
    Err(JournalError::Full("no room".into()))
}

/// Queues the creation of each name, in order.
async fn queue(
    store: &Store,
    names: &[&str],
) -> Vec<tokio::task::JoinHandle<Result<Arc<Object>, WriteError>>> {
    let mut writes = Vec::new();
    for name in names {
        let (store, key) = (store.clone(), key("things", "", name));
        writes.push(tokio::spawn(async move { store.create(key, value("x")).await }));
        // On one thread the task now runs until it waits for its answer.
        tokio::task::yield_now().await;
    }
    writes
}

#[tokio::test]
async fn a_group_fails_as_a_whole_and_the_store_goes_on() {
    let (store, begins, verdict) = court();
    let mut watcher = store.watch(Filter::default(), store.revision()).unwrap();
    let first = queue(&store, &["a"]).await;
    assert_eq!(begins.recv().unwrap(), 1);
    let group = queue(&store, &["b", "c", "b", "a"]).await;
    assert_eq!(store.revision(), Revision::START, "nothing shows before it is committed");
    verdict.send(Ok(())).unwrap();
    assert_eq!(begins.recv().unwrap(), 2, "what was queued is one group, of two that can succeed");
    verdict.send(Err(JournalError::Full("no room".into()))).unwrap();
    for write in first {
        assert_eq!(write.await.unwrap().unwrap().revision().get(), 2);
    }
    for write in group {
        let error = write.await.unwrap().unwrap_err();
        assert!(
            matches!(error, WriteError::Full { .. }),
            "also for those that the lost ones would have refused: {error}"
        );
    }
    assert_eq!(store.revision().get(), 2);
    assert_eq!(store.get(&key("things", "", "b")), None);

    let next = queue(&store, &["b", "b"]).await;
    assert_eq!(begins.recv().unwrap(), 1);
    verdict.send(Ok(())).unwrap();
    let results: Vec<_> = [next].into_iter().flatten().collect();
    let mut outcomes = Vec::new();
    for write in results {
        outcomes.push(
            write.await.unwrap().map(|object| object.revision().get()).map_err(|error| error.to_string()),
        );
    }
    // The second may have come too late for the group; it is refused either way.
    assert_eq!(
        outcomes,
        [Ok(5), Err("things b already exists".to_owned())],
        "revisions 3 and 4 are not taken again"
    );
    let events: Vec<_> = drain(&mut watcher).unwrap().iter().map(short).collect();
    assert_eq!(events, ["+2 a", "+5 b"]);
    let stats = store.stats();
    assert_eq!((stats.failed_commits, stats.read_only, stats.commit_seconds.count()), (1, None, 2));
}

#[tokio::test]
async fn after_a_failed_disk_there_are_only_reads() {
    let (store, begins, verdict) = court();
    verdict.send(Ok(())).unwrap();
    let kept = store.create(key("things", "", "a"), value("x")).await.unwrap();
    verdict.send(Err(JournalError::Broken("disk I/O error".into()))).unwrap();
    for name in ["b", "c"] {
        let error = store.create(key("things", "", name), value("x")).await.unwrap_err();
        assert_eq!(error.to_string(), "the store takes no more writes: disk I/O error");
    }
    assert_eq!(begins.try_iter().count(), 2, "a broken journal is not used again");
    assert!(store.compact(store.revision()).await.is_err());
    assert_eq!(store.get(kept.key()), Some(kept));
    assert_eq!(store.stats().read_only.as_deref(), Some("disk I/O error"));
}

/// Clients learn from `/readyz` that nothing can be written.
#[tokio::test]
async fn a_store_without_room_is_not_well_until_there_is_some() {
    let (store, _begins, verdict) = court();
    assert_eq!(store.refuses_writes(), None);
    for (said, told) in [(no_room(), Some("no room")), (Ok(()), None)] {
        verdict.send(said).unwrap();
        let _ = store.create(key("things", "", "a"), value("x")).await;
        assert_eq!(store.refuses_writes().as_deref(), told);
    }
}

#[tokio::test]
async fn a_folder_that_was_removed_takes_no_writes() {
    let folder = private();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    store.create(key("things", "", "a"), value("x")).await.unwrap();
    fs::remove_dir_all(folder.path()).unwrap();
    let refused = store.create(key("things", "", "b"), value("x")).await.unwrap_err().to_string();
    let wanted =
        format!("the store takes no more writes: the data folder {} was removed", folder.path().display());
    assert_eq!(refused, wanted);
    assert_eq!(store.get(&key("things", "", "b")), None);
    assert!(store.refuses_writes().is_some());
}

/// All objects are in memory: what they take has an end, and who has the right can make room.
#[tokio::test]
async fn a_full_store_takes_what_makes_room() {
    let most = 1 << 20;
    let options = Options { objects_bytes: most, ..Options::default() };
    let folder = private();
    for store in [Store::in_memory(&options).unwrap(), Store::open(folder.path(), &options).unwrap()] {
        let name = |n: usize| key("things", "", &format!("{n:03}"));
        let taken = |store: &Store| store.snapshot().objects().map(|object| object.cost()).sum::<usize>();
        let large = "x".repeat(20 << 10);
        let mut count = 0;
        let error = loop {
            match store.create(name(count), value(&large)).await {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
            assert!(count < 100, "without end");
        };
        let told = format!("the objects of the store take {} bytes, of {most} at most", taken(&store));
        assert_eq!(error.to_string(), format!("no room to write: {told}"));
        assert!(count > 40 && taken(&store) <= most, "{count}");
        // Nothing of a write of several steps.
        let ops = [1, 0]
            .map(|n| Op::Create { key: name(500 + n), value: value(if n == 1 { "x" } else { &large }) });
        store.write(ops.into()).await.unwrap_err();
        assert_eq!(store.get(&name(501)), None);

        // What is no larger, or hardly, is taken; what is, is not.
        let same = |mark: &str| value(&large.replacen('x', mark, 1));
        store.update(name(0), same("y"), None).await.unwrap();
        store.update(name(0), same(&"y".repeat(2000)), None).await.unwrap();
        store.update(name(0), same(&"y".repeat(20_000)), None).await.unwrap_err();
        let mut marks = 0;
        while store.update(name(marks % count), same(&"z".repeat(3000 + marks)), None).await.is_ok() {
            marks += 1;
            assert!(taken(&store) <= most + most / 32 && marks < 1000, "{} {marks}", taken(&store));
        }
        store.delete(name(1), None).await.unwrap();
        store.update(name(0), value("x"), None).await.unwrap();
        store.delete(name(2), None).await.unwrap();
        store.delete(name(3), None).await.unwrap();
        store.create(name(600), value(&large)).await.unwrap();
        assert_eq!(store.snapshot().0.bytes, taken(&store));
    }
    // The same after a restart.
    let store = Store::open(folder.path(), &options).unwrap();
    let bytes = store.snapshot().0.bytes;
    assert_eq!(bytes, store.snapshot().objects().map(|object| object.cost()).sum::<usize>());
    let most = Options { objects_bytes: bytes, ..Options::default() };
    drop(store);
    let store = Store::open(folder.path(), &most).unwrap();
    store.create(key("things", "", "late"), value("x")).await.unwrap_err();
    store.delete(key("things", "", "600"), None).await.unwrap();
    store.create(key("things", "", "late"), value("x")).await.unwrap();
}

#[tokio::test]
async fn a_full_database_loses_nothing() {
    let folder = private();
    let options = Options { quota: Some(400 << 10), ..Options::default() };
    let store = Store::open(folder.path(), &options).unwrap();
    let large = "x".repeat(20 << 10);
    let mut written = Vec::new();
    let error = loop {
        match store.create(key("things", "", &format!("{:03}", written.len())), value(&large)).await {
            Ok(object) => written.push(object),
            Err(error) => break error,
        }
        assert!(written.len() < 100, "beyond the quota");
    };
    assert!(matches!(error, WriteError::Full { .. }), "{error}");
    assert!(written.len() > 5, "{}", written.len());
    assert_eq!(store.revision(), written.last().unwrap().revision());

    let all = ListQuery { resource: "things", ..ListQuery::default() };
    drop(store);
    let store = Store::open(folder.path(), &options).unwrap();
    assert_eq!(store.list(&all).unwrap().objects, written, "the same after a restart");
    for object in written.drain(..5) {
        store.delete(object.key().clone(), None).await.unwrap();
    }
    let newest = store.revision();
    let late = key("things", "", "late");
    store.create(late.clone(), value(&large)).await.unwrap_err();
    store.compact(newest).await.unwrap();
    let late = store.create(late, value(&large)).await.unwrap();
    assert!(late.revision() > newest);
    written.push(late);
    assert_eq!(store.list(&all).unwrap().objects, written, "there is room again once history is dropped");
}

/// A closed store with updated and deleted objects, and with history.
async fn closed() -> (tempfile::TempDir, PathBuf) {
    let folder = private();
    let store = open(folder.path());
    let ops = (0..100)
        .map(|n| Op::Create { key: key("things", "", &n.to_string()), value: value(&"c".repeat(900)) });
    store.write(ops.collect()).await.unwrap();
    store.compact(Revision::new(20)).await.unwrap();
    let update =
        |name: &str| Op::Update { key: key("things", "", name), value: value("updated"), expected: None };
    store.write(vec![update("1"), update("2"), update("50")]).await.unwrap();
    store.delete(key("things", "", "3"), None).await.unwrap();
    drop(store);
    let database = folder.path().join("store.db");
    (folder, database)
}

fn patched(content: &[u8], at: usize, patch: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    content[at..at + patch.len()].copy_from_slice(patch);
    content
}

#[tokio::test]
async fn damage_is_reported_and_left_as_it_is() {
    let (folder, database) = closed().await;
    let good = fs::read(&database).unwrap();
    assert!(!sqlite::log_of(&database).exists(), "a closed store is one file");
    // Everywhere, as there may be an old copy in the free part of a page.
    let mut changed = good.clone();
    let pattern = b"{\"revision\":\"60\",\"content\":\"c";
    let found: Vec<_> = good.windows(pattern.len()).enumerate().filter(|(_, part)| part == pattern).collect();
    for (at, _) in found {
        changed[at + pattern.len()] ^= 1;
    }
    let table = [
        ("empty", Vec::new()),
        ("not a database", b"nonsense".repeat(2000)),
        ("header overwritten", patched(&good, 0, &[0xff; 100])),
        ("cut in half", good[..good.len() / 2].to_vec()),
        ("last page missing", good[..good.len() - 8192].to_vec()),
        ("a page overwritten", patched(&good, 3 * 8192, &[0xff; 8192])),
        ("a page zeroed", patched(&good, 4 * 8192, &[0; 8192])),
        ("a bit in a value", changed),
    ];
    for (what, content) in table {
        fs::write(&database, &content).unwrap();
        let error = Store::open(folder.path(), &Options::default()).expect_err(what);
        assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
        assert!(fs::read(&database).unwrap() == content, "{what}: the file was changed");
    }
    fs::write(&database, &good).unwrap();
    assert_eq!(open(folder.path()).snapshot().count("things", None), 99);
}

#[tokio::test]
async fn rows_that_do_not_fit_are_damage() {
    let (folder, database) = closed().await;
    let good = fs::read(&database).unwrap();
    let table = [
        // "50" was created with revision 52 and updated with 104; "3" was created with 5 and deleted with 105.
        (
            "DELETE FROM version WHERE revision = 52",
            "revision 104: the version it replaced is missing or another",
        ),
        (
            "DELETE FROM version WHERE revision = 5",
            "revision 105: the version it replaced is missing or another",
        ),
        ("UPDATE version SET name = 'other' WHERE revision = 30", "revision 30: the checksum does not match"),
        ("UPDATE version SET value = NULL WHERE revision = 30", "revision 30: the checksum does not match"),
        (
            "UPDATE version SET revision = 200 WHERE revision = 30",
            "revision 200: the checksum does not match",
        ),
        ("UPDATE history SET compacted = 103", "revision 102: it should have been compacted"),
        ("DELETE FROM history", "Query returned no rows"),
    ];
    for (statement, reason) in table {
        fs::write(&database, &good).unwrap();
        Connection::open(&database).unwrap().execute_batch(statement).unwrap();
        let error = Store::open(folder.path(), &Options::default()).expect_err(statement);
        assert!(matches!(error, OpenError::Damaged { .. }), "{statement}: {error}");
        assert!(error.to_string().ends_with(reason), "{statement}: {error}");
    }
}

#[tokio::test]
async fn a_database_lost_beside_its_log_is_damage() {
    let folder = private();
    fs::write(folder.path().join("store.db-wal"), "log").unwrap();
    let error = Store::open(folder.path(), &Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

/// Whatever is left of the log, the store is what it was after some write; no write shows in part. A head record of
/// nothing lets it be opened with less than there was.
#[tokio::test]
async fn a_log_cut_anywhere_leaves_whole_writes() {
    let folder = private();
    let store = open(folder.path());
    let head = fs::read(folder.path().join("store.head")).unwrap();
    let all = ListQuery { resource: "things", ..ListQuery::default() };
    let mut states = BTreeMap::from([(store.revision(), Vec::new())]);
    for n in 0..20 {
        let create = |part| {
            let key = key("things", "", &format!("{n:02}-{part}"));
            Op::Create { key, value: value(&"x".repeat(n * 100)) }
        };
        store.write((0..3).map(create).collect()).await.unwrap();
        states.insert(store.revision(), store.list(&all).unwrap().objects);
    }
    // As a crash would leave them: the store is still open.
    let database = fs::read(folder.path().join("store.db")).unwrap();
    let log = fs::read(folder.path().join("store.db-wal")).unwrap();
    let mut found = Vec::new();
    for cut in (0..=log.len()).step_by(log.len() / 60).chain([log.len()]) {
        let mut flipped = log.clone();
        if let Some(byte) = flipped.get_mut(cut) {
            *byte ^= 1;
        }
        for log in [&log[..cut], &flipped] {
            let copy = private();
            fs::write(copy.path().join("store.db"), &database).unwrap();
            fs::write(copy.path().join("store.db-wal"), log).unwrap();
            fs::write(copy.path().join("store.head"), &head).unwrap();
            let store = open(copy.path());
            let expected = states.get(&store.revision()).expect("a revision after a whole write");
            assert_eq!(store.list(&all).unwrap().objects, *expected, "cut at {cut}");
            found.push(store.revision());
        }
    }
    assert_eq!(found.last(), states.keys().last(), "the whole log is the whole store");
    assert!(found.iter().collect::<std::collections::BTreeSet<_>>().len() > 10, "{found:?}");
}
