//! Values as Go prints them: Kubernetes' messages and table cells are made of these.

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

/// Whether Go prints the character as it is: letters, marks, numbers, punctuation, symbols and the ASCII space.
///
/// `char` knows controls and white space; what is left out by hand is format, private use and what is no character.
pub fn is_printable(c: char) -> bool {
    let format_or_private = matches!(u32::from(c),
        0xad | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff
        | 0xfeff | 0xfff0..=0xfffb | 0xfffe | 0xffff | 0xe_0000..=0x10_ffff);
    c == ' ' || !(c.is_control() || c.is_whitespace() || format_or_private)
}

/// Why Go takes a text for no signed 64-bit number, or the number.
pub fn parse_int(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| not_a_number("ParseInt", text, text.strip_prefix(['+', '-']).unwrap_or(text)))
}

/// Why Go takes a text for no unsigned 64-bit number, or the number.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    // Rust reads a plus sign here, Go does not.
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ => Err(not_a_number("ParseUint", text, text)),
    }
}

fn not_a_number(function: &str, text: &str, digits: &str) -> String {
    let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let why = if number { "value out of range" } else { "invalid syntax" };
    format!("strconv.{function}: parsing {}: {why}", quote(text))
}

/// A double in its shortest form, with an exponent from a million up and below 1e-4.
pub fn float(value: f64) -> String {
    with_exponent(value, (1e-4..1e6).contains(&value.abs()))
}

/// JSON writes exponents from 1e21 up and below 1e-6.
fn json_float(value: f64) -> String {
    with_exponent(value, (1e-6..1e21).contains(&value.abs()))
}

fn with_exponent(value: f64, plain: bool) -> String {
    if value == 0.0 || plain {
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

fn number(value: &Number, print: fn(f64) -> String) -> String {
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
        Value::Number(value) => number(value, float),
        other => json(other),
    }
}

/// Compact JSON with sorted keys and `<`, `>`, `&` escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(value) => out.push_str(&number(value, json_float)),
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(value, out);
            }
            out.push('}');
        }
    }
}

fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{0}'..='\u{1f}' => {
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
        ];
        for (value, shown, in_json) in rows {
            assert_eq!((float(value).as_str(), json_float(value).as_str()), (shown, in_json));
        }
    }

    #[test]
    fn what_is_no_number_is_explained() {
        assert_eq!(parse_int("-7"), Ok(-7));
        assert_eq!(parse_int("x"), Err("strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()));
        assert_eq!(
            parse_int("99999999999999999999"),
            Err("strconv.ParseInt: parsing \"99999999999999999999\": value out of range".to_owned())
        );
        assert_eq!(parse_uint("-1"), Err("strconv.ParseUint: parsing \"-1\": invalid syntax".to_owned()));
        assert_eq!(parse_uint("+1"), Err("strconv.ParseUint: parsing \"+1\": invalid syntax".to_owned()));
    }

    #[test]
    fn json_is_sorted_and_safe_in_html() {
        let value = json!({"z": 1, "a": [1, 2.5, null], "h": "<&>\n"});
        assert_eq!(json(&value), r#"{"a":[1,2.5,null],"h":"\u003c\u0026\u003e\n","z":1}"#);
        assert_eq!(plain(&json!("x")), "x");
        assert_eq!(plain(&json!(42)), "42");
    }
}
