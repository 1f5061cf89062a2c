//! `"%s".format([..])`.

use std::fmt::Write as _;

use crate::cel::eval::Cost;
use crate::cel::library::convert;
use crate::cel::value::{EvalError, List, Val};
use crate::go::text;

pub(super) fn format(template: &str, arguments: &List<'_>, cost: &Cost) -> Result<String, EvalError> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let argument =
            arguments.get(next).ok_or_else(|| EvalError::other(format!("index {next} out of range")))??;
        next += 1;
        let (precision, after) = precision(rest)?;
        let verb = after.chars().next().ok_or_else(|| EvalError::other("unexpected end of string"))?;
        rest = &after[verb.len_utf8()..];
        let text = clause(verb, precision, &argument)?;
        cost.spend_on_text(text.len())?;
        out.push_str(&text);
    }
    out.push_str(rest);
    Ok(out)
}

/// Decimals if none are asked for.
const DEFAULT_PRECISION: usize = 6;

fn precision(text: &str) -> Result<(Option<usize>, &str), EvalError> {
    let Some(rest) = text.strip_prefix('.') else { return Ok((None, text)) };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    let invalid = || {
        EvalError::other(
            "could not parse formatting clause: error while parsing precision: error while converting precision to integer",
        )
    };
    // More decimals than a double has would only pad the result.
    let precision: usize = digits.parse().map_err(|_| invalid())?;
    if precision > 1000 {
        return Err(invalid());
    }
    Ok((Some(precision), after))
}

fn clause(verb: char, precision: Option<usize>, argument: &Val<'_>) -> Result<String, EvalError> {
    let wrong = |message: &str| {
        EvalError::other(format!("error during formatting: {message}, was given {}", argument.type_name()))
    };
    match (verb, argument) {
        ('s', argument) => string(argument),
        ('d', Val::Int(value)) => Ok(value.to_string()),
        ('d', Val::Uint(value)) => Ok(value.to_string()),
        ('d', _) => Err(wrong("decimal clause can only be used on integers")),
        ('f', argument) => {
            let value =
                double(argument).ok_or_else(|| wrong("fixed-point clause can only be used on doubles"))?;
            Ok(special(value)
                .unwrap_or_else(|| grouped(&format!("{value:.*}", precision.unwrap_or(DEFAULT_PRECISION)))))
        }
        // An API server takes the precision of this clause for a width, which is never reached.
        ('e', argument) => {
            let value =
                double(argument).ok_or_else(|| wrong("scientific clause can only be used on doubles"))?;
            Ok(special(value).unwrap_or_else(|| scientific(value)))
        }
        ('b', Val::Int(value)) => Ok(signed(*value, |size| format!("{size:b}"))),
        ('b', Val::Uint(value)) => Ok(format!("{value:b}")),
        ('b', Val::Bool(value)) => Ok(if *value { "1" } else { "0" }.to_owned()),
        ('b', _) => Err(wrong("only integers and bools can be formatted as binary")),
        ('x' | 'X', argument) => {
            let hex = match argument {
                Val::Int(value) => signed(*value, |size| format!("{size:x}")),
                Val::Uint(value) => format!("{value:x}"),
                Val::String(text) => hex_of(text.as_bytes()),
                Val::Bytes(bytes) => hex_of(bytes),
                _ => {
                    return Err(wrong("only integers, byte buffers, and strings can be formatted as hex"));
                }
            };
            Ok(if verb == 'X' { hex.to_uppercase() } else { hex })
        }
        ('o', Val::Int(value)) => Ok(signed(*value, |size| format!("{size:o}"))),
        ('o', Val::Uint(value)) => Ok(format!("{value:o}")),
        ('o', _) => Err(wrong("octal clause can only be used on integers")),
        (verb, _) => Err(EvalError::other(format!(
            "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
        ))),
    }
}

fn hex_of(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

fn signed(value: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", digits(value.unsigned_abs()))
}

fn double(argument: &Val<'_>) -> Option<f64> {
    match argument {
        Val::Double(value) => Some(*value),
        Val::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(value: f64) -> Option<String> {
    if value.is_nan() {
        return Some("NaN".to_owned());
    }
    value.is_infinite().then(|| if value > 0.0 { "\u{221e}" } else { "-\u{221e}" }.to_owned())
}

/// An API server formats for American English, which groups thousands.
fn grouped(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let mut out = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out + fraction
}

fn scientific(value: f64) -> String {
    let text = format!("{value:.DEFAULT_PRECISION$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("\u{207b}", digits));
    let raised: String = digits
        .chars()
        .map(|c| {
            [
                '\u{2070}', '\u{b9}', '\u{b2}', '\u{b3}', '\u{2074}', '\u{2075}', '\u{2076}', '\u{2077}',
                '\u{2078}', '\u{2079}',
            ][c.to_digit(10).unwrap_or(0) as usize]
        })
        .collect();
    format!(
        "{mantissa}\u{202f}\u{d7}\u{202f}10{}{sign}{raised}",
        if digits.len() < 2 { "\u{2070}" } else { "" }
    )
}

/// `%s`.
fn string(argument: &Val<'_>) -> Result<String, EvalError> {
    match argument {
        Val::Null => Ok("null".to_owned()),
        Val::Type(name) => Ok((*name).to_owned()),
        Val::List(list) => {
            let parts: Result<Vec<_>, _> = list.iter().map(|element| nested(&element?)).collect();
            Ok(format!("[{}]", parts?.join(", ")))
        }
        Val::Map(map) => {
            let mut parts = Vec::new();
            for key in map.keys() {
                if let Some(value) = map.find(&key)? {
                    parts.push((nested(&key)?, nested(&value)?));
                }
            }
            parts.sort();
            let parts: Vec<String> = parts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            Ok(format!("{{{}}}", parts.join(", ")))
        }
        Val::Bool(_)
        | Val::Int(_)
        | Val::Uint(_)
        | Val::Double(_)
        | Val::String(_)
        | Val::Bytes(_)
        | Val::Duration(_)
        | Val::Timestamp(_) => match convert::to("string", argument)? {
            Val::String(text) => Ok(text.to_string()),
            _ => Err(EvalError::overload("format")),
        },
        other => Err(EvalError::other(format!(
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
             lists, types, durations, and timestamps, was given {}",
            other.type_name()
        ))),
    }
}

/// A value inside of a list or map.
fn nested(value: &Val<'_>) -> Result<String, EvalError> {
    Ok(match value {
        Val::String(inner) => text::quote(inner),
        Val::Double(double) => format!("{double:.6}"),
        Val::Duration(nanos) => format!("duration({})", text::quote(&convert::seconds(*nanos))),
        Val::Timestamp(_) => format!("timestamp({})", text::quote(&string(value)?)),
        Val::Bytes(_) => format!("b{}", text::quote(&string(value)?)),
        other => string(other)?,
    })
}
