//! Bounds on what an object may be, whatever made it: a body, a patch, an apply.
//!
//! A request is bounded where it is read. What it makes of an object that is there is bounded here, before anything is
//! stored: so every stored object can be read, walked, compared and dropped at a cost that is known.

use capt_schema::TooLarge;
use serde_json::Value;

use crate::object::Meta;

/// Bytes of a request body, and of a stored object as JSON: upstream's bound of a body, and twice etcd's of a request.
pub const MAX_BYTES: usize = 3 << 20;
/// Levels of nesting of an object. What is stored of its managed fields has five more, a table in a watch puts four around
/// it, and parsers of JSON, ours and those of clients, give up at 128; upstream has 10,000, and definitions that use twenty
/// are rare.
pub const MAX_DEPTH: usize = 116;
/// Levels of nesting of a stored object with its managed fields.
const MAX_STORED_DEPTH: usize = MAX_DEPTH + 6;
/// Values of an object. One takes two bytes of JSON at least, and up to three hundred in memory.
pub const MAX_VALUES: usize = 500_000;

/// The size of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The value and all that are in it.
    pub values: usize,
    /// Levels of lists and maps.
    pub depth: usize,
}

/// Measures a value, without recursion: its depth is not checked yet.
pub fn extent(value: &Value) -> Extent {
    let mut extent = Extent::default();
    let mut waiting = vec![(value, 1)];
    while let Some((value, level)) = waiting.pop() {
        extent.values += 1;
        match value {
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(members) => waiting.extend(members.values().map(|member| (member, level + 1))),
            _ => continue,
        }
        extent.depth = extent.depth.max(level);
    }
    extent
}

/// Bytes and values that an object may have more while it is being deleted: the largest one can be marked too.
const MARK: usize = 1 << 10;

/// The bound that an object exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Bytes, of which it has more than [`MAX_BYTES`].
    Bytes,
    /// Values, of which it has more than [`MAX_VALUES`].
    Values,
    /// Levels, of which it has more than [`MAX_DEPTH`].
    Depth,
}

impl From<TooLarge> for Exceeded {
    /// Of an object that defaults make too large.
    fn from(error: TooLarge) -> Self {
        match error {
            TooLarge::Bytes => Self::Bytes,
            TooLarge::Values => Self::Values,
        }
    }
}

/// Refuses an object that is larger than one may be; `bytes` is how long it is as JSON.
pub fn check(object: &Value, bytes: usize) -> Result<(), Exceeded> {
    let mark = if Meta::of(object).deletion_timestamp().is_some() { MARK } else { 0 };
    if bytes > MAX_BYTES + mark {
        return Err(Exceeded::Bytes);
    }
    let Extent { values, depth } = extent(object);
    if values > MAX_VALUES + mark {
        return Err(Exceeded::Values);
    }
    if depth > MAX_STORED_DEPTH { Err(Exceeded::Depth) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn extents() {
        for (value, values, depth) in [
            (json!(1), 1, 0),
            (json!({}), 1, 1),
            (json!([1, 2]), 3, 1),
            (json!({"a": {"b": [1]}, "c": []}), 5, 3),
        ] {
            assert_eq!(extent(&value), Extent { values, depth }, "{value}");
        }
    }

    #[test]
    fn the_largest_object_can_be_marked() {
        let marked = json!({"metadata": {"deletionTimestamp": "now"}});
        for (object, bytes, fits) in [
            (json!({}), MAX_BYTES, true),
            (json!({}), MAX_BYTES + 1, false),
            (marked.clone(), MAX_BYTES + MARK, true),
            (marked, MAX_BYTES + MARK + 1, false),
        ] {
            assert_eq!(check(&object, bytes).is_ok(), fits, "{object} of {bytes}");
        }
    }
}
