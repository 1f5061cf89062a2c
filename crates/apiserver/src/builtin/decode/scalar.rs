//! Scalars with a form of their own: numbers, base64, times, quantities.

use base64::{DecodeError as Base64Error, Engine, prelude::BASE64_STANDARD};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;

use super::{DecodeError, describe};
use crate::builtin::schema::Type;

/// An integer that fits its type; otherwise what was found.
pub(super) fn integer(kind: Type, value: Value) -> Result<Value, String> {
    let Value::Number(number) = &value else { return Err(describe(&value)) };
    let fits = match (number.as_i64(), kind) {
        (Some(number), Type::Int32) => i32::try_from(number).is_ok(),
        (number, _) => number.is_some(),
    };
    if fits { Ok(value) } else { Err(format!("number {number}")) }
}

/// Base64, in its one canonical form.
pub(super) fn bytes(text: &str) -> Result<Value, DecodeError> {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let decoded = BASE64_STANDARD.decode(&text).map_err(|error| {
        DecodeError::Base64(match error {
            Base64Error::InvalidByte(at, _) | Base64Error::InvalidLastSymbol { offset: at, .. } => at,
            // Go notices these at the end of the last whole group of four.
            Base64Error::InvalidLength(_) | Base64Error::InvalidPadding => text.len() / 4 * 4,
        })
    })?;
    Ok(BASE64_STANDARD.encode(decoded).into())
}

/// A time as Kubernetes writes it: in UTC, in whole seconds or in microseconds.
pub(super) fn time(text: &str, micro: bool) -> Result<Value, DecodeError> {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    if let Some((rest, element)) = mismatch(text, micro) {
        return Err(DecodeError::Time(format!(
            "{text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"
        )));
    }
    let time: Timestamp =
        text.parse().map_err(|_| DecodeError::Time(format!("{text:?} as {layout:?}: out of range")))?;
    let format = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(time.to_zoned(TimeZone::UTC).strftime(format).to_string().into())
}

/// The rest of a text from where it leaves the layout on, and what the layout has there.
fn mismatch(text: &str, micro: bool) -> Option<(&str, &'static str)> {
    const DATE_AND_TIME: [(&str, usize); 11] = [
        ("2006", 4),
        ("-", 0),
        ("01", 2),
        ("-", 0),
        ("02", 2),
        ("T", 0),
        ("15", 2),
        (":", 0),
        ("04", 2),
        (":", 0),
        ("05", 2),
    ];
    let mut rest = text;
    for (element, digits) in DATE_AND_TIME {
        rest = match if digits == 0 { rest.strip_prefix(element) } else { strip_digits(rest, digits) } {
            Some(rest) => rest,
            None => return Some((rest, element)),
        };
    }
    if micro {
        rest = match rest.strip_prefix('.').and_then(|fraction| strip_digits(fraction, 6)) {
            Some(rest) => rest,
            None => return Some((rest, ".000000")),
        };
    } else if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let offset = |rest: &str| -> Option<bool> {
        let rest = rest.strip_prefix(['+', '-'])?;
        let rest = strip_digits(rest, 2)?.strip_prefix(':')?;
        Some(strip_digits(rest, 2)?.is_empty())
    };
    (rest != "Z" && offset(rest) != Some(true)).then_some((rest, "Z07:00"))
}

fn strip_digits(text: &str, count: usize) -> Option<&str> {
    let (digits, rest) = text.split_at_checked(count)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then_some(rest)
}

/// A quantity; its amount is not brought into canonical form.
pub(super) fn quantity(value: &Value) -> Result<Value, DecodeError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(DecodeError::Quantity),
    };
    let unsigned = text.trim_start_matches(['+', '-']);
    let suffix = unsigned.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let exponent = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let fits = text.len() - unsigned.len() <= 1
        && suffix.len() < unsigned.len()
        && exponent.bytes().all(|b| b.is_ascii_digit());
    if fits { Ok(text.into()) } else { Err(DecodeError::Quantity) }
}
