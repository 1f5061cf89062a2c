//! Events of watches: one JSON document per line.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::status::ApiError;

/// The annotation of the bookmark that ends the initial events.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It is there, or is selected now.
    Added,
    /// It is different.
    Modified,
    /// It is gone, or is not selected any more.
    Deleted,
    /// Nothing; the revision is how far the watch has come.
    Bookmark,
    /// The watch ends.
    Error,
}

impl EventType {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

/// An event with an object that is already serialized; a newline at its end is dropped.
pub fn event(kind: EventType, object: &[u8]) -> Bytes {
    parts(kind, Bytes::copy_from_slice(object)).concat().into()
}

/// The same in three parts, of which the second is the object: it is shared, not copied.
pub fn parts(kind: EventType, mut object: Bytes) -> [Bytes; 3] {
    if object.ends_with(b"\n") {
        object.truncate(object.len() - 1);
    }
    let head = [br#"{"type":""#, kind.as_str().as_bytes(), br#"","object":"#].concat();
    [head.into(), object, Bytes::from_static(b"}\n")]
}

/// The event that ends a watch.
pub fn error(error: &ApiError) -> Bytes {
    event(EventType::Error, error.to_status().to_string().as_bytes())
}

/// The object of a bookmark. `initial_events_end` marks the one after which the state is complete.
pub fn bookmark_object(kind: &str, api_version: &str, revision: u64, initial_events_end: bool) -> Value {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if initial_events_end {
        metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    json!({"kind": kind, "apiVersion": api_version, "metadata": metadata})
}

/// A bookmark.
pub fn bookmark(kind: &str, api_version: &str, revision: u64, initial_events_end: bool) -> Bytes {
    let object = bookmark_object(kind, api_version, revision, initial_events_end);
    event(EventType::Bookmark, object.to_string().as_bytes())
}
