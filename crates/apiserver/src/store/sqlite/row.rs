//! Rows of the table of versions: from events, and back by replay.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use crc32fast::Hasher;
use rusqlite::{Connection, Row, Statement, params};

use super::{
    chain::{Commit, HASH, RowSum},
    salvage::SalvagedVersion,
};
use crate::store::{
    clock::Millis,
    history::{Entry, Event},
    key::{Key, Revision},
    object::{CachedRange, Object, digits},
    snapshot::State,
    table::Table,
};

const INSERT: &str = "INSERT INTO version
    (revision, resource, namespace, name, created, previous, written, stamp, value, checksum, chained)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// What is read of a row; what is behind it, `chained`, is not in databases of the first format.
const COLUMNS: &str =
    "revision, resource, namespace, name, created, previous, written, stamp, value, checksum";

/// Why the rows do not make a store.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    Damaged(String),
}

/// SQLite's integers are signed; revisions stay far below where that would show.
pub(super) fn integer(revision: Revision) -> i64 {
    revision.get().cast_signed()
}

/// A row, borrowed from an event or from SQLite.
struct Version<'a> {
    revision: Revision,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
    created: Revision,
    previous: Option<Revision>,
    written: Millis,
    stamp: Option<u64>,
    value: Option<&'a [u8]>,
}

impl<'a> Version<'a> {
    fn of(event: &'a Event, written: Millis) -> Self {
        let Object { key, revision, created, bytes: _, stamp: _, part: _ } = &**event.object();
        let current = event.current();
        Self {
            revision: *revision,
            resource: &key.resource,
            namespace: &key.namespace,
            name: &key.name,
            created: *created,
            previous: event.previous().map(|previous| previous.revision),
            written,
            stamp: current.and_then(|object| object.stamp).map(|stamp| stamp as u64),
            value: current.map(|object| &*object.bytes),
        }
    }

    /// `head` is room to work in.
    fn checksum(&self, head: &mut Vec<u8>) -> u32 {
        let Self { revision, resource, namespace, name, created, previous, written, stamp, value } = self;
        // Absent and zero must differ, and so must "a","bc" and "ab","c": hence the shift and the lengths.
        let numbers = [
            revision.get(),
            created.get(),
            previous.map_or(0, Revision::get),
            *written,
            stamp.map_or(0, |stamp| stamp + 1),
            value.map_or(0, |value| value.len() as u64 + 1),
        ];
        // In one piece, as a sum over many small ones takes several times as long.
        head.clear();
        for number in numbers {
            head.extend_from_slice(&number.to_le_bytes());
        }
        for text in [resource, namespace, name] {
            head.extend_from_slice(&(text.len() as u64).to_le_bytes());
            head.extend_from_slice(text.as_bytes());
        }
        let mut hasher = Hasher::new();
        hasher.update(head);
        hasher.update(value.unwrap_or_default());
        hasher.finalize()
    }

    fn insert(
        &self,
        statement: &mut Statement<'_>,
        checksum: u32,
        commit: Option<&Commit>,
    ) -> rusqlite::Result<()> {
        let Self { revision, resource, namespace, name, created, previous, written, stamp, value } = self;
        statement.execute(params![
            integer(*revision),
            resource,
            namespace,
            name,
            integer(*created),
            previous.map(integer),
            written.cast_signed(),
            stamp.map(u64::cast_signed),
            value,
            checksum,
            commit.map(Commit::encode),
        ])?;
        Ok(())
    }

    /// Reads a row whose checksum is right.
    fn read(row: &'a Row<'_>, head: &mut Vec<u8>) -> Result<Self, RowError> {
        let number = |column: usize| row.get::<_, i64>(column).map(i64::cast_unsigned);
        let maybe =
            |column: usize| row.get::<_, Option<i64>>(column).map(|number| number.map(i64::cast_unsigned));
        let revision = Revision::new(number(0)?);
        // Not UTF-8, which SQLite does not look at.
        let text = |column: usize| {
            row.get_ref(column)?.as_str().map_err(|error| damaged(revision, &error.to_string()))
        };
        let version = Self {
            revision,
            resource: text(1)?,
            namespace: text(2)?,
            name: text(3)?,
            created: Revision::new(number(4)?),
            previous: maybe(5)?.map(Revision::new),
            written: number(6)?,
            stamp: maybe(7)?,
            value: row
                .get_ref(8)?
                .as_blob_or_null()
                .map_err(|error| damaged(revision, &error.to_string()))?,
        };
        if u64::from(version.checksum(head)) != number(9)? {
            return Err(damaged(revision, "the checksum does not match"));
        }
        Ok(version)
    }
}

/// Appends rows for these events and returns the commit that they make, after `before`.
pub(super) fn append(
    connection: &Connection,
    events: &[Event],
    written: Millis,
    before: &Commit,
    compacted: Revision,
) -> rusqlite::Result<Commit> {
    let mut statement = connection.prepare(INSERT)?;
    let (mut rows, mut content, mut commit, mut head) = (before.rows, Hasher::new(), *before, Vec::new());
    let mut left = events.len();
    for event in events {
        let version = Version::of(event, written);
        let checksum = version.checksum(&mut head);
        rows.add(version.revision);
        content.update(&checksum.to_le_bytes());
        left -= 1;
        if left == 0 {
            commit = before.next(version.revision, compacted, rows, content.clone().finalize());
        }
        version.insert(&mut statement, checksum, (left == 0).then_some(&commit))?;
    }
    Ok(commit)
}

/// Deletes what only the events in `forgotten` needed, and returns the commit that this makes, after `before`.
pub(super) fn compact(
    connection: &Connection,
    compacted: Revision,
    forgotten: &[Event],
    before: &Commit,
    revision: Revision,
) -> rusqlite::Result<Commit> {
    let mut rows = before.rows;
    let mut statement = connection.prepare("DELETE FROM version WHERE revision = ?1")?;
    let mut delete = |revision: Revision| -> rusqlite::Result<()> {
        if statement.execute([integer(revision)])? > 0 {
            rows.remove(revision);
        }
        Ok(())
    };
    for event in forgotten {
        if let Some(previous) = event.previous() {
            delete(previous.revision)?;
        }
        if event.current().is_none() {
            delete(event.revision())?;
        }
    }
    let commit = before.next(revision, compacted, rows, 0);
    chain(connection, compacted, &commit)?;
    Ok(commit)
}

/// Writes a commit that is no row's.
pub(super) fn chain(connection: &Connection, compacted: Revision, commit: &Commit) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("UPDATE history SET compacted = ?1, chained = ?2")?;
    statement.execute(params![integer(compacted), commit.encode()]).map(drop)
}

/// The objects that live at some revision. Every row looks one up and puts one in: by hash, as they are put in order
/// only once, at the end.
type Live = HashMap<Key, Arc<Object>>;

/// The contents of a database.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) state: State,
    /// The sum of the rows that were read.
    pub(super) rows: RowSum,
    /// The newest commit; `None` where there is no chain.
    pub(super) newest: Option<Commit>,
    /// The hash of the commit that was asked for, where it is still known.
    pub(super) asked: Option<[u8; HASH]>,
    /// True if there should be a chain.
    pub(super) chained: bool,
    /// The newest commit that shows without the log, where there is a log.
    pub(super) alone: Option<Commit>,
}

impl Loaded {
    fn note(&mut self, commit: Commit, asked: Option<u64>) {
        if asked == Some(commit.number) {
            self.asked = Some(commit.hash);
        }
        if self.newest.is_none_or(|newest| newest.number <= commit.number) {
            self.newest = Some(commit);
        }
    }
}

/// Rebuilds objects and history from all rows, which are chained in this format or not, and looks for the commit of
/// this number.
pub(super) fn load(
    connection: &Connection,
    is_chained: bool,
    asked: Option<u64>,
) -> Result<Loaded, RowError> {
    let chained = if is_chained { "chained" } else { "NULL" };
    let (compacted, began) =
        connection.query_row(&format!("SELECT compacted, {chained} FROM history"), [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
        })?;
    let compacted = Revision::new(compacted.cast_unsigned());
    let state = State { revision: compacted, compacted, ..State::default() };
    let mut loaded = Loaded {
        state,
        rows: RowSum::default(),
        newest: None,
        asked: None,
        chained: is_chained,
        alone: None,
    };
    if let Some(bytes) = began {
        let commit = Commit::decode(&bytes).ok_or_else(|| damaged(compacted, "its commit is damaged"))?;
        loaded.note(commit, asked);
    }
    let (mut live, mut names, mut head) = (Live::new(), Names::default(), Vec::new());
    let mut statement =
        connection.prepare(&format!("SELECT {COLUMNS}, {chained} FROM version ORDER BY revision"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let version = Version::read(row, &mut head)?;
        loaded.rows.add(version.revision);
        if let Some(bytes) = row.get_ref(10)?.as_blob_or_null().map_err(rusqlite::Error::from)? {
            let commit =
                Commit::decode(bytes).ok_or_else(|| damaged(version.revision, "its commit is damaged"))?;
            loaded.note(commit, asked);
        }
        let event = restore(&live, compacted, &version, &mut names)?;
        match event.current() {
            Some(object) => live.insert(object.key.clone(), object.clone()),
            None => live.remove(event.key()),
        };
        // The newest deletion may be compacted while older objects live on: then this is behind `compacted`.
        loaded.state.revision = loaded.state.revision.max(version.revision);
        if version.revision > compacted {
            loaded.state.history.push(Entry { event, written: version.written });
        }
    }
    let mut objects: BTreeMap<Arc<str>, Vec<Arc<Object>>> = BTreeMap::new();
    loaded.state.bytes = live.values().map(|object| object.cost()).sum();
    for object in live.into_values() {
        objects.entry(object.key.resource.clone()).or_default().push(object);
    }
    let tables = objects.into_iter().map(|(resource, objects)| (resource, Arc::new(Table::of(objects))));
    loaded.state.tables = tables.collect();
    Ok(loaded)
}

/// The newest commit that shows, where no more than that is to be known.
pub(super) fn newest(connection: &Connection) -> Option<Commit> {
    let queries = [
        "SELECT chained FROM history",
        "SELECT chained FROM version WHERE chained IS NOT NULL ORDER BY revision DESC LIMIT 1",
    ];
    let read = |query| connection.query_row(query, [], |row| row.get::<_, Vec<u8>>(0)).ok();
    let commits = queries.into_iter().filter_map(read).filter_map(|bytes| Commit::decode(&bytes));
    commits.max_by_key(|commit| commit.number)
}

/// Reads what has a right checksum, from both ends: behind a damaged page there may be good ones.
pub(super) fn salvage(connection: &Connection) -> (BTreeMap<Revision, SalvagedVersion>, Option<Revision>) {
    let compacted = connection.query_row("SELECT compacted FROM history", [], |row| row.get::<_, i64>(0));
    let mut versions = BTreeMap::new();
    for direction in ["ASC", "DESC"] {
        if salvage_in(connection, direction, &mut versions).is_ok() {
            break;
        }
    }
    (versions, compacted.ok().map(|revision| Revision::new(revision.cast_unsigned())))
}

fn salvage_in(
    connection: &Connection,
    direction: &str,
    versions: &mut BTreeMap<Revision, SalvagedVersion>,
) -> Result<(), RowError> {
    let mut head = Vec::new();
    let select = format!("SELECT {COLUMNS} FROM version ORDER BY revision {direction}");
    let mut statement = connection.prepare(&select)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Ok(version) = Version::read(row, &mut head) else { continue };
        let key = Key::new(version.resource, version.namespace, version.name);
        let object = match version.value {
            Some(_) => object(key.clone(), &version).ok(),
            None => None,
        };
        versions.insert(version.revision, SalvagedVersion { key, object });
    }
    Ok(())
}

/// Writes objects into a new database, as what is left at `revision` without any history.
pub(super) fn restore_all(
    connection: &Connection,
    objects: &[Arc<Object>],
    revision: Revision,
) -> rusqlite::Result<Commit> {
    let (mut statement, mut rows, mut head) = (connection.prepare(INSERT)?, RowSum::default(), Vec::new());
    for object in objects {
        let Object { key, revision, created, bytes, stamp, part: _ } = &**object;
        let version = Version {
            revision: *revision,
            resource: &key.resource,
            namespace: &key.namespace,
            name: &key.name,
            created: *created,
            previous: None,
            written: 0,
            stamp: stamp.map(|stamp| stamp as u64),
            value: Some(bytes),
        };
        let checksum = version.checksum(&mut head);
        rows.add(*revision);
        version.insert(&mut statement, checksum, None)?;
    }
    let commit = Commit::first(revision, revision, rows);
    chain(connection, revision, &commit)?;
    Ok(commit)
}

/// The event that a row stands for, given the objects before it.
fn restore(
    live: &Live,
    compacted: Revision,
    version: &Version<'_>,
    names: &mut Names,
) -> Result<Event, RowError> {
    let &Version { revision, resource, namespace, name, created, previous, written: _, stamp, value } =
        version;
    let key = Key::new(names.share(resource), names.share(namespace), name);
    let before = live.get(&key);
    if revision <= compacted {
        // Whatever it replaced was dropped with the history, and so were deletions.
        return match (value, before) {
            (Some(_), None) => Ok(Event::Added { object: object(key, version)? }),
            _ => Err(damaged(revision, "it should have been compacted")),
        };
    }
    match (before, previous, value) {
        (None, None, Some(_)) if created == revision => Ok(Event::Added { object: object(key, version)? }),
        (Some(before), Some(previous), Some(_))
            if before.revision == previous && before.created == created =>
        {
            Ok(Event::Modified { object: object(key, version)?, previous: before.clone() })
        }
        (Some(before), Some(previous), None) if before.revision == previous && stamp.is_none() => {
            Ok(Event::Deleted { object: before.deleted_at(revision), previous: before.clone() })
        }
        _ => Err(damaged(revision, "the version it replaced is missing or another")),
    }
}

fn object(key: Key, version: &Version<'_>) -> Result<Arc<Object>, RowError> {
    let &Version { revision, created, stamp, value, .. } = version;
    let bytes = Bytes::copy_from_slice(value.unwrap_or_default());
    let stamp = stamp.map(|stamp| usize::try_from(stamp).unwrap_or(usize::MAX));
    if stamp.is_some_and(|at| at.saturating_add(digits(revision)) > bytes.len()) {
        return Err(damaged(revision, "its revision stands outside its value"));
    }
    Ok(Arc::new(Object { key, revision, created, bytes, stamp, part: CachedRange::default() }))
}

fn damaged(revision: Revision, what: &str) -> RowError {
    RowError::Damaged(format!("revision {revision}: {what}"))
}

/// One copy of each resource and namespace.
#[derive(Default)]
struct Names(HashMap<String, Arc<str>>);

impl Names {
    fn share(&mut self, name: &str) -> Arc<str> {
        if let Some(shared) = self.0.get(name) {
            return shared.clone();
        }
        let shared = Arc::<str>::from(name);
        self.0.insert(name.to_owned(), shared.clone());
        shared
    }
}
