//! JSON as Kubernetes reads it: members given twice are noted, syntax errors have Go's words.

use std::{cell::RefCell, fmt};

use serde::de::{Deserialize as _, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::bounds::{MAX_DEPTH, MAX_VALUES};
use crate::status::go;

/// Upstream stops counting here, too.
const DUPLICATES: usize = 100;
/// Bytes of the paths of duplicates behind the first, which is told however long it is: all of them may be below a key of
/// megabytes.
const DUPLICATES_BYTES: usize = 64 << 10;

/// A value, and the paths of members that were given more than once; the last one counts.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Parsed {
    /// The value. Numbers without a fraction are integers, as they are once they are stored.
    pub value: Value,
    /// Such as `spec.ports[0].name`.
    pub duplicates: Vec<String>,
}

/// Why a text is not parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is no JSON, or nests deeper than [`MAX_DEPTH`]; in Go's words.
    #[error("{0}")]
    Syntax(String),
    /// It has more than [`MAX_VALUES`] values.
    #[error("more than {MAX_VALUES} values")]
    TooMany,
}

/// Parses JSON, or says why it does not.
pub fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let found = RefCell::new(Found::default());
    let seed = Seed { path: &Path::Root, depth: 0, found: &found };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = seed.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match parsed {
        Ok(value) => Ok(Parsed { value, duplicates: found.into_inner().duplicates }),
        Err(_) if found.borrow().values > MAX_VALUES => Err(ParseError::TooMany),
        // What Go would read and serde does not: numbers without end, broken UTF-16.
        Err(error) => Err(ParseError::Syntax(syntax_error(bytes).unwrap_or_else(|| error.to_string()))),
    }
}

/// The word for the type of a value.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

enum Path<'a> {
    Root,
    Member(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// About how long its text is.
    fn length(&self) -> usize {
        match self {
            Self::Root => 0,
            Self::Member(parent, name) => parent.length() + name.len() + 1,
            Self::Item(parent, _) => parent.length() + 8,
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Findings of the parser besides the value.
#[derive(Default)]
struct Found {
    duplicates: Vec<String>,
    values: usize,
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    path: &'a Path<'a>,
    depth: usize,
    found: &'a RefCell<Found>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "as upstream, which has no unsigned numbers")]
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value as f64), Value::from))
    }

    #[expect(clippy::cast_possible_truncation, reason = "only whole numbers that fit are cast")]
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // Up to here every whole double is an integer of its own.
        let exact = value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
        Ok(if exact {
            Value::from(value as i64)
        } else {
            Number::from_f64(value).map_or(Value::Null, Value::Number)
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut out = Vec::new();
        loop {
            let path = Path::Item(self.path, out.len());
            match items.next_element_seed(Seed { path: &path, depth, ..self })? {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut out = Map::new();
        while let Some(key) = members.next_key_seed(Key)? {
            let path = Path::Member(self.path, &key);
            if out.contains_key(&key) {
                self.note(&path);
            }
            let value = members.next_value_seed(Seed { path: &path, depth, ..self })?;
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }
}

impl Seed<'_> {
    fn note(&self, path: &Path<'_>) {
        let duplicates = &mut self.found.borrow_mut().duplicates;
        let told: usize = duplicates.iter().skip(1).map(String::len).sum();
        let fits = duplicates.len() < DUPLICATES && told + path.length() <= DUPLICATES_BYTES;
        if duplicates.is_empty() || fits {
            let path = path.to_string();
            if !duplicates.contains(&path) {
                duplicates.push(path);
            }
        }
    }

    fn count<E: Error>(&self) -> Result<(), E> {
        let values = &mut self.found.borrow_mut().values;
        *values += 1;
        if *values > MAX_VALUES { Err(E::custom("too many values")) } else { Ok(()) }
    }

    /// The level of what is in a list or map that begins here.
    fn deeper<E: Error>(&self) -> Result<usize, E> {
        if self.depth < MAX_DEPTH { Ok(self.depth + 1) } else { Err(E::custom("exceeded max depth")) }
    }
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        String::deserialize(deserializer)
    }
}

/// The first syntax error of a text, in Go's words.
pub fn syntax_error(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, position: 0 };
    match scanner.document() {
        Ok(()) => None,
        Err(Stop::End) => Some("unexpected end of JSON input".to_owned()),
        // Go shows a byte as the character of that number.
        Err(Stop::At(byte, context)) => {
            Some(format!("invalid character {} {context}", go::quote_char(char::from(byte))))
        }
    }
}

enum Stop {
    End,
    At(u8, String),
}

struct Scanner<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.position).copied();
        self.position += usize::from(byte.is_some());
        byte
    }

    fn after_space(&mut self) -> Option<u8> {
        loop {
            match self.next() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => {}
                other => return other,
            }
        }
    }

    /// Without recursion: depth is the client's choice.
    fn document(&mut self) -> Result<(), Stop> {
        let mut open = Vec::new();
        let mut first = self.after_space();
        loop {
            // At the beginning of a value.
            match first.ok_or(Stop::End)? {
                byte @ (b'{' | b'[') if open.len() == MAX_DEPTH => return stop(byte, "exceeded max depth"),
                b'{' => match self.after_space().ok_or(Stop::End)? {
                    b'}' => {}
                    byte => {
                        first = self.member(byte)?;
                        open.push(b'}');
                        continue;
                    }
                },
                b'[' => match self.after_space().ok_or(Stop::End)? {
                    b']' => {}
                    byte => {
                        first = Some(byte);
                        open.push(b']');
                        continue;
                    }
                },
                byte => self.scalar(byte)?,
            }
            // After a value: close what it closes, or find the next one.
            loop {
                let Some(close) = open.last().copied() else {
                    let context = "after top-level value";
                    return self.after_space().map_or(Ok(()), |byte| stop(byte, context));
                };
                match (self.after_space().ok_or(Stop::End)?, close) {
                    (byte, close) if byte == close => drop(open.pop()),
                    (b',', b'}') => {
                        let byte = self.after_space().ok_or(Stop::End)?;
                        first = self.member(byte)?;
                        break;
                    }
                    (b',', _) => {
                        first = self.after_space();
                        break;
                    }
                    (byte, b'}') => return stop(byte, "after object key:value pair"),
                    (byte, _) => return stop(byte, "after array element"),
                }
            }
        }
    }

    /// The key, from its first byte, and the colon; returns the first byte of the value.
    fn member(&mut self, byte: u8) -> Result<Option<u8>, Stop> {
        if byte != b'"' {
            return stop(byte, "looking for beginning of object key string");
        }
        self.string()?;
        match self.after_space().ok_or(Stop::End)? {
            b':' => Ok(self.after_space()),
            byte => stop(byte, "after object key"),
        }
    }

    fn scalar(&mut self, byte: u8) -> Result<(), Stop> {
        match byte {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(byte),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            byte => stop(byte, "looking for beginning of value"),
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), Stop> {
        for expected in word.bytes().skip(1) {
            match self.next().ok_or(Stop::End)? {
                byte if byte == expected => {}
                byte => {
                    return stop(byte, &format!("in literal {word} (expecting '{}')", char::from(expected)));
                }
            }
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Stop> {
        loop {
            match self.next().ok_or(Stop::End)? {
                b'"' => return Ok(()),
                b'\\' => match self.next().ok_or(Stop::End)? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.next().ok_or(Stop::End)?;
                            if !byte.is_ascii_hexdigit() {
                                return stop(byte, "in \\u hexadecimal character escape");
                            }
                        }
                    }
                    byte => return stop(byte, "in string escape code"),
                },
                byte if byte < 0x20 => return stop(byte, "in string literal"),
                _ => {}
            }
        }
    }

    fn number(&mut self, mut byte: u8) -> Result<(), Stop> {
        if byte == b'-' {
            byte = self.next().ok_or(Stop::End)?;
            if !byte.is_ascii_digit() {
                return stop(byte, "in numeric literal");
            }
        }
        if byte != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
    }

    fn digit(&mut self, context: &str) -> Result<(), Stop> {
        let byte = self.next().ok_or(Stop::End)?;
        if byte.is_ascii_digit() { Ok(()) } else { stop(byte, context) }
    }
}

fn stop<T>(byte: u8, context: &str) -> Result<T, Stop> {
    Err(Stop::At(byte, context.to_owned()))
}
