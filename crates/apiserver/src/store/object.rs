//! One version of one object, as it is served.
//!
//! Stored bytes already contain their revision. The caller hands over a [`Value`] with a gap where the revision
//! belongs and the writer fills it when it takes the revision. So a read, a list item or a watch event is sent as it
//! lies in memory, with no parsing and no copy, and the store still knows nothing about the format around the gap.

use std::{
    fmt,
    io::Write as _,
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

use super::key::{Key, Revision};

/// The memory of an object besides its bytes: its key, and its place in a table.
const OVERHEAD: usize = 256;

/// A value to store: bytes, with or without a gap for the revision.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    before: Bytes,
    after: Option<Bytes>,
}

impl Value {
    /// Bytes to be stored as they are. A slice keeps the whole buffer it is a part of alive.
    pub fn plain(bytes: impl Into<Bytes>) -> Self {
        Self { before: bytes.into(), after: None }
    }

    /// Bytes with the decimal revision between `before` and `after`. [`Bytes::split_to`] makes the two parts of one
    /// buffer without a copy.
    pub fn with_gap(before: impl Into<Bytes>, after: impl Into<Bytes>) -> Self {
        Self { before: before.into(), after: Some(after.into()) }
    }

    /// Length in bytes, without the revision.
    pub fn len(&self) -> usize {
        self.before.len() + self.after.as_ref().map_or(0, Bytes::len)
    }

    /// Returns whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The final bytes, and where in them the revision stands.
    fn fill(self, revision: Revision) -> (Bytes, Option<usize>) {
        match self.after {
            None => (self.before, None),
            Some(after) => {
                let stamp = self.before.len();
                (fill(&self.before, revision, &after), Some(stamp))
            }
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}

/// One version of one object. Immutable and shared: the live table, the history and readers hold the same one.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    pub(crate) key: Key,
    pub(crate) revision: Revision,
    pub(crate) created: Revision,
    pub(crate) bytes: Bytes,
    /// The position of the revision in `bytes`.
    pub(crate) stamp: Option<usize>,
    pub(crate) part: CachedRange,
}

/// The place of a part of the bytes that readers look for, once one has found it. It says nothing of the object.
#[derive(Clone, Default)]
pub(crate) struct CachedRange(OnceLock<Option<Range<u32>>>);

impl PartialEq for CachedRange {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CachedRange {}

impl Object {
    pub(crate) fn new(key: Key, value: Value, created: Revision, revision: Revision) -> Arc<Self> {
        let (bytes, stamp) = value.fill(revision);
        Arc::new(Self { key, revision, created, bytes, stamp, part: CachedRange::default() })
    }

    /// The last state of an object as its deletion shows it: the same bytes with the revision of the deletion.
    pub(crate) fn deleted_at(&self, revision: Revision) -> Arc<Self> {
        let Self { key, revision: old, created, bytes, stamp, part: _ } = self;
        let bytes = match *stamp {
            None => bytes.clone(),
            Some(at) => {
                let end = at + digits(*old);
                fill(&bytes[..at], revision, &bytes[end..])
            }
        };
        let part = CachedRange::default();
        Arc::new(Self { key: key.clone(), revision, created: *created, bytes, stamp: *stamp, part })
    }

    /// The name of the object.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The revision of the change that made this version.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The revision at which the object was created.
    pub fn created(&self) -> Revision {
        self.created
    }

    /// Memory that it takes, roughly.
    pub(crate) fn cost(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }

    /// The bytes, with the revision in its place.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The part of the bytes that `find` finds; it has to be the same for all who ask. It is looked for once.
    pub(crate) fn part(&self, find: impl FnOnce(&[u8]) -> Option<Range<usize>>) -> Option<&[u8]> {
        let narrow = |part: Range<usize>| Some(part.start.try_into().ok()?..part.end.try_into().ok()?);
        let part = self.part.0.get_or_init(|| find(&self.bytes).and_then(narrow)).clone()?;
        self.bytes.get(part.start as usize..part.end as usize)
    }
}

/// Without the bytes, as they may be a secret and this may go to a log.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, revision, created: _, bytes, stamp: _, part: _ } = self;
        write!(f, "Object({key} at {revision}, {} bytes)", bytes.len())
    }
}

/// The number of decimal digits of a revision.
pub(crate) fn digits(revision: Revision) -> usize {
    revision.get().checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn fill(before: &[u8], revision: Revision, after: &[u8]) -> Bytes {
    // Exactly the length needed: spare capacity would be kept as long as the object.
    let mut bytes = Vec::with_capacity(before.len() + digits(revision) + after.len());
    bytes.extend_from_slice(before);
    write!(bytes, "{revision}").expect("writing to a vector does not fail");
    bytes.extend_from_slice(after);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new("things", "", "a")
    }

    #[test]
    fn the_gap_is_filled_and_refilled() {
        for (revision, deletion) in [(1, 2), (9, 10), (99, 100), (12_345, 12_346), (7, 1_000_000)] {
            let value = Value::with_gap(&b"{\"v\":\""[..], &b"\",\"x\":1}"[..]);
            let object = Object::new(key(), value, Revision::new(1), Revision::new(revision));
            assert_eq!(object.bytes(), format!("{{\"v\":\"{revision}\",\"x\":1}}").as_bytes());
            let last = object.deleted_at(Revision::new(deletion));
            assert_eq!(last.bytes(), format!("{{\"v\":\"{deletion}\",\"x\":1}}").as_bytes());
            assert_eq!((last.revision().get(), last.created().get()), (deletion, 1));
        }
    }

    #[test]
    fn plain_bytes_stay_as_they_are() {
        let object = Object::new(key(), Value::plain(&b"abc"[..]), Revision::new(5), Revision::new(5));
        assert_eq!(object.bytes(), &b"abc"[..]);
        assert_eq!(object.deleted_at(Revision::new(6)).bytes(), &b"abc"[..]);
    }

    #[test]
    fn what_is_shown_has_no_content() {
        let object = Object::new(key(), Value::plain(&b"secret"[..]), Revision::new(5), Revision::new(5));
        let shown = format!("{object:?} {:?}", Value::plain(&b"secret"[..]));
        assert_eq!(shown, "Object(things a at 5, 6 bytes) Value(6 bytes)");
    }

    #[test]
    fn digits_of_every_length() {
        for (number, expected) in [(0, 1), (1, 1), (9, 1), (10, 2), (999, 3), (1000, 4), (u64::MAX, 20)] {
            assert_eq!(digits(Revision::new(number)), expected, "{number}");
        }
    }
}
