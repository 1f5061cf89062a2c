//! The journal in SQLite.
//!
//! One table is log and objects at once: a row per version of an object, its revision as row id, so that a change is
//! one row at the end of one tree, with no index and its bytes written once. A version is kept as long as it is live, or
//! is what some event in the history led to or away from. So compacting an event means deleting the row it replaced and,
//! if it was a deletion, its own. Deletions have no bytes: they are those of the row before.
//!
//! The database is read once, at start, in order of revisions, which rebuilds objects and history by replay; every row
//! has a checksum and names the row it replaced, so damage that SQLite would not notice is found as well. That rows or
//! commits are missing shows by the [chain] of commits and the [head] record beside the database. What is damaged is
//! left as it is; [`recover`] makes a new database of what can be read.
//!
//! Write-ahead log with a sync at every commit. `locking_mode=EXCLUSIVE` keeps other programs out and spares the shared
//! memory file.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use self::{
    chain::Commit,
    files::{Files, Load},
    head::{CommitRecord, Found, Head},
    row::Loaded,
};
use super::{
    clock::Millis,
    folder::{Folder, OpenError},
    history::Event,
    journal::{Journal, JournalError},
    key::Revision,
    snapshot::State,
};

mod chain;
mod files;
mod head;
mod mend;
pub(super) mod recover;
mod row;
mod salvage;

const FILE: &str = "store.db";
/// Free pages beyond half of the file, and beyond this many (8 MiB), are given back to the file system.
const SPARE_PAGES: i64 = 1024;

/// An open database and the folder it is in.
#[derive(Debug)]
pub(crate) struct Database {
    // Closed before the folder is given up.
    connection: Connection,
    path: PathBuf,
    head: Head,
    /// The newest commit, and what it left.
    commit: Commit,
    revision: Revision,
    compacted: Revision,
    folder: Folder,
}

impl Database {
    /// Opens the database in a folder, or makes one, and reads it.
    pub(crate) fn open(folder: &Path, quota: Option<u64>) -> Result<(Self, State), OpenError> {
        Self::open_in(Folder::claim(folder)?, quota)
    }

    fn open_in(folder: Folder, quota: Option<u64>) -> Result<(Self, State), OpenError> {
        let path = folder.file(FILE);
        let files = Files(&path);
        let mut found = files.head()?;
        if !files.exist(found)? {
            found = files.create(&folder)?;
        }
        let (connection, loaded) = read(&files, found, quota)?;
        let commit = match files.verify(&loaded, found)? {
            Some(commit) => commit,
            None => files.adopt(&connection, &folder, &loaded)?,
        };
        let (revision, compacted) = (loaded.state.revision, loaded.state.compacted);
        let head = files.write_head(&CommitRecord::of(&commit, revision), found)?;
        files.close_tidily(&connection)?;
        // The log is made by the first use of the database above; its name has to last too.
        folder.sync()?;
        let database = Self { connection, path, head, commit, revision, compacted, folder };
        Ok((database, loaded.state))
    }

    /// Tells whether the database in a folder can be opened, and leaves it as it is.
    fn check(folder: &Folder) -> Result<(), OpenError> {
        let path = folder.file(FILE);
        let files = Files(&path);
        let found = files.head()?;
        if !files.exist(found)? {
            return Ok(());
        }
        let (_connection, loaded) = read(&files, found, None)?;
        files.verify(&loaded, found).map(drop)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `step` as one transaction, which all of it lasts or none does, and then writes the head record.
    fn transact(
        &mut self,
        (revision, compacted): (Revision, Revision),
        step: impl FnOnce(&Connection, &Commit) -> rusqlite::Result<Commit>,
    ) -> Result<(), JournalError> {
        if self.head.is_removed() {
            let reason = format!("the data folder {} was removed", self.folder.path().display());
            return Err(JournalError::Broken(reason.into()));
        }
        let result = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let commit = step(&transaction, &self.commit)?;
            transaction.commit()?;
            Ok(commit)
        })();
        match result {
            Ok(commit) => {
                (self.commit, self.revision, self.compacted) = (commit, revision, compacted);
                self.write_head()
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &rusqlite::Error) -> JournalError {
        let reason = Arc::from(error.to_string());
        // Only lack of room is known to leave everything as it was, and only if SQLite has left the transaction (it
        // does so when the guard above is dropped). After a failed write or sync the content of the disk is unknown.
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) && self.connection.is_autocommit() {
            JournalError::Full(reason)
        } else {
            JournalError::Broken(reason)
        }
    }

    /// The commit is on disk. Where only the record finds no room (a file system that copies on write), it stays one
    /// behind until the next commit: that is no reason to take no more writes.
    fn write_head(&self) -> Result<(), JournalError> {
        match self.head.write(&CommitRecord::of(&self.commit, self.revision)) {
            Err(error)
                if !matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                Err(JournalError::Broken(format!("write {}: {error}", head::FILE).into()))
            }
            _ => Ok(()),
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
        let Some(last) = events.last() else { return Ok(()) };
        let compacted = self.compacted;
        self.transact((last.revision(), compacted), |connection, before| {
            row::append(connection, events, written, before, compacted)
        })
    }

    fn compact(&mut self, compacted: Revision, forgotten: &[Event]) -> Result<(), JournalError> {
        let revision = self.revision;
        self.transact((revision, compacted), |connection, before| {
            row::compact(connection, compacted, forgotten, before, revision)
        })?;
        // Only tidiness, and the next compaction tries again.
        let _ = self.shrink();
        Ok(())
    }

    fn close(self: Box<Self>) {
        let Self { connection, head, folder: _folder, .. } = *self;
        // Closing copies the log into the database. If that fails, the log stays, and the next start reads it.
        drop(connection);
        // Also when it is not synced, it is not ahead of the database.
        let _ = head.sync();
    }
}

/// Opens a database and reads all of it.
fn read(files: &Files<'_>, found: Found, quota: Option<u64>) -> Result<(Connection, Loaded), OpenError> {
    let logged = files.is_logged()?;
    let alone = if logged { files.newest_without_log() } else { None };
    let connection = files.connect()?;
    let chained = files.check_identity(&connection).map_err(|error| match error {
        // A head record as this program writes it is beside a database of this program.
        OpenError::Foreign { .. } | OpenError::Format { .. } if found.record().is_some() => {
            files.damaged(&error.to_string())
        }
        error => error,
    })?;
    files.set_up(&connection, quota)?;
    let load = Load { chained, asked: found.record().map(|record| record.number) };
    let mut loaded = if logged {
        files.check_pages(&connection)?;
        files.load(&connection, load)?
    } else {
        files.load_while_checked(&connection, load)?
    };
    loaded.alone = alone;
    Ok((connection, loaded))
}

/// The write-ahead log of a database.
pub(crate) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}
