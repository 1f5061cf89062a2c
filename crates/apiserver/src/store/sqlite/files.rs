//! The files of a database by their names: what is done before they are known to be good.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use super::{
    chain::Commit,
    head::{self, CommitRecord, Found, Head},
    log_of, recover,
    row::{self, Loaded},
};
use crate::store::{
    folder::{Folder, OpenError},
    key::Revision,
    object::Object,
};

/// "CAPT": what `file` and SQLite's own tools show of it.
const APPLICATION: i32 = 0x4341_5054;
const FORMAT: i32 = 2;
/// The format before commits were chained. It is read, and then brought up to date.
const UNCHAINED: i32 = 1;
/// Holds five objects of the usual size (a page of 4 KiB holds two and wastes a quarter of itself).
pub(super) const PAGE: u32 = 8192;
/// The log is cut to this after it was copied into the database; in steady use it stays about half as long.
const LOG_BYTES: u32 = 16 << 20;

const SCHEMA: &str = "
    CREATE TABLE version (
        revision  INTEGER PRIMARY KEY,
        resource  TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name      TEXT NOT NULL,
        created   INTEGER NOT NULL, -- revision
        previous  INTEGER,          -- revision of the version that this one replaced
        written   INTEGER NOT NULL, -- milliseconds since 1970
        stamp     INTEGER,          -- where in the value the revision stands
        value     BLOB,             -- NULL: deleted
        checksum  INTEGER NOT NULL,
        chained   BLOB              -- the commit whose last row this is
    ) STRICT;
    CREATE TABLE history (
        compacted INTEGER NOT NULL,
        chained   BLOB              -- the commit that compacted last, or the first of all
    ) STRICT;
    INSERT INTO history VALUES (1, NULL);
";

/// Behind the other columns, as in a new database: rows that are there need not be written again.
const CHAIN: &str = "
    ALTER TABLE version ADD COLUMN chained BLOB;
    ALTER TABLE history ADD COLUMN chained BLOB;
";

/// The mode in which rows are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// True if commits are chained in this format.
    pub(super) chained: bool,
    /// The commit to look for.
    pub(super) asked: Option<u64>,
}

/// The database's file by its name.
pub(super) struct Files<'a>(pub(super) &'a Path);

impl Files<'_> {
    /// The path of the head record.
    fn head_path(&self) -> PathBuf {
        self.0.with_file_name(head::FILE)
    }

    /// The head record, as far as there is one.
    pub(super) fn head(&self) -> Result<Found, OpenError> {
        // To read a pipe is to wait for its other end.
        self.check_kinds()?;
        let path = self.head_path();
        head::read(&path).map_err(|source| OpenError::File { attempt: "read", path, source })
    }

    /// Returns whether there is a database. One that was lost or emptied is damage, not a new store.
    pub(super) fn exist(&self, head: Found) -> Result<bool, OpenError> {
        if recover::is_unfinished(self.0) {
            return Err(self.damaged("it was being recovered, which was cut short"));
        }
        self.check_kinds()?;
        match fs::metadata(self.0) {
            Ok(file) if file.len() == 0 => Err(self.damaged("the file is empty")),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if log_of(self.0).exists() {
                    return Err(
                        self.damaged("the file is missing, its write-ahead log, store.db-wal, is there")
                    );
                }
                match head {
                    Found::Whole(record) if !record.is_of_a_new_store() => Err(self.damaged(&format!(
                        "the file is missing; writes up to revision {} were answered and would be lost",
                        record.revision
                    ))),
                    Found::Damaged | Found::Half(_) => {
                        Err(self.damaged("the file is missing, its head record is there"))
                    }
                    Found::Whole(_) | Found::Missing => Ok(false),
                }
            }
            Err(source) => Err(self.refused("look at", source)),
        }
    }

    /// Refuses what is no file by its own name: SQLite would name the database, whichever it is.
    fn check_kinds(&self) -> Result<(), OpenError> {
        let beside = |ending: &str| {
            let mut path = self.0.as_os_str().to_owned();
            path.push(ending);
            PathBuf::from(path)
        };
        // SQLite opens the last two where they are there.
        let others = [log_of(self.0), self.head_path(), beside("-journal"), beside("-shm")];
        for path in [self.0.to_owned()].into_iter().chain(others) {
            if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
                let source = io::Error::other("it is not a file");
                return Err(OpenError::File { attempt: "open", path, source });
            }
        }
        Ok(())
    }

    /// Makes an empty database beside its place and moves it there when it is whole. The head record is there before: a
    /// database of this format is never without one.
    pub(super) fn create(&self, folder: &Folder) -> Result<Found, OpenError> {
        let record = self.create_with(&[], Revision::START)?;
        folder.sync()?;
        Ok(Found::Whole(record))
    }

    /// The same, of these objects.
    pub(super) fn create_with(
        &self,
        objects: &[Arc<Object>],
        revision: Revision,
    ) -> Result<CommitRecord, OpenError> {
        let draft = self.0.with_extension("db.new");
        // Left by a start that was cut short. SQLite would make a file that others may read.
        let removed = fs::remove_file(&draft).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        removed.map_err(|source| self.refused("remove the draft of", source))?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .map_err(|source| self.refused("create", source))?;
        let commit = initialize(&draft, objects, revision).map_err(self.failed("create"))?;
        // All of it at once, where SQLite would sync each step of its own.
        let synced = fs::File::open(&draft).and_then(|file| file.sync_all());
        synced.map_err(|source| self.refused("sync", source))?;
        let record = CommitRecord::of(&commit, revision);
        self.create_head(&record)?;
        fs::rename(&draft, self.0).map_err(|source| self.refused("create", source))?;
        Ok(record)
    }

    pub(super) fn create_head(&self, record: &CommitRecord) -> Result<(), OpenError> {
        let path = self.head_path();
        Head::create(&path, record).map_err(|source| OpenError::File { attempt: "write", path, source })
    }

    /// Opens the head record, and brings it up to date where it fell behind. One with a slot that is not whole is
    /// replaced: what is written next may go into the other.
    pub(super) fn write_head(&self, record: &CommitRecord, found: Found) -> Result<Head, OpenError> {
        let write = |path: &Path| {
            if let Found::Half(_) = found {
                Head::create(path, record)?;
            }
            let head = Head::open(path)?;
            if found != Found::Whole(*record) {
                head.write(record)?;
                head.sync()?;
            }
            Ok(head)
        };
        let path = self.head_path();
        write(&path).map_err(|source| OpenError::File { attempt: "write", path, source })
    }

    /// Opens the database, such that it is left as it is: closing it would copy what is good of a damaged log and remove
    /// the rest.
    pub(super) fn connect(&self) -> Result<Connection, OpenError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.0, flags).map_err(self.failed("open"))?;
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(self.failed("set up"))?;
        Ok(connection)
    }

    /// From now on, closing copies the log into the database.
    pub(super) fn close_tidily(&self, connection: &Connection) -> Result<(), OpenError> {
        let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
        set.map(drop).map_err(self.failed("set up"))
    }

    /// Changes nothing before it is known that the file is ours. Returns whether its commits are chained.
    pub(super) fn check_identity(&self, connection: &Connection) -> Result<bool, OpenError> {
        let read = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let identity = || {
            // Before the first read, or SQLite would make the shared memory file.
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            Ok((read("application_id")?, read("user_version")?))
        };
        let (application, format) = identity().map_err(self.failed("read the header of"))?;
        if application != APPLICATION {
            return Err(OpenError::Foreign { path: self.0.to_owned(), found: application });
        }
        match format {
            FORMAT => Ok(true),
            UNCHAINED => Ok(false),
            _ => Err(OpenError::Format { path: self.0.to_owned(), found: format, supported: FORMAT }),
        }
    }

    pub(super) fn set_up(&self, connection: &Connection, quota: Option<u64>) -> Result<(), OpenError> {
        set_up(connection, quota).map_err(self.failed("set up"))?;
        match connection.is_readonly("main") {
            Ok(false) => Ok(()),
            // Its header says so, as this process may write the file.
            Ok(true) => Err(self.damaged("it says that it cannot be written")),
            Err(error) => Err(self.failed("set up")(error)),
        }
    }

    /// Compares what was read with the chain of commits and with the head record. Returns the newest commit; `None` for
    /// a database from before commits were chained.
    pub(super) fn verify(&self, loaded: &Loaded, head: Found) -> Result<Option<Commit>, OpenError> {
        let Loaded { state, rows, newest, asked, chained, alone } = loaded;
        let revision = state.revision;
        match (newest, head) {
            (None, _) if *chained => Err(self.damaged("it has no chain of commits")),
            (None, Found::Missing) => Ok(None),
            (None, Found::Whole(record))
                if record == CommitRecord::of(&Commit::first(revision, state.compacted, *rows), revision) =>
            {
                // Bringing it up to date was cut short.
                Ok(None)
            }
            (Some(newest), _) if newest.rows != *rows => {
                Err(self.damaged("rows are missing, or are not of the newest commit"))
            }
            (_, Found::Missing | Found::Damaged) => {
                let what = if head == Found::Missing { "is missing" } else { "is not whole" };
                Err(self.damaged(&format!(
                    "its head record, {}, {what}: nobody can tell whether the newest commits are there; \
                     the database ends at revision {revision}",
                    head::FILE
                )))
            }
            (Some(newest), Found::Whole(record) | Found::Half(record))
                if head.is_reached_by(newest.number) =>
            {
                match asked {
                    Some(hash) if *hash != record.hash => {
                        Err(self.damaged("its commits are not those of its head record: it is another copy"))
                    }
                    // What is in the file was in a log before, so that the log of the file is never behind it.
                    _ if alone.is_some_and(|alone| alone.number > newest.number) => {
                        let told =
                            "its write-ahead log, store.db-wal, is an older copy, and so is its head record";
                        Err(self.damaged(&format!("{told}: with them it ends at revision {revision}")))
                    }
                    _ => Ok(Some(*newest)),
                }
            }
            (Some(newest), Found::Half(record)) if record.number == newest.number => {
                Err(self.damaged(&format!(
                    "half of its head record, {}, is not whole: nobody can tell whether one more commit was \
                     answered; the database ends at revision {revision}",
                    head::FILE
                )))
            }
            (_, Found::Whole(record) | Found::Half(record)) => {
                Err(self.damaged(&lost(newest.as_ref(), revision, &record)))
            }
        }
    }

    /// Begins a chain in a database from before commits were chained. The head record comes first: if this is cut
    /// short, it is found to be the same the next time.
    pub(super) fn adopt(
        &self,
        connection: &Connection,
        folder: &Folder,
        loaded: &Loaded,
    ) -> Result<Commit, OpenError> {
        let Loaded { state, rows, .. } = loaded;
        let commit = Commit::first(state.revision, state.compacted, *rows);
        self.create_head(&CommitRecord::of(&commit, state.revision))?;
        folder.sync()?;
        let adopt = || {
            let transaction = connection.unchecked_transaction()?;
            transaction.execute_batch(CHAIN)?;
            row::chain(&transaction, state.compacted, &commit)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
            transaction.commit()
        };
        adopt().map_err(self.failed("bring up to date"))?;
        Ok(commit)
    }

    /// The structure of the file; the content is checked row by row as it is read.
    pub(super) fn check_pages(&self, connection: &Connection) -> Result<(), OpenError> {
        let verdict = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
            .map_err(self.failed("check"))?;
        if verdict == "ok" { Ok(()) } else { Err(self.damaged(&verdict)) }
    }

    /// Returns whether there is something in the log, without which the file is not the database.
    pub(super) fn is_logged(&self) -> Result<bool, OpenError> {
        match fs::metadata(log_of(self.0)) {
            Ok(log) => Ok(log.len() > 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(self.refused("look at the log of", source)),
        }
    }

    /// Reads the rows beside another thread that checks the pages, through a connection of its own that needs no locks.
    /// What the pages say goes first, as it does where one follows the other.
    pub(super) fn load_while_checked(&self, connection: &Connection, how: Load) -> Result<Loaded, OpenError> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let other = Connection::open_with_flags(as_uri(self.0), flags).map_err(self.failed("open"))?;
        thread::scope(|scope| {
            let check = thread::Builder::new().name("store-check".to_owned());
            let check =
                check.spawn_scoped(scope, move || self.check_pages(&other)).map_err(OpenError::Thread)?;
            let loaded = self.load(connection, how);
            check.join().expect("a check does not panic")?;
            loaded
        })
    }

    /// The newest commit that the file shows without its log. `None` where it cannot be read so, as after a kill that
    /// left a part of the log copied into it.
    pub(super) fn newest_without_log(&self) -> Option<Commit> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(as_uri(self.0), flags).ok()?;
        row::newest(&connection)
    }

    pub(super) fn load(&self, connection: &Connection, how: Load) -> Result<Loaded, OpenError> {
        row::load(connection, how.chained, how.asked).map_err(|error| match error {
            row::RowError::Sqlite(source) => self.failed("read")(source),
            row::RowError::Damaged(reason) => self.damaged(&reason),
        })
    }

    pub(super) fn damaged(&self, reason: &str) -> OpenError {
        OpenError::Damaged { path: self.0.to_owned(), reason: reason.to_owned() }
    }

    pub(super) fn refused(&self, attempt: &'static str, source: io::Error) -> OpenError {
        OpenError::File { attempt, path: self.0.to_owned(), source }
    }

    pub(super) fn failed(&self, attempt: &'static str) -> impl Fn(rusqlite::Error) -> OpenError {
        use rusqlite::Error::SqliteFailure;
        move |source| match (&source, source.sqlite_error_code()) {
            (_, Some(ErrorCode::DatabaseBusy)) => OpenError::InUse { path: self.0.to_owned(), holder: None },
            // What SQLite is asked here is right: where it says that it is not, the tables are others.
            (
                SqliteFailure(..),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown),
            ) => self.damaged(&source.to_string()),
            (SqliteFailure(..), _) => OpenError::Database { attempt, path: self.0.to_owned(), source },
            // SQLite did what it was asked; the tables or their content are not as this program makes them.
            _ => self.damaged(&source.to_string()),
        }
    }
}

/// The URI of an immutable file for SQLite.
fn as_uri(path: &Path) -> String {
    const KEPT: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    format!("file:{}?immutable=1", percent_encode(path.as_os_str().as_bytes(), KEPT))
}

fn set_up(connection: &Connection, quota: Option<u64>) -> rusqlite::Result<()> {
    // fullfsync matters on macOS, where a plain sync leaves data in the disk's cache.
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA journal_size_limit = {LOG_BYTES};
         PRAGMA temp_store = MEMORY;
         PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;"
    ))?;
    if let Some(quota) = quota {
        // SQLite takes no limit below the present size.
        connection.pragma_update(None, "max_page_count", (quota / u64::from(PAGE)).max(1).cast_signed())?;
    }
    Ok(())
}

/// Tells which commits are not there.
fn lost(newest: Option<&Commit>, revision: Revision, record: &CommitRecord) -> String {
    let commits = record.number - newest.map_or(0, |newest| newest.number);
    let first = revision.next().min(record.revision);
    format!(
        "it ends at revision {revision}, but writes up to revision {} were answered: the last {commits} commits \
         (revisions {first} to {}) are not in it, so its write-ahead log is damaged or missing, or it is an older copy",
        record.revision, record.revision
    )
}

/// An empty database, for parts of it.
pub(super) fn create_template(path: &Path) -> rusqlite::Result<()> {
    fs::File::create(path).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    initialize(path, &[], Revision::START).map(drop)
}

/// Nothing is lost with a draft: it is synced when it is whole.
fn initialize(path: &Path, objects: &[Arc<Object>], revision: Revision) -> rusqlite::Result<Commit> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous = OFF;
         PRAGMA locking_mode = EXCLUSIVE;
         PRAGMA page_size = {PAGE};
         PRAGMA auto_vacuum = INCREMENTAL;
         PRAGMA application_id = {APPLICATION};
         PRAGMA user_version = {FORMAT};"
    ))?;
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch(SCHEMA)?;
    let commit = row::restore_all(&transaction, objects, revision)?;
    transaction.commit()?;
    connection.execute_batch("PRAGMA journal_mode = WAL")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(commit)
}
