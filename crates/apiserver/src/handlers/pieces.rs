//! Large answers, made piece by piece while the client reads.
//!
//! ```text
//! snapshot (references to objects) -> item -> piece -> frame of at most 32 KiB, when the connection has room for one
//! ```
//!
//! A client that does not read holds a frame or two and references to objects, however long the list is. Frames are
//! copies: a part of an object would keep all of it in memory, also after the store has another version.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use http_body::{Frame, SizeHint};
use serde_json::Value;

use super::Body;
use super::kept::{Objects, Reference, Subject, Text};
use crate::authn::User;
use crate::output::list::{ListMeta, ListWriter};
use crate::secure_serving::{Share, Shares};
use crate::status::ApiError;
use crate::storage::{Target, is_as_stored, to_bytes, to_value};
use crate::store::Object;

/// Up to here an answer is sent whole: it fits into the buffers of its connection.
pub(super) const SMALL: usize = 128 << 10;
/// Bytes of a frame.
pub(super) const FRAME: usize = 32 << 10;
/// As upstream: most of what gzip saves, at a fraction of the time.
const LEVEL: u32 = 1;
/// An item takes many times its size as YAML, so one large list of each user at a time does.
static YAML: LazyLock<Arc<Shares>> = LazyLock::new(|| Shares::of_each(1));
/// What ends a list that is cut, as YAML.
const CUT: &[u8] = b"- \"this list is cut, ask for it again";

/// A part of a body.
#[derive(Debug)]
pub(super) enum Piece {
    /// Bytes that were made for it.
    Made(Bytes),
    /// The same, with room of their own.
    Grown(Bytes, #[expect(dead_code, reason = "given back when it is dropped")] Share),
    /// An object of the store, from this byte on.
    Stored(Reference, usize),
    /// A text of the catalogue, from this byte on.
    Text(Text, usize),
}

impl Piece {
    /// Moves as much of it into a frame as that takes. Tells whether that was all; `None` where the object is gone.
    fn fill(&mut self, frame: &mut BytesMut) -> Option<bool> {
        let room = FRAME - frame.len();
        let (bytes, sent) = match self {
            Self::Made(bytes) | Self::Grown(bytes, _) => {
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

    /// All of it; `None` where the object is gone.
    fn bytes(&self) -> Option<Bytes> {
        match self {
            Self::Made(bytes) | Self::Grown(bytes, _) => Some(bytes.clone()),
            Self::Stored(object, sent) => Some(object.get()?.bytes().slice(*sent..)),
            Self::Text(text, sent) => Some(text.get()?.slice(*sent..)),
        }
    }
}

/// A body that is made while it is read.
pub(super) struct Pieces {
    source: Box<dyn Iterator<Item = Piece> + Send>,
    /// The piece that is being sent.
    current: Option<Piece>,
    left: Option<usize>,
    /// Whether it ended before its end, as an object was gone. The client sees that: no JSON is whole then, and a length
    /// that was told is not reached.
    is_cut: bool,
}

impl Pieces {
    fn new(pieces: impl Iterator<Item = Piece> + Send + 'static, left: Option<usize>) -> Self {
        Self { source: Box::new(pieces), current: None, left, is_cut: false }
    }

    /// A body of these pieces, which have so many bytes together.
    pub fn known<I>(pieces: I, length: usize) -> Self
    where
        I: IntoIterator<Item = Piece>,
        I::IntoIter: Send + 'static,
    {
        Self::new(pieces.into_iter(), Some(length))
    }

    /// The next frame: a copy of several small pieces, or of a part of a large one.
    pub fn frame(&mut self) -> Option<Bytes> {
        let mut frame = BytesMut::with_capacity(self.left.unwrap_or(FRAME).min(FRAME));
        while frame.len() < FRAME && !self.is_cut {
            let Some(piece) = &mut self.current else {
                self.current = self.source.next();
                if self.current.is_none() {
                    break;
                }
                continue;
            };
            match piece.fill(&mut frame) {
                Some(true) => self.current = None,
                Some(false) => {}
                None => self.is_cut = true,
            }
        }
        self.left = self.left.map(|left| left.saturating_sub(frame.len()));
        (!frame.is_empty()).then(|| frame.freeze())
    }

    /// Whether it ended before its end.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl http_body::Body for Pieces {
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

/// A list with at least one item.
pub(super) struct LargeList {
    /// Up to the bracket before the first item.
    head: Vec<u8>,
    items: Items,
    count: usize,
    /// Bytes of all items, where that is known before they are made.
    length: Option<usize>,
}

/// Each item in two parts, of which the second may be the store's.
type Items = Box<dyn Iterator<Item = [Piece; 2]> + Send>;

/// Parts of a list that is made while the client reads it.
pub(super) struct Waiting {
    pub objects: Objects,
    pub maker: Maker,
}

/// Definition and form of items that are not sent as they are stored.
pub(super) struct Maker {
    pub target: Subject,
    /// Gives room to an item that is larger than it is stored, if there is some.
    pub grow: Box<dyn Fn(usize) -> Option<Share> + Send>,
}

impl Maker {
    /// The item made of an object; nothing where there is no room for it.
    fn piece(&self, made: Bytes, of: &Object) -> Piece {
        // The rest was counted when the answer began.
        let more = made.len().saturating_sub(of.bytes().len());
        if more <= FRAME {
            return Piece::Made(made);
        }
        (self.grow)(more).map_or_else(gone, |share| Piece::Grown(made, share))
    }
}

/// A part that is there no more.
const fn gone() -> Piece {
    Piece::Stored(Reference::gone(), 0)
}

/// A part that has no bytes.
const fn nothing() -> Piece {
    Piece::Made(Bytes::new())
}

impl LargeList {
    /// The objects themselves; `keep` says how they wait.
    pub fn plain(
        target: &Target,
        items: Vec<Arc<Object>>,
        keep: impl FnOnce(Vec<Arc<Object>>) -> Waiting,
        meta: &ListMeta,
    ) -> Self {
        let served = &target.served;
        let writer = ListWriter::new(&served.resource, &served.version.name, meta, 0);
        let (head, count) = (writer.head(), items.len());
        let shown = |bytes: &Bytes| match writer.unshown(bytes) {
            0 => bytes.len(),
            unshown => bytes.len() - unshown + 1,
        };
        let known = items.iter().all(|item| is_as_stored(target, item));
        let length = known.then(|| items.iter().map(|item| shown(item.bytes())).sum());
        let Waiting { objects, maker } = keep(items);
        let stored = |writer: &ListWriter, item: Reference, object: &Object| {
            let unshown = writer.unshown(object.bytes());
            [opened(unshown), Piece::Stored(item, unshown)]
        };
        let items: Items = if known {
            Box::new(objects.map(move |item| match item.get() {
                Some(object) => stored(&writer, item, &object),
                None => [nothing(), gone()],
            }))
        } else {
            Box::new(objects.map(move |item| {
                let (Some(target), Some(object)) = (maker.target.target(), item.get()) else {
                    return [nothing(), gone()];
                };
                if is_as_stored(&target, &object) {
                    return stored(&writer, item, &object);
                }
                let bytes = to_bytes(&target, &object);
                let unshown = writer.unshown(&bytes);
                [opened(unshown), maker.piece(bytes.slice(unshown..), &object)]
            }))
        };
        Self { head, items, count, length }
    }

    /// What `item` makes of each object.
    pub fn made(
        waiting: Waiting,
        count: usize,
        head: Vec<u8>,
        item: impl Fn(&Value) -> Value + Send + 'static,
    ) -> Self {
        let Waiting { objects, maker } = waiting;
        let items = objects.map(move |reference| {
            let (Some(target), Some(object)) = (maker.target.target(), reference.get()) else {
                return [nothing(), gone()];
            };
            let made = item(&to_value(&target, &object)).to_string();
            [nothing(), maker.piece(made.into(), &object)]
        });
        Self { head, items: Box::new(items), count, length: None }
    }

    /// The list without space between its members.
    pub fn compact(self) -> Pieces {
        let Self { head, items, count, length } = self;
        let length = length.map(|length| head.len() + length + count - 1 + TAIL.len());
        Pieces::new(joined(head, items, b",", TAIL), length)
    }

    /// The list with each member on its line.
    pub fn indented(self) -> Indented {
        Indented::new(self.compact())
    }

    /// The list as YAML, an item at a time; refused while another one is sent to the user.
    pub fn yaml(self, user: &User) -> Result<Pieces, ApiError> {
        let turn = YAML.take(user, 1).ok_or_else(ApiError::busy)?;
        let Self { head, items, .. } = self;
        let head = serde_saphyr::to_string(&parsed(&[&head, b"]}"])).expect("a JSON value is YAML");
        let head =
            head.strip_suffix("[]\n").expect("the items come last, and are none").trim_end().to_owned();
        let items = items.flat_map(|[first, second]| match (first.bytes(), second.bytes()) {
            (Some(start), Some(rest)) => [nothing(), Piece::Made(yaml_item(&parsed(&[&start, &rest])))],
            // A list without its rest would be one; within a text it is none.
            _ => [Piece::Made(Bytes::from_static(CUT)), second],
        });
        let end = std::iter::from_fn(move || {
            // Another one is made when this is sent.
            let _ = &turn;
            None
        });
        Ok(Pieces::new(
            std::iter::once(Piece::Made(format!("{head}\n").into())).chain(items).chain(end),
            None,
        ))
    }
}

/// An item as the YAML of a list has it.
fn yaml_item(item: &Value) -> Bytes {
    let list = serde_saphyr::to_string(&serde_json::json!({"items": [item]})).expect("a JSON value is YAML");
    list.strip_prefix("items:\n").expect("items of a list are on lines of their own").to_owned().into()
}

/// The brace of an item that does not show what it begins with.
fn opened(unshown: usize) -> Piece {
    if unshown == 0 { nothing() } else { Piece::Made(Bytes::from_static(b"{")) }
}

/// What ends a list.
const TAIL: &[u8] = b"]}\n";

fn parsed(parts: &[&[u8]]) -> Value {
    serde_json::from_slice(&parts.concat()).expect("what is made here is JSON")
}

fn joined(
    head: Vec<u8>,
    items: Items,
    separator: &'static [u8],
    tail: &'static [u8],
) -> impl Iterator<Item = Piece> + Send {
    let between = std::iter::once(Bytes::new()).chain(std::iter::repeat(Bytes::from_static(separator)));
    let items =
        between.zip(items).flat_map(|(separator, [first, second])| [Piece::Made(separator), first, second]);
    std::iter::once(Piece::Made(head.into())).chain(items).chain([Piece::Made(Bytes::from_static(tail))])
}

/// JSON that is given lines and indents while it is read: an object of many levels is a hundred times as large with them.
pub(super) struct Indented {
    body: Pieces,
    /// Bytes that were read and are not written yet.
    compact: Bytes,
    depth: usize,
    /// Within a text, and behind a backslash there.
    quoted: bool,
    escaped: bool,
    /// Right behind an opening bracket.
    opened: bool,
}

impl Indented {
    /// JSON, with each member on its line.
    pub fn new(body: Pieces) -> Self {
        Self { body, compact: Bytes::new(), depth: 0, quoted: false, escaped: false, opened: false }
    }

    fn frame(&mut self) -> Option<Bytes> {
        let mut frame = BytesMut::with_capacity(FRAME);
        while frame.len() < FRAME {
            if self.compact.is_empty() {
                match self.body.frame() {
                    Some(bytes) => self.compact = bytes,
                    None => break,
                }
            }
            let compact = std::mem::take(&mut self.compact);
            let mut written = 0;
            while frame.len() < FRAME && written < compact.len() {
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

impl http_body::Body for Indented {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frame().map(|frame| Ok(Frame::data(frame))))
    }
}

/// A body that is compressed while it is read.
pub(super) struct Gzip {
    body: Body,
    /// Bytes that were read and are not compressed yet.
    plain: Bytes,
    /// Made when the first byte is asked for, and gone after the last.
    encoder: Option<GzEncoder<Vec<u8>>>,
    ended: bool,
}

impl Gzip {
    /// A body, compressed.
    pub fn new(body: Body) -> Self {
        Self { body, plain: Bytes::new(), encoder: None, ended: false }
    }

    /// Compresses what is there, a frame at a time; gives what came out.
    fn pack(&mut self) -> Vec<u8> {
        let encoder = self.encoder.get_or_insert_with(|| GzEncoder::new(Vec::new(), Compression::new(LEVEL)));
        let part = self.plain.split_to(self.plain.len().min(FRAME));
        encoder.write_all(&part).expect("memory takes every write");
        std::mem::take(encoder.get_mut())
    }

    fn finish(&mut self) -> Vec<u8> {
        self.ended = true;
        let encoder = self.encoder.take();
        encoder.map(|encoder| encoder.finish().expect("memory takes every write")).unwrap_or_default()
    }
}

impl http_body::Body for Gzip {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        while !this.ended {
            let packed = if this.plain.is_empty() {
                match http_body::Body::poll_frame(Pin::new(&mut this.body), cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(frame))) => {
                        this.plain = frame.into_data().unwrap_or_default();
                        continue;
                    }
                    Poll::Ready(Some(Err(never))) => match never {},
                    Poll::Ready(None) => this.finish(),
                }
            } else {
                this.pack()
            };
            if !packed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(packed.into()))));
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests;
