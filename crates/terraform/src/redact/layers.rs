//! Texts with encodings undone, and the positions they had: URL encoding, JSON escapes, line breaks.

use std::ops::Range;

/// Number of nested encodings that are undone: a JSON text in a URL is two.
const DEEP: usize = 2;

/// Below this what stands around a line break is two words, and no value that was wrapped.
const SHORTEST_WRAPPED: usize = 10;

/// Bytes of a text that are looked at together, at least.
const WINDOW: usize = 64 << 10;

/// A way to undo an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undo {
    /// `%41`.
    Percent,
    /// `%41`, with `+` for a space.
    Form,
    /// `\n`, `\u0041`, and as YAML and Go have it `\U0001F525`, `\x7f`.
    Escapes,
    /// Line breaks and indentation, as in base64 of PEM files and YAML.
    Wrapping,
}

/// A text with encodings undone.
pub(super) struct Layer {
    bytes: Vec<u8>,
    /// Original position of each byte.
    places: Vec<(usize, usize)>,
    wrapped: bool,
}

/// Parts of a text that are looked at one by one, since a layer takes several times the room of its text. Each goes on into
/// the next for `beyond` bytes, and is as long at least: no place is looked at more than twice.
pub(super) fn windows(text: &str, beyond: usize) -> impl Iterator<Item = (usize, &str)> {
    let boundary = |at: usize| (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let window = WINDOW.max(beyond);
    (0..text.len()).step_by(window).map(move |start| {
        let start = boundary(start);
        (start, &text[start..boundary(start.saturating_add(window).saturating_add(beyond))])
    })
}

impl Layer {
    /// Calls `look` with every layer of a text that differs from it.
    pub fn each(text: &str, look: &mut impl FnMut(&Self)) {
        if !text.contains(['%', '+', '\\', '\n']) {
            return;
        }
        let whole = Self {
            bytes: text.as_bytes().to_vec(),
            places: (0..text.len()).map(|at| (at, at + 1)).collect(),
            wrapped: false,
        };
        whole.below(DEEP, look);
    }

    fn below(&self, deep: usize, look: &mut impl FnMut(&Self)) {
        for undo in [Undo::Percent, Undo::Form, Undo::Escapes, Undo::Wrapping] {
            let Some(layer) = self.undone(undo) else { continue };
            look(&layer);
            if deep > 1 {
                layer.below(deep - 1, look);
            }
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Set if lines were joined.
    pub fn wrapped(&self) -> bool {
        self.wrapped
    }

    /// The part of the text that a match in this layer came from.
    pub fn range(&self, text: &str, found: Range<usize>) -> Option<Range<usize>> {
        if self.wrapped && found.len() < SHORTEST_WRAPPED {
            return None;
        }
        let (mut start, mut end) = (self.places[found.start].0, self.places[found.end - 1].1);
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        while !text.is_char_boundary(end) {
            end += 1;
        }
        Some(start..end)
    }

    /// `None` where nothing is there to be undone.
    fn undone(&self, undo: Undo) -> Option<Self> {
        let mark = |byte: &u8| match undo {
            Undo::Percent => *byte == b'%',
            Undo::Form => *byte == b'+',
            Undo::Escapes => *byte == b'\\',
            Undo::Wrapping => *byte == b'\n',
        };
        if !self.bytes.iter().any(mark) {
            return None;
        }
        let mut layer = Self {
            bytes: Vec::with_capacity(self.bytes.len()),
            places: Vec::with_capacity(self.bytes.len()),
            wrapped: self.wrapped || undo == Undo::Wrapping,
        };
        let mut at = 0;
        while at < self.bytes.len() {
            let rest = &self.bytes[at..];
            let (took, gives) = undo.step(rest);
            let place = (self.places[at].0, self.places[at + took - 1].1);
            layer.bytes.extend_from_slice(gives.as_bytes());
            layer.places.extend(std::iter::repeat_n(place, gives.as_bytes().len()));
            at += took;
        }
        (!layer.bytes.is_empty()).then_some(layer)
    }
}

/// Result of decoding a few bytes.
enum Gives {
    Byte(u8),
    Char([u8; 4], usize),
    Nothing,
}

impl Gives {
    fn char(letter: char) -> Self {
        let mut bytes = [0; 4];
        let len = letter.encode_utf8(&mut bytes).len();
        Self::Char(bytes, len)
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Byte(byte) => std::slice::from_ref(byte),
            Self::Char(bytes, len) => &bytes[..*len],
            Self::Nothing => &[],
        }
    }
}

impl Undo {
    /// Returns the number of bytes read, and what they decode to.
    fn step(self, rest: &[u8]) -> (usize, Gives) {
        match (self, rest) {
            (Self::Form, [b'+', ..]) => (1, Gives::Byte(b' ')),
            (Self::Percent | Self::Form, [b'%', high, low, ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (3, Gives::Byte(high << 4 | low)),
                _ => (1, Gives::Byte(b'%')),
            },
            (Self::Escapes, [b'\\', b'u', ..]) => unicode(rest).unwrap_or((1, Gives::Byte(b'\\'))),
            (Self::Escapes, [b'\\', b'U', digits @ ..]) => {
                let letter = number(digits, 8).and_then(char::from_u32);
                letter.map_or((1, Gives::Byte(b'\\')), |letter| (10, Gives::char(letter)))
            }
            // In YAML a character, in Go a byte; below 128 the two are one.
            (Self::Escapes, [b'\\', b'x', digits @ ..]) => {
                let letter = number(digits, 2).and_then(char::from_u32);
                letter.map_or((1, Gives::Byte(b'\\')), |letter| (4, Gives::char(letter)))
            }
            (Self::Escapes, [b'\\', escaped, ..]) => {
                let plain = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'f' => 12,
                    b'"' | b'\\' | b'/' => *escaped,
                    _ => return (1, Gives::Byte(b'\\')),
                };
                (2, Gives::Byte(plain))
            }
            (Self::Wrapping, [b'\n' | b'\r', ..]) => {
                (rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count(), Gives::Nothing)
            }
            _ => (1, Gives::Byte(rest[0])),
        }
    }
}

/// A number of so many hexadecimal digits.
fn number(digits: &[u8], count: usize) -> Option<u32> {
    digits.get(..count)?.iter().try_fold(0_u32, |sum, byte| Some(sum << 4 | u32::from(digit(*byte)?)))
}

/// `\u0041`, also as a pair of surrogates.
fn unicode(rest: &[u8]) -> Option<(usize, Gives)> {
    let unit = |at: usize| {
        let [b'\\', b'u', digits @ ..] = rest.get(at..at + 6)? else { return None };
        number(digits, 4)
    };
    let first = unit(0)?;
    if let Some(letter) = char::from_u32(first) {
        return Some((6, Gives::char(letter)));
    }
    let second = unit(6)?;
    let pair = 0x10000 + (first.checked_sub(0xd800)? << 10) + second.checked_sub(0xdc00)?;
    Some((12, Gives::char(char::from_u32(pair)?)))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
