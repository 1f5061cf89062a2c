//! The path element of a list item.

use serde_json::Value;

use super::{
    element::PathElement,
    types::{ListRelation, ListType, TypeInfo},
};
use crate::status::go;

/// Why a list item has no path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// Null in a list with keys.
    #[error("associative list with keys may not have a null element")]
    NullInMap,
    /// A scalar or list in a list with keys.
    #[error("associative list with keys may not have non-map elements")]
    NoMap,
    /// An item without any of the key fields.
    #[error(
        "associative list with keys has an element that omits all key fields {0} (and doesn't have default values \
         for any key fields)"
    )]
    NoKeys(String),
    /// A map in a set.
    #[error("associative list without keys has an element that's a map type")]
    MapInSet,
    /// A list in a set.
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    /// Null in a set.
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
    /// The items of an atomic list have none.
    #[error("invalid indexing of non-associative list")]
    Atomic,
}

/// The path element that names `item` in a list of type `list`.
pub(crate) fn element_of(types: &TypeInfo, list: &ListType, item: &Value) -> Result<PathElement, ItemError> {
    match &list.relation {
        ListRelation::Atomic => Err(ItemError::Atomic),
        ListRelation::Map(keys) => keyed(types, list, keys, item),
        ListRelation::Set => match item {
            Value::Object(_) => Err(ItemError::MapInSet),
            Value::Array(_) => Err(ItemError::ListInSet),
            Value::Null => Err(ItemError::NullInSet),
            scalar => Ok(PathElement::Value(scalar.clone())),
        },
    }
}

fn keyed(
    types: &TypeInfo,
    list: &ListType,
    keys: &[Box<str>],
    item: &Value,
) -> Result<PathElement, ItemError> {
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err(ItemError::NullInMap),
        _ => return Err(ItemError::NoMap),
    };
    let mut fields = Vec::with_capacity(keys.len());
    for name in keys {
        // A key that is absent and has no default is left out: such an item is another than one that has it.
        if let Some(value) = members.get(&**name).or_else(|| list.key_default(types, name)) {
            fields.push((name.clone(), value.clone()));
        }
    }
    if fields.is_empty() && !keys.is_empty() {
        let keys: Vec<_> = keys.iter().map(|key| go::quote(key)).collect();
        return Err(ItemError::NoKeys(format!("[{}]", keys.join(" "))));
    }
    fields.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(PathElement::Key(fields))
}
