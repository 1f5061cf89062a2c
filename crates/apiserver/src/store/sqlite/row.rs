//! Rows of the table of versions: from events, and back by replay.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use crc32fast::Hasher;
use rusqlite::{Connection, Row, Statement, params};

use crate::store::{
    clock::Millis,
    history::{Entry, Event},
    key::{Key, Revision},
    object::{Object, digits},
    snapshot::State,
    table::Table,
};

pub(super) const INSERT: &str = "INSERT INTO version
    (revision, resource, namespace, name, created, previous, written, stamp, value, checksum)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

const SELECT: &str =
    "SELECT revision, resource, namespace, name, created, previous, written, stamp, value, checksum
    FROM version ORDER BY revision";

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
        let Object { key, revision, created, bytes: _, stamp: _ } = &**event.object();
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

pub(super) fn insert(statement: &mut Statement<'_>, event: &Event, written: Millis) -> rusqlite::Result<()> {
    let version = Version::of(event, written);
    let checksum = version.checksum(&mut Vec::new());
    let Version { revision, resource, namespace, name, created, previous, written, stamp, value } = version;
    statement.execute(params![
        integer(revision),
        resource,
        namespace,
        name,
        integer(created),
        previous.map(integer),
        written.cast_signed(),
        stamp.map(u64::cast_signed),
        value,
        checksum,
    ])?;
    Ok(())
}

/// The objects that live at some revision. Every row looks one up and puts one in: by hash, as they are put in order
/// only once, at the end.
type Live = HashMap<Key, Arc<Object>>;

/// Rebuilds objects and history from all rows.
pub(super) fn load(connection: &Connection) -> Result<State, RowError> {
    let compacted = connection.query_row("SELECT compacted FROM history", [], |row| row.get::<_, i64>(0))?;
    let compacted = Revision::new(compacted.cast_unsigned());
    let mut state = State { revision: compacted, compacted, ..State::default() };
    let (mut live, mut names, mut head) = (Live::new(), Names::default(), Vec::new());
    let mut statement = connection.prepare(SELECT)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let version = Version::read(row, &mut head)?;
        let event = restore(&live, compacted, &version, &mut names)?;
        match event.current() {
            Some(object) => live.insert(object.key.clone(), object.clone()),
            None => live.remove(event.key()),
        };
        // The newest deletion may be compacted while older objects live on: then this is behind `compacted`.
        state.revision = state.revision.max(version.revision);
        if version.revision > compacted {
            state.history.push(Entry { event, written: version.written });
        }
    }
    let mut objects: BTreeMap<Arc<str>, Vec<Arc<Object>>> = BTreeMap::new();
    for object in live.into_values() {
        objects.entry(object.key.resource.clone()).or_default().push(object);
    }
    let tables = objects.into_iter().map(|(resource, objects)| (resource, Arc::new(Table::of(objects))));
    state.tables = tables.collect();
    Ok(state)
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
    Ok(Arc::new(Object { key, revision, created, bytes, stamp }))
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
