//! Quantities: numbers with a unit, in the one form that Kubernetes shows them in.
//!
//! What is written in canonical form already stays as it is written; otherwise the number is whole, with the largest
//! unit that allows it. Nothing is finer than a billionth, and what is finer counts as one.

use super::DecodeError;

/// Units of powers of ten, from a billionth on in steps of a thousand.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Units of powers of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Digits that surely fit 64 bits.
const EASY_DIGITS: i64 = 18;
const NANO: i64 = -9;
const BILLION: i128 = 1_000_000_000;
const MOST: i128 = i64::MAX as i128 * BILLION;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Decimal(i64),
    /// A power of ten that is written as such.
    Exponent(i64),
    /// A power of two.
    Binary(u32),
}

/// The parts of a quantity.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    unit: &'a str,
}

/// The canonical form of a quantity.
pub(super) fn canonical(text: &str) -> Result<String, DecodeError> {
    let Parts { negative, whole, fraction, unit } = split(text)?;
    let unit = interpret(unit).ok_or(DecodeError::Suffix)?;
    let digits = format!("{whole}{fraction}");
    let count = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let shown = match unit {
        Unit::Decimal(exponent) | Unit::Exponent(exponent) => {
            let scale = exponent.saturating_sub(count(fraction));
            if count(&digits) <= EASY_DIGITS
                && scale >= NANO
                && scale % 3 == 0
                && !digits.ends_with("000")
                && !digits.starts_with('0')
            {
                return Ok(text.to_owned());
            }
            decimal(&digits, scale, matches!(unit, Unit::Exponent(_)))
        }
        Unit::Binary(power) => {
            let room = 15 - count(whole) - i64::from(power) * 3 / 10 - 1;
            let last = whole.parse::<i64>().unwrap_or(0);
            if fraction.is_empty() && room >= 0 && last & 7 != 0 {
                return Ok(text.to_owned());
            }
            binary(whole, fraction, power)
        }
    };
    Ok(if negative && shown != "0" { format!("-{shown}") } else { shown })
}

fn split(text: &str) -> Result<Parts<'_>, DecodeError> {
    let wrong = DecodeError::Quantity;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if text.is_empty() {
        return Err(wrong);
    }
    let rest = unsigned.trim_start_matches('0');
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, unit) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let exponent = unit.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if !exponent.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong);
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(Parts { negative: text.starts_with('-'), whole, fraction, unit })
}

fn interpret(unit: &str) -> Option<Unit> {
    if let Some((power, _)) = (-3..).zip(DECIMAL).find(|(_, name)| *name == unit) {
        return Some(Unit::Decimal(power * 3));
    }
    if let Some((power, _)) = (0..).zip(BINARY).find(|(_, name)| *name == unit) {
        return Some(Unit::Binary(power * 10));
    }
    let exponent: i64 = unit.strip_prefix(['e', 'E'])?.parse().ok()?;
    // Beyond this every number is nothing, or more than anything.
    Some(Unit::Exponent(exponent.clamp(-1000, 1000)))
}

/// Digits and how many places they are shifted to the left, as a whole number with a unit.
fn decimal(digits: &str, scale: i64, as_exponent: bool) -> String {
    let (mut digits, mut scale) = (digits.trim_start_matches('0').to_owned(), scale);
    if scale < NANO {
        let dropped = usize::try_from(NANO - scale).unwrap_or(usize::MAX);
        let kept = digits.len().saturating_sub(dropped);
        let rounds = digits.len() > kept;
        let all_zero = digits.bytes().skip(kept).all(|digit| digit == b'0');
        digits.truncate(kept);
        if rounds && !all_zero {
            digits = plus_one(&digits);
        }
        scale = NANO;
    }
    let trimmed = digits.trim_end_matches('0').len();
    scale += i64::try_from(digits.len() - trimmed).unwrap_or(0);
    digits.truncate(trimmed);
    if digits.is_empty() {
        return "0".to_owned();
    }
    while scale % 3 != 0 {
        digits.push('0');
        scale -= 1;
    }
    match (as_exponent, scale) {
        (true, 0) => digits,
        (true, scale) => format!("{digits}e{scale}"),
        // There is no unit beyond the last one, and upstream shows none.
        (false, scale) => {
            let unit = usize::try_from(scale / 3 + 3).ok().and_then(|place| DECIMAL.get(place));
            format!("{digits}{}", unit.unwrap_or(&""))
        }
    }
}

fn plus_one(digits: &str) -> String {
    let kept = digits.trim_end_matches('9');
    let zeros = "0".repeat(digits.len() - kept.len());
    match kept.as_bytes().split_last() {
        Some((last, before)) => {
            format!("{}{}{zeros}", String::from_utf8_lossy(before), char::from(last + 1))
        }
        None => format!("1{zeros}"),
    }
}

fn binary(whole: &str, fraction: &str, power: u32) -> String {
    let unit = 1_i128 << power;
    // More places make no difference: each is less than what everything is rounded up to.
    let places = &fraction[..fraction.len().min(18)];
    let below = 10_i128.pow(u32::try_from(places.len()).unwrap_or(0));
    let part = places.parse::<i128>().unwrap_or(0) * unit;
    // Billionths, rounded up, without leaving 128 bits.
    let (wholes, rest) = (part / below, part % below);
    let part = wholes * BILLION + (rest * BILLION + below - 1) / below;
    let amount = whole.parse::<i128>().ok().and_then(|whole| whole.checked_mul(unit)?.checked_mul(BILLION));
    let amount = amount.and_then(|amount| amount.checked_add(part)).unwrap_or(MOST).min(MOST);
    if amount < 1024 * BILLION || amount % BILLION != 0 {
        return decimal(&amount.to_string(), NANO, false);
    }
    let mut number = amount / BILLION;
    let mut place = 0;
    while number % 1024 == 0 && place + 1 < BINARY.len() {
        number /= 1024;
        place += 1;
    }
    format!("{number}{}", BINARY[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form_for_each() {
        let rows = [
            ("0", "0"),
            ("00", "0"),
            ("1", "1"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("3000000000", "3G"),
            ("100000000000000000000", "100E"),
            ("1e3", "1e3"),
            ("1e4", "10e3"),
            ("1E3", "1E3"),
            ("1000k", "1M"),
            ("-2000", "-2k"),
            ("-0", "0"),
            ("0.1n", "1n"),
            ("1.0000000001", "1000000001n"),
            ("9.9999999999", "10"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("8Ki", "8Ki"),
            ("0.5Ki", "512"),
            ("1.5Ki", "1536"),
            ("1536Ki", "1536Ki"),
            ("0.5Gi", "512Mi"),
            ("99999999999Ei", "9223372036854775807"),
            ("1.1Ki", "1126400m"),
        ];
        for (text, expected) in rows {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["", "x", "1x", "1.2.3", "true", "1 "] {
            assert_eq!(canonical(text), Err(DecodeError::Quantity), "{text}");
        }
        for text in ["--1", "1KK", "1i", "1e", "1mi", "1nn"] {
            assert_eq!(canonical(text), Err(DecodeError::Suffix), "{text}");
        }
    }
}
