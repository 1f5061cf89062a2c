//! JSON Merge Patch (RFC 7386): members of the patch win, null removes.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Why a merge patch cannot be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergePatchError {
    /// The patch is no object. Status 400.
    #[error("Invalid JSON Patch")]
    NotAnObject,
}

/// Merges `patch` into `object`.
pub fn merge_patch(object: &mut Value, patch: Value) -> Result<(), MergePatchError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(MergePatchError::NotAnObject);
    };
    merge(object, patch);
    Ok(())
}

fn merge(object: &mut Map<String, Value>, patch: Map<String, Value>) {
    let mut removed = HashSet::new();
    for (name, change) in patch {
        match (object.get_mut(&name), change) {
            (_, Value::Null) => drop(removed.insert(name)),
            (Some(Value::Object(members)), Value::Object(change)) => merge(members, change),
            // A value that replaces an object comes as it is, any other without the nulls inside.
            (Some(place @ Value::Object(_)), change) => *place = change,
            (Some(place), change) if !place.is_null() => *place = without_nulls(change),
            (_, change) => {
                object.insert(name, without_nulls(change));
            }
        }
    }
    if !removed.is_empty() {
        // One pass, and not `remove`, which may disturb the order of the others.
        object.retain(|name, _| !removed.contains(name));
    }
}

/// Drops null members; null items of lists stay.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter(|(_, member)| !member.is_null())
                .map(|(name, member)| (name, without_nulls(member)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn examples() {
        for (object, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({}), json!({"a": [null, {"b": null}]}), json!({"a": [null, {}]})),
        ] {
            let mut object = object;
            merge_patch(&mut object, patch).unwrap();
            assert_eq!(object, expected);
        }
        assert_eq!(merge_patch(&mut json!({}), json!([])), Err(MergePatchError::NotAnObject));
    }
}
