//! `"%s".format([..])`.

use std::fmt::Write as _;

use crate::cel::budget::Cost;
use crate::cel::library::lists::spend_on_sorting;
use crate::cel::library::{convert, size_of};
use crate::cel::value::{EvalError, List, MapVal, Str, Val};
use crate::go::text;

pub(super) fn format(template: &str, arguments: &List<'_>, cost: &Cost) -> Result<String, EvalError> {
    let mut out = Out { text: String::new(), cost };
    let mut rest = template;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push(&rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push("%")?;
            rest = after;
            continue;
        }
        let argument = arguments
            .get(next, cost)
            .ok_or_else(|| EvalError::other(format!("index {next} out of range")))??;
        next += 1;
        let (precision, after) = precision(rest)?;
        let verb = after.chars().next().ok_or_else(|| EvalError::other("unexpected end of string"))?;
        rest = &after[verb.len_utf8()..];
        match verb {
            's' => out.value(&argument)?,
            verb => {
                cost.spend_on_bytes(size_of(&argument))?;
                out.push(&clause(verb, precision, &argument)?)?;
            }
        }
    }
    out.push(rest)?;
    Ok(out.text)
}

/// A text that grows, and costs what it grows by before it does: a value that shares its parts is written far longer than it is.
struct Out<'c> {
    text: String,
    cost: &'c Cost,
}

impl Out<'_> {
    fn push(&mut self, part: &str) -> Result<(), EvalError> {
        let after = self.text.len().saturating_add(part.len());
        self.cost.spend_on_elements(after.div_ceil(10) - self.text.len().div_ceil(10))?;
        self.text.push_str(part);
        Ok(())
    }

    /// `%s`.
    fn value(&mut self, argument: &Val<'_>) -> Result<(), EvalError> {
        match argument {
            Val::Null => self.push("null"),
            Val::Type(name) => self.push(name),
            Val::List(list) => {
                self.push("[")?;
                for (i, element) in list.iter(self.cost).enumerate() {
                    if i > 0 {
                        self.push(", ")?;
                    }
                    self.nested(&element?)?;
                }
                self.push("]")
            }
            Val::Map(map) => self.map(map),
            Val::Bool(_)
            | Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::String(_)
            | Val::Bytes(_)
            | Val::Duration(_)
            | Val::Timestamp(_) => self.push(&scalar(argument, self.cost)?),
            other => Err(EvalError::other(format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                 lists, types, durations, and timestamps, was given {}",
                other.type_name()
            ))),
        }
    }

    /// In the order of the keys as they are written.
    fn map<'a>(&mut self, map: &MapVal<'a>) -> Result<(), EvalError> {
        let mut entries: Vec<(String, Val<'a>)> = Vec::new();
        for key in map.keys(self.cost)? {
            if let Some(value) = map.find(&key, self.cost)? {
                let mut written = Out { text: String::new(), cost: self.cost };
                written.nested(&key)?;
                entries.push((written.text, value));
            }
        }
        spend_on_sorting(entries.iter().map(|(key, _)| key.len()), self.cost)?;
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.push("{")?;
        for (i, (key, value)) in entries.iter().enumerate() {
            if i > 0 {
                self.push(", ")?;
            }
            self.push(key)?;
            self.push(":")?;
            self.nested(value)?;
        }
        self.push("}")
    }

    /// A value inside of a list or map.
    fn nested(&mut self, value: &Val<'_>) -> Result<(), EvalError> {
        self.cost.spend(1)?;
        let quoted = |text: &str| -> Result<String, EvalError> {
            self.cost.spend_on_bytes(text.len())?;
            Ok(text::quote(text))
        };
        let written = match value {
            Val::String(inner) => quoted(inner)?,
            Val::Double(double) => format!("{double:.6}"),
            Val::Duration(nanos) => format!("duration({})", quoted(&convert::seconds(*nanos))?),
            Val::Timestamp(_) => format!("timestamp({})", quoted(&scalar(value, self.cost)?)?),
            Val::Bytes(_) => format!("b{}", quoted(&scalar(value, self.cost)?)?),
            other => return self.value(other),
        };
        self.push(&written)
    }
}

/// A value without parts, as `string()` converts it.
fn scalar<'a>(value: &Val<'a>, cost: &Cost) -> Result<Str<'a>, EvalError> {
    cost.spend_on_bytes(size_of(value))?;
    match convert::to("string", value)? {
        Val::String(text) => Ok(text),
        _ => Err(EvalError::overload("format")),
    }
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
