//! Plain YAML scalars, by the rules of kubectl's YAML library.
//!
//! Those are YAML 1.1's: `yes` and `on` are true, `0755` is octal, `1.30` is the number 1.3. A checker
//! that read them otherwise would accept what kubectl sends as something else.

use serde_json::{Number, Value};

/// Why a scalar has no JSON value.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ScalarError {
    /// Not a number, or infinite.
    #[error("{0} is not a number that JSON has; put it in quotes if it is meant as text")]
    NotFinite(String),
}

/// The JSON value of an unquoted, untagged scalar.
pub fn resolve(text: &str) -> Result<Value, ScalarError> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(true.into());
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(false.into());
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => return Err(ScalarError::NotFinite(text.to_owned())),
        _ => {}
    }
    let starts_like_a_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    if !starts_like_a_number {
        return Ok(text.into());
    }
    let plain = text.replace('_', "");
    if let Some(number) = integer(&plain) {
        return Ok(Value::Number(number));
    }
    if is_float(&plain) {
        let float: f64 = plain.parse().unwrap_or(f64::INFINITY);
        return Number::from_f64(float)
            .map(Value::Number)
            .ok_or_else(|| ScalarError::NotFinite(text.to_owned()));
    }
    Ok(text.into())
}

/// Decimal, `0x`, `0o`, `0b`, and octal with a leading zero.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = if let Some(hex) = lower.strip_prefix("0x") {
        (16, hex)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        (8, octal)
    } else if let Some(binary) = lower.strip_prefix("0b") {
        (2, binary)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative { 0i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(magnitude.into()) }
}

fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_is_number = match mantissa.split_once('.') {
        Some((whole, fraction)) => {
            digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
        }
        None => digits(mantissa) && !mantissa.is_empty(),
    };
    let exponent_is_number = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        digits(exponent) && !exponent.is_empty()
    });
    mantissa_is_number && exponent_is_number
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_mean_what_kubectl_takes_them_for() {
        let rows = [
            ("", json!(null)),
            ("~", json!(null)),
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("y", json!(true)),
            ("12", json!(12)),
            ("-12", json!(-12)),
            ("+12", json!(12)),
            ("1_000", json!(1000)),
            ("0x1F", json!(31)),
            ("0755", json!(493)),
            ("0o17", json!(15)),
            ("0b101", json!(5)),
            ("089", json!(89.0)),
            ("1.30", json!(1.3)),
            ("1.", json!(1.0)),
            (".5", json!(0.5)),
            ("1e3", json!(1000.0)),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("v1.30", json!("v1.30")),
            ("1.30.2", json!("1.30.2")),
            ("2024-01-01", json!("2024-01-01")),
            ("10.0.0.0/16", json!("10.0.0.0/16")),
            ("t3.medium", json!("t3.medium")),
            ("-", json!("-")),
            (".", json!(".")),
            ("+", json!("+")),
            ("0x", json!("0x")),
            ("1e", json!("1e")),
            ("25%", json!("25%")),
        ];
        for (text, expected) in rows {
            assert_eq!(resolve(text).unwrap(), expected, "{text:?}");
        }
        for text in [".nan", "-.inf", "1e999"] {
            assert_eq!(resolve(text), Err(ScalarError::NotFinite(text.into())));
        }
    }
}
