//! Checks and applies writes to a copy of the state: what the store will be once the journal has it.
//!
//! Pure: no clock, no files, no locks. Writes of one group see each other's effects in order, so two writes of one
//! object queued together end as if one had come after the other.

use std::sync::Arc;

use super::{
    clock::Millis,
    history::{Entry, Event},
    key::{Key, Revision},
    object::{Object, Value},
    snapshot::State,
};

/// One step of a write.
#[derive(Clone, Debug)]
pub enum Op {
    /// Creates an object that must not be there.
    Create {
        /// Its name.
        key: Key,
        /// Its content.
        value: Value,
    },
    /// Replaces an object that must be there.
    Update {
        /// Its name.
        key: Key,
        /// Its new content.
        value: Value,
        /// The revision it must have.
        expected: Option<Revision>,
    },
    /// Deletes an object that must be there.
    Delete {
        /// Its name.
        key: Key,
        /// The revision it must have.
        expected: Option<Revision>,
    },
    /// Changes nothing, but lets the whole write happen only if this object is there.
    Require {
        /// Its name.
        key: Key,
        /// The revision it must have.
        expected: Option<Revision>,
    },
}

/// Why a write did not happen. Nothing of it did.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// There is an object of this name.
    #[error("{} already exists", current.key())]
    AlreadyExists {
        /// The object that is there.
        current: Arc<Object>,
    },
    /// There is no object of this name.
    #[error("{key} does not exist")]
    NotFound {
        /// The name.
        key: Key,
    },
    /// The object has another revision than expected.
    #[error("{} is at revision {}, not {expected}", current.key(), current.revision())]
    Conflict {
        /// The object that is there.
        current: Arc<Object>,
        /// The revision asked for.
        expected: Revision,
    },
    /// The disk or the store's quota is full; the store goes on and a later write may succeed.
    #[error("no room to write: {reason}")]
    Full {
        /// The error of the database.
        reason: Arc<str>,
    },
    /// The database failed, now or earlier; reads go on, writes need a restart. If this very write met the failure, it
    /// may still be found after the restart.
    #[error("the store takes no more writes: {reason}")]
    ReadOnly {
        /// The error of the database.
        reason: Arc<str>,
    },
    /// The store was closed before the write was made.
    #[error("the store is closed")]
    Closed,
}

/// A state being prepared, and the changes that lead to it.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) state: State,
    pub(crate) events: Vec<Event>,
    now: Millis,
    /// The limit for all objects together, in bytes.
    most: usize,
}

/// How much an object may grow where the store is full: a mark of its deletion, or a condition of its status, so that
/// people and controllers can make room.
const LITTLE: usize = 4 << 10;
/// The part of the store that is kept for such growth.
const RESERVE: usize = 32;

impl Draft {
    /// Starts from `state`; changes take revisions after `last`, the newest ever taken, which is later than the
    /// state's own when a commit failed.
    pub(crate) fn new(state: &State, last: Revision, now: Millis, most: usize) -> Self {
        let mut state = state.clone();
        state.revision = state.revision.max(last);
        Self { state, events: Vec::new(), now, most }
    }

    /// Applies all of `ops` or none, and returns the object each is about as it then is; a deleted one in its last
    /// state.
    pub(crate) fn apply(&mut self, ops: Vec<Op>) -> Result<Vec<Arc<Object>>, WriteError> {
        if ops.len() < 2 {
            return ops.into_iter().map(|op| self.step(op)).collect();
        }
        let mut attempt = self.clone();
        let objects = ops.into_iter().map(|op| attempt.step(op)).collect::<Result<_, _>>()?;
        *self = attempt;
        Ok(objects)
    }

    fn step(&mut self, op: Op) -> Result<Arc<Object>, WriteError> {
        match op {
            Op::Create { key, value } => {
                if let Some(current) = self.state.get(&key) {
                    return Err(WriteError::AlreadyExists { current: current.clone() });
                }
                let revision = self.state.revision.next();
                let object = Object::new(self.share(key), value, revision, revision);
                self.has_room(self.most, object.cost())?;
                Ok(self.record(Event::Added { object }))
            }
            Op::Update { key, value, expected } => {
                let previous = self.expect(&key, expected)?;
                let object =
                    Object::new(previous.key.clone(), value, previous.created, self.state.revision.next());
                let growth = object.cost().saturating_sub(previous.cost());
                let reserve = if growth <= LITTLE { self.most / RESERVE } else { 0 };
                self.has_room(self.most.saturating_add(reserve), growth)?;
                Ok(self.record(Event::Modified { object, previous }))
            }
            Op::Delete { key, expected } => {
                let previous = self.expect(&key, expected)?;
                let object = previous.deleted_at(self.state.revision.next());
                Ok(self.record(Event::Deleted { object, previous }))
            }
            Op::Require { key, expected } => self.expect(&key, expected),
        }
    }

    /// Refuses growth beyond `most` bytes of objects; what does not grow is always taken.
    fn has_room(&self, most: usize, growth: usize) -> Result<(), WriteError> {
        let bytes = self.state.bytes;
        if growth == 0 || bytes.saturating_add(growth) <= most {
            return Ok(());
        }
        let reason = format!("the objects of the store take {bytes} bytes, of {most} at most");
        Err(WriteError::Full { reason: reason.into() })
    }

    fn expect(&self, key: &Key, expected: Option<Revision>) -> Result<Arc<Object>, WriteError> {
        let current = self.state.get(key).ok_or_else(|| WriteError::NotFound { key: key.clone() })?.clone();
        match expected {
            Some(expected) if expected != current.revision => Err(WriteError::Conflict { current, expected }),
            _ => Ok(current),
        }
    }

    /// All objects of a resource share one copy of its name, whatever copy the caller came with.
    fn share(&self, key: Key) -> Key {
        match self.state.tables.get_key_value(&key.resource) {
            Some((resource, _)) => Key { resource: resource.clone(), ..key },
            None => key,
        }
    }

    fn record(&mut self, event: Event) -> Arc<Object> {
        let object = event.object().clone();
        self.state.replay(&event);
        self.state.history.push(Entry { event: event.clone(), written: self.now });
        self.events.push(event);
        object
    }
}

impl State {
    /// Brings the tables to the state after `event`. History is the caller's.
    pub(crate) fn replay(&mut self, event: &Event) {
        self.revision = event.revision();
        let replaced = event.previous().map_or(0, |object| object.cost());
        self.bytes = self.bytes + event.current().map_or(0, |object| object.cost()) - replaced;
        let table = self.table_mut(&event.key().resource);
        match event.current() {
            Some(object) => table.insert(object.clone()),
            None => table.remove(event.key().place()),
        };
    }

    /// Forgets the changes up to and including `revision` and returns them.
    pub(crate) fn compact(&mut self, revision: Revision) -> Vec<Event> {
        let forgotten = self.history.forget(revision);
        for event in &forgotten {
            self.table_mut(&event.key().resource).compacted = event.revision();
        }
        self.compacted = self.compacted.max(revision);
        forgotten
    }
}

impl Op {
    /// Bytes to be written, roughly.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Create { value, .. } | Self::Update { value, .. } => value.len(),
            Self::Delete { .. } | Self::Require { .. } => 0,
        }
    }
}
