//! Response bodies. Large ones are produced while the client reads.
//!
//! ```text
//! snapshot (references to objects) -> item -> chunk -> frame of at most 32 KiB, when the connection has room for one
//! ```
//!
//! A client that does not read holds a frame or two and references to objects, however long the list is.

mod chunks;
mod gzip;
mod indent;
mod list;

use bytes::Bytes;
use http_body_util::BodyExt as _;

pub use crate::secure_serving::Body;

pub(super) use self::{
    chunks::{Chunk, ChunkedBody},
    gzip::compressed,
    indent::IndentedBody,
    list::{ItemBuilder, PendingItems, StreamedList},
};

/// The largest body that is sent whole: it fits into the buffers of its connection.
pub(super) const MAX_BUFFERED: usize = 128 << 10;
/// Bytes of a frame.
pub(super) const FRAME_BYTES: usize = 32 << 10;

/// A body of known bytes. A large one is sent in frames: its request keeps its share of the budgets until the last of them.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    let bytes = bytes.into();
    match bytes.len() {
        ..=FRAME_BYTES => http_body_util::Full::new(bytes).boxed_unsync(),
        length => ChunkedBody::with_length([Chunk::Bytes(bytes)], length).boxed_unsync(),
    }
}

#[cfg(test)]
mod tests;
