//! The journal in SQLite.
//!
//! One table is log and objects at once: a row per version of an object, its revision as row id, so that a change is
//! one row at the end of one tree, with no index and its bytes written once. A version is kept as long as it is live, or
//! is what some event in the history led to or away from. So compacting an event means deleting the row it replaced and,
//! if it was a deletion, its own. Deletions have no bytes: they are those of the row before.
//!
//! The database is read once, at start, in order of revisions, which rebuilds objects and history by replay; every row
//! has a checksum and names the row it replaced, so damage that SQLite would not notice is found as well.
//!
//! Write-ahead log with a sync at every commit. `locking_mode=EXCLUSIVE` keeps other programs out and spares the shared
//! memory file.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, params};

use super::{
    clock::Millis,
    folder::{Folder, OpenError},
    history::Event,
    journal::{Journal, JournalError},
    key::Revision,
    snapshot::State,
};

mod row;

const FILE: &str = "store.db";
/// "CAPT": what `file` and SQLite's own tools show of it.
const APPLICATION: i32 = 0x4341_5054;
const FORMAT: i32 = 1;
/// Holds five objects of the usual size (a page of 4 KiB holds two and wastes a quarter of itself).
const PAGE: u32 = 8192;
/// Free pages beyond half of the file, and beyond this many (8 MiB), are given back to the file system.
const SPARE_PAGES: i64 = 1024;
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
        checksum  INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE history (compacted INTEGER NOT NULL) STRICT;
    INSERT INTO history VALUES (1);
";

/// An open database and the folder it is in.
#[derive(Debug)]
pub(crate) struct Database {
    // Closed before the folder is given up.
    connection: Connection,
    path: PathBuf,
    _folder: Folder,
}

impl Database {
    /// Opens the database in a folder, or makes one, and reads it.
    pub(crate) fn open(folder: &Path, quota: Option<u64>) -> Result<(Self, State), OpenError> {
        let folder = Folder::claim(folder)?;
        let path = folder.file(FILE);
        let files = Files(&path);
        if !files.exist()? {
            files.create(&folder)?;
        }
        let logged = files.is_logged()?;
        let connection = files.connect()?;
        files.check_identity(&connection)?;
        set_up(&connection, quota).map_err(files.failed("set up"))?;
        let state = if logged {
            files.check_pages(&connection)?;
            files.load(&connection)?
        } else {
            files.load_while_checked(&connection)?
        };
        // The log is made by the first use of the database above; its name has to last too.
        folder.sync()?;
        Ok((Self { connection, path, _folder: folder }, state))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `step` as one transaction: all of it lasts or none does.
    fn transact(
        &mut self,
        step: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), JournalError> {
        let result = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            step(&transaction)?;
            transaction.commit()
        })();
        let Err(error) = result else { return Ok(()) };
        let reason = Arc::from(error.to_string());
        // Only lack of room is known to leave everything as it was, and only if SQLite has left the transaction (it
        // does so when the guard above is dropped). After a failed write or sync nobody knows what is on disk.
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) && self.connection.is_autocommit() {
            Err(JournalError::Full(reason))
        } else {
            Err(JournalError::Broken(reason))
        }
    }

    /// Gives free pages back to the file system, if there are many.
    fn shrink(&self) -> rusqlite::Result<()> {
        let pragma = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (free, pages) = (pragma("freelist_count")?, pragma("page_count")?);
        if free > SPARE_PAGES && free > pages / 2 {
            // A bounded step, so that no write waits long for it; there will be another compaction.
            self.connection.execute_batch("PRAGMA incremental_vacuum(256)")?;
        }
        Ok(())
    }
}

impl Journal for Database {
    fn append(&mut self, events: &[Event], written: Millis) -> Result<(), JournalError> {
        self.transact(|connection| {
            let mut insert = connection.prepare(row::INSERT)?;
            events.iter().try_for_each(|event| row::insert(&mut insert, event, written))
        })
    }

    fn compact(&mut self, compacted: Revision, forgotten: &[Event]) -> Result<(), JournalError> {
        self.transact(|connection| {
            let mut delete = connection.prepare("DELETE FROM version WHERE revision = ?1")?;
            for event in forgotten {
                if let Some(previous) = event.previous() {
                    delete.execute([row::integer(previous.revision)])?;
                }
                if event.current().is_none() {
                    delete.execute([row::integer(event.revision())])?;
                }
            }
            connection
                .prepare("UPDATE history SET compacted = ?1")?
                .execute(params![row::integer(compacted)])?;
            Ok(())
        })?;
        // Only tidiness, and the next compaction tries again.
        let _ = self.shrink();
        Ok(())
    }

    fn close(self: Box<Self>) {
        // Closing copies the log into the database. If that fails, the log stays, and the next start reads it.
        let Self { connection, path: _, _folder } = *self;
        drop(connection);
    }
}

/// The write-ahead log of a database.
pub(crate) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// The database's file by its name: what is done before it is known to be good.
struct Files<'a>(&'a Path);

impl Files<'_> {
    /// Whether there is a database. One that was lost or emptied is damage, not a new store.
    fn exist(&self) -> Result<bool, OpenError> {
        match fs::metadata(self.0) {
            Ok(file) if file.len() == 0 => Err(self.damaged("the file is empty")),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if log_of(self.0).exists() {
                    return Err(self.damaged("the file is missing, its write-ahead log is there"));
                }
                Ok(false)
            }
            Err(source) => Err(self.refused("look at", source)),
        }
    }

    /// Makes an empty database beside its place and moves it there when it is whole.
    fn create(&self, folder: &Folder) -> Result<(), OpenError> {
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
        initialize(&draft).map_err(self.failed("create"))?;
        // All of it at once, where SQLite would sync each step of its own.
        let synced = fs::File::open(&draft).and_then(|file| file.sync_all());
        synced.map_err(|source| self.refused("sync", source))?;
        fs::rename(&draft, self.0).map_err(|source| self.refused("create", source))?;
        folder.sync()
    }

    fn connect(&self) -> Result<Connection, OpenError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(self.0, flags).map_err(self.failed("open"))
    }

    /// Changes nothing before it is known that the file is ours.
    fn check_identity(&self, connection: &Connection) -> Result<(), OpenError> {
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
        if format != FORMAT {
            return Err(OpenError::Format { path: self.0.to_owned(), found: format, supported: FORMAT });
        }
        Ok(())
    }

    /// The structure of the file; the content is checked row by row as it is read.
    fn check_pages(&self, connection: &Connection) -> Result<(), OpenError> {
        let verdict = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
            .map_err(self.failed("check"))?;
        if verdict == "ok" { Ok(()) } else { Err(self.damaged(&verdict)) }
    }

    /// Whether there is something in the log, without which the file is not the database.
    fn is_logged(&self) -> Result<bool, OpenError> {
        match fs::metadata(log_of(self.0)) {
            Ok(log) => Ok(log.len() > 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(self.refused("look at the log of", source)),
        }
    }

    /// Reads the rows beside another thread that checks the pages, through a connection of its own that needs no locks.
    /// What the pages say goes first, as it does where one follows the other.
    fn load_while_checked(&self, connection: &Connection) -> Result<State, OpenError> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let other = Connection::open_with_flags(as_uri(self.0), flags).map_err(self.failed("open"))?;
        thread::scope(|scope| {
            let check = thread::Builder::new().name("store-check".to_owned());
            let check =
                check.spawn_scoped(scope, move || self.check_pages(&other)).map_err(OpenError::Thread)?;
            let loaded = self.load(connection);
            check.join().expect("a check does not panic")?;
            loaded
        })
    }

    fn load(&self, connection: &Connection) -> Result<State, OpenError> {
        row::load(connection).map_err(|error| match error {
            row::RowError::Sqlite(source) => self.failed("read")(source),
            row::RowError::Damaged(reason) => self.damaged(&reason),
        })
    }

    fn damaged(&self, reason: &str) -> OpenError {
        OpenError::Damaged { path: self.0.to_owned(), reason: reason.to_owned() }
    }

    fn refused(&self, attempt: &'static str, source: io::Error) -> OpenError {
        OpenError::File { attempt, path: self.0.to_owned(), source }
    }

    fn failed(&self, attempt: &'static str) -> impl Fn(rusqlite::Error) -> OpenError {
        use rusqlite::Error::SqliteFailure;
        move |source| match (&source, source.sqlite_error_code()) {
            (_, Some(ErrorCode::DatabaseBusy)) => OpenError::InUse { path: self.0.to_owned(), holder: None },
            (_, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) => {
                self.damaged(&source.to_string())
            }
            (SqliteFailure(..), _) => OpenError::Database { attempt, path: self.0.to_owned(), source },
            // SQLite did what it was asked; the tables or their content are not as this program makes them.
            _ => self.damaged(&source.to_string()),
        }
    }
}

/// The name of a file that nobody changes, as SQLite takes it.
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

/// Nothing is lost with a draft: it is synced when it is whole.
fn initialize(path: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous = OFF;
         PRAGMA locking_mode = EXCLUSIVE;
         PRAGMA page_size = {PAGE};
         PRAGMA auto_vacuum = INCREMENTAL;
         BEGIN;
         {SCHEMA}
         PRAGMA application_id = {APPLICATION};
         PRAGMA user_version = {FORMAT};
         COMMIT;
         PRAGMA journal_mode = WAL;"
    ))?;
    connection.close().map_err(|(_, error)| error)
}
