//! Lists of type `set` and `map`: no element twice.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::{FieldError, FieldErrorKind};
use crate::go::text;
use crate::node::{ListType, Node};
use crate::path::Trail;
use crate::validate::is_enough;

/// Returns whether an object that is already stored breaks a rule; then an update may, too.
pub(crate) fn is_violated(node: &Node, value: &Value) -> bool {
    let mut errors = Vec::new();
    check(node, value, Trail::ROOT, &mut errors);
    !errors.is_empty()
}

pub(crate) fn check(node: &Node, value: &Value, trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    if is_enough(errors, trail) {
        return;
    }
    match value {
        Value::Object(members) => {
            if let Some(schema) = node.additional_schema() {
                for (name, member) in members {
                    check(schema, member, trail.key(name), errors);
                }
            }
            for (name, member) in members {
                if let Some(schema) = node.properties.get(name) {
                    check(schema, member, trail.field(name), errors);
                }
            }
        }
        Value::Array(elements) => {
            match &node.list_type {
                ListType::Atomic => {}
                ListType::Set => set(elements, trail, errors),
                ListType::Map(keys) => map(keys, elements, trail, errors),
            }
            if let Some(items) = &node.items {
                for (index, element) in elements.iter().enumerate() {
                    check(items, element, trail.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn set(elements: &[Value], trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    for index in repeated(elements.iter().map(identity)) {
        errors.push(duplicate(trail, index, elements[index].clone()));
    }
}

fn map(keys: &[String], elements: &[Value], trail: Trail<'_>, errors: &mut Vec<FieldError>) {
    if let Some(index) = elements.iter().position(|element| !element.is_object() && !element.is_null()) {
        errors.push(FieldError::invalid(
            &trail.index(index).to_path(),
            elements[index].clone(),
            "must be an object for an array of list-type map",
        ));
        return;
    }
    if elements.len() < 2 {
        return;
    }
    let keyed: Vec<Value> = elements.iter().map(|element| key_of(keys, element)).collect();
    for index in repeated(keyed.iter().map(identity)) {
        errors.push(duplicate(trail, index, keyed[index].clone()));
    }
}

/// The members of an element that are its keys; a key it lacks is lacking there, too.
fn key_of(keys: &[String], element: &Value) -> Value {
    let mut members = Map::new();
    for key in keys {
        if let Some(value) = element.get(key) {
            members.insert(key.clone(), value.clone());
        }
    }
    Value::Object(members)
}

/// Compared as text: canonical JSON, which tells `1` from `1.0`.
fn identity(value: &Value) -> String {
    if value.is_f64() { format!("f{}", text::json(value)) } else { text::json(value) }
}

/// The index of each second occurrence; further ones are not told.
fn repeated(identities: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, identity) in identities.enumerate() {
        let times = seen.entry(identity).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}

fn duplicate(trail: Trail<'_>, index: usize, value: Value) -> FieldError {
    FieldError::new(&trail.index(index).to_path(), FieldErrorKind::Duplicate, value, "")
}
