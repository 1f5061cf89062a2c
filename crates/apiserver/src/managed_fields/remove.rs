//! Taking fields out of a value, and taking a value apart to leave only some fields.

use serde_json::{Map, Value};

use super::{
    element::PathElement,
    item::element_of,
    set::{FieldSet, Node},
    types::{Handle, ListType, MapType, TypeId, TypeInfo},
};

/// The object without the fields of `set`; `Null` when nothing is left.
pub fn remove_items(value: &Value, set: &FieldSet, types: &TypeInfo) -> Value {
    Walk { types, extract: false }.value(value, set, types.root())
}

/// Only the fields of `set` from the object; `Null` when there are none.
pub fn extract(value: &Value, set: &FieldSet, types: &TypeInfo) -> Value {
    Walk { types, extract: true }.value(value, set, types.root())
}

struct Walk<'a> {
    types: &'a TypeInfo,
    extract: bool,
}

impl Walk<'_> {
    fn value(&self, value: &Value, set: &FieldSet, of: TypeId) -> Value {
        match (self.types.atom(of).of(value), value) {
            (Handle::Scalar(_), _) => value.clone(),
            (Handle::Map(map), Value::Object(members)) if !map.atomic && !members.is_empty() => {
                self.members(members, set, map)
            }
            (Handle::List(list), Value::Array(items)) if !list.is_atomic() && !items.is_empty() => {
                self.items(items, set, list)
            }
            // Atomic and empty ones are taken or left as a whole.
            (Handle::Map(_), Value::Object(_)) | (Handle::List(_), Value::Array(_)) if self.extract => {
                value.clone()
            }
            (Handle::Map(_) | Handle::List(_), _) => Value::Null,
        }
    }

    fn members(&self, members: &Map<String, Value>, set: &FieldSet, map: &MapType) -> Value {
        let mut out = Map::with_capacity(members.len());
        for (name, member) in members {
            let node = set.get_field(name);
            let kept = match node {
                Some(Node { member: true, .. }) if !self.extract => continue,
                None if self.extract => continue,
                None => member.clone(),
                // A member with nothing below it is extracted whole.
                Some(node) if node.below.is_empty() => member.clone(),
                Some(node) => map.member(name).map_or(Value::Null, |of| self.value(member, &node.below, of)),
            };
            out.insert(name.clone(), kept);
        }
        if out.is_empty() { Value::Null } else { Value::Object(out) }
    }

    fn items(&self, items: &[Value], set: &FieldSet, list: &ListType) -> Value {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            let node =
                element_of(self.types, list, item).ok().and_then(|element: PathElement| set.get(&element));
            match node {
                Some(Node { member: true, .. }) if !self.extract => {}
                None if self.extract => {}
                Some(node) if !node.below.is_empty() => out.push(self.value(item, &node.below, list.items)),
                _ => out.push(item.clone()),
            }
        }
        if out.is_empty() { Value::Null } else { Value::Array(out) }
    }
}
