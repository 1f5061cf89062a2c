//! Scalars with a form of their own: numbers, base64, times, quantities.

use base64::{DecodeError as Base64Error, Engine, prelude::BASE64_STANDARD};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Number, Value};

use super::{DecodeError, describe, quantity::canonical};
use crate::builtin::schema::Type;

/// An integer that fits its type; otherwise what was found.
pub(super) fn integer(kind: Type, value: Value, shown: fn(&Number) -> String) -> Result<Value, String> {
    let Value::Number(number) = &value else { return Err(describe(&value)) };
    let fits = match (number.as_i64(), kind) {
        (Some(number), Type::Int32) => i32::try_from(number).is_ok(),
        (number, _) => number.is_some(),
    };
    if fits { Ok(value) } else { Err(format!("number {}", shown(number))) }
}

/// Base64, in its one canonical form.
pub(super) fn bytes(text: &str) -> Result<Value, DecodeError> {
    let is_read = |byte: &u8| !matches!(byte, b'\r' | b'\n');
    let read: Vec<u8> = text.bytes().filter(is_read).collect();
    let decoded = BASE64_STANDARD.decode(&read).map_err(|error| {
        DecodeError::Base64(match error {
            // Ends of lines count, although they are not read.
            Base64Error::InvalidByte(at, _) | Base64Error::InvalidLastSymbol { offset: at, .. } => {
                let places = text.bytes().enumerate().filter(|(_, byte)| is_read(byte));
                places.map(|(place, _)| place).nth(at).unwrap_or(text.len())
            }
            // Go notices these at the end of the last whole group of four.
            Base64Error::InvalidLength(_) | Base64Error::InvalidPadding => text.len() - read.len() % 4,
        })
    })?;
    Ok(BASE64_STANDARD.encode(decoded).into())
}

/// Bytes that are given one by one; otherwise what is no byte.
pub(super) fn byte_list(elements: &[Value]) -> Result<Value, String> {
    let byte = |element: &Value| match element {
        Value::Null => Ok(0),
        Value::Number(number) => number
            .as_u64()
            .and_then(|number| u8::try_from(number).ok())
            .ok_or_else(|| format!("number {number}")),
        other => Err(describe(other)),
    };
    let bytes: Vec<u8> = elements.iter().map(byte).collect::<Result<_, _>>()?;
    Ok(BASE64_STANDARD.encode(bytes).into())
}

/// A time as Kubernetes writes it: in UTC, in whole seconds or in microseconds.
pub(super) fn time(text: &str, micro: bool) -> Result<Value, DecodeError> {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let wrong = |why: String| DecodeError::Time(format!("{}{why}", quoted(text)));
    mismatch(text, micro).map_err(|mismatch| {
        wrong(match mismatch {
            Mismatch::Layout { rest, element } => {
                format!(" as {}: cannot parse {} as {}", quoted(layout), quoted(rest), quoted(element))
            }
            Mismatch::Range(what) => format!(": {what} out of range"),
        })
    })?;
    // All else is within its range.
    let time: Timestamp = text.parse().map_err(|_| wrong(": day out of range".to_owned()))?;
    let format = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(time.to_zoned(TimeZone::UTC).strftime(format).to_string().into())
}

/// A text as Go's package of times quotes it: what is not ASCII byte by byte.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=0x7f => out.push(char::from(byte)),
            _ => {
                out.push_str("\\x");
                out.extend(
                    [byte >> 4, byte & 0xf].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
                );
            }
        }
    }
    out.push('"');
    out
}

/// The deviation of a text from a layout.
enum Mismatch<'a> {
    /// The rest of the text from there on, and what the layout has there.
    Layout { rest: &'a str, element: &'static str },
    /// A number that is too large, or zero where that is none.
    Range(&'static str),
}

fn mismatch(text: &str, micro: bool) -> Result<(), Mismatch<'_>> {
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
        let after = if digits == 0 { rest.strip_prefix(element) } else { strip_digits(rest, digits) };
        let after = after.ok_or(Mismatch::Layout { rest, element })?;
        let number: u32 = rest[..rest.len() - after.len()].parse().unwrap_or(0);
        match element {
            "01" if !(1..=12).contains(&number) => return Err(Mismatch::Range("month")),
            "15" if number >= 24 => return Err(Mismatch::Range("hour")),
            "04" if number >= 60 => return Err(Mismatch::Range("minute")),
            "05" if number >= 60 => return Err(Mismatch::Range("second")),
            _ => rest = after,
        }
    }
    if micro {
        let after = rest.strip_prefix('.').and_then(|fraction| strip_digits(fraction, 6));
        rest = after.ok_or(Mismatch::Layout { rest, element: ".000000" })?;
    } else if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let offset = |rest: &str| -> Option<bool> {
        let rest = rest.strip_prefix(['+', '-'])?;
        let rest = strip_digits(rest, 2)?.strip_prefix(':')?;
        Some(strip_digits(rest, 2)?.is_empty())
    };
    let fits = rest == "Z" || offset(rest) == Some(true);
    if fits { Ok(()) } else { Err(Mismatch::Layout { rest, element: "Z07:00" }) }
}

fn strip_digits(text: &str, count: usize) -> Option<&str> {
    let (digits, rest) = text.split_at_checked(count)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then_some(rest)
}

/// A quantity, in its canonical form.
pub(super) fn quantity(value: &Value) -> Result<Value, DecodeError> {
    let canonical = match value {
        Value::String(text) => canonical(text.trim()),
        Value::Number(number) => canonical(&number.to_string()),
        _ => return Err(DecodeError::Quantity),
    };
    canonical.map(Value::from)
}

/// A number as Go writes it that has read it.
pub(super) fn go_number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e21 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}
