//! Equality and order of JSON values as field management sees them.
//!
//! Numbers are equal when they are numerically equal, whether written `1` or `1.0`. The order is total; it decides
//! how list items follow each other in `fieldsV1`.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Whether two values are the same to field management; the order of members does not matter.
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

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
    }
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
