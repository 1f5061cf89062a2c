//! Defaulting, with Kubernetes' treatment of null.
//!
//! A null where the schema does not allow one counts as absent: it takes the default if there
//! is one; a member without a default is dropped.

use serde_json::Value;

use crate::node::Node;

pub(crate) fn apply(value: &mut Value, node: &Node) {
    fill(value, node);
    drop_nulls(value, node);
}

pub(crate) fn is_any(node: &Node) -> bool {
    let below = node.properties.values().chain(node.items.as_deref()).chain(node.additional_schema());
    node.default.is_some() || below.into_iter().any(is_any)
}

fn is_refused_null(value: &Value, node: &Node) -> bool {
    value.is_null() && !node.nullable
}

pub(crate) fn fill(value: &mut Value, node: &Node) {
    match value {
        Value::Object(members) => {
            for (name, property) in &node.properties {
                let Some(default) = &property.default else { continue };
                if members.get(name).is_none_or(|member| is_refused_null(member, property)) {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, member) in members.iter_mut() {
                if let Some(property) = node.properties.get(name) {
                    fill(member, property);
                } else if let Some(schema) = node.additional_schema() {
                    fill_element(member, schema);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(items) = &node.items {
                for element in elements {
                    fill_element(element, items);
                }
            }
        }
        _ => {}
    }
}

fn fill_element(element: &mut Value, schema: &Node) {
    if is_refused_null(element, schema)
        && let Some(default) = &schema.default
    {
        *element = default.clone();
    }
    fill(element, schema);
}

fn drop_nulls(value: &mut Value, node: &Node) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| {
                let Some(schema) = node.member(name) else { return true };
                if is_refused_null(member, schema) && schema.default.is_none() {
                    return false;
                }
                drop_nulls(member, schema);
                true
            });
        }
        Value::Array(elements) => {
            if let Some(items) = &node.items {
                for element in elements {
                    drop_nulls(element, items);
                }
            }
        }
        _ => {}
    }
}
