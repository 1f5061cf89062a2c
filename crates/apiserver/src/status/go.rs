//! Values as Go prints them, and how it reads numbers: Kubernetes' messages and table cells are made of these.

use std::fmt::Write as _;

pub use capt_schema::go::text::{
    float, is_printable, json, number, plain, quote, quote_char, write_json, write_json_string,
};

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

/// Units of Go's durations in nanoseconds; both signs for micro count.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Why Go takes a text for no duration, or its nanoseconds: numbers with units such as `1h15m30.5s`, and `0`.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote_bytes(text));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) =
            rest.split_at(rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len()));
        // A second point begins another number, which then lacks its unit.
        let second = number.match_indices('.').nth(1).map(|(at, _)| at);
        let (whole, fraction) =
            number[..second.unwrap_or(number.len())].split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit = &after[..after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len())];
        if unit.is_empty() || second.is_some() {
            return Err(format!("time: missing unit in duration {}", quote_bytes(text)));
        }
        let Some((_, nanoseconds)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let (unit, text) = (quote_bytes(unit), quote_bytes(text));
            return Err(format!("time: unknown unit {unit} in duration {text}"));
        };
        let part = nanoseconds_of(whole, fraction, *nanoseconds).ok_or_else(invalid)?;
        total = total.checked_add(part).filter(|total| *total <= 1 << 63).ok_or_else(invalid)?;
        rest = &after[unit.len()..];
    }
    // The smallest number has no positive counterpart.
    let signed = if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
    signed.ok_or_else(invalid)
}

fn nanoseconds_of(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        total = total.checked_add(u64::from(digit - b'0') * place)?;
    }
    Some(total)
}

/// A text in quotes as Go's durations show it: byte by byte beyond ASCII.
fn quote_bytes(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' | 0x7f => quoted.push(char::from(byte)),
            // Writing to a string cannot fail.
            other => drop(write!(quoted, "\\x{other:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

fn not_a_number(function: &str, text: &str, digits: &str) -> String {
    let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let why = if number { "value out of range" } else { "invalid syntax" };
    format!("strconv.{function}: parsing {}: {why}", quote(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("-0", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("-1.5h", -5_400_000_000_000),
            ("1m30.5s", 90_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1ns1us1\u{b5}s1\u{3bc}s1ms", 1_003_001),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse_duration(text), Ok(nanoseconds), "{text}");
        }
        for (text, why) in [
            ("", r#"invalid duration """#),
            ("-", r#"invalid duration "-""#),
            ("invalid", r#"invalid duration "invalid""#),
            (" 1s", r#"invalid duration " 1s""#),
            (".s", r#"invalid duration ".s""#),
            ("3", r#"missing unit in duration "3""#),
            ("1.2.3s", r#"missing unit in duration "1.2.3s""#),
            ("1x", r#"unknown unit "x" in duration "1x""#),
            ("1s2", r#"missing unit in duration "1s2""#),
            ("1 s", r#"unknown unit " s" in duration "1 s""#),
            ("9223372036854775808ns", r#"invalid duration "9223372036854775808ns""#),
            ("99999999999999999999h", r#"invalid duration "99999999999999999999h""#),
            ("1\u{e9}\"", r#"unknown unit "\xc3\xa9\"" in duration "1\xc3\xa9\"""#),
        ] {
            assert_eq!(parse_duration(text), Err(format!("time: {why}")), "{text}");
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
}
