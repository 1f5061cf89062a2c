//! Indented JSON.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::Frame;

use super::{ChunkedBody, FRAME_BYTES};

/// JSON that is indented while the client reads it: indented, a deeply nested object can be a hundred times as large.
pub(in crate::handlers) struct IndentedBody {
    body: ChunkedBody,
    /// Bytes that are read and not yet written.
    compact: Bytes,
    depth: usize,
    /// True within a string.
    quoted: bool,
    /// True after a backslash in a string.
    escaped: bool,
    /// True right after an opening bracket.
    opened: bool,
}

impl IndentedBody {
    /// Indents a body of compact JSON.
    pub fn new(body: ChunkedBody) -> Self {
        Self { body, compact: Bytes::new(), depth: 0, quoted: false, escaped: false, opened: false }
    }

    pub(super) fn frame(&mut self) -> Option<Bytes> {
        let mut frame = BytesMut::with_capacity(FRAME_BYTES);
        while frame.len() < FRAME_BYTES {
            if self.compact.is_empty() {
                match self.body.frame() {
                    Some(bytes) => self.compact = bytes,
                    None => break,
                }
            }
            let compact = std::mem::take(&mut self.compact);
            let mut written = 0;
            while frame.len() < FRAME_BYTES && written < compact.len() {
                self.write(compact[written], &mut frame);
                written += 1;
            }
            self.compact = compact.slice(written..);
        }
        (!frame.is_empty()).then(|| frame.freeze())
    }

    fn write(&mut self, byte: u8, to: &mut BytesMut) {
        if self.quoted {
            to.put_u8(byte);
            self.quoted = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => return,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if !std::mem::take(&mut self.opened) {
                    self.line(to);
                }
            }
            _ if std::mem::take(&mut self.opened) => self.line(to),
            _ => {}
        }
        to.put_u8(byte);
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                self.opened = true;
            }
            b',' => self.line(to),
            b':' => to.put_u8(b' '),
            b'"' => self.quoted = true,
            _ => {}
        }
    }

    fn line(&self, to: &mut BytesMut) {
        to.put_u8(b'\n');
        to.put_bytes(b' ', 2 * self.depth);
    }
}

impl http_body::Body for IndentedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frame().map(|frame| Ok(Frame::data(frame))))
    }
}
