//! Conversions between the basic types.

use jiff::Timestamp;

use crate::cel::value::{EvalError, Evaluated, Val};
use crate::go::{text, time};

/// The years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

pub(crate) fn to<'a>(kind: &str, value: &Val<'a>) -> Evaluated<'a> {
    convert(kind, value).map_err(|error| match error {
        EvalError::NoSuchOverload(_) => EvalError::overload(&format!("{kind}({})", value.type_name())),
        error => error,
    })
}

fn convert<'a>(kind: &str, value: &Val<'a>) -> Evaluated<'a> {
    match kind {
        "bool" => to_bool(value),
        "bytes" => match value {
            Val::Bytes(_) => Ok(value.clone()),
            Val::String(text) => Ok(Val::Bytes(text.as_bytes().into())),
            _ => Err(EvalError::overload(kind)),
        },
        "double" => to_double(value),
        "duration" => match value {
            Val::Duration(_) => Ok(value.clone()),
            Val::Int(nanos) => Ok(Val::Duration(*nanos)),
            Val::String(text) => {
                time::parse_duration(text).map(Val::Duration).ok_or_else(|| failed("string", kind))
            }
            _ => Err(EvalError::overload(kind)),
        },
        "int" => to_int(value),
        "uint" => to_uint(value),
        "timestamp" => to_timestamp(value),
        _ => to_string(value),
    }
}

fn failed(from: &str, to: &str) -> EvalError {
    let to = match to {
        "duration" => "google.protobuf.Duration",
        "timestamp" => "google.protobuf.Timestamp",
        other => other,
    };
    EvalError::other(format!("type conversion error from '{from}' to '{to}'"))
}

fn to_bool<'a>(value: &Val<'a>) -> Evaluated<'a> {
    match value {
        Val::Bool(_) => Ok(value.clone()),
        Val::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(failed("string", "bool")),
        },
        _ => Err(EvalError::overload("bool")),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a double holds no more")]
fn to_double<'a>(value: &Val<'a>) -> Evaluated<'a> {
    match value {
        Val::Double(_) => Ok(value.clone()),
        Val::Int(int) => Ok(Val::Double(*int as f64)),
        Val::Uint(uint) => Ok(Val::Double(*uint as f64)),
        Val::String(text) => {
            let plain = !text.is_empty() && !text.contains(char::is_whitespace);
            text.parse().ok().filter(|_| plain).map(Val::Double).ok_or_else(|| failed("string", "double"))
        }
        _ => Err(EvalError::overload("double")),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "in range")]
fn to_int<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let overflow = || EvalError::other("integer overflow");
    match value {
        Val::Int(_) => Ok(value.clone()),
        Val::Uint(uint) => i64::try_from(*uint).map(Val::Int).map_err(|_| overflow()),
        Val::Double(double) => {
            let range = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
            if range.contains(double) { Ok(Val::Int(*double as i64)) } else { Err(overflow()) }
        }
        Val::Duration(nanos) => Ok(Val::Int(*nanos)),
        Val::Timestamp(time) => Ok(Val::Int(time.as_second())),
        Val::String(text) => text.parse().map(Val::Int).map_err(|_| failed("string", "int")),
        _ => Err(EvalError::overload("int")),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
fn to_uint<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let overflow = || EvalError::other("unsigned integer overflow");
    match value {
        Val::Uint(_) => Ok(value.clone()),
        Val::Int(int) => u64::try_from(*int).map(Val::Uint).map_err(|_| overflow()),
        Val::Double(double) => {
            let range = 0.0..18_446_744_073_709_551_616.0;
            if range.contains(double) { Ok(Val::Uint(*double as u64)) } else { Err(overflow()) }
        }
        Val::String(text) => text.parse().map(Val::Uint).map_err(|_| failed("string", "uint")),
        _ => Err(EvalError::overload("uint")),
    }
}

fn to_timestamp<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let overflow = || EvalError::other("timestamp overflow");
    match value {
        Val::Timestamp(_) => Ok(value.clone()),
        Val::Int(seconds) if SECONDS.contains(seconds) => {
            Timestamp::from_second(*seconds).map(Val::Timestamp).map_err(|_| overflow())
        }
        Val::Int(_) => Err(overflow()),
        Val::String(text) => {
            let time = time::parse_time(text, false).ok_or_else(|| failed("string", "timestamp"))?;
            if SECONDS.contains(&time.as_second()) { Ok(Val::Timestamp(time)) } else { Err(overflow()) }
        }
        _ => Err(EvalError::overload("timestamp")),
    }
}

fn to_string<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(match value {
        Val::String(_) => value.clone(),
        Val::Bool(value) => Val::text(value.to_string()),
        Val::Int(value) => Val::text(value.to_string()),
        Val::Uint(value) => Val::text(value.to_string()),
        Val::Double(value) => Val::text(double(*value)),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Val::text(text),
            Err(_) => return Err(EvalError::other("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Val::Duration(nanos) => Val::text(seconds(*nanos)),
        Val::Timestamp(time) => Val::text(time::time_text(*time)),
        Val::Ip(ip) => Val::text(ip.to_string()),
        Val::Cidr(cidr) => Val::text(cidr.to_string()),
        _ => return Err(EvalError::overload("string")),
    })
}

/// A double as `string()` writes it: shortest, with an exponent where Go's `%g` has one.
fn double(value: f64) -> String {
    text::float(value)
}

/// A duration in seconds with as many decimals as needed.
pub(super) fn seconds(nanos: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "Go goes through a double, too")]
    let whole = (nanos / 1_000_000_000) as f64;
    #[expect(clippy::cast_precision_loss, reason = "below a second")]
    let rest = (nanos % 1_000_000_000) as f64;
    format!("{}s", whole + rest / 1e9)
}
