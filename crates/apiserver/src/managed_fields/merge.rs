//! Merging an applied configuration into a live object.
//!
//! Nothing is removed by a merge. Leaves and atomic values of the configuration win. Items of sets and keyed lists
//! keep the live order where the configuration does not order them, and its order where it does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    element::PathElement,
    item::element_of,
    types::{Handle, ListType, MapType, TypeId, TypeInfo},
};

/// Merges two valid objects of one type; `applied` has no duplicates.
pub fn merge(live: &Value, applied: &Value, types: &TypeInfo) -> Value {
    // Of two objects at least one has members or both are empty, so there is always a result.
    Walk { types }.pair(live, applied, types.root()).unwrap_or_else(|| applied.clone())
}

struct Walk<'a> {
    types: &'a TypeInfo,
}

impl Walk<'_> {
    /// Merges a value that both have; `None` if all of it is dropped.
    fn pair(&self, live: &Value, applied: &Value, of: TypeId) -> Option<Value> {
        let atom = self.types.atom(of);
        match atom.of(applied) {
            Handle::Map(map) if !map.atomic => match (live.as_object(), applied.as_object()) {
                (None, None) => Some(applied.clone()),
                (live, applied_map) if is_empty(live) && is_empty(applied_map) => Some(applied.clone()),
                (Some(live), None) => Some(Value::Object(live.clone())),
                (None, Some(applied)) => Some(Value::Object(applied.clone())),
                (Some(live), Some(applied)) => self.members(live, applied, map),
            },
            Handle::List(list) if !list.is_atomic() => match (live.as_array(), applied.as_array()) {
                (live, applied_list) if no_items(live) && no_items(applied_list) => Some(applied.clone()),
                (live, applied) => {
                    let live = live.map_or(&[][..], Vec::as_slice);
                    let applied = applied.map_or(&[][..], Vec::as_slice);
                    self.items(live, applied, list)
                }
            },
            Handle::Map(_) | Handle::List(_) | Handle::Scalar(_) => Some(applied.clone()),
        }
    }

    fn members(
        &self,
        live: &Map<String, Value>,
        applied: &Map<String, Value>,
        map: &MapType,
    ) -> Option<Value> {
        let mut out = Map::with_capacity(live.len().max(applied.len()));
        for (name, live) in live {
            let merged = match (applied.get(name), map.member(name)) {
                (Some(applied), Some(of)) => self.pair(live, applied, of),
                (Some(applied), None) => Some(applied.clone()),
                (None, _) => Some(live.clone()),
            };
            if let Some(merged) = merged {
                out.insert(name.clone(), merged);
            }
        }
        for (name, applied) in applied {
            if !live.contains_key(name) {
                out.insert(name.clone(), applied.clone());
            }
        }
        (!out.is_empty()).then_some(Value::Object(out))
    }

    fn items(&self, live: &[Value], applied: &[Value], list: &ListType) -> Option<Value> {
        let elements = |items: &[Value]| -> Option<Vec<PathElement>> {
            items.iter().map(|item| element_of(self.types, list, item).ok()).collect()
        };
        // Invalid lists do not come here; if one did, the configuration would win as a whole.
        let (Some(live_elements), Some(applied_elements)) = (elements(live), elements(applied)) else {
            return Some(Value::Array(applied.to_vec()));
        };
        let mut zip = Zip {
            walk: self,
            list,
            live_items: index(&live_elements, live),
            applied_items: index(&applied_elements, applied),
            out: Vec::with_capacity(live.len().max(applied.len())),
        };
        zip.run(live, &live_elements, &applied_elements);
        (!zip.out.is_empty()).then_some(Value::Array(zip.out))
    }
}

fn is_empty(members: Option<&Map<String, Value>>) -> bool {
    members.is_none_or(Map::is_empty)
}

fn no_items(items: Option<&Vec<Value>>) -> bool {
    items.is_none_or(Vec::is_empty)
}

type Index<'a> = BTreeMap<&'a PathElement, &'a Value>;

/// Items by element. Live duplicates have no value of their own: what is applied replaces them.
fn index<'a>(elements: &'a [PathElement], items: &'a [Value]) -> Index<'a> {
    let mut out = Index::new();
    for (element, item) in elements.iter().zip(items) {
        out.entry(element).and_modify(|item| *item = &Value::Null).or_insert(item);
    }
    out
}

/// Two lists with keys on their way into one.
struct Zip<'a> {
    walk: &'a Walk<'a>,
    list: &'a ListType,
    live_items: Index<'a>,
    applied_items: Index<'a>,
    out: Vec<Value>,
}

impl<'a> Zip<'a> {
    /// Walks both lists at once. Items of the live list only are taken where they stand; shared items follow the
    /// order of the configuration, whose new items come where it has them.
    fn run(&mut self, live: &'a [Value], live_elements: &[PathElement], applied_elements: &[PathElement]) {
        let shared: Vec<_> =
            applied_elements.iter().filter(|element| self.live_items.contains_key(element)).collect();
        let mut shared = shared.into_iter();
        let mut next_shared = shared.next();
        let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
        let (mut left, mut right) = (0, 0);
        while left < live_elements.len() || right < applied_elements.len() {
            if let (Some(here), Some(there)) = (live_elements.get(left), applied_elements.get(right)) {
                if here == there {
                    self.take_applied(there);
                    merged.insert(there);
                    left += 1;
                    right += 1;
                    next_shared = shared.next();
                    continue;
                }
                if self.applied_items.contains_key(here) && next_shared.is_some_and(|next| next != here) {
                    // Shared, but not the next one in the order of the configuration.
                    left += 1;
                    continue;
                }
            }
            if let Some(here) = live_elements.get(left) {
                if !self.applied_items.contains_key(here) {
                    self.out.push(live[left].clone());
                    left += 1;
                    continue;
                }
                if merged.contains(here) {
                    left += 1;
                }
            }
            if let Some(there) = applied_elements.get(right) {
                self.take_applied(there);
                merged.insert(there);
                right += 1;
                if next_shared == Some(there) {
                    next_shared = shared.next();
                }
            }
        }
    }

    fn take_applied(&mut self, element: &PathElement) {
        let Some(applied) = self.applied_items.get(element) else { return };
        let item = match self.live_items.get(element) {
            Some(live) => self.walk.pair(live, applied, self.list.items),
            None => Some((*applied).clone()),
        };
        self.out.extend(item);
    }
}
