//! JSON Patch (RFC 6902), with the limits and the words of the API server.
//!
//! It differs from the RFC where the API server does: indices may be negative (from the end), `replace` of a member
//! that is not there adds it, `test` of one succeeds for null, and `add` cannot replace the whole document.

use std::io;

use serde_json::{Map, Value};

use crate::bounds::{self, MAX_DEPTH};
use crate::managed_fields::equal;

/// More operations than this are refused.
pub const MAX_OPERATIONS: usize = 10_000;
/// Bytes of JSON that the `copy` operations of one patch may add, as upstream.
pub const MAX_COPIED: usize = 3 << 20;
/// List items that one patch may shift, and values that it may look at to know how deep they are nested: thousands of
/// operations at the front of a list that a person keeps, and less than a second of them at that of any other.
const MAX_WORK: usize = 64 << 20;

/// Why a JSON patch cannot be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    /// The body is no list of objects. Status 400.
    #[error("error decoding patch: {0}")]
    Decode(String),
    /// Status 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooMany(usize),
    /// It takes more work, or nests deeper, than any object is worth. Status 413.
    #[error("{0}")]
    TooLarge(String),
    /// An operation failed. Status 422; the API server keeps the details to itself.
    #[error("{0}")]
    Failed(String),
}

/// Applies all operations of `patch` to `object`; after an error the object is spoilt.
pub fn json_patch(object: &mut Value, patch: Value) -> Result<(), JsonPatchError> {
    if patch.is_null() {
        // No operations, in Go.
        return Ok(());
    }
    let operations = match patch {
        Value::Array(operations) => operations,
        other => return Err(undecodable(&other, "[]handlers.jsonPatchOp")),
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(JsonPatchError::TooMany(operations.len()));
    }
    let mut budget = Budget::of(object);
    for operation in operations {
        let members = match operation {
            Value::Object(members) => members,
            other => return Err(undecodable(&other, "handlers.jsonPatchOp")),
        };
        let applied = Operation { members }.apply(object, &mut budget);
        let within = budget.check(object);
        applied.map_err(JsonPatchError::Failed)?;
        within?;
    }
    Ok(())
}

/// The use that a patch has made of its limits.
struct Budget {
    /// Bytes that `copy` has added.
    copied: usize,
    /// Items shifted and values looked at.
    work: usize,
    /// No value of the object is nested deeper than this; it may be less deep.
    depth: usize,
}

impl Budget {
    fn of(object: &Value) -> Self {
        let bounds::Extent { values, depth } = bounds::extent(object);
        Self { copied: 0, work: values, depth }
    }

    /// Notes that a value nested `depth` levels deep was put where `path` leads.
    fn put(&mut self, path: &str, depth: usize) {
        self.depth = self.depth.max(levels(path) + depth);
    }

    /// Notes that the value at `from` was put where `path` leads as well.
    fn put_again(&mut self, from: &str, path: &str) {
        self.put(path, self.depth.saturating_sub(levels(from)));
    }

    /// Takes the size of a copy, or says that it is too much.
    fn copy(&mut self, value: &Value) -> Outcome {
        let mut length = Length { bytes: 0, most: MAX_COPIED.saturating_sub(self.copied) };
        let measured = serde_json::to_writer(&mut length, value);
        self.copied += length.bytes;
        self.work += length.bytes;
        measured.map_err(|_| {
            format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MAX_COPIED}",
                self.copied
            )
        })
    }

    fn check(&mut self, object: &Value) -> Result<(), JsonPatchError> {
        if self.depth > MAX_DEPTH {
            let bounds::Extent { values, depth } = bounds::extent(object);
            self.work += values;
            self.depth = depth;
        }
        if self.depth > MAX_DEPTH {
            return Err(JsonPatchError::TooLarge(format!(
                "The allowed maximum depth of an object is {MAX_DEPTH}"
            )));
        }
        if self.work > MAX_WORK {
            return Err(JsonPatchError::TooLarge(format!(
                "The operations of the JSON patch shift or visit more than {MAX_WORK} values"
            )));
        }
        Ok(())
    }
}

/// The depth of a path; at least the number of its parts.
fn levels(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

/// Counts the bytes of a text, up to a bound.
struct Length {
    bytes: usize,
    most: usize,
}

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        if self.bytes > self.most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn undecodable(value: &Value, wanted: &str) -> JsonPatchError {
    let found = crate::json::kind_of(value);
    JsonPatchError::Decode(format!("json: cannot unmarshal {found} into Go value of type {wanted}"))
}

struct Operation {
    members: Map<String, Value>,
}

type Outcome<T = ()> = Result<T, String>;

impl Operation {
    fn apply(self, object: &mut Value, budget: &mut Budget) -> Outcome {
        let name = match self.members.get("op") {
            Some(Value::String(name)) => name.clone(),
            _ => "unknown".to_owned(),
        };
        match name.as_str() {
            "add" => self.add(object, budget),
            "remove" => self.remove(object, budget),
            "replace" => self.replace(object, budget),
            "move" => self.move_(object, budget),
            "test" => self.test(object),
            "copy" => self.copy(object, budget),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn path(&self, operation: &str) -> Outcome<&str> {
        // `add`, `remove` and `copy` say less about what is wrong.
        let missing = || match operation {
            "add" | "remove" | "copy" => {
                format!("{operation} operation failed to decode path: missing value")
            }
            _ => format!(
                "{operation} operation failed to decode path: operation missing path field: missing value"
            ),
        };
        self.members.get("path").and_then(Value::as_str).ok_or_else(missing)
    }

    fn from(&self, operation: &str) -> Outcome<&str> {
        let missing = || {
            format!(
                "{operation} operation failed to decode from: operation, missing from field: missing value"
            )
        };
        self.members.get("from").and_then(Value::as_str).ok_or_else(missing)
    }

    fn take_value(&mut self) -> Value {
        self.members.get_mut("value").map(Value::take).unwrap_or_default()
    }

    fn add(mut self, object: &mut Value, budget: &mut Budget) -> Outcome {
        let value = self.take_value();
        let path = self.path("add")?;
        let (parent, key) = parent_of(object, path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        budget.put(path, bounds::extent(&value).depth);
        budget.work += parent.behind(&key);
        parent.add(&key, value).map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(self, object: &mut Value, budget: &mut Budget) -> Outcome {
        let path = self.path("remove")?;
        let (parent, key) = parent_of(object, path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        budget.work += parent.behind(&key);
        parent.remove(&key).map(drop).map_err(|error| format!("error in remove for path: '{path}': {error}"))
    }

    fn replace(mut self, object: &mut Value, budget: &mut Budget) -> Outcome {
        let value = self.take_value();
        let path = self.path("replace")?;
        budget.put(path, bounds::extent(&value).depth);
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            *object = value;
            return Ok(());
        }
        let (parent, key) = parent_of(object, path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        })?;
        match parent {
            Parent::Map(members) => {
                members.insert(key, value);
            }
            Parent::List(items) => {
                let place = existing_index(&key, items.len()).map_err(|_| {
                    format!("replace operation does not apply: doc is missing key: {path}: missing value")
                })?;
                items[place] = value;
            }
        }
        Ok(())
    }

    fn move_(self, object: &mut Value, budget: &mut Budget) -> Outcome {
        let from = self.from("move")?;
        let (parent, key) = parent_of(object, from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        budget.work += parent.behind(&key);
        let value =
            parent.remove(&key).map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path = self.path("move")?;
        let (parent, key) = parent_of(object, path).ok_or_else(|| {
            format!("move operation does not apply: doc is missing destination path: {path}: missing value")
        })?;
        budget.put_again(from, path);
        budget.work += parent.behind(&key);
        parent.add(&key, value).map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    fn test(mut self, object: &mut Value) -> Outcome {
        let value = self.take_value();
        let path = self.path("test")?;
        let same = if path.is_empty() {
            equal(object, &value)
        } else {
            let (parent, key) = parent_of(object, path).ok_or_else(|| {
                format!("test operation does not apply: is missing path: {path}: missing value")
            })?;
            let there =
                parent.get(&key).map_err(|error| format!("error in test for path: '{path}': {error}"))?;
            equal(there.unwrap_or(&Value::Null), &value)
        };
        if same { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
    }

    fn copy(self, object: &mut Value, budget: &mut Budget) -> Outcome {
        let from = self.from("copy")?;
        let (parent, key) = parent_of(object, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        let value = parent.get(&key).map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        let value = match value {
            Some(value) if !value.is_null() => {
                budget.copy(value)?;
                value.clone()
            }
            _ => Value::Null,
        };
        let path = self.path("copy")?;
        let (parent, key) = parent_of(object, path).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing destination path: {path}: missing value")
        })?;
        budget.put_again(from, path);
        budget.work += parent.behind(&key);
        parent.add(&key, value).map_err(|error| format!("error while adding value during copy: {error}"))
    }
}

/// The container of the value that a path leads to.
enum Parent<'a> {
    Map(&'a mut Map<String, Value>),
    List(&'a mut Vec<Value>),
}

/// Follows all but the last part of a path.
fn parent_of<'a>(object: &'a mut Value, path: &str) -> Option<(Parent<'a>, String)> {
    // What is before the first slash is ignored.
    let (_, parts) = path.split_once('/')?;
    let (way, last) = parts.rsplit_once('/').map_or((None, parts), |(way, last)| (Some(way), last));
    let mut place = object;
    for part in way.into_iter().flat_map(|way| way.split('/')) {
        let part = unescape(part);
        place = match place {
            Value::Object(members) => members.get_mut(&part)?,
            Value::Array(items) => {
                let index = existing_index(&part, items.len()).ok()?;
                &mut items[index]
            }
            _ => return None,
        };
    }
    let parent = match place {
        Value::Object(members) => Parent::Map(members),
        Value::Array(items) => Parent::List(items),
        _ => return None,
    };
    Some((parent, unescape(last)))
}

fn unescape(part: &str) -> String {
    if part.contains('~') { part.replace("~1", "/").replace("~0", "~") } else { part.to_owned() }
}

impl Parent<'_> {
    /// The number of list items at or behind a position, which a change there shifts.
    fn behind(&self, key: &str) -> usize {
        match self {
            Self::Map(_) => 0,
            Self::List(items) => {
                let place = number(key).and_then(|number| index(number, items.len() + 1));
                place.map_or(0, |place| items.len() - place)
            }
        }
    }

    fn get(&self, key: &str) -> Outcome<Option<&Value>> {
        match self {
            Self::Map(members) => Ok(members.get(key)),
            Self::List(items) => Ok(items.get(existing_index(key, items.len())?)),
        }
    }

    fn add(self, key: &str, value: Value) -> Outcome {
        match self {
            Self::Map(members) => {
                members.insert(key.to_owned(), value);
            }
            Self::List(items) if key == "-" => items.push(value),
            Self::List(items) => {
                let number = number(key)
                    .map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
                let place = index(number, items.len() + 1)?;
                items.insert(place, value);
            }
        }
        Ok(())
    }

    fn remove(self, key: &str) -> Outcome<Value> {
        match self {
            Self::Map(members) => {
                // The others are put in order afterwards: what a patch walks through is.
                let value = members.swap_remove(key);
                value.ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
            }
            Self::List(items) => Ok(items.remove(existing_index(key, items.len())?)),
        }
    }
}

fn number(key: &str) -> Outcome<i64> {
    let digits = key.strip_prefix(['-', '+']).unwrap_or(key);
    let invalid = || format!("strconv.Atoi: parsing \"{key}\": invalid syntax");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    key.parse().map_err(|_| format!("strconv.Atoi: parsing \"{key}\": value out of range"))
}

/// The place of an item, of `len`; negative numbers count from the end.
fn index(number: i64, len: usize) -> Outcome<usize> {
    let invalid = || format!("Unable to access invalid index: {number}: invalid index referenced");
    let len = i64::try_from(len).map_err(|_| invalid())?;
    let place = if number < 0 { number.checked_add(len).ok_or_else(invalid)? } else { number };
    if (0..len).contains(&place) { usize::try_from(place).map_err(|_| invalid()) } else { Err(invalid()) }
}

fn existing_index(key: &str, len: usize) -> Outcome<usize> {
    index(number(key)?, len)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations() {
        let object = json!({"a": {"b": 1}, "list": [1, 2, 3], "x/y": {"~": 1}});
        for (operation, expected) in [
            (
                json!({"op": "add", "path": "/a/c", "value": 2}),
                json!({"a": {"b": 1, "c": 2}, "list": [1, 2, 3], "x/y": {"~": 1}}),
            ),
            (
                json!({"op": "add", "path": "/list/-", "value": 4}),
                json!({"a": {"b": 1}, "list": [1, 2, 3, 4], "x/y": {"~": 1}}),
            ),
            (
                json!({"op": "add", "path": "/list/0", "value": 4}),
                json!({"a": {"b": 1}, "list": [4, 1, 2, 3], "x/y": {"~": 1}}),
            ),
            (
                json!({"op": "remove", "path": "/x~1y/~0"}),
                json!({"a": {"b": 1}, "list": [1, 2, 3], "x/y": {}}),
            ),
            (
                json!({"op": "remove", "path": "/list/-1"}),
                json!({"a": {"b": 1}, "list": [1, 2], "x/y": {"~": 1}}),
            ),
            (
                json!({"op": "replace", "path": "/a/new", "value": 1}),
                json!({"a": {"b": 1, "new": 1}, "list": [1, 2, 3], "x/y": {"~": 1}}),
            ),
            (
                json!({"op": "move", "from": "/a/b", "path": "/list/1"}),
                json!({"a": {}, "list": [1, 1, 2, 3], "x/y": {"~": 1}}),
            ),
            (
                json!({"op": "copy", "from": "/a", "path": "/c"}),
                json!({"a": {"b": 1}, "list": [1, 2, 3], "x/y": {"~": 1}, "c": {"b": 1}}),
            ),
            (json!({"op": "test", "path": "/list", "value": [1, 2, 3]}), object.clone()),
            (json!({"op": "test", "path": "/none", "value": null}), object.clone()),
        ] {
            let mut object = object.clone();
            json_patch(&mut object, json!([operation])).unwrap();
            assert_eq!(object, expected);
        }
    }

    #[test]
    fn words() {
        for (operation, expected) in [
            (json!({"op": "jump", "path": "/a"}), "Unexpected kind: jump"),
            (json!({"op": "add", "value": 1}), "add operation failed to decode path: missing value"),
            (
                json!({"op": "add", "path": "", "value": 1}),
                "add operation does not apply: doc is missing path: \"\": missing value",
            ),
            (
                json!({"op": "add", "path": "/x/y", "value": 1}),
                "add operation does not apply: doc is missing path: \"/x/y\": missing value",
            ),
            (
                json!({"op": "add", "path": "/l/5", "value": 1}),
                "error in add for path: '/l/5': Unable to access invalid index: 5: invalid index referenced",
            ),
            (
                json!({"op": "add", "path": "/l/a", "value": 1}),
                "error in add for path: '/l/a': value was not a proper array index: 'a': strconv.Atoi: parsing \"a\": invalid syntax",
            ),
            (
                json!({"op": "remove", "path": "/x"}),
                "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "replace", "path": "/x/y", "value": 1}),
                "replace operation does not apply: doc is missing path: /x/y: missing value",
            ),
            (
                json!({"op": "replace", "path": "/l/9", "value": 1}),
                "replace operation does not apply: doc is missing key: /l/9: missing value",
            ),
            (
                json!({"op": "move", "from": "/x", "path": "/y"}),
                "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "copy", "path": "/y"}),
                "copy operation failed to decode from: operation, missing from field: missing value",
            ),
            (json!({"op": "test", "path": "/a", "value": 2}), "testing value /a failed: test failed"),
        ] {
            let error = json_patch(&mut json!({"a": 1, "l": [1]}), json!([operation])).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let many = vec![json!({"op": "test", "path": "", "value": {}}); MAX_OPERATIONS + 1];
        assert_eq!(json_patch(&mut json!({}), json!(many)), Err(JsonPatchError::TooMany(MAX_OPERATIONS + 1)));
    }

    #[test]
    fn copies_are_counted() {
        let half = json!({"a": "x".repeat(MAX_COPIED / 2 - 10)});
        let copy = |to: &str| json!({"op": "copy", "from": "/a", "path": to});
        json_patch(&mut half.clone(), json!([copy("/b"), copy("/c")])).unwrap();
        let outcome = json_patch(&mut half.clone(), json!([copy("/b"), copy("/c"), copy("/d")]));
        let Err(JsonPatchError::Failed(told)) = outcome else { panic!("{outcome:?}") };
        assert!(
            told.starts_with("Unable to complete the copy, the accumulated size increase of copy is "),
            "{told}"
        );
        assert!(told.ends_with(", exceeding the limit 3145728"), "{told}");
        let doubled: Vec<Value> =
            (0..60).map(|n| json!({"op": "copy", "from": "/l", "path": format!("/l/{n}")})).collect();
        assert!(json_patch(&mut json!({"l": ["x".repeat(100)]}), json!(doubled)).is_err());
    }

    #[test]
    fn depth_and_work_are_bounded() {
        let moves = |count: usize| -> Value {
            let step = |_| {
                [
                    json!({"op": "move", "from": "/a", "path": "/b/a"}),
                    json!({"op": "move", "from": "/b", "path": "/a"}),
                    json!({"op": "add", "path": "/b", "value": {}}),
                ]
            };
            (0..count).flat_map(step).collect()
        };
        let object = json!({"a": {}, "b": {}});
        json_patch(&mut object.clone(), moves(MAX_DEPTH - 2)).unwrap();
        let outcome = json_patch(&mut object.clone(), moves(MAX_DEPTH));
        assert!(matches!(outcome, Err(JsonPatchError::TooLarge(_))), "{outcome:?}");
        // To and fro is not deeper, however often.
        let back = [
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
            json!({"op": "move", "from": "/b/a", "path": "/a"}),
        ];
        json_patch(&mut object.clone(), back.iter().cycle().take(MAX_OPERATIONS).cloned().collect()).unwrap();

        let first = json!({"op": "add", "path": "/l/0", "value": 1});
        let many = |items: usize, times: usize| {
            json_patch(&mut json!({"l": vec![0; items]}), json!(vec![first.clone(); times]))
        };
        many(1_000, MAX_OPERATIONS).unwrap();
        assert!(matches!(many(100_000, 1_000), Err(JsonPatchError::TooLarge(_))));
    }
}
