//! Times that change without anything else.

use serde_json::{Map, Value};

use super::{managed_fields, metadata};

/// Gives `new` the times of `live` where they are all that differs, so that a write that changes nothing leaves the
/// stored object, and its resource version, as it is. `new` is the object as it would be stored.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (Some(Value::Array(old)), Some(Value::Array(entries))) = (managed_fields(live), managed_fields(new))
    else {
        return;
    };
    let same_entries = old.len() == entries.len()
        && old.iter().zip(entries).all(|(old, new)| equal_without(old, new, "time"));
    if !same_entries || old == entries || !equal_but_managed(live, new) {
        return;
    }
    let old = Value::Array(old.clone());
    if let Some(Value::Object(metadata)) = new.get_mut("metadata") {
        metadata.insert("managedFields".to_owned(), old);
    }
}

fn equal_but_managed(live: &Value, new: &Value) -> bool {
    let same_metadata = match (metadata(live), metadata(new)) {
        (Some(live), Some(new)) => members_equal_without(live, new, "managedFields"),
        _ => false,
    };
    same_metadata && equal_without(live, new, "metadata")
}

fn equal_without(left: &Value, right: &Value, name: &str) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => members_equal_without(left, right, name),
        _ => left == right,
    }
}

fn members_equal_without(left: &Map<String, Value>, right: &Map<String, Value>, name: &str) -> bool {
    let count = |members: &Map<String, Value>| members.keys().filter(|key| *key != name).count();
    count(left) == count(right)
        && left.iter().all(|(key, value)| key == name || right.get(key) == Some(value))
}
