//! Quantities: decimal numbers with the suffixes of Kubernetes' resources.
//!
//! They are kept in billionths, below which Kubernetes rounds up; beyond 2^63 it caps.

use crate::cel::value::{EvalError, Evaluated, Val};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity {
    billionths: i128,
}

const UNIT: i128 = 1_000_000_000;
const MAX: i128 = i64::MAX as i128 * UNIT;

impl Quantity {
    pub fn parse(text: &str) -> Option<Self> {
        let end = text
            .char_indices()
            .find(|(i, c)| !(c.is_ascii_digit() || *c == '.' || (*i == 0 && matches!(c, '+' | '-'))))
            .map_or(text.len(), |(i, _)| i);
        let (number, suffix) = text.split_at(end);
        let (negative, digits) = match number.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (factor, exponent) = suffix_scale(suffix)?;
        let size = scaled(whole, fraction, factor, exponent).min(MAX);
        Some(Self { billionths: if negative { -size } else { size } })
    }

    pub fn sign(&self) -> i64 {
        i64::try_from(self.billionths.signum()).unwrap_or(0)
    }

    fn as_integer(&self) -> Option<i64> {
        (self.billionths % UNIT == 0).then(|| i64::try_from(self.billionths / UNIT).ok())?
    }

    #[expect(clippy::cast_precision_loss, reason = "approximate by name")]
    fn as_float(&self) -> f64 {
        self.billionths as f64 / UNIT as f64
    }
}

/// The multiplier of a suffix: a factor, and a power of ten.
fn suffix_scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        other => {
            let digits = other.strip_prefix(['e', 'E'])?;
            let exponent: i32 = digits.parse().ok()?;
            (1, exponent)
        }
    })
}

/// `whole.fraction` times both scales in billionths, rounded up; capped.
fn scaled(whole: &str, fraction: &str, factor: i128, exponent: i32) -> i128 {
    let mut value: i128 = 0;
    let mut power = exponent.saturating_add(9);
    let mut lost = false;
    let digits = whole.bytes().chain(fraction.bytes());
    for (i, digit) in digits.enumerate() {
        if value > MAX {
            // Far beyond the cap: only the size still matters.
            if i < whole.len() {
                power = power.saturating_add(1);
            }
            lost = lost || digit != b'0';
            continue;
        }
        value = value * 10 + i128::from(digit - b'0');
        if i >= whole.len() {
            power = power.saturating_sub(1);
        }
    }
    value = value.checked_mul(factor).unwrap_or(i128::MAX / 16);
    while power > 0 && value > 0 {
        if value > MAX {
            return MAX;
        }
        value *= 10;
        power -= 1;
    }
    let mut round_up = lost;
    while power < 0 && value > 0 {
        round_up = round_up || value % 10 != 0;
        value /= 10;
        power += 1;
        if power < 0 && value == 0 {
            break;
        }
    }
    value + i128::from(round_up)
}

/// `quantity` and `isQuantity`.
pub(super) fn parse<'a>(name: &str, text: &str) -> Evaluated<'a> {
    let parsed = Quantity::parse(text);
    if name == "isQuantity" {
        return Ok(Val::Bool(parsed.is_some()));
    }
    parsed.map(Val::Quantity).ok_or_else(|| {
        EvalError::other(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
    })
}

pub(super) fn member<'a>(name: &str, quantity: &Quantity, args: &[Val<'a>]) -> Evaluated<'a> {
    let plus =
        |other: i128| Val::Quantity(Quantity { billionths: quantity.billionths.saturating_add(other) });
    Ok(match (name, args) {
        ("isInteger", []) => Val::Bool(quantity.as_integer().is_some()),
        ("asInteger", []) => match quantity.as_integer() {
            Some(int) => Val::Int(int),
            None => return Err(EvalError::other("cannot convert value to integer")),
        },
        ("asApproximateFloat", []) => Val::Double(quantity.as_float()),
        ("add", [Val::Quantity(other)]) => plus(other.billionths),
        ("add", [Val::Int(other)]) => plus(i128::from(*other) * UNIT),
        ("sub", [Val::Quantity(other)]) => plus(-other.billionths),
        ("sub", [Val::Int(other)]) => plus(-i128::from(*other) * UNIT),
        ("isGreaterThan", [Val::Quantity(other)]) => Val::Bool(quantity > other),
        ("isLessThan", [Val::Quantity(other)]) => Val::Bool(quantity < other),
        ("compareTo", [Val::Quantity(other)]) => Val::Int(quantity.cmp(other) as i64),
        _ => return Err(EvalError::overload(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_billionths() {
        let rows: &[(&str, Option<i128>)] = &[
            ("1", Some(UNIT)),
            ("1.5", Some(UNIT * 3 / 2)),
            (".5", Some(UNIT / 2)),
            ("1.", Some(UNIT)),
            ("-200m", Some(-UNIT / 5)),
            ("1Ki", Some(1024 * UNIT)),
            ("1.5Gi", Some(1_610_612_736 * UNIT)),
            ("1e3", Some(1000 * UNIT)),
            ("1E", Some(1_000_000_000_000_000_000 * UNIT)),
            ("12e-1", Some(UNIT * 6 / 5)),
            ("1n", Some(1)),
            ("0.1n", Some(1)),
            ("100E", Some(MAX)),
            ("1e100", Some(MAX)),
            ("1e-100", Some(1)),
            ("0", Some(0)),
            ("", None),
            ("x", None),
            ("1.2.3", None),
            ("1ki", None),
            ("1 Gi", None),
            ("--1", None),
            ("1e", None),
        ];
        for (text, expected) in rows {
            assert_eq!(Quantity::parse(text).map(|q| q.billionths), *expected, "{text}");
        }
    }
}
