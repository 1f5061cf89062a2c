//! Decoding of objects of built-in kinds, as Go's types read them.
//!
//! Kubernetes decodes such bodies into Go structs and encodes those again. That has effects that clients see, and
//! this module has the same: unknown fields are dropped and named, a value of the wrong type is refused in Go's
//! words, empty optional fields vanish, and fields that every object has appear with their zero value.
//!
//! Custom resources are not decoded this way; their schema decides.

mod convert;
mod go;
mod quantity;
mod scalar;

use serde_json::{Map, Number, Value, json};

use super::{
    definitions::{self, Package},
    schema::{Definition, DefinitionKind, Field, Type},
};
use crate::json::kind_of;

pub use convert::{ConvertError, convert};

/// Why a body is no object of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No built-in kind of that name.
    #[error("no kind {kind:?} is built in for group {group:?}")]
    NoKind {
        /// The group.
        group: String,
        /// The kind.
        kind: String,
    },
    /// A value of another JSON type than the field has.
    #[error("json: cannot unmarshal {found} into Go struct field {structure}.{field} of type {wanted}")]
    Type {
        /// The value found: `string`, or `number 1.5`.
        found: String,
        /// Type of the innermost struct.
        structure: &'static str,
        /// The field, from the root on.
        field: String,
        /// Go's name of the type.
        wanted: String,
    },
    /// The whole body is of the wrong type.
    #[error("json: cannot unmarshal {found} into Go value of type v1.{kind}")]
    NotAnObject {
        /// The value found.
        found: String,
        /// The kind.
        kind: String,
    },
    /// A part that decodes itself is of the wrong type.
    #[error("json: cannot unmarshal {found} into Go value of type {wanted}")]
    Alone {
        /// The value found.
        found: String,
        /// Go's name of the type.
        wanted: String,
    },
    /// Not base64.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    /// A time that is no text.
    #[error("json: cannot unmarshal {found} into Go struct field {structure}.{field} of type string")]
    NoTime {
        /// The type it has instead.
        found: String,
        /// The structure of the field.
        structure: &'static str,
        /// The path of the field.
        field: String,
    },
    /// Not a time.
    #[error("parsing time {0}")]
    Time(String),
    /// A stand-in for a schema that is none.
    #[error("boolean or JSON schema expected")]
    NoSchema,
    /// A quantity with an unknown suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// Not a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Quantity,
}

/// A body, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object as Kubernetes would store it, before defaults and rules.
    pub object: Value,
    /// Fields that were dropped because the kind has none of that name, in the order of the body; such as
    /// `spec.rules[0].foo`.
    pub unknown_fields: Vec<String>,
}

/// The number of unknown fields that are reported; the limit of kube-apiserver's JSON decoder.
const STRICT_ERRORS: usize = 100;

/// Returns whether there is a built-in kind of this name.
pub fn is_kind(group: &str, kind: &str) -> bool {
    definitions::find_kind(group, kind).is_some()
}

/// Decodes the body of a request for a built-in kind.
pub fn decode(group: &str, kind: &str, body: Value) -> Result<Decoded, DecodeError> {
    decode_with(Walk::default(), group, kind, body)
}

/// Decodes what [`convert()`] made. Places in maps are told without the key there, as it is upstream.
pub fn decode_converted(group: &str, kind: &str, body: Value) -> Result<Decoded, DecodeError> {
    decode_with(Walk { keyless: true, ..Walk::default() }, group, kind, body)
}

fn decode_with(mut walk: Walk, group: &str, kind: &str, body: Value) -> Result<Decoded, DecodeError> {
    let no_kind = || DecodeError::NoKind { group: group.to_owned(), kind: kind.to_owned() };
    let (package, definition) = definitions::find_kind(group, kind).ok_or_else(no_kind)?;
    if !body.is_object() {
        return Err(DecodeError::NotAnObject { found: describe(&body), kind: kind.to_owned() });
    }
    let root = Place { structure: definition.name, field: String::new(), strict: String::new() };
    let object = walk.structure(package, definition, body, &root)?;
    match walk.saved {
        Some(error) => Err(error),
        None => Ok(Decoded { object, unknown_fields: walk.unknown }),
    }
}

/// Drops what metadata does not have, and tells what that was. `said`: the part of it that is looked through.
pub fn drop_unknown_metadata(metadata: &mut Value, said: Value) -> Vec<String> {
    let Some(definition) = definitions::find(Package::Meta, "ObjectMeta") else { return Vec::new() };
    let mut walk = Walk::default();
    let root = Place { structure: definition.name, field: String::new(), strict: "metadata".to_owned() };
    if walk.structure(Package::Meta, definition, said, &root).is_err() || walk.unknown.is_empty() {
        return walk.unknown;
    }
    retain_known(definition, metadata);
    walk.unknown
}

fn retain_known(definition: &Definition, object: &mut Value) {
    let Value::Object(members) = object else { return };
    members.retain(|name, _| definition.field(name).is_some());
    for (name, value) in members {
        let kind = definition.field(name).map(|field| field.kind);
        if let Some(
            Type::List(Type::Of(package, name))
            | Type::Atomic(Type::Of(package, name))
            | Type::Keyed(Type::Of(package, name), _),
        ) = kind
            && let Some(definition) = definitions::find(*package, name)
        {
            value.as_array_mut().into_iter().flatten().for_each(|item| retain_known(definition, item));
        }
    }
}

/// Drops what does not decode, member by member.
pub fn drop_malformed_metadata(metadata: &mut Map<String, Value>) {
    metadata.retain(|name, value| check_metadata(json!({name: value})).is_ok());
}

/// Checks the types of the metadata of any object, with Go's messages.
pub fn check_metadata(metadata: Value) -> Result<(), DecodeError> {
    let Some(definition) = definitions::find(Package::Meta, "ObjectMeta") else { return Ok(()) };
    let mut walk = Walk { silent: true, ..Walk::default() };
    walk.number = scalar::go_number;
    let root = Place { structure: definition.name, field: String::new(), strict: String::new() };
    walk.structure(Package::Meta, definition, metadata, &root)?;
    walk.saved.map_or(Ok(()), Err)
}

/// The error of a Go type with its own decoder, for a value that is decoded by itself.
fn decode_schemas(name: &str, value: &Value) -> Result<(), DecodeError> {
    let root = Place { structure: "JSONSchemaProps", field: String::new(), strict: String::new() };
    Walk::default().schemas(name, value.clone(), &root).map(drop).map_err(|error| match error {
        DecodeError::Type { found, field, wanted, .. } if field.is_empty() => {
            DecodeError::Alone { found, wanted }
        }
        other => other,
    })
}

const SCHEMA: Type = Type::Of(Package::Apiextensions, "JSONSchemaProps");

/// Go goes on behind a value that does not fit, and tells of the first one in the end; types that decode themselves
/// (times, quantities, some schemas) end everything at once.
struct Walk {
    unknown: Vec<String>,
    /// The first value that does not fit.
    saved: Option<DecodeError>,
    /// True if the error that is on its way ends everything.
    ended: bool,
    /// The notation of numbers in errors: as they were written, or as Go writes them.
    number: fn(&Number) -> String,
    /// True if places in maps are told without their key.
    keyless: bool,
    /// Inside of types that decode themselves: what they drop is not told.
    silent: bool,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            unknown: Vec::new(),
            saved: None,
            ended: false,
            number: Number::to_string,
            keyless: false,
            silent: false,
        }
    }
}

/// The position of the walk, in the notation of errors and in that of unknown fields.
struct Place {
    structure: &'static str,
    field: String,
    strict: String,
}

impl Place {
    fn member(&self, structure: &'static str, name: &str) -> Self {
        let join = |path: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        Self { structure, field: join(&self.field), strict: join(&self.strict) }
    }

    fn element(&self, strict: String) -> Self {
        Self { structure: self.structure, field: self.field.clone(), strict }
    }

    fn mismatch(&self, found: &Value, wanted: Type) -> DecodeError {
        self.mismatch_of(describe(found), wanted)
    }

    fn mismatch_of(&self, found: String, wanted: Type) -> DecodeError {
        let leaf = self.field.rsplit('.').next().unwrap_or_default();
        self.mismatch_as(found, go::type_name(self.structure, leaf, wanted))
    }

    fn mismatch_as(&self, found: String, wanted: String) -> DecodeError {
        DecodeError::Type { found, structure: self.structure, field: self.field.clone(), wanted }
    }
}

impl Walk {
    fn structure(
        &mut self,
        package: Package,
        definition: &'static Definition,
        value: Value,
        place: &Place,
    ) -> Result<Value, DecodeError> {
        let Value::Object(members) = value else {
            let own = Type::Of(package, definition.name);
            return Err(place.mismatch(&value, own));
        };
        let mut decoded = Map::new();
        for (name, value) in members {
            let Some(field) = definition.field(&name) else {
                if !self.silent && self.unknown.len() < STRICT_ERRORS {
                    self.unknown.push(place.member("", &name).strict);
                }
                continue;
            };
            if value.is_null() {
                continue;
            }
            let value = self.value(field.kind, value, &place.member(definition.name, &name));
            if let Some(value) = self.collect_error(value)?
                && is_shown(field, &value)
            {
                decoded.insert(name, value);
            }
        }
        for field in definition.all_fields() {
            if !decoded.contains_key(field.name)
                && let Some(zero) = zero_of_absent(field)
            {
                decoded.insert(field.name.to_owned(), zero);
            }
        }
        Ok(decoded.into())
    }

    /// Puts an error aside that does not end everything.
    fn collect_error(&mut self, decoded: Result<Value, DecodeError>) -> Result<Option<Value>, DecodeError> {
        match decoded {
            Ok(value) => Ok(Some(value)),
            Err(error @ (DecodeError::Type { .. } | DecodeError::Base64(_))) if !self.ended => {
                self.saved.get_or_insert(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn value(&mut self, kind: Type, value: Value, place: &Place) -> Result<Value, DecodeError> {
        let mismatch = |value: &Value| Err(place.mismatch(value, kind));
        match kind {
            Type::Text if value.is_string() => Ok(value),
            Type::Bool if value.is_boolean() => Ok(value),
            Type::Double if value.is_number() => Ok(value),
            Type::Int32 | Type::Int64 => {
                scalar::integer(kind, value, self.number).map_err(|found| place.mismatch_of(found, kind))
            }
            Type::Bytes => match &value {
                Value::String(text) => scalar::bytes(text),
                Value::Array(elements) => {
                    scalar::byte_list(elements).map_err(|found| place.mismatch_as(found, "uint8".to_owned()))
                }
                _ => mismatch(&value),
            },
            Type::List(items) | Type::Atomic(items) | Type::Set(items) | Type::Keyed(items, _) => {
                let Value::Array(elements) = value else { return mismatch(&value) };
                let decoded = elements.into_iter().enumerate().map(|(index, element)| {
                    self.element(*items, element, &place.element(format!("{}[{index}]", place.strict)))
                });
                Ok(Value::Array(decoded.collect::<Result<_, _>>()?))
            }
            Type::Map(values) => {
                let Value::Object(members) = value else { return mismatch(&value) };
                let decoded = members.into_iter().map(|(key, member)| {
                    let strict =
                        if self.keyless { place.strict.clone() } else { format!("{}.{key}", place.strict) };
                    let member = self.element(*values, member, &place.element(strict))?;
                    Ok((key, member))
                });
                Ok(Value::Object(decoded.collect::<Result<_, DecodeError>>()?))
            }
            Type::Of(package, name) => self.named(package, name, value, place),
            Type::Text | Type::Bool | Type::Double => mismatch(&value),
        }
    }

    fn element(&mut self, kind: Type, value: Value, place: &Place) -> Result<Value, DecodeError> {
        if value.is_null() {
            return Ok(zero(kind));
        }
        let value = self.value(kind, value, place);
        Ok(self.collect_error(value)?.unwrap_or_default())
    }

    fn named(
        &mut self,
        package: Package,
        name: &'static str,
        value: Value,
        place: &Place,
    ) -> Result<Value, DecodeError> {
        let Some(definition) = definitions::find(package, name) else { return Ok(value) };
        match definition.kind {
            DefinitionKind::Time => match &value {
                Value::String(text) => scalar::time(text, name == "MicroTime"),
                other => Err(DecodeError::NoTime {
                    found: describe(other),
                    structure: place.structure,
                    field: place.field.clone(),
                }),
            },
            DefinitionKind::Quantity => scalar::quantity(&value),
            DefinitionKind::Any => Ok(value),
            DefinitionKind::Schemas => self.schemas(name, value, place),
            DefinitionKind::Open if value.is_object() => Ok(value),
            DefinitionKind::Open => Err(place.mismatch(&value, Type::Of(package, name))),
            _ => self.structure(package, definition, value, place),
        }
    }

    /// A schema, several, or something else: the type decodes itself, so that nothing is told of unknown fields.
    fn schemas(&mut self, name: &str, value: Value, place: &Place) -> Result<Value, DecodeError> {
        let was_silent = std::mem::replace(&mut self.silent, true);
        let outside = self.saved.take();
        let decoded = match (name, value) {
            (_, value @ Value::Object(_)) => self.value(SCHEMA, value, place),
            ("JSONSchemaPropsOrBool", value @ Value::Bool(_)) => Ok(value),
            ("JSONSchemaPropsOrBool", _) => Err(DecodeError::NoSchema),
            ("JSONSchemaPropsOrStringArray", Value::Array(texts)) => {
                self.value(Type::List(&Type::Text), Value::Array(texts), place)
            }
            (_, value @ Value::Array(_)) => self.value(Type::List(&SCHEMA), value, place),
            // Nothing, said in a strange way.
            _ => Ok(Value::Null),
        };
        self.silent = was_silent;
        let inside = std::mem::replace(&mut self.saved, outside);
        let decoded = inside.map_or(decoded, Err);
        self.ended = decoded.is_err();
        decoded
    }
}

/// Returns whether a field that was given is kept: Go omits optional fields that are empty, unless they are pointers.
fn is_shown(field: &Field, value: &Value) -> bool {
    field.pointer || field.required || field.always || is_embedded(field.kind) || !is_zero(value)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// The value of a missing field, where Go writes one.
fn zero_of_absent(field: &Field) -> Option<Value> {
    let shown =
        !field.pointer && (field.required || field.always || is_embedded(field.kind) || is_time(field.kind));
    shown.then(|| zero(field.kind))
}

/// Structs within structs are never omitted.
fn is_embedded(kind: Type) -> bool {
    let Type::Of(package, name) = kind else { return false };
    definitions::find(package, name).is_some_and(|definition| {
        matches!(definition.kind, DefinitionKind::Part | DefinitionKind::AtomicPart)
    })
}

fn is_time(kind: Type) -> bool {
    let Type::Of(package, name) = kind else { return false };
    definitions::find(package, name).is_some_and(|definition| definition.kind == DefinitionKind::Time)
}

fn zero(kind: Type) -> Value {
    match kind {
        Type::Text => json!(""),
        Type::Bool => json!(false),
        Type::Int32 | Type::Int64 | Type::Double => json!(0),
        Type::Of(package, name) if is_embedded(kind) => {
            let fields = definitions::find(package, name).into_iter().flat_map(Definition::all_fields);
            fields.filter_map(|field| Some((field.name.to_owned(), zero_of_absent(field)?))).collect()
        }
        _ => Value::Null,
    }
}

fn describe(value: &Value) -> String {
    kind_of(value).to_owned()
}

#[cfg(test)]
mod tests;
