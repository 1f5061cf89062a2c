//! Equality and order of JSON values as field management sees them.
//!
//! Numbers are equal when they are numerically equal, whether written `1` or `1.0`. The order is total; it decides
//! how list items follow each other in `fieldsV1`.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Returns whether two values are the same to field management; the order of members does not matter.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right) == Ordering::Equal,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, left)| right.get(name).is_some_and(|right| equal(left, right)))
        }
        _ => left == right,
    }
}

/// Numbers before strings before booleans before lists before maps before null.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let first =
                left.iter().zip(right).map(|(left, right)| compare(left, right)).find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => compare_maps(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// Compares by exact value: an order by way of floating-point numbers is none near 2^53, and a sort may panic over it.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_with_float(left, float(right)),
        (None, Some(right)) => compare_with_float(right, float(left)).reverse(),
        (None, None) => float(left).total_cmp(&float(right)),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// JSON has no NaN; the two zeros are one.
fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default() + 0.0
}

fn compare_with_float(integer: i128, float: f64) -> Ordering {
    let below = float.floor();
    #[expect(clippy::cast_possible_truncation, reason = "saturates beyond every 64-bit integer")]
    let order = integer.cmp(&(below as i128));
    order.then(if float > below { Ordering::Less } else { Ordering::Equal })
}

fn compare_maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let sorted = |members: &Map<String, Value>| {
        let mut names: Vec<_> = members.keys().cloned().collect();
        names.sort_unstable();
        names
    };
    let (left_names, right_names) = (sorted(left), sorted(right));
    for (left_name, right_name) in left_names.iter().zip(&right_names) {
        let order = left_name.cmp(right_name).then_with(|| compare(&left[left_name], &right[right_name]));
        if order.is_ne() {
            return order;
        }
    }
    left_names.len().cmp(&right_names.len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// In order; those of one row are equal.
    #[test]
    fn numbers_have_a_total_order_by_their_exact_value() {
        let rows: [&[Value]; 14] = [
            &[json!(-1e300)],
            &[json!(i64::MIN), json!(-9_223_372_036_854_775_808.0)],
            &[json!(-1.5)],
            &[json!(-1), json!(-1.0)],
            &[json!(0), json!(0.0), json!(-0.0)],
            &[json!(0.5)],
            &[json!(1), json!(1.0)],
            &[json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_992.0)],
            &[json!(9_007_199_254_740_993_u64)],
            &[json!(9_007_199_254_740_994_u64), json!(9_007_199_254_740_994.0)],
            &[json!(i64::MAX)],
            &[json!(9_223_372_036_854_775_808_u64), json!(9_223_372_036_854_775_808.0)],
            &[json!(u64::MAX)],
            &[json!(18_446_744_073_709_551_616.0)],
        ];
        let all =
            || rows.iter().enumerate().flat_map(|(row, values)| values.iter().map(move |value| (row, value)));
        for (left_row, left) in all() {
            for (right_row, right) in all() {
                assert_eq!(compare(left, right), left_row.cmp(&right_row), "{left} and {right}");
                assert_eq!(equal(left, right), left_row == right_row, "{left} and {right}");
            }
        }
    }
}
