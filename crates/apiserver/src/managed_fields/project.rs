//! The fields a value states: what an applier owns by applying it.

use serde_json::{Map, Value};

use super::{
    element::PathElement,
    item::element_of,
    set::FieldSet,
    types::{Handle, ListType, MapType, TypeId, TypeInfo},
};

/// Every leaf and every item and entry that `value` states. The value must be valid; parts that are not are left
/// out. Declared fields on the way are not members: who applies `.spec.replicas` does not own `.spec`.
pub fn to_field_set(value: &Value, types: &TypeInfo) -> FieldSet {
    project(value, types, types.root()).below
}

/// The part of a set below a path, and whether the path itself is a leaf.
struct Projected {
    below: FieldSet,
    leaf: bool,
}

fn project(value: &Value, types: &TypeInfo, of: TypeId) -> Projected {
    let mut out = Projected { below: FieldSet::EMPTY, leaf: false };
    match (types.atom(of).of(value), value) {
        (Handle::Scalar(_), _) => out.leaf = true,
        (Handle::Map(map), _) if map.atomic => out.leaf = true,
        (Handle::List(list), _) if list.is_atomic() => out.leaf = true,
        (Handle::Map(map), Value::Object(members)) => out.below = members_of(members, types, map),
        (Handle::List(list), Value::Array(items)) => out.below = items_of(items, types, list),
        _ => {}
    }
    out
}

fn members_of(members: &Map<String, Value>, types: &TypeInfo, map: &MapType) -> FieldSet {
    let mut out = FieldSet { nodes: Vec::with_capacity(members.len()) };
    for (name, member) in members {
        let field = map.field(name);
        let Some(of) = field.map(|field| field.of).or(map.rest) else { continue };
        let Projected { below, leaf } = project(member, types, of);
        let empty = match member {
            Value::Null => true,
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        out.attach(PathElement::field(name), leaf || empty || field.is_none(), below);
    }
    out.arrange();
    out
}

fn items_of(items: &[Value], types: &TypeInfo, list: &ListType) -> FieldSet {
    let mut elements = Vec::with_capacity(items.len());
    for item in items {
        if let Ok(element) = element_of(types, list, item) {
            elements.push((element, item));
        }
    }
    elements.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut out = FieldSet { nodes: Vec::with_capacity(elements.len()) };
    let mut rest = elements.into_iter().peekable();
    while let Some((element, item)) = rest.next() {
        let mut duplicate = false;
        while rest.next_if(|(next, _)| *next == element).is_some() {
            duplicate = true;
        }
        // Of items with the same key only the key is known: no manager can own a field of one of them.
        let below = if duplicate { FieldSet::EMPTY } else { project(item, types, list.items).below };
        out.attach(element, true, below);
    }
    out
}
