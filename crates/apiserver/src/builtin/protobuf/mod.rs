//! Bodies in protobuf, as typed clients such as `kubectl create configmap` send built-in kinds.
//!
//! ```text
//! "k8s\0" + Unknown{apiVersion, kind, raw} --envelope--> raw --message (definitions + numbers)--> JSON
//! ```
//!
//! What comes out is the JSON of the same object, zero values included; `builtin::decode` then does with it what it
//! does with any body. As in Go, fields without a known number are skipped in silence, and the parts of a message
//! that is given twice are merged.

pub(super) mod numbers;
mod wire;

use std::cell::Cell;

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

use super::definitions::{self, Package};
use super::schema::{Definition, DefinitionKind, Type};
use crate::bounds::{self, MAX_VALUES};
use crate::json;
use wire::{Reader, Wire, WireError};

/// The magic number of every body.
const MAGIC: &[u8] = b"k8s\0";
/// Only schemas nest in schemas; as deep as JSON may.
const DEEPEST: usize = 128;

/// Why a body is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// Nothing was sent.
    #[error("empty data")]
    Empty,
    /// Something else was sent.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// Nothing follows the prefix.
    #[error("empty body")]
    NoEnvelope,
    /// The envelope is damaged.
    #[error(transparent)]
    Envelope(WireError),
    /// The object is damaged.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// An invalid object in the envelope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The bytes are no message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// No field of a message can be written like this.
    #[error("proto: {message}: illegal tag {number} (wire type {wire})")]
    Tag {
        /// The message.
        message: &'static str,
        /// Number of the field.
        number: u64,
        /// Its wire type.
        wire: u8,
    },
    /// The field is of another type.
    #[error("proto: wrong wireType = {form} for field {field}")]
    Form {
        /// The wire type of the value.
        form: u8,
        /// The field.
        field: String,
    },
    /// A field that holds JSON holds none.
    #[error("{0}")]
    Json(String),
    /// A moment outside of the calendar.
    #[error("time of {0} seconds is out of range")]
    Time(i64),
    /// Deeper than JSON could be.
    #[error("exceeded max depth")]
    Depth,
    /// More values than an object may have.
    #[error("more than {MAX_VALUES} values")]
    Values,
}

/// Decodes a body that should be of a built-in kind. One that says it is something else comes out with its `kind`
/// and `apiVersion` alone, for whoever checks those.
pub fn decode(body: &[u8], group: &str, kind: &str) -> Result<Value, ProtobufError> {
    if body.is_empty() {
        return Err(ProtobufError::Empty);
    }
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::Prefix)?;
    if envelope.is_empty() {
        return Err(ProtobufError::NoEnvelope);
    }
    let Envelope { api_version, kind: given, raw } =
        Envelope::read(envelope).map_err(ProtobufError::Envelope)?;
    let mut object = Map::new();
    for (name, text) in [("apiVersion", api_version), ("kind", given)] {
        if !text.is_empty() {
            object.insert(name.to_owned(), String::from_utf8_lossy(text).into());
        }
    }
    if (given.is_empty() || given == kind.as_bytes())
        && let Some((package, definition)) = definitions::find_kind(group, kind)
    {
        message(&mut object, package, definition, raw, Level { depth: 0, values: &Cell::new(0) })?;
    }
    Ok(object.into())
}

/// Kubernetes' `runtime.Unknown`.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a [u8],
    kind: &'a [u8],
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut envelope = Self::default();
        let mut fields = Reader::new(bytes);
        while let Some((number, value)) = fields.field()? {
            match (number, value) {
                (1, Wire::Bytes(type_meta)) => {
                    let mut fields = Reader::new(type_meta);
                    while let Some((number, value)) = fields.field()? {
                        match (number, value) {
                            (1, Wire::Bytes(text)) => envelope.api_version = text,
                            (2, Wire::Bytes(text)) => envelope.kind = text,
                            _ => {}
                        }
                    }
                }
                (2, Wire::Bytes(raw)) => envelope.raw = raw,
                // Encoding and type of the content: nothing but protobuf is ever meant.
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// Reads the fields of a message into an object.
fn message(
    into: &mut Map<String, Value>,
    package: Package,
    definition: &'static Definition,
    bytes: &[u8],
    level: Level<'_>,
) -> Result<(), ObjectError> {
    let names = numbers::names(package, definition.name);
    let mut fields = Reader::new(bytes);
    let illegal = |error| match error {
        WireError::Tag { number, wire } => ObjectError::Tag { message: definition.name, number, wire },
        other => other.into(),
    };
    while let Some((number, value)) = fields.field().map_err(illegal)? {
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let Some(field) = names.get(index).and_then(|name| definition.field(name)) else { continue };
        put(into, field.name, field.kind, value, level)?;
    }
    Ok(())
}

/// The depth of a value, and the number of values read before it.
#[derive(Clone, Copy)]
struct Level<'a> {
    depth: usize,
    values: &'a Cell<usize>,
}

impl Level<'_> {
    fn deeper(self) -> Result<Self, ObjectError> {
        if self.depth == DEEPEST {
            return Err(ObjectError::Depth);
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// Counts values, before they are made: an empty message takes two bytes here, and a hundred times as much as JSON.
    fn count(self, values: usize) -> Result<(), ObjectError> {
        self.values.set(self.values.get() + values);
        if self.values.get() > MAX_VALUES { Err(ObjectError::Values) } else { Ok(()) }
    }
}

/// Adds what one occurrence of a field says.
fn put(
    into: &mut Map<String, Value>,
    name: &str,
    kind: Type,
    value: Wire<'_>,
    level: Level<'_>,
) -> Result<(), ObjectError> {
    match kind {
        Type::List(items) | Type::Atomic(items) | Type::Set(items) | Type::Keyed(items, _) => {
            let item = single(None, name, *items, value, level)?;
            let list = into.entry(name).or_insert_with(|| json!([]));
            list.as_array_mut().expect("a list field holds a list").push(item);
        }
        Type::Map(values) => {
            let (key, item) = entry(name, *values, value, level)?;
            let map = into.entry(name).or_insert_with(|| json!({}));
            map.as_object_mut().expect("a map field holds an object").insert(key, item);
        }
        _ => {
            let before = into.get_mut(name).map(Value::take);
            let value = single(before, name, kind, value, level)?;
            into.insert(name.to_owned(), value);
        }
    }
    Ok(())
}

/// One entry of a map: a message of key and value, both of which may be left out.
fn entry(name: &str, kind: Type, value: Wire<'_>, level: Level<'_>) -> Result<(String, Value), ObjectError> {
    let (mut key, mut item) = (String::new(), None);
    let mut fields = Reader::new(bytes_of(name, value)?);
    while let Some((number, value)) = fields.field()? {
        match number {
            1 => key = String::from_utf8_lossy(bytes_of(name, value)?).into_owned(),
            2 => item = Some(single(None, name, kind, value, level)?),
            _ => {}
        }
    }
    let empty = if matches!(kind, Type::Bool) { Wire::Varint(0) } else { Wire::Bytes(&[]) };
    let item = item.map_or_else(|| single(None, name, kind, empty, level), Ok)?;
    Ok((key, item))
}

/// A value that is neither list nor map; `before` is what an earlier occurrence of the field said.
fn single(
    before: Option<Value>,
    name: &str,
    kind: Type,
    value: Wire<'_>,
    level: Level<'_>,
) -> Result<Value, ObjectError> {
    level.count(1)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "as protobuf defines it")]
    match (kind, value) {
        // What is not UTF-8 is shown the way Go's JSON shows it.
        (Type::Text, Wire::Bytes(text)) => Ok(String::from_utf8_lossy(text).into()),
        (Type::Bytes, Wire::Bytes(bytes)) => Ok(BASE64_STANDARD.encode(bytes).into()),
        (Type::Bool, Wire::Varint(number)) => Ok((number != 0).into()),
        (Type::Int32, Wire::Varint(number)) => Ok((number as i32).into()),
        (Type::Int64, Wire::Varint(number)) => Ok((number as i64).into()),
        (Type::Double, Wire::Fixed64(bits)) => Ok(double(f64::from_bits(bits))),
        (Type::Of(package, of), Wire::Bytes(bytes)) => match definitions::find(package, of) {
            Some(definition) => named(before, package, definition, bytes, level.deeper()?),
            None => Ok(Value::Null),
        },
        // A list inside of a map is a message with one field.
        (Type::List(items), Wire::Bytes(bytes)) => {
            let mut list = Vec::new();
            let mut fields = Reader::new(bytes);
            while let Some((number, value)) = fields.field()? {
                if number == 1 {
                    list.push(single(None, name, *items, value, level)?);
                }
            }
            Ok(list.into())
        }
        (_, value) => Err(ObjectError::Form { form: value.form(), field: go_name(name) }),
    }
}

fn named(
    before: Option<Value>,
    package: Package,
    definition: &'static Definition,
    bytes: &[u8],
    level: Level<'_>,
) -> Result<Value, ObjectError> {
    match definition.kind {
        DefinitionKind::Time => time(bytes, definition.name == "MicroTime"),
        DefinitionKind::Quantity => {
            let mut text: &[u8] = b"0";
            let mut fields = Reader::new(bytes);
            while let Some((number, value)) = fields.field()? {
                if number == 1 {
                    text = bytes_of("string", value)?;
                }
            }
            Ok(String::from_utf8_lossy(text).into())
        }
        DefinitionKind::Open | DefinitionKind::Any => raw_json(bytes, level),
        DefinitionKind::Schemas => schemas(definition, bytes, level),
        DefinitionKind::Kind
        | DefinitionKind::Answer
        | DefinitionKind::Envelope
        | DefinitionKind::Part
        | DefinitionKind::AtomicPart => {
            let mut object = match before {
                Some(Value::Object(object)) => object,
                _ => Map::new(),
            };
            message(&mut object, package, definition, bytes, level)?;
            Ok(object.into())
        }
    }
}

/// Seconds and nanoseconds since 1970; no bytes at all are no time at all.
fn time(bytes: &[u8], micro: bool) -> Result<Value, ObjectError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = Reader::new(bytes);
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "as protobuf defines it")]
    while let Some((number, value)) = fields.field()? {
        match (number, value) {
            (1, Wire::Varint(number)) => seconds = number as i64,
            (2, Wire::Varint(number)) => nanos = number as i32,
            _ => {}
        }
    }
    let nanos = if micro { nanos / 1000 * 1000 } else { 0 };
    let time = Timestamp::new(seconds, nanos).map_err(|_| ObjectError::Time(seconds))?;
    let format = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(time.strftime(format).to_string().into())
}

/// A message whose one field is JSON.
fn raw_json(bytes: &[u8], level: Level<'_>) -> Result<Value, ObjectError> {
    let mut raw: &[u8] = b"null";
    let mut fields = Reader::new(bytes);
    while let Some((number, value)) = fields.field()? {
        if number == 1 {
            raw = bytes_of("raw", value)?;
        }
    }
    let parsed = json::parse(raw).map_err(|error| match error {
        json::ParseError::Syntax(error) => ObjectError::Json(error),
        json::ParseError::TooMany => ObjectError::Values,
    })?;
    level.count(bounds::extent(&parsed.value).values)?;
    Ok(parsed.value)
}

/// The three types that are a schema or something else.
fn schemas(definition: &Definition, bytes: &[u8], level: Level<'_>) -> Result<Value, ObjectError> {
    let schema = Type::Of(Package::Apiextensions, "JSONSchemaProps");
    let (mut one, mut many, mut allows) = (None, Vec::new(), false);
    let mut fields = Reader::new(bytes);
    while let Some((number, value)) = fields.field()? {
        match (definition.name, number) {
            ("JSONSchemaPropsOrBool", 1) => allows = value != Wire::Varint(0),
            ("JSONSchemaPropsOrArray", 2) => many.push(single(None, "JSONSchemas", schema, value, level)?),
            ("JSONSchemaPropsOrStringArray", 2) => {
                many.push(single(None, "Property", Type::Text, value, level)?);
            }
            (_, 1 | 2) => one = Some(single(one.take(), "Schema", schema, value, level)?),
            _ => {}
        }
    }
    Ok(match (one, definition.name) {
        (_, _) if !many.is_empty() => many.into(),
        (Some(schema), _) => schema,
        (None, "JSONSchemaPropsOrBool") => allows.into(),
        (None, _) => Value::Null,
    })
}

fn bytes_of<'a>(name: &str, value: Wire<'a>) -> Result<&'a [u8], ObjectError> {
    match value {
        Wire::Bytes(bytes) => Ok(bytes),
        other => Err(ObjectError::Form { form: other.form(), field: go_name(name) }),
    }
}

/// Whole numbers are written without a fraction, as Go's JSON does.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers that fit are cast")]
fn double(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0 {
        return (value as i64).into();
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Go's generated code calls fields by the name of the struct's member.
fn go_name(name: &str) -> String {
    if name == "metadata" {
        return "ObjectMeta".to_owned();
    }
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests;
