//! Values that are one of some.

use std::collections::HashSet;

use serde_json::{Number, Value};

use crate::go::text;

#[cfg(test)]
thread_local! {
    static SHOWN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Number of words that this thread has made so far.
#[cfg(test)]
pub(crate) fn shown() -> usize {
    SHOWN.with(std::cell::Cell::get)
}

/// The values of an `enum`, to be found without looking at each.
#[derive(Debug, Default)]
pub(crate) struct Enumeration {
    pub values: Vec<Value>,
    known: HashSet<Value>,
    integers: HashSet<i64>,
    /// Numbers that are no such, by their bits.
    fractions: HashSet<u64>,
}

impl Enumeration {
    pub(crate) fn of(values: &[Value]) -> Self {
        let mut out = Self { values: values.to_vec(), ..Self::default() };
        for value in values {
            match value {
                Value::Null => {}
                Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                    (Some(integer), _) => drop(out.integers.insert(integer)),
                    (None, Some(fraction)) => drop(out.fractions.insert(bits(fraction))),
                    (None, None) => {}
                },
                other => drop(out.known.insert(other.clone())),
            }
        }
        out
    }

    /// Returns true if the value is not of it.
    pub(crate) fn refuses(&self, value: &Value) -> bool {
        !self.values.is_empty() && !self.contains(value)
    }

    /// Supported values, in the words of an error: as long as the definition is, so only for one that is told.
    pub(crate) fn supported(&self) -> Vec<String> {
        #[cfg(test)]
        SHOWN.with(|shown| shown.set(shown.get() + self.values.len()));
        let shown = |value: &Value| value.as_str().map_or_else(|| text::json(value), str::to_owned);
        self.values.iter().map(shown).collect()
    }

    /// Equality after Go's conversion to the type of the allowed value, which truncates numbers
    /// and reads an integer as a character; null equals nothing.
    fn contains(&self, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Number(number) => self.contains_number(number),
            other => self.known.contains(other),
        }
    }

    fn contains_number(&self, number: &Number) -> bool {
        let integer = number.as_i64();
        #[expect(clippy::cast_possible_truncation, reason = "Go truncates here")]
        let truncated = integer.or_else(|| number.as_f64().map(|value| value as i64));
        let character = || {
            let code = integer?;
            let c = u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
            Some(Value::from(c.to_string()))
        };
        truncated.is_some_and(|value| self.integers.contains(&value))
            || number.as_f64().is_some_and(|value| self.fractions.contains(&bits(value)))
            || character().is_some_and(|value| self.known.contains(&value))
    }
}

/// The bits of a number; both zeros are one.
fn bits(number: f64) -> u64 {
    (number + 0.0).to_bits()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_compared_as_go_converts_them() {
        for (allowed, value, contains) in [
            (json!("a"), json!("a"), true),
            (json!("a"), json!("b"), false),
            (json!("a"), json!(97), true),
            (json!("ab"), json!(97), false),
            (json!("\u{fffd}"), json!(-1), true),
            (json!("a"), json!(97.0), false),
            (json!(1), json!(1), true),
            (json!(1), json!(1.5), true),
            (json!(1.5), json!(1), false),
            (json!(1.5), json!(1.5), true),
            (json!(1.0), json!(1), true),
            (json!(-0.0), json!(0), true),
            (json!(1), json!("1"), false),
            (json!(null), json!(null), false),
            (json!(true), json!(true), true),
            (json!([1, "a"]), json!([1, "a"]), true),
            (json!({"a": 1}), json!({"a": 2}), false),
        ] {
            let enumeration = Enumeration::of(std::slice::from_ref(&allowed));
            assert_eq!(enumeration.contains(&value), contains, "{value} in {allowed}");
        }
    }
}
