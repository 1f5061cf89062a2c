//! Strategic merge patch, for builtin kinds.
//!
//! Like a JSON merge patch, but lists whose schema says `merge` are merged: items by their merge key, scalars as
//! sets. Directives in the patch say what merging cannot:
//!
//! ```text
//! $patch: replace | delete            this map, or (in an item) the whole list or the item with that key
//! $retainKeys: [a, b]                 drop all other members of this map
//! $deleteFromPrimitiveList/x: [a]     take these scalars out of the list x
//! $setElementOrder/x: [...]           order the list x like this; items only the server has stay between
//! ```

mod list;
mod order;

use std::cell::Cell;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::merge::without_nulls;
use crate::managed_fields::{PatchMeta, TypeId, TypeInfo, text};
use crate::status::go;
use list::{Elements, merge_list};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";
/// Values and bytes of text that may be walked once more because a list of the patch has several items of one key: each
/// merges with what the one before left. Such lists are not written by hand, and this takes a tenth of a second.
const MAX_AGAIN: usize = 16 << 20;

/// Why a strategic merge patch cannot be applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    /// The patch or the object is no object. Status 400.
    #[error("invalid JSON document")]
    NotAnObject,
    /// Status 400.
    #[error("invalid patch format of primitive list")]
    DeleteFromFormat,
    /// Status 400.
    #[error("invalid patch format of retainKeys")]
    RetainKeysFormat,
    /// Status 400.
    #[error("invalid patch format of setElementOrder list")]
    SetOrderFormat,
    /// Status 422.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// It takes more work than any object is worth. Status 413.
    #[error("The items of one key in a list of the patch visit more than {MAX_AGAIN} values and bytes again")]
    TooLarge,
    /// Anything else the patch has wrong. Status 500.
    #[error("{0}")]
    Other(String),
}

impl StrategicError {
    /// The HTTP status of the answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::NotAnObject | Self::DeleteFromFormat | Self::RetainKeysFormat | Self::SetOrderFormat => 400,
            Self::ListOfLists => 422,
            Self::TooLarge => 413,
            Self::Other(_) => 500,
        }
    }

    fn no_merge_key(item: &Map<String, Value>, key: &str) -> Self {
        let item = text::in_message(&Value::Object(item.clone()));
        Self::Other(format!("map: {item} does not contain declared merge key: {key}"))
    }

    fn patch_type(directive: &Value, within: &Map<String, Value>) -> Self {
        let within = text::in_message(&Value::Object(within.clone()));
        Self::Other(format!("unknown patch type: {} in map: {within}", text::in_message(directive)))
    }

    fn bad_type(expected: &Value, actual: &Value) -> Self {
        let (expected, actual) = (text::type_name(expected), text::type_name(actual));
        // As Go words nothing.
        let actual = if actual == "<nil>" { "%!s(<nil>)" } else { actual };
        Self::Other(format!("expected a {expected}, but received a {actual}"))
    }
}

type Outcome<T> = Result<T, StrategicError>;

/// Merges `patch` into `object`, which is of the type `types`; after an error the object is spoilt.
///
/// What is left in the patch is what upstream leaves in it, and shows of it in messages: without directives that were carried
/// out, and without nulls where there was nothing to delete.
pub fn strategic_merge_patch(
    object: &mut Value,
    patch: &mut Value,
    types: &TypeInfo,
) -> Result<(), StrategicError> {
    let (Value::Object(members), Value::Object(patch)) = (&mut *object, patch) else {
        return Err(StrategicError::NotAnObject);
    };
    let merge = Merge { types, again: Cell::new(0) };
    let merged = merge.map(std::mem::take(members), patch, types.root())?;
    *members = merged;
    Ok(())
}

struct Merge<'a> {
    types: &'a TypeInfo,
    /// The values that were walked again.
    again: Cell<usize>,
}

impl<'a> Merge<'a> {
    fn map(
        &self,
        mut original: Map<String, Value>,
        patch: &mut Map<String, Value>,
        of: TypeId,
    ) -> Outcome<Map<String, Value>> {
        if let Some(directive) = patch.get(DIRECTIVE) {
            return match directive.as_str() {
                Some("replace") => {
                    patch.retain(|name, _| name != DIRECTIVE);
                    Ok(patch.clone())
                }
                Some("delete") => Ok(Map::new()),
                _ => Err(StrategicError::patch_type(directive, patch)),
            };
        }
        retain_keys(&mut original, patch)?;
        self.set_orders(&mut original, patch, of)?;
        // Taken out together at the end: each alone would shift all that are behind it.
        let mut removed = HashSet::new();
        let mut remove = |name: &str, place: &mut Value| {
            *place = Value::Null;
            removed.insert(name.to_owned());
        };
        for (key, change) in patch.iter_mut() {
            let (name, delete_from) = match key.strip_prefix(DELETE_FROM) {
                Some(rest) => (rest.strip_prefix('/').ok_or(StrategicError::DeleteFromFormat)?, true),
                None => (key.as_str(), false),
            };
            if change.is_null() {
                original.get_mut(name).into_iter().for_each(|place| remove(name, place));
                continue;
            }
            match original.get_mut(name) {
                Some(place) if same_type(place, change) => {
                    match self.value(place.take(), change, name, of, delete_from)? {
                        Some(merged) => *place = merged,
                        None => remove(name, place),
                    }
                }
                _ if delete_from => {}
                there => {
                    *change = without_nulls(change.take());
                    match (there, without_directives(change)) {
                        (Some(place), Some(change)) => *place = change,
                        (None, Some(change)) => {
                            original.insert(name.to_owned(), change);
                        }
                        (Some(place), None) => remove(name, place),
                        (None, None) => {}
                    }
                }
            }
        }
        if !removed.is_empty() {
            original.retain(|name, value| !(value.is_null() && removed.contains(name)));
        }
        Ok(original)
    }

    /// Notes that a value is walked again, or says that this is too much.
    fn walk_again(&self, value: &Value) -> Outcome<()> {
        self.again.set(self.again.get().saturating_add(weight(value)));
        if self.again.get() > MAX_AGAIN { Err(StrategicError::TooLarge) } else { Ok(()) }
    }

    /// Both are of one JSON type.
    fn value(
        &self,
        original: Value,
        change: &mut Value,
        name: &str,
        of: TypeId,
        delete_from: bool,
    ) -> Outcome<Option<Value>> {
        match (original, change) {
            (Value::Object(original), Value::Object(change)) => {
                let (meta, of) = self.field(of, name)?;
                if strategy(meta)? == Some("replace") {
                    return Ok(Some(Value::Object(change.clone())));
                }
                self.map(original, change, of).map(|merged| Some(Value::Object(merged)))
            }
            (Value::Array(original), Value::Array(change)) => {
                let (meta, items) = self.list_field(of, name)?;
                if strategy(meta)? == Some("merge") || delete_from {
                    return merge_list(self, original, change, items, meta.merge_key.as_deref(), delete_from)
                        .map(|merged| Some(Value::Array(merged)));
                }
                Ok(Some(Value::Array(change.clone())))
            }
            (_, change) => Ok(without_directives(change)),
        }
    }

    fn field(&self, of: TypeId, name: &str) -> Outcome<(&'a PatchMeta, TypeId)> {
        let unknown = || StrategicError::Other(format!("unable to find api field {}", go::quote(name)));
        self.types.patch_field(of, name).ok_or_else(unknown)
    }

    /// The patch extensions of a list, and the type of its items.
    fn list_field(&self, of: TypeId, name: &str) -> Outcome<(&'a PatchMeta, TypeId)> {
        let (meta, of) = self.field(of, name)?;
        let list = self.types.atom(of).list.as_ref();
        let no_list = || StrategicError::Other("expected slice or array type, but got: struct".to_owned());
        list.map(|list| (meta, list.items)).ok_or_else(no_list)
    }

    /// Merges and orders the lists that have an order in the patch; both are done with then.
    fn set_orders(
        &self,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
        of: TypeId,
    ) -> Outcome<()> {
        let keys: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
        if keys.is_empty() {
            return Ok(());
        }
        // Taken out together, as above.
        let mut orders = Vec::with_capacity(keys.len());
        for key in keys {
            let wanted = patch.get_mut(&key).map(Value::take).unwrap_or_default();
            orders.push((key, wanted));
        }
        patch.retain(|name, _| !name.starts_with(SET_ORDER));
        let mut done = HashSet::with_capacity(orders.len());
        for (key, wanted) in &orders {
            let Value::Array(wanted) = wanted else {
                return Err(StrategicError::bad_type(&Value::Array(Vec::new()), wanted));
            };
            let name = key.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/'));
            let name = name.ok_or(StrategicError::SetOrderFormat)?;
            let live = original.get_mut(name).map(take_list).transpose()?;
            let change = patch.get_mut(name).map(take_list).transpose()?;
            let (meta, items) = self.list_field(of, name)?;
            let merge_key = meta.merge_key.as_deref();
            if let Some(change) = &change {
                order::check(change, wanted, merge_key)?;
            }
            done.insert(name);
            let elements = Elements::of(
                [live.as_deref().unwrap_or_default(), change.as_deref().unwrap_or_default()],
                merge_key,
            );
            let merged = match (live.clone(), change) {
                (None, None) => continue,
                (Some(live), None) => live,
                (None, Some(change)) => match without_directives(&mut Value::Array(change)) {
                    Some(Value::Array(items)) => items,
                    _ => continue,
                },
                (Some(live), Some(mut change)) if strategy(meta)? == Some("merge") => {
                    merge_list(self, live, &mut change, items, merge_key, false)?
                }
                (Some(_), Some(change)) => change,
            };
            let ordered = order::arrange(merged, wanted, &live.unwrap_or_default(), &elements?)?;
            original.insert(name.to_owned(), Value::Array(ordered));
        }
        patch.retain(|name, _| !done.contains(name.as_str()));
        Ok(())
    }
}

fn take_list(value: &mut Value) -> Outcome<Vec<Value>> {
    match value.take() {
        Value::Array(items) => Ok(items),
        other => Err(StrategicError::bad_type(&Value::Array(Vec::new()), &other)),
    }
}

/// The strategy besides `retainKeys`.
fn strategy(meta: &PatchMeta) -> Outcome<Option<&str>> {
    let mut others = meta.strategies.iter().map(String::as_str).filter(|strategy| *strategy != "retainKeys");
    match (others.next(), others.next()) {
        (one, None) => Ok(one),
        _ => {
            Err(StrategicError::Other(format!("unexpected patch strategy: [{}]", meta.strategies.join(" "))))
        }
    }
}

/// Values of a value, and bytes of text in them.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len(),
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => {
            1 + members.iter().map(|(name, member)| name.len() + weight(member)).sum::<usize>()
        }
        _ => 1,
    }
}

fn same_type(left: &Value, right: &Value) -> bool {
    text::type_name(left) == text::type_name(right)
}

fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Outcome<()> {
    let Some(keys) = patch.get_mut(RETAIN_KEYS).map(Value::take) else { return Ok(()) };
    patch.retain(|name, _| name != RETAIN_KEYS);
    let Value::Array(keys) = keys else { return Err(StrategicError::RetainKeysFormat) };
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let retained = |name: &str| keys.contains(name);
    let exempt = |name: &str| name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
    if patch.iter().any(|(name, value)| !value.is_null() && !exempt(name) && !retained(name)) {
        return Err(StrategicError::RetainKeysFormat);
    }
    original.retain(|name, _| retained(name));
    Ok(())
}

/// What a value of the patch is where the object has nothing to merge it with: nothing, if it is a directive. Members that are
/// directives go from the patch as well; items of lists stay in it.
fn without_directives(value: &mut Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            let mut kept = Map::new();
            members.retain(|name, member| match without_directives(member) {
                Some(member) => {
                    kept.insert(name.clone(), member);
                    true
                }
                None => false,
            });
            Some(Value::Object(kept))
        }
        Value::Array(items) => Some(Value::Array(items.iter_mut().filter_map(without_directives).collect())),
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests;
