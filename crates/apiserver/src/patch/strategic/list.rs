//! Merging of lists.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{DIRECTIVE, Merge, Outcome, StrategicError, order};
use crate::managed_fields::{TypeId, text};

/// The type of the items of the merged lists; all items are of one type.
#[derive(Debug)]
pub(super) enum Elements<'k> {
    /// Maps with this merge key.
    Maps(&'k str),
    Scalars,
}

impl<'k> Elements<'k> {
    /// Looks at all items of the lists to be merged.
    pub(super) fn of(lists: [&[Value]; 2], merge_key: Option<&'k str>) -> Outcome<Self> {
        let mut items = lists.into_iter().flatten();
        let Some(first) = items.next() else {
            return Err(StrategicError::Other("no elements in any of the given slices".to_owned()));
        };
        if items.any(|other| text::type_name(other) != text::type_name(first)) {
            let lists = lists.map(|items| text::in_message(&Value::Array(items.to_vec()))).join(" ");
            return Err(StrategicError::Other(format!("list element types are not identical: [{lists}]")));
        }
        match (first, merge_key) {
            (Value::Array(_), _) => Err(StrategicError::ListOfLists),
            (Value::Object(_), Some(key)) => Ok(Self::Maps(key)),
            (Value::Object(_), None) => {
                Err(StrategicError::Other("cannot merge lists without merge key for struct".to_owned()))
            }
            _ => Ok(Self::Scalars),
        }
    }

    /// The key of an item.
    pub(super) fn key<'v>(&self, item: &'v Value) -> &'v Value {
        match self {
            Self::Maps(key) => item.get(key).unwrap_or(&Value::Null),
            Self::Scalars => item,
        }
    }

    /// Fails if an item has no merge key.
    pub(super) fn check(&self, items: &[Value]) -> Outcome<()> {
        let Self::Maps(key) = self else { return Ok(()) };
        for item in items {
            match item {
                Value::Object(members) if members.contains_key(*key) => {}
                Value::Object(members) => return Err(StrategicError::no_merge_key(members, key)),
                other => return Err(StrategicError::bad_type(&Value::Object(Map::new()), other)),
            }
        }
        Ok(())
    }
}

/// Merges the items of `patch` into `original`, or takes them out of it.
pub(super) fn merge_list(
    merge: &Merge<'_>,
    original: Vec<Value>,
    patch: &mut [Value],
    items: TypeId,
    merge_key: Option<&str>,
    delete_from: bool,
) -> Outcome<Vec<Value>> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let elements = Elements::of([&original, patch], merge_key)?;
    let (merged, patch, server_order) = match elements {
        Elements::Scalars if delete_from => {
            let patch: HashSet<&Value> = patch.iter().collect();
            return Ok(original.into_iter().filter(|item| !patch.contains(item)).collect());
        }
        Elements::Scalars => {
            let mut seen = HashSet::with_capacity(original.len() + patch.len());
            let all = original.iter().chain(&*patch);
            let merged = all.filter(|item| seen.insert(*item)).cloned().collect();
            (merged, patch.to_vec(), original)
        }
        Elements::Maps(key) => {
            let (original, replaced) = special_items(original, patch, key)?;
            let server_order = original.clone();
            if replaced {
                (original, Vec::new(), server_order)
            } else {
                let merged = merge_items(merge, original, patch, items, key)?;
                (merged, patch.iter().filter(|item| !is_special(item)).cloned().collect(), server_order)
            }
        }
    };
    order::arrange(merged, &patch, &server_order, &elements)
}

fn is_special(item: &Value) -> bool {
    item.get(DIRECTIVE).is_some()
}

/// Carries out `$patch` directives in items; gives what is there to merge the others with, and whether these took its place.
fn special_items(mut original: Vec<Value>, patch: &[Value], key: &str) -> Outcome<(Vec<Value>, bool)> {
    let mut replace = false;
    let mut deleted = HashSet::new();
    for item in patch {
        let Value::Object(members) = item else { continue };
        let Some(directive) = members.get(DIRECTIVE) else { continue };
        match directive.as_str() {
            Some("delete") => {
                let value = members.get(key).ok_or_else(|| StrategicError::no_merge_key(members, key))?;
                deleted.insert(value);
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(StrategicError::Other(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            _ => return Err(StrategicError::patch_type(directive, members)),
        }
    }
    original.retain(|other| !other.get(key).is_some_and(|value| deleted.contains(value)));
    if replace {
        original = patch.iter().filter(|item| item.is_object() && !is_special(item)).cloned().collect();
    }
    Ok((original, replace))
}

fn merge_items(
    merge: &Merge<'_>,
    mut original: Vec<Value>,
    patch: &mut [Value],
    items: TypeId,
    key: &str,
) -> Outcome<Vec<Value>> {
    // Of several items with one key, the first is the one.
    let mut places: HashMap<Value, usize> = HashMap::with_capacity(original.len());
    for (place, value) in
        original.iter().enumerate().filter_map(|(place, item)| Some((place, item.get(key)?)))
    {
        places.entry(value.clone()).or_insert(place);
    }
    let mut merged = HashSet::new();
    for item in patch.iter_mut().filter(|item| !is_special(item)) {
        let Value::Object(change) = item else { continue };
        let Some(value) = change.get(key) else { return Err(StrategicError::no_merge_key(change, key)) };
        let place = *places.entry(value.clone()).or_insert(original.len());
        if !merged.insert(place) {
            merge.walk_again(&original[place])?;
        }
        match original.get_mut(place) {
            Some(Value::Object(members)) => *members = merge.map(std::mem::take(members), change, items)?,
            _ => original.push(Value::Object(change.clone())),
        }
    }
    Ok(original)
}
