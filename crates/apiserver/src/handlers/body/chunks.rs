//! Bodies that are produced chunk by chunk while the client reads.
//!
//! Frames are copies: a part of an object would keep all of it in memory, also after the store has another version.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body::{Frame, SizeHint};

use super::FRAME_BYTES;
use crate::handlers::response_budget::{ObjectRef, TextRef};
use crate::secure_serving::BudgetShare;

/// A part of a body.
#[derive(Debug)]
pub(in crate::handlers) enum Chunk {
    /// Bytes that belong to this response alone.
    Bytes(Bytes),
    /// Bytes that hold a share of the response budget.
    Budgeted(Bytes, #[expect(dead_code, reason = "given back when it is dropped")] BudgetShare),
    /// An object of the store, from this byte on.
    Stored(ObjectRef, usize),
    /// A text of the catalogue, from this byte on.
    Text(TextRef, usize),
}

impl Chunk {
    /// Moves as much into a frame as fits and returns whether nothing is left; `None` if the object is gone.
    fn fill(&mut self, frame: &mut BytesMut) -> Option<bool> {
        let room = FRAME_BYTES - frame.len();
        let (bytes, sent) = match self {
            Self::Bytes(bytes) | Self::Budgeted(bytes, _) => {
                let part = bytes.len().min(room);
                frame.put_slice(&bytes[..part]);
                bytes.advance(part);
                return Some(bytes.is_empty());
            }
            Self::Stored(object, sent) => (object.get()?.bytes().clone(), sent),
            Self::Text(text, sent) => (text.get()?, sent),
        };
        let rest = &bytes[*sent..];
        let part = rest.len().min(room);
        frame.put_slice(&rest[..part]);
        *sent += part;
        Some(part == rest.len())
    }

    /// All bytes that are left; `None` if the object is gone.
    pub(super) fn bytes(&self) -> Option<Bytes> {
        match self {
            Self::Bytes(bytes) | Self::Budgeted(bytes, _) => Some(bytes.clone()),
            Self::Stored(object, sent) => Some(object.get()?.bytes().slice(*sent..)),
            Self::Text(text, sent) => Some(text.get()?.slice(*sent..)),
        }
    }
}

/// A body that is produced while the client reads it.
pub(in crate::handlers) struct ChunkedBody {
    source: Box<dyn Iterator<Item = Chunk> + Send>,
    /// The chunk that is being sent.
    current: Option<Chunk>,
    /// Bytes that are left, where the length is known.
    left: Option<usize>,
    /// True if the body ended early because an object was gone. The client notices: the JSON is incomplete, and a
    /// declared content length is not reached.
    is_cut: bool,
}

impl ChunkedBody {
    pub(super) fn new(chunks: impl Iterator<Item = Chunk> + Send + 'static, left: Option<usize>) -> Self {
        Self { source: Box::new(chunks), current: None, left, is_cut: false }
    }

    /// A body of these chunks, whose lengths sum up to `length`.
    pub fn with_length<I>(chunks: I, length: usize) -> Self
    where
        I: IntoIterator<Item = Chunk>,
        I::IntoIter: Send + 'static,
    {
        Self::new(chunks.into_iter(), Some(length))
    }

    /// The next frame: a copy of several small chunks, or of a part of a large one.
    pub fn frame(&mut self) -> Option<Bytes> {
        let mut frame = BytesMut::with_capacity(self.left.unwrap_or(FRAME_BYTES).min(FRAME_BYTES));
        while frame.len() < FRAME_BYTES && !self.is_cut {
            let Some(chunk) = &mut self.current else {
                self.current = self.source.next();
                if self.current.is_none() {
                    break;
                }
                continue;
            };
            match chunk.fill(&mut frame) {
                Some(true) => self.current = None,
                Some(false) => {}
                None => self.is_cut = true,
            }
        }
        self.left = self.left.map(|left| left.saturating_sub(frame.len()));
        (!frame.is_empty()).then(|| frame.freeze())
    }

    /// Returns whether the body ended early because an object was gone.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl http_body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frame().map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, |left| SizeHint::with_exact(left as u64))
    }
}
