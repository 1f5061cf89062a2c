//! The readable rows of a damaged database.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use rusqlite::Connection;

use super::{
    chain::Commit,
    files::{Files, Load},
    row,
};
use crate::store::{
    folder::OpenError,
    key::{Key, Revision},
    object::Object,
};

/// A version of an object: what it was, or that it was deleted.
#[derive(Clone, Debug)]
pub(super) struct SalvagedVersion {
    pub(super) key: Key,
    pub(super) object: Option<Arc<Object>>,
}

/// All that one copy of the files shows.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Rows with a right checksum.
    pub(super) versions: BTreeMap<Revision, SalvagedVersion>,
    /// The first revision of the history.
    pub(super) compacted: Option<Revision>,
    /// The newest commit, if all of it is there.
    pub(super) whole: Option<Commit>,
}

impl Survey {
    /// Reads a copy of the files, which is changed by that.
    pub(super) fn of(database: &Path) -> Self {
        let files = Files(database);
        let Ok(connection) = files.connect() else { return Self::default() };
        // What cannot be set cannot be read either, which is found out below.
        let _ = connection.pragma_update(None, "locking_mode", "EXCLUSIVE");
        let whole = check(&files, &connection).ok().flatten();
        let (versions, compacted) = row::salvage(&connection);
        Self { versions, compacted, whole }
    }

    /// The newest revision that shows.
    pub(super) fn revision(&self) -> Revision {
        let newest = self.versions.last_key_value().map(|(revision, _)| *revision);
        newest.max(self.compacted).unwrap_or(Revision::START)
    }

    /// The newest version of every object that shows.
    pub(super) fn newest(&self) -> BTreeMap<&Key, (Revision, Option<&Arc<Object>>)> {
        let versions = self.versions.iter();
        versions.map(|(revision, version)| (&version.key, (*revision, version.object.as_ref()))).collect()
    }
}

/// The newest commit, where everything is as it should be.
fn check(files: &Files<'_>, connection: &Connection) -> Result<Option<Commit>, OpenError> {
    let chained = files.check_identity(connection)?;
    files.check_pages(connection)?;
    let loaded = files.load(connection, Load { chained, asked: None })?;
    Ok(loaded.newest.filter(|newest| newest.rows == loaded.rows))
}
