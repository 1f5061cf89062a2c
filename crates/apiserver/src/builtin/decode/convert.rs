//! What becomes of an object that is not read from JSON but made of a map: by server-side apply and by strategic merge
//! patches.
//!
//! Kubernetes walks such a map along its Go types, in the order of their fields, and stops at the first value that
//! does not fit. It is more lenient than the JSON decoder where numbers are concerned (a whole number is one however
//! it is written, and one that is too large loses its upper bits), and has other words. Types that decode themselves
//! are handed their part as JSON.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Number, Value};

use super::{
    super::{
        definitions::{self, Package},
        schema::{Definition, DefinitionKind, Type},
    },
    DecodeError, decode_schemas, describe, go, scalar,
};

/// Why a map is no object of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// Go has a conversion between the two types, which is not used.
    #[error("cannot convert {found} to {wanted}")]
    Number {
        /// Go's type of the number.
        found: &'static str,
        /// Go's type of the field.
        wanted: String,
    },
    /// Go has no conversion.
    #[error("unrecognized type: {0}")]
    Scalar(&'static str),
    /// No list or map.
    #[error("cannot restore {wanted} from {found}")]
    Collection {
        /// `slice` or `map`.
        wanted: &'static str,
        /// The value found.
        found: &'static str,
    },
    /// No structure.
    #[error("cannot restore struct from: {0}")]
    Structure(&'static str),
    /// Not base64.
    #[error("error decoding from json: {0}")]
    Base64(DecodeError),
    /// A type that decodes itself refuses.
    #[error(transparent)]
    Own(#[from] DecodeError),
}

/// Brings an object into the form that decodes, or says why there is none.
pub fn convert(group: &str, kind: &str, object: &mut Value) -> Result<(), ConvertError> {
    match definitions::find_kind(group, kind) {
        Some((package, definition)) => structure(package, definition, object),
        None => Ok(()),
    }
}

/// The position of a value: the structure and its field.
type Place<'a> = (&'a str, &'a str);

fn structure(package: Package, definition: &Definition, object: &mut Value) -> Result<(), ConvertError> {
    let found = kind_of(object);
    let Value::Object(members) = object else { return Err(ConvertError::Structure(found)) };
    for name in go::field_order(package, definition) {
        if let (Some(field), Some(member)) = (definition.field(name), members.get_mut(name)) {
            value(field.kind, member, (definition.name, name))?;
        }
    }
    Ok(())
}

fn value(kind: Type, value: &mut Value, place: Place<'_>) -> Result<(), ConvertError> {
    let found = kind_of(value);
    match (kind, &mut *value) {
        (_, Value::Null)
        | (Type::Text, Value::String(_))
        | (Type::Bool, Value::Bool(_))
        | (Type::Double, Value::Number(_)) => Ok(()),
        // Go would make a letter of it.
        (Type::Text, Value::Number(number)) if number.is_i64() => {
            Err(ConvertError::Number { found, wanted: go::type_name(place.0, place.1, kind) })
        }
        (Type::Text, _) => Err(ConvertError::Scalar("string")),
        (Type::Bool, _) => Err(ConvertError::Scalar("bool")),
        (Type::Double, _) => Err(ConvertError::Scalar("float64")),
        (Type::Int32, _) => {
            #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
            let number = integer(value, "int32")? as i32;
            *value = number.into();
            Ok(())
        }
        (Type::Int64, _) => {
            *value = integer(value, "int64")?.into();
            Ok(())
        }
        (Type::Bytes, Value::String(text)) => scalar::bytes(text).map(drop).map_err(ConvertError::Base64),
        (Type::Bytes, Value::Array(elements)) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as Go does")]
            let byte = |element: &Value| match element {
                Value::Null => Ok(0),
                element => integer(element, "uint8").map(|number| number as u8),
            };
            let bytes: Vec<u8> = elements.iter().map(byte).collect::<Result<_, _>>()?;
            *value = BASE64_STANDARD.encode(bytes).into();
            Ok(())
        }
        (
            Type::List(items) | Type::Atomic(items) | Type::Set(items) | Type::Keyed(items, _),
            Value::Array(elements),
        ) => elements.iter_mut().try_for_each(|element| self::value(*items, element, place)),
        (Type::Bytes | Type::List(_) | Type::Atomic(_) | Type::Set(_) | Type::Keyed(..), _) => {
            Err(ConvertError::Collection { wanted: "slice", found })
        }
        (Type::Map(values), Value::Object(members)) => {
            members.values_mut().try_for_each(|member| self::value(*values, member, place))
        }
        (Type::Map(_), _) => Err(ConvertError::Collection { wanted: "map", found }),
        (Type::Of(package, name), _) => named(package, name, value),
    }
}

fn named(package: Package, name: &'static str, value: &mut Value) -> Result<(), ConvertError> {
    let Some(definition) = definitions::find(package, name) else { return Ok(()) };
    match definition.kind {
        DefinitionKind::Time => match value {
            Value::String(text) => Ok(scalar::time(text, name == "MicroTime").map(drop)?),
            other => Err(DecodeError::Alone { found: describe(other), wanted: "string".to_owned() }.into()),
        },
        DefinitionKind::Quantity => {
            if let Value::Number(number) = value {
                *value = scalar::go_number(number).into();
            }
            *value = scalar::quantity(value)?;
            Ok(())
        }
        DefinitionKind::Schemas => Ok(decode_schemas(name, value)?),
        DefinitionKind::Any | DefinitionKind::Open => Ok(()),
        DefinitionKind::Kind
        | DefinitionKind::Answer
        | DefinitionKind::Envelope
        | DefinitionKind::Part
        | DefinitionKind::AtomicPart => structure(package, definition, value),
    }
}

/// A number as Go makes an integer of 64 bits of it.
fn integer(value: &Value, wanted: &'static str) -> Result<i64, ConvertError> {
    let Value::Number(number) = value else { return Err(ConvertError::Scalar(wanted)) };
    if let Some(number) = number.as_i64() {
        return Ok(number);
    }
    let number = number.as_f64().unwrap_or_default();
    if number.fract() != 0.0 {
        return Err(ConvertError::Number { found: "float64", wanted: wanted.to_owned() });
    }
    // What is out of range becomes the least one, as on the processors it runs on.
    let limit = 2_f64.powi(63);
    #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
    let whole = if (-limit..limit).contains(&number) { number as i64 } else { i64::MIN };
    Ok(whole)
}

/// The kind that Go has of a value.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) => number_kind(number),
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn number_kind(number: &Number) -> &'static str {
    if number.is_i64() { "int64" } else { "float64" }
}

#[cfg(test)]
mod tests;
