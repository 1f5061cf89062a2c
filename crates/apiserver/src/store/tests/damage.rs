//! Damage to the files of a store: what is opened is all that was answered, or nothing is. What is recovered are
//! versions that once were, and all of them where the store says so.

use std::{env, fs, path::PathBuf};

use proptest::test_runner::{Config, TestRunner};
use rusqlite::Connection;

use super::*;

/// `CAPT_ATTACK=long`, as `make attack` sets it, tries many more.
fn cases(short: u32) -> u32 {
    if env::var("CAPT_ATTACK").is_ok_and(|form| form == "long") { short * 40 } else { short }
}

const FILES: [&str; 3] = ["store.db", "store.db-wal", "store.head"];

/// The files of a store at some moment, by name.
type Image = BTreeMap<&'static str, Vec<u8>>;

fn files_in(folder: &Path) -> Image {
    // SQLite makes the log where it opens a database without one; an empty one says as much as none.
    let said = |(name, content): &(&str, Vec<u8>)| *name != "store.db-wal" || !content.is_empty();
    let read = |name| Some((name, fs::read(folder.join(name)).ok()?));
    FILES.into_iter().filter_map(read).filter(said).collect()
}

fn put(image: &Image) -> tempfile::TempDir {
    let folder = private();
    for (name, content) in image {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn objects(store: &Store) -> Objects {
    store.snapshot().objects().map(|object| (object.key().clone(), object.clone())).collect()
}

/// A store that was killed, and all that it ever answered.
struct Killed {
    /// Its files after each write of its last life; the last ones are as it left them.
    images: Vec<Image>,
    /// All that it had answered.
    answered: Objects,
    revision: Revision,
    /// Every version that ever was.
    versions: Vec<Arc<Object>>,
}

/// Has content in the database and in the log: several commits of several pages, updates, deletions, compactions.
async fn killed() -> Killed {
    let folder = private();
    let (mut versions, mut images) = (Vec::new(), Vec::new());
    let store = open(folder.path());
    let name = |n: usize| key("things", if n.is_multiple_of(2) { "a" } else { "" }, &format!("{n:03}"));
    let ops = (0..150).map(|n| Op::Create { key: name(n), value: value(&"b".repeat(n % 30 * 60)) });
    versions.extend(store.write(ops.collect()).await.unwrap());
    store.compact(Revision::new(20)).await.unwrap();
    drop(store);
    let store = open(folder.path());
    for n in 0..30 {
        let ops = (0..=n % 3).map(|part| {
            let key = name(n * 7 + part);
            let value = value(&format!("{n}").repeat(if part == 1 { 5000 } else { 300 }));
            match (store.get(&key), n % 5 + part) {
                (None, _) => Op::Create { key, value },
                (Some(_), 0) => Op::Delete { key, expected: None },
                (Some(_), _) => Op::Update { key, value, expected: None },
            }
        });
        versions.extend(store.write(ops.collect()).await.unwrap());
        if n == 20 {
            store.compact(Revision::new(40)).await.unwrap();
        }
        images.push(files_in(folder.path()));
    }
    let (answered, revision) = (objects(&store), store.revision());
    Killed { images, answered, revision, versions }
}

impl Killed {
    fn last(&self) -> &Image {
        self.images.last().unwrap()
    }

    /// Opens a store on these files: all is there, or it is refused and the files are left as they are. Returns whether
    /// it was refused.
    fn all_or_nothing(&self, image: &Image, what: &str) -> bool {
        let folder = put(image);
        let (found, error) = match Store::open(folder.path(), &Options::default()) {
            Ok(store) => ((objects(&store), store.revision()), None),
            Err(error) => (self.recovered(folder.path(), image, what), Some(error)),
        };
        let Some(error) = error else {
            assert_eq!(found.0, self.answered, "{what}: it starts with less");
            assert_eq!(found.1, self.revision, "{what}");
            return false;
        };
        assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
        true
    }

    /// Recovers what is on a folder that was refused.
    fn recovered(&self, folder: &Path, image: &Image, what: &str) -> (Objects, Revision) {
        assert_eq!(files_in(folder), *image, "{what}: the files were changed");
        let recovery = Recovery::inspect(folder).unwrap().expect("it is damaged");
        assert_eq!(files_in(folder), *image, "{what}: the files were changed");
        let complete = recovery.is_complete();
        let (count, told) = (recovery.objects().len(), recovery.lost().len());
        let kept = recovery.apply("now").unwrap();
        if let Some(kept) = kept {
            assert_eq!(files_in(&kept), *image, "{what}: the copies");
        }
        let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name == "recovering" || name == "recovered"), "{what}: {left:?}");
        let store = open(folder);
        let found = objects(&store);
        assert_eq!(found.len(), count, "{what}");
        assert!(store.revision() > self.revision, "{what}: revisions are not given out twice");
        for object in found.values() {
            assert!(self.versions.contains(object), "{what}: {object:?} never was");
        }
        if complete {
            assert_eq!(found, self.answered, "{what}: it says that all is there");
            assert_eq!(told, 0, "{what}: it says that something is lost");
        }
        (found, store.revision())
    }
}

/// A random number below `bound`; whatever fails shows what it was.
fn chance(bound: usize) -> usize {
    usize::try_from(uuid::Uuid::new_v4().as_u128() % bound.max(1) as u128).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Blow {
    Flip,
    Zero,
    Cut,
}

#[tokio::test]
async fn a_store_starts_with_all_that_was_answered_or_not_at_all() {
    let killed = killed().await;
    assert!(!killed.all_or_nothing(killed.last(), "as it was left"));
    for name in FILES {
        let size = killed.last()[name].len();
        let (regions, mut refused) = (cases(16) as usize, 0);
        for region in 0..regions {
            // One in each region, at a random place of it.
            let (from, to) = (size * region / regions, size * (region + 1) / regions);
            let at = (from + chance(to - from)).min(size - 1);
            for blow in [Blow::Flip, Blow::Zero, Blow::Cut] {
                let mut image = killed.last().clone();
                let content = image.get_mut(name).unwrap();
                match blow {
                    Blow::Flip => content[at] ^= 1 << (at % 8),
                    Blow::Zero => content[at..size.min(at + 600)].fill(0),
                    Blow::Cut => content.truncate(at),
                }
                image.retain(|name, content| *name != "store.db-wal" || !content.is_empty());
                let what = format!("{blow:?} {name} at {at} of {size}");
                refused += usize::from(killed.all_or_nothing(&image, &what));
            }
        }
        // Of the head record, one of two is enough where the database is ahead of it.
        assert!(name == "store.head" || refused > regions / 4, "{name}: {refused} were refused");
    }
}

/// Two slots of a head record, each a block of its own.
const SLOTS: [usize; 2] = [0, 4096];

/// One bit of the newer slot hides that there was a commit, and what is cut off the log is that commit.
#[tokio::test]
async fn a_damaged_head_record_hides_no_lost_commit() {
    let killed = killed().await;
    let mut refused = 0;
    for slot in SLOTS {
        let mut image = killed.last().clone();
        image.get_mut("store.head").unwrap()[slot + 20] ^= 1;
        let alone = killed.all_or_nothing(&image, &format!("the slot at {slot}"));
        refused += usize::from(alone);
        let size = image["store.db-wal"].len();
        for cut in (0..cases(8)).map(|_| chance(24_000)).chain([5_000]) {
            let mut image = image.clone();
            image.get_mut("store.db-wal").unwrap().truncate(size.saturating_sub(cut).max(1));
            let what = format!("the slot at {slot}, and {cut} bytes of the log");
            let started = !killed.all_or_nothing(&image, &what);
            assert!(!(started && alone), "{what}");
        }
    }
    assert_eq!(
        refused, 1,
        "a slot that was torn is the newer one, and then the database is ahead of the other"
    );
}

/// What was torn is mended by the next start, whichever slot the writes after it go to.
#[tokio::test]
async fn a_torn_head_record_is_replaced() {
    let killed = killed().await;
    for slot in SLOTS {
        for old in killed.images.iter().rev().take(5) {
            let mut image = killed.last().clone();
            let mut head = old["store.head"].clone();
            head[slot + 20] ^= 1;
            image.insert("store.head", head);
            let folder = put(&image);
            let Ok(store) = Store::open(folder.path(), &Options::default()) else { continue };
            assert_eq!(objects(&store), killed.answered);
            let mut image = files_in(folder.path());
            drop(store);
            assert!(!killed.all_or_nothing(&image, "mended"));
            image.remove("store.db-wal");
            assert!(killed.all_or_nothing(&image, "mended, and the log is gone"));
        }
    }
}

#[tokio::test]
async fn a_store_without_some_of_its_files_does_not_start() {
    let killed = killed().await;
    for missing in 1..7_usize {
        let mut image = killed.last().clone();
        let names: Vec<_> = FILES.iter().enumerate().filter(|(at, _)| missing >> at & 1 == 1).collect();
        for (_, name) in &names {
            image.remove(*name);
        }
        let what = format!("without {names:?}");
        assert!(killed.all_or_nothing(&image, &what), "{what}");
    }
    let folder = private();
    let none = Recovery::inspect(folder.path()).unwrap().expect("nothing is no sound store");
    assert!(none.is_missing() && none.objects().is_empty());
    none.apply("now").unwrap();
    assert!(open(folder.path()).revision() > Revision::START, "it is not taken for a new one");
}

/// All files as they were earlier is a store as it was then, which nobody can tell from the store; a part of them shows.
#[tokio::test]
async fn older_copies_of_some_files_do_not_start() {
    let killed = killed().await;
    let last = killed.last();
    for old in &killed.images[..killed.images.len() - 1] {
        for name in ["store.db-wal", "store.db"] {
            let mut image = last.clone();
            image.insert(name, old[name].clone());
            let refused = killed.all_or_nothing(&image, name);
            assert!(refused || old[name] == last[name] || name == "store.db", "{name}");
        }
    }
    // Stopped since then, so that all is in the database, and its log is gone.
    let folder = put(last);
    drop(open(folder.path()));
    let stopped = files_in(folder.path());
    assert!(!stopped.contains_key("store.db-wal"));
    for (n, old) in killed.images[..killed.images.len() - 1].iter().enumerate() {
        for names in [
            &["store.db-wal"][..],
            &["store.db-wal", "store.head"],
            &["store.db", "store.db-wal"],
            &["store.db", "store.head"],
        ] {
            let mut image = stopped.clone();
            image.extend(names.iter().map(|name| (*name, old[name].clone())));
            let what = format!("{names:?} of write {n}");
            assert!(killed.all_or_nothing(&image, &what), "{what}");
        }
    }
    // Another life of the same store: as many commits, but others.
    let folder = put(&killed.images[5]);
    let store = open(folder.path());
    for n in 0..60 {
        store.create(key("others", "", &n.to_string()), value("x")).await.unwrap();
    }
    let mut other = files_in(folder.path());
    other.insert("store.head", last["store.head"].clone());
    let folder = put(&other);
    let error = Store::open(folder.path(), &Options::default()).unwrap_err();
    assert!(error.to_string().ends_with("it is another copy"), "{error}");
}

/// Killed between commit and head record, or with a record that a loss of power left behind.
#[tokio::test]
async fn a_head_record_may_be_behind() {
    let killed = killed().await;
    for (n, old) in killed.images.iter().enumerate() {
        let mut image = killed.last().clone();
        image.insert("store.head", old["store.head"].clone());
        assert!(!killed.all_or_nothing(&image, &format!("the head record of write {n}")));
    }
    // And it is brought up to date, so that damage is found again.
    let mut image = killed.last().clone();
    image.insert("store.head", killed.images[0]["store.head"].clone());
    let folder = put(&image);
    let store = open(folder.path());
    let now = files_in(folder.path());
    drop(store);
    let mut damaged = now.clone();
    damaged.remove("store.db-wal");
    assert!(killed.all_or_nothing(&damaged, "the log is gone"));
}

/// A folder as the version before left it: without a chain and a head record.
fn unchained(folder: &Path) {
    let database = Connection::open(folder.join("store.db")).unwrap();
    database
        .execute_batch(
            "ALTER TABLE version DROP COLUMN chained;
             ALTER TABLE history DROP COLUMN chained;
             PRAGMA user_version = 1;",
        )
        .unwrap();
    fs::remove_file(folder.join("store.head")).unwrap();
}

#[tokio::test]
async fn a_store_of_the_format_before_is_taken_over_once() {
    let killed = killed().await;
    let folder = put(killed.last());
    drop(open(folder.path()));
    unchained(folder.path());
    let before = files_in(folder.path());
    let store = open(folder.path());
    assert_eq!(objects(&store), killed.answered);
    let added = store.create(key("things", "", "added"), value("x")).await.unwrap();
    let after = files_in(folder.path());
    drop(store);
    assert_eq!(open(folder.path()).get(added.key()), Some(added));

    let mut cut = before.clone();
    cut.insert("store.head", {
        let folder = put(&before);
        drop(open(folder.path()));
        fs::read(folder.path().join("store.head")).unwrap()
    });
    assert!(!killed.all_or_nothing(&cut, "taken over, but for the database"));
    let mut lost = before;
    lost.insert("store.head", after["store.head"].clone());
    let folder = put(&lost);
    let error = Store::open(folder.path(), &Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn a_recovery_that_was_cut_short_is_finished() {
    let killed = killed().await;
    let folder = put(killed.last());
    drop(open(folder.path()));
    let good = files_in(folder.path());
    // In its place is nothing yet, the database, or all.
    for moved in 0..3 {
        let folder = put(killed.last());
        let done = folder.path().join("recovered");
        fs::create_dir(&done).unwrap();
        for (at, name) in ["store.db", "store.head"].into_iter().enumerate() {
            let place = if at < moved { folder.path().join(name) } else { done.join(name) };
            fs::write(place, &good[name]).unwrap();
        }
        if moved > 0 {
            fs::remove_file(folder.path().join("store.db-wal")).unwrap();
        }
        let error = Store::open(folder.path(), &Options::default()).unwrap_err();
        assert!(error.to_string().ends_with("it was being recovered, which was cut short"), "{error}");
        assert!(Recovery::inspect(folder.path()).unwrap().is_none(), "it is sound once it is finished");
        assert_eq!(objects(&open(folder.path())), killed.answered);
    }
}

#[tokio::test]
async fn what_is_lost_is_told() {
    let killed = killed().await;
    let mut image = killed.last().clone();
    // The log ends within the last commit.
    let log = image.get_mut("store.db-wal").unwrap();
    let last = log.len() - 8000;
    log.truncate(last);
    let folder = put(&image);
    let error = Store::open(folder.path(), &Options::default()).unwrap_err().to_string();
    let (before, newest) = (killed.revision.get() - 3, killed.revision);
    assert!(
        error.contains(&format!("ends at revision {before}, but writes up to revision {newest}")),
        "{error}"
    );
    let recovery = Recovery::inspect(folder.path()).unwrap().unwrap();
    assert_eq!(recovery.damage(), error);
    assert_eq!((recovery.answered(), recovery.revision().get()), (Some(newest), before));
    assert!(!recovery.is_complete());

    // Behind the damage everything can be read, and is told.
    let mut image = killed.last().clone();
    image.get_mut("store.db-wal").unwrap()[40] ^= 1;
    let folder = put(&image);
    let recovery = Recovery::inspect(folder.path()).unwrap().unwrap();
    assert!(recovery.is_complete(), "only a checksum is damaged: {:?}", recovery.lost());
}

/// Bytes that nobody wrote are refused, or are a new store, but never a panic.
#[test]
fn any_files_are_read() {
    use proptest::prelude::*;
    let mut runner = TestRunner::new(Config { cases: cases(32), ..Config::default() });
    let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..20_000));
    let outcome = runner.run(&(bytes(), bytes(), bytes()), |(database, log, head)| {
        let files: Vec<PathBuf> = FILES.iter().map(PathBuf::from).collect();
        let folder = private();
        for (name, content) in files.iter().zip([&database, &log, &head]) {
            if let Some(content) = content {
                fs::write(folder.path().join(name), content).unwrap();
            }
        }
        let opened = Store::open(folder.path(), &Options::default());
        let nothing = database.is_none() && log.is_none() && head.is_none();
        prop_assert_eq!(opened.is_ok(), nothing);
        drop(opened);
        if let Ok(Some(recovery)) = Recovery::inspect(folder.path()) {
            prop_assert!(recovery.objects().is_empty());
            recovery.apply("now").unwrap();
            prop_assert!(Store::open(folder.path(), &Options::default()).is_ok());
        }
        Ok(())
    });
    outcome.unwrap();
}
