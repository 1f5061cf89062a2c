//! Values as Go prints them: Kubernetes' messages are made of these.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// A double-quoted literal with Go's escapes, `%q`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_escaped(&mut out, c, '"');
    }
    out.push('"');
    out
}

/// A character in single quotes, as messages about JSON syntax show it.
pub fn quote_char(c: char) -> String {
    let mut out = String::from("'");
    push_escaped(&mut out, c, '\'');
    out.push('\'');
    out
}

fn push_escaped(out: &mut String, c: char, delimiter: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if c == delimiter => {
            out.push('\\');
            out.push(c);
        }
        // Writing to a string cannot fail, here and below.
        c if c.is_ascii_control() => {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        }
        c if is_printable(c) => out.push(c),
        c if u32::from(c) < 0x1_0000 => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
        c => {
            let _ = write!(out, "\\U{:08x}", u32::from(c));
        }
    }
}

/// Returns whether Go prints the character as it is: letters, marks, numbers, punctuation, symbols and the ASCII space.
///
/// `char` knows controls and white space; what is left out by hand is format, private use and what is no character.
pub fn is_printable(c: char) -> bool {
    let format_or_private = matches!(u32::from(c),
        0xad | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff
        | 0xfeff | 0xfff0..=0xfffb | 0xfffe | 0xffff | 0xe_0000..=0x10_ffff);
    c == ' ' || !(c.is_control() || c.is_whitespace() || format_or_private)
}

/// A double in its shortest form, with an exponent from a million up and below 1e-4.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    with_exponent(value, 1e-4..1e6)
}

/// JSON writes exponents from 1e21 up and below 1e-6, and those of one digit with one digit.
fn json_float(value: f64) -> String {
    with_exponent(value, 1e-6..1e21).replace("e-0", "e-")
}

fn with_exponent(value: f64, plain: std::ops::Range<f64>) -> String {
    if value == 0.0 || plain.contains(&value.abs()) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

/// A number as a message repeats it, `%v`.
pub fn number(value: &Number) -> String {
    print(value, float)
}

fn print(value: &Number, print: fn(f64) -> String) -> String {
    match (value.as_i64(), value.as_f64()) {
        (Some(int), _) => int.to_string(),
        (None, Some(double)) => print(double),
        (None, None) => value.to_string(),
    }
}

/// A value as a message or a table cell repeats it, `%v`: objects and lists as JSON.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(value) => number(value),
        other => json(other),
    }
}

/// A value as an error message repeats it.
pub(crate) fn bad_value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(n) => number(n),
        other => json(other),
    }
}

/// Compact JSON with sorted keys and `<`, `>`, `&` escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

/// Appends what [`json`] makes of a value.
pub fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&print(n, json_float)),
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut entries: Vec<_> = members.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, item)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
    }
}

/// Appends a JSON string with the characters that are special in HTML escaped.
pub fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_quoted_with_gos_escapes() {
        let rows = [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{1}\n\u{7}", r#""\x01\n\a""#),
            ("\u{200b}é\u{e0001}", "\"\\u200bé\\U000e0001\""),
        ];
        for (text, expected) in rows {
            assert_eq!(quote(text), expected);
        }
        assert_eq!(quote_char('\''), r"'\''");
        assert_eq!(quote_char('"'), "'\"'");
    }

    #[test]
    fn numbers_are_written_as_go_does() {
        let rows = [
            (1.0, "1", "1"),
            (999_999.0, "999999", "999999"),
            (1_000_000.0, "1e+06", "1000000"),
            (1_234_567.5, "1.2345675e+06", "1234567.5"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "0.00001"),
            (-1e6, "-1e+06", "-1000000"),
            (1e21, "1e+21", "1e+21"),
            (1e-7, "1e-07", "1e-7"),
            (f64::NEG_INFINITY, "-Inf", "-inf"),
        ];
        for (value, shown, in_json) in rows {
            assert_eq!((float(value).as_str(), json_float(value).as_str()), (shown, in_json));
        }
    }

    #[test]
    fn json_is_sorted_and_safe_in_html() {
        let value = json!({"z": 1, "a": [1, 2.5, null], "h": "<&>\n"});
        assert_eq!(json(&value), r#"{"a":[1,2.5,null],"h":"\u003c\u0026\u003e\n","z":1}"#);
        assert_eq!(plain(&json!("x")), "x");
        assert_eq!(plain(&json!(42)), "42");
    }
}
