//! The newest changes, in order, for watchers and for lists at an earlier revision.
//!
//! Copy-on-write like [`super::table`]: chunks of events that only ever grow at the end and fall away at the front.

use std::{collections::VecDeque, sync::Arc};

use super::{
    clock::Millis,
    key::{Key, Revision},
    object::Object,
};

/// A group of commits copies the last chunk at most once, so this is also small.
const CHUNK: usize = 128;

/// The memory of an event besides its bytes: the object, its key and its place in the history.
const OVERHEAD: usize = 256;

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object was created.
    Added {
        /// The new object.
        object: Arc<Object>,
    },
    /// The object was replaced.
    Modified {
        /// The object from now on.
        object: Arc<Object>,
        /// The object until now.
        previous: Arc<Object>,
    },
    /// The object was deleted.
    Deleted {
        /// The last state, with the revision of the deletion.
        object: Arc<Object>,
        /// The last state, with its own revision.
        previous: Arc<Object>,
    },
}

impl Event {
    /// The object as the event shows it.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Added { object } | Self::Modified { object, .. } | Self::Deleted { object, .. } => object,
        }
    }

    /// The object before the change, if there was one.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Added { .. } => None,
            Self::Modified { previous, .. } | Self::Deleted { previous, .. } => Some(previous),
        }
    }

    /// The object after the change, if there is one.
    pub fn current(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Added { object } | Self::Modified { object, .. } => Some(object),
            Self::Deleted { .. } => None,
        }
    }

    /// The name of the changed object.
    pub fn key(&self) -> &Key {
        &self.object().key
    }

    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        self.object().revision
    }

    /// Memory that only this event keeps alive, roughly: what it replaced, and a deletion's copy.
    pub(crate) fn cost(&self) -> usize {
        let bytes = match self {
            Self::Added { .. } => 0,
            Self::Modified { previous, .. } => previous.bytes.len(),
            Self::Deleted { object, previous } => object.bytes.len() + previous.bytes.len(),
        };
        bytes + OVERHEAD
    }
}

/// An event and when it was written.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) event: Event,
    pub(crate) written: Millis,
}

/// The changes behind some revision, without a gap.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    chunks: VecDeque<Arc<Vec<Entry>>>,
    len: usize,
    cost: usize,
}

impl History {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.len += 1;
        self.cost += entry.event.cost();
        match self.chunks.back_mut() {
            Some(last) if last.len() < CHUNK => Arc::make_mut(last).push(entry),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(entry);
                self.chunks.push_back(Arc::new(chunk));
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Events behind `revision`, oldest first.
    pub(crate) fn after(&self, revision: Revision) -> impl DoubleEndedIterator<Item = &Event> {
        let done = |entry: &Entry| entry.event.revision() <= revision;
        let first = self.chunks.partition_point(|chunk| chunk.last().is_none_or(done));
        let skip = self.chunks.get(first).map_or(0, |chunk| chunk.partition_point(done));
        let head = self.chunks.get(first).and_then(|chunk| chunk.get(skip..)).unwrap_or_default();
        let rest = self.chunks.iter().skip(first + 1).flat_map(|chunk| chunk.iter());
        head.iter().chain(rest).map(|entry| &entry.event)
    }

    /// Drops and returns the events up to and including `revision`.
    pub(crate) fn forget(&mut self, revision: Revision) -> Vec<Event> {
        let mut forgotten = Vec::new();
        while let Some(first) = self.chunks.front_mut() {
            let count = first.partition_point(|entry| entry.event.revision() <= revision);
            forgotten.extend(first[..count].iter().map(|entry| entry.event.clone()));
            if count < first.len() {
                if count > 0 {
                    Arc::make_mut(first).drain(..count);
                }
                break;
            }
            self.chunks.pop_front();
        }
        self.len -= forgotten.len();
        self.cost -= forgotten.iter().map(Event::cost).sum::<usize>();
        forgotten
    }
}
