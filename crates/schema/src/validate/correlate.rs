//! Correlation of the parts of an object with those of the old one.
//!
//! Members correlate by name, elements of a list only if it is a map by keys. What has no
//! counterpart is new, so nothing about it is forgiven.

use std::cell::OnceCell;
use std::collections::HashMap;

use serde_json::Value;

use crate::go::text;
use crate::node::{ListType, Node};

#[derive(Debug)]
pub(crate) struct Correlated<'a> {
    new: &'a Value,
    old: &'a Value,
    node: &'a Node,
    old_by_key: OnceCell<MapList<'a>>,
    equal: OnceCell<bool>,
}

impl<'a> Correlated<'a> {
    pub fn new(new: &'a Value, old: &'a Value, node: &'a Node) -> Self {
        Self { new, old, node, old_by_key: OnceCell::new(), equal: OnceCell::new() }
    }

    /// The member `name`, if both objects have it and the schema states it.
    pub fn key(&self, name: &str) -> Option<Self> {
        let new = self.new.as_object()?.get(name)?;
        let old = self.old.as_object()?.get(name)?;
        Some(Self::new(new, old, self.node.member(name)?))
    }

    /// The element `index` of the new list, if the old one has an element with its keys.
    pub fn index(&self, index: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        let old = self.old.as_array()?;
        let old = self.old_by_key.get_or_init(|| MapList::new(self.node, old)).get(new)?;
        Some(Self::new(new, old, self.node.items.as_deref()?))
    }

    /// Returns whether nothing changed, so far as the schema can tell.
    pub fn is_unchanged(&self) -> bool {
        *self.equal.get_or_init(|| self.compare())
    }

    fn compare(&self) -> bool {
        match (self.new, self.old) {
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|name| self.key(name).is_some_and(|member| member.is_unchanged()))
            }
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                match self.node.list_type {
                    ListType::Map(_) => {
                        (0..new.len()).all(|i| self.index(i).is_some_and(|element| element.is_unchanged()))
                    }
                    _ => new == old,
                }
            }
            (new, old) => new == old,
        }
    }
}

/// The elements of a list by their keys; the first of several with the same keys counts.
/// Empty for a list that is not a map.
#[derive(Debug)]
pub(crate) struct MapList<'a> {
    keys: &'a [String],
    elements: HashMap<String, &'a Value>,
}

impl<'a> MapList<'a> {
    pub fn new(node: &'a Node, elements: &'a [Value]) -> Self {
        let ListType::Map(keys) = &node.list_type else {
            return Self { keys: &[], elements: HashMap::new() };
        };
        let mut list = Self { keys, elements: HashMap::with_capacity(elements.len()) };
        for element in elements {
            if let Some(key) = composite_key(keys, element) {
                list.elements.entry(key).or_insert(element);
            }
        }
        list
    }

    /// The element with the keys of `element`.
    pub fn get(&self, element: &Value) -> Option<&'a Value> {
        if self.elements.is_empty() {
            return None;
        }
        self.elements.get(&composite_key(self.keys, element)?).copied()
    }
}

/// The keys' values as one text; none unless all are present and scalar.
fn composite_key(keys: &[String], element: &Value) -> Option<String> {
    let members = element.as_object()?;
    let mut composite = String::new();
    for key in keys {
        match members.get(key)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            scalar => {
                composite.push('\0');
                // A float that is whole is not the integer of the same value.
                composite.push(if scalar.is_f64() { 'f' } else { ' ' });
                composite.push_str(&text::bad_value(scalar));
            }
        }
    }
    Some(composite)
}
