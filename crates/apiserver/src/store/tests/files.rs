//! The folder: who may use it, and what is refused in it.

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

use rusqlite::Connection;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn refused(folder: &Path) -> OpenError {
    Store::open(folder, &Options::default()).unwrap_err()
}

#[tokio::test]
async fn a_store_is_closed_though_somebody_holds_it() {
    let parent = private();
    let folder = parent.path().join("data");
    let store = open(&folder);
    let writes = (0..20).map(|number| store.create(key("things", "a", &number.to_string()), value("x")));
    let (written, ()) = futures::join!(futures::future::join_all(writes), store.close());
    let kept = written.iter().filter(|answer| answer.is_ok()).count();
    assert!(kept > 0, "what was queued before is written");
    let refused = store.create(key("things", "a", "late"), value("x")).await;
    assert!(matches!(refused, Err(WriteError::Closed)), "{refused:?}");
    store.close().await;
    assert_eq!(
        store.list(&ListQuery { resource: "things", ..ListQuery::default() }).unwrap().objects.len(),
        kept
    );
    let again = open(&folder);
    assert_eq!(again.revision(), store.revision(), "the folder is free, and has all that was answered");
}

#[tokio::test]
async fn a_store_outlives_its_handles() {
    let parent = private();
    let folder = parent.path().join("data");
    let one = key("things", "a", "one");
    let store = open(&folder);
    let written = store.create(one.clone(), value("x")).await.unwrap();
    store.create(key("things", "a", "two"), value("y")).await.unwrap();
    store.delete(key("things", "a", "two"), None).await.unwrap();
    let clone = store.clone();
    drop(store);
    assert_eq!(clone.get(&one), Some(written.clone()), "one handle is enough");
    drop(clone);
    let store = open(&folder);
    assert_eq!((store.get(&one), store.revision().get()), (Some(written), 4));
    let mut watcher = store.watch(Filter::default(), Revision::new(2)).unwrap();
    let events: Vec<_> = drain(&mut watcher).unwrap().iter().map(short).collect();
    assert_eq!(events, ["+3 two", "-4 two"], "a watch resumes over a restart");
    let updated = store.update(one.clone(), value("z"), None).await.unwrap();
    store.create(key("things", "a", "three"), value("y")).await.unwrap();
    store.delete(key("things", "a", "three"), None).await.unwrap();
    store.compact(store.revision()).await.unwrap();
    drop(store);
    let store = open(&folder);
    assert_eq!(store.revision().get(), 7, "the revision of a deletion that was compacted is not taken again");
    assert_eq!(store.snapshot().compacted().get(), 7);
    assert_eq!(
        store.list(&ListQuery { resource: "things", ..ListQuery::default() }).unwrap().objects,
        [updated]
    );
    assert!(store.stats().disk_bytes > 0);
}

#[tokio::test]
async fn files_are_private() {
    let parent = private();
    let folder = parent.path().join("data");
    let store = open(&folder);
    store.create(key("things", "", "a"), value("a")).await.unwrap();
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 4, "lock, database, its log and its head record: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_folder_open_to_others() {
    let parent = private();
    let folder = parent.path().join("data");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    drop(open(&folder));
    assert_eq!(mode(&folder), 0o700, "an empty folder is made private");
    fs::set_permissions(&folder, Permissions::from_mode(0o750)).unwrap();
    let error = refused(&folder);
    assert!(matches!(error, OpenError::Exposed { mode: 0o750, .. }), "{error}");
    assert_eq!(mode(&folder), 0o750, "and any other is left alone");
}

#[test]
fn what_is_no_file_is_named() {
    for name in ["store.db", "store.db-wal", "store.head"] {
        let folder = private();
        drop(open(folder.path()));
        let path = folder.path().join(name);
        let _ = fs::remove_file(&path);
        fs::create_dir(&path).unwrap();
        let error = std::error::Error::source(&refused(folder.path())).map(ToString::to_string);
        let told = refused(folder.path()).to_string();
        assert!(told.contains(&path.display().to_string()), "{name}: {told}: {error:?}");
        // The system says what of the head record, which is read first.
        assert!(
            error.is_some_and(|error| error.contains("not a file") || error.contains("directory")),
            "{told}"
        );
    }
}

#[test]
fn one_store_at_a_time() {
    let folder = private();
    let store = open(folder.path());
    let error = refused(folder.path());
    assert!(error.to_string().ends_with(&format!("is in use by process {}", std::process::id())), "{error}");
    drop(store);
    drop(open(folder.path()));
}

#[test]
fn what_is_no_folder() {
    let parent = private();
    let file = parent.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below"), parent.path().join("missing").join("below")] {
        let error = refused(&path);
        assert!(matches!(error, OpenError::File { .. } | OpenError::Exposed { .. }), "{error}");
    }
}

#[test]
fn another_programs_database_is_left_alone() {
    let folder = private();
    let path = folder.path().join("store.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::Foreign { found: 0, .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn another_format_is_left_alone() {
    let folder = private();
    drop(open(folder.path()));
    let path = folder.path().join("store.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&path).unwrap();
    let error = refused(folder.path());
    assert!(error.to_string().ends_with("has format 99; this program reads format 2"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_start_that_was_cut_short_is_started_again() {
    let folder = private();
    fs::write(folder.path().join("store.db.new"), "half").unwrap();
    assert_eq!(open(folder.path()).revision(), Revision::START);
}

const STRANGER: &str = "CAPT_TEST_STRANGER";

/// What another program sees of a database in use; does nothing unless told where one is.
#[test]
fn stranger() {
    let Some(path) = env::var_os(STRANGER) else { return };
    let other = Connection::open(path).unwrap();
    other.busy_timeout(Duration::ZERO).unwrap();
    let error = other.execute_batch("BEGIN IMMEDIATE").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy), "{error}");
}

/// The second connection that checks a closed store when it is opened leaves the locks of the first alone.
#[tokio::test]
async fn other_programs_are_kept_out() {
    let folder = private();
    drop(open(folder.path()));
    let store = open(folder.path());
    let (_, module) = module_path!().split_once("::").unwrap();
    for written in [false, true] {
        if written {
            store.create(key("things", "", "a"), value("a")).await.unwrap();
        }
        let status = Command::new(env::current_exe().unwrap())
            .args(["--exact", &format!("{module}::stranger"), "--nocapture"])
            .env(STRANGER, folder.path().join("store.db"))
            .status()
            .unwrap();
        assert!(status.success(), "written: {written}");
    }
}

#[test]
fn a_folder_may_have_any_name() {
    let parent = private();
    let folder = parent.path().join("50% of ünï? #1 & more");
    drop(open(&folder));
    assert_eq!(open(&folder).revision(), Revision::START);
}
