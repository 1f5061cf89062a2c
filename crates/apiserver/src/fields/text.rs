//! How Kubernetes writes values: in keys of `fieldsV1`, in the paths of conflicts and in error messages.
//!
//! Clients compare these texts byte by byte, so numbers, quotes and escapes follow the formats of the language the
//! API server is written in, not those of `serde_json`.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// A JSON string with the characters that are special in HTML escaped.
pub(crate) fn json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => escape(c, out),
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn escape(c: char, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\u{:04x}", u32::from(c));
}

/// JSON with sorted keys.
pub(crate) fn json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&json_number(number)),
        Value::String(text) => json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json_string(name, out);
                out.push(':');
                json(member, out);
            }
            out.push('}');
        }
    }
}

/// A number in JSON: integers plainly, others with an exponent only when very small or very large.
pub(crate) fn json_number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.to_string(),
        (None, Some(float)) => {
            let size = float.abs();
            if size != 0.0 && !(1e-6..1e21).contains(&size) {
                // One digit of a small exponent is enough in JSON, unlike in messages.
                exponent(float).replace("e-0", "e-")
            } else {
                plain(float)
            }
        }
        (None, None) => number.to_string(),
    }
}

/// A number in a message: other than integers it has an exponent from a million on.
pub(crate) fn message_number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.to_string(),
        (None, Some(float)) => message_float(float),
        (None, None) => number.to_string(),
    }
}

fn message_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let power = scientific.split_once('e').and_then(|(_, power)| power.parse::<i32>().ok()).unwrap_or(0);
    if (-4..6).contains(&power) { plain(float) } else { exponent(float) }
}

fn plain(float: f64) -> String {
    format!("{float}")
}

/// With a sign and at least two digits in the exponent.
fn exponent(float: f64) -> String {
    let text = format!("{float:e}");
    let Some((digits, power)) = text.split_once('e') else { return text };
    let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
    format!("{digits}e{sign}{power:0>2}")
}

/// A string as it is quoted in messages.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            _ if c.is_control() || (c.is_whitespace() && c != ' ') => escape(c, &mut out),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value inside a path: `[name="a",port=80]`.
pub(crate) fn in_path(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => message_number(number),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(in_path).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, member)| format!("{name}={}", in_path(member))).collect();
            members.concat()
        }
    }
}

/// A value in a message, as in `expected map, got &{[a b]}`.
pub(crate) fn in_message(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => message_number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(in_message).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            let members: Vec<_> =
                sorted.into_iter().map(|(name, member)| format!("{name}:{}", in_message(member))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// A value as a literal of the API server's language, where its messages have one.
pub(crate) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => message_number(number),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            let members: Vec<_> = sorted
                .into_iter()
                .map(|(name, member)| format!("{}:{}", quoted(name), literal(member)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
    }
}

/// The name of a value's type in messages.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_of_messages() {
        for (value, expected) in [
            (json!(8080), "8080"),
            (json!(8080.0), "8080"),
            (json!(999_999.0), "999999"),
            (json!(1_000_000.0), "1e+06"),
            (json!(1_234_567.0), "1.234567e+06"),
            (json!(0.5), "0.5"),
            (json!(0.00001), "1e-05"),
            (json!(-3.25), "-3.25"),
        ] {
            assert_eq!(in_path(&value), expected);
        }
    }

    #[test]
    fn numbers_of_json() {
        for (value, expected) in [
            (json!(1.0), "1"),
            (json!(1e20), "100000000000000000000"),
            (json!(1e21), "1e+21"),
            (json!(1e-7), "1e-7"),
            (json!(1.5e-9), "1.5e-9"),
            (json!(2.5), "2.5"),
        ] {
            let Value::Number(number) = value else { panic!("a number") };
            assert_eq!(json_number(&number), expected);
        }
    }

    #[test]
    fn strings() {
        let mut out = String::new();
        json_string("a<b>&\"\\\u{1}\u{2028}é", &mut out);
        assert_eq!(out, r#""a\u003cb\u003e\u0026\"\\\u0001\u2028é""#);
        assert_eq!(quoted("a\"\n\u{1}é"), r#""a\"\n\x01é""#);
    }
}
