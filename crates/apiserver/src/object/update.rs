//! A changed object keeps what is not the client's to change.

use serde_json::{Map, Value};

use super::create::drop_empty;
use super::{Meta, metadata_mut};

/// The part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// All but the status, which has an endpoint of its own.
    AllButStatus,
    /// The status, and what managers own of it.
    Status,
    /// The status and the metadata; so it is for nodes and namespaces.
    StatusAndMetadata,
}

/// Makes `new` what the update of `old` stores, but for field management.
pub fn prepare(old: &Value, new: &mut Value, part: Part) {
    match part {
        Part::Whole => {}
        Part::AllButStatus => keep_member(old, new, "status"),
        Part::Status => only_status(old, new),
        Part::StatusAndMetadata => keep_member(old, new, "spec"),
    }
    keep_identity(old, new);
    if counts_generations(old) {
        let old_generation = Meta::of(old).generation();
        let of_status = matches!(part, Part::Status | Part::StatusAndMetadata);
        let next =
            if !of_status && content_differs(old, new, part) { old_generation + 1 } else { old_generation };
        metadata_mut(new).insert("generation".into(), next.into());
    }
}

fn keep_member(old: &Value, new: &mut Value, key: &str) {
    let Some(members) = new.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => {
            members.insert(key.to_owned(), value.clone());
        }
        None => {
            members.remove(key);
        }
    }
}

/// A write of the status takes the status of the request, and all else from what is stored.
fn only_status(old: &Value, new: &mut Value) {
    let status = new.get_mut("status").map(Value::take);
    let managed =
        new.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields")).map(Value::take);
    *new = old.clone();
    if let Some(members) = new.as_object_mut() {
        match status {
            Some(status) => members.insert("status".into(), status),
            None => members.remove("status"),
        };
    }
    // Where none are left, none are kept.
    match managed {
        Some(managed) => metadata_mut(new).insert("managedFields".into(), managed),
        None => metadata_mut(new).remove("managedFields"),
    };
}

/// Identity and deletion are the server's.
fn keep_identity(old: &Value, new: &mut Value) {
    let old = old.get("metadata").and_then(Value::as_object);
    let metadata = metadata_mut(new);
    for key in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        match old.and_then(|old| old.get(key)) {
            Some(value) => {
                metadata.insert(key.to_owned(), value.clone());
            }
            None => {
                metadata.remove(key);
            }
        }
    }
    metadata.remove("resourceVersion");
    drop_empty(metadata);
}

fn counts_generations(old: &Value) -> bool {
    Meta::of(old).generation() > 0
}

/// Returns whether anything changed that a controller would act on.
fn content_differs(old: &Value, new: &Value, part: Part) -> bool {
    let left_out: &[&str] = if part == Part::Whole { &["metadata"] } else { &["metadata", "status"] };
    !equal_without(old, new, left_out)
}

/// Returns whether two objects have the same members but for some; what is no object has none.
fn equal_without(old: &Value, new: &Value, left_out: &[&str]) -> bool {
    let none = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    let counts = |(key, _): &(&String, &Value)| !left_out.contains(&key.as_str());
    old.iter().filter(counts).count() == new.iter().filter(counts).count()
        && old.iter().filter(counts).all(|(key, value)| new.get(key) == Some(value))
}

/// Returns whether storing `new` would change nothing. The times of managers do not count: a request that changes
/// nothing else is no change.
pub fn is_no_change(old: &Value, new: &Value) -> bool {
    let (old_meta, new_meta) = (&old["metadata"], &new["metadata"]);
    equal_without(old, new, &["metadata"])
        && equal_without(old_meta, new_meta, &["resourceVersion", "managedFields"])
        && same_managers(old_meta.get("managedFields"), new_meta.get("managedFields"))
}

/// Returns whether the managers of two objects are the same, whenever they wrote.
fn same_managers(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old.and_then(Value::as_array), new.and_then(Value::as_array)) {
        (Some(old), Some(new)) => {
            let same = |(old, new): (&Value, &Value)| {
                old == new || (old.is_object() && new.is_object() && equal_without(old, new, &["time"]))
            };
            old.len() == new.len() && old.iter().zip(new).all(same)
        }
        _ => old == new,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn old() -> Value {
        json!({
            "metadata": {"name": "a", "uid": "u", "creationTimestamp": "t", "generation": 3, "resourceVersion": "9", "labels": {"x": "1"}},
            "spec": {"a": 1},
            "status": {"s": 1},
        })
    }

    #[test]
    fn each_part_changes_only_what_it_may() {
        let request = json!({
            "metadata": {"name": "other", "uid": "v", "labels": {"y": "2"}, "generation": 77},
            "spec": {"a": 2},
            "status": {"s": 2},
        });
        let rows = [
            (Part::Whole, 4, json!({"a": 2}), json!({"s": 2}), json!({"y": "2"})),
            (Part::AllButStatus, 4, json!({"a": 2}), json!({"s": 1}), json!({"y": "2"})),
            (Part::Status, 3, json!({"a": 1}), json!({"s": 2}), json!({"x": "1"})),
        ];
        for (part, generation, spec, status, labels) in rows {
            let mut new = request.clone();
            prepare(&old(), &mut new, part);
            assert_eq!(new["metadata"]["generation"], generation, "{part:?}");
            assert_eq!(new["metadata"]["name"], "a");
            assert_eq!(new["metadata"]["uid"], "u");
            assert_eq!(
                (&new["spec"], &new["status"], &new["metadata"]["labels"]),
                (&spec, &status, &labels),
                "{part:?}"
            );
        }
    }

    #[test]
    fn metadata_alone_makes_no_generation() {
        let mut new = old();
        new["metadata"]["labels"]["z"] = json!("3");
        prepare(&old(), &mut new, Part::AllButStatus);
        assert_eq!(new["metadata"]["generation"], 3);
        assert!(!is_no_change(&old(), &new));
    }

    #[test]
    fn times_of_managers_are_no_change() {
        let with = |time: &str| {
            let mut object = old();
            object["metadata"]["managedFields"] = json!([{"manager": "m", "time": time}]);
            object
        };
        assert!(is_no_change(&with("1"), &with("2")));
    }

    #[test]
    fn everything_else_is_a_change() {
        let managed = |entries: Value| {
            let mut object = old();
            object["metadata"]["managedFields"] = entries;
            object
        };
        let one = || managed(json!([{"manager": "m", "time": "1"}]));
        for other in [
            old(),
            managed(json!([])),
            managed(json!([{"manager": "n", "time": "1"}])),
            managed(json!([{"manager": "m", "time": "1", "subresource": "status"}])),
            managed(json!([{"manager": "m", "time": "1"}, {"manager": "n", "time": "1"}])),
        ] {
            assert!(!is_no_change(&one(), &other), "{other}");
            assert!(!is_no_change(&other, &one()), "{other}");
        }
        let mut more = old();
        more["extra"] = json!(1);
        assert!(!is_no_change(&old(), &more) && !is_no_change(&more, &old()));
        let mut versioned = old();
        versioned["metadata"]["resourceVersion"] = json!("10");
        assert!(is_no_change(&old(), &versioned));
    }

    #[test]
    fn a_deletion_cannot_be_taken_back() {
        let mut deleting = old();
        deleting["metadata"]["deletionTimestamp"] = json!("now");
        let mut new = old();
        prepare(&deleting, &mut new, Part::Whole);
        assert_eq!(new["metadata"]["deletionTimestamp"], "now");
    }
}
