//! Defaulting, with Kubernetes' treatment of null.
//!
//! A null where the schema does not allow one counts as absent: it takes the default if there
//! is one; a member without a default is dropped.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;

use crate::node::Node;

/// Bytes of JSON and values that defaults may add to one object. With more it would be larger than any object may be: defaults in
/// defaults multiply, and a list of a hundred items needs a few characters.
const MOST_BYTES: usize = 3 << 20;
const MOST_VALUES: usize = 500_000;

/// Defaults would make an object larger than one may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// In bytes of JSON.
    #[error("defaults add more than {MOST_BYTES} bytes to the object")]
    Bytes,
    /// In values.
    #[error("defaults add more than {MOST_VALUES} values to the object")]
    Values,
}

pub(crate) fn apply(value: &mut Value, node: &Node) -> Result<(), TooLarge> {
    let filled = fill(value, node);
    drop_nulls(value, node);
    filled
}

pub(crate) fn fill(value: &mut Value, node: &Node) -> Result<(), TooLarge> {
    Filling::default().value(value, node)
}

/// The values added so far.
#[derive(Default)]
struct Filling<'n> {
    bytes: usize,
    values: usize,
    /// The properties of each schema that have a default, looked for once: it can have many others, and a list many items.
    with_default: HashMap<*const Node, WithDefault<'n>>,
}

type WithDefault<'n> = Rc<[(&'n String, &'n Node, &'n Value)]>;

pub(crate) fn is_any(node: &Node) -> bool {
    let below = node
        .properties
        .values()
        .map(Box::as_ref)
        .chain(node.items.as_deref())
        .chain(node.additional_schema());
    node.default.is_some() || below.into_iter().any(is_any)
}

fn is_refused_null(value: &Value, node: &Node) -> bool {
    value.is_null() && !node.nullable
}

impl<'n> Filling<'n> {
    fn value(&mut self, value: &mut Value, node: &'n Node) -> Result<(), TooLarge> {
        match value {
            Value::Object(members) => {
                for (name, property, default) in self.with_default(node).iter() {
                    if members.get(*name).is_none_or(|member| is_refused_null(member, property)) {
                        self.bytes += name.len();
                        members.insert((*name).clone(), self.copy(default)?);
                    }
                }
                for (name, member) in members.iter_mut() {
                    if let Some(property) = node.properties.get(name) {
                        self.value(member, property)?;
                    } else if let Some(schema) = node.additional_schema() {
                        self.element(member, schema)?;
                    }
                }
            }
            Value::Array(elements) => {
                if let Some(items) = &node.items {
                    for element in elements {
                        self.element(element, items)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn with_default(&mut self, node: &'n Node) -> WithDefault<'n> {
        let found = || {
            let properties = node.properties.iter();
            properties.filter_map(|(name, node)| Some((name, &**node, node.default.as_ref()?))).collect()
        };
        Rc::clone(self.with_default.entry(std::ptr::from_ref(node)).or_insert_with(found))
    }

    fn element(&mut self, element: &mut Value, schema: &'n Node) -> Result<(), TooLarge> {
        if is_refused_null(element, schema)
            && let Some(default) = &schema.default
        {
            *element = self.copy(default)?;
        }
        self.value(element, schema)
    }

    /// A copy of a default, if there is room for it.
    fn copy(&mut self, default: &Value) -> Result<Value, TooLarge> {
        self.count(default);
        if self.bytes > MOST_BYTES {
            return Err(TooLarge::Bytes);
        }
        if self.values > MOST_VALUES {
            return Err(TooLarge::Values);
        }
        Ok(default.clone())
    }

    /// Counts no more bytes than there are as JSON.
    fn count(&mut self, value: &Value) {
        self.values += 1;
        self.bytes += 1;
        match value {
            Value::String(text) => self.bytes += text.len(),
            Value::Array(items) => items.iter().for_each(|item| self.count(item)),
            Value::Object(members) => members.iter().for_each(|(name, member)| {
                self.bytes += name.len();
                self.count(member);
            }),
            _ => {}
        }
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Schema;

    /// Lists of as many empty objects, as deep as this, each by default.
    fn nested(depth: usize, width: usize, leaf: &Value) -> Schema {
        let mut schema =
            json!({"type": "object", "properties": {"leaf": {"type": "string", "default": leaf}}});
        for _ in 0..depth {
            schema = json!({"type": "object", "properties": {
                "a": {"type": "array", "items": schema, "default": vec![json!({}); width]}}});
        }
        Schema::compile(&schema).unwrap()
    }

    #[test]
    fn defaults_do_not_multiply_without_end() {
        let mut object = json!({});
        assert_eq!(nested(2, 3, &json!("x")).default(&mut object), Ok(()));
        let leaf = json!({"leaf": "x"});
        let inner = json!({"a": [leaf, leaf, leaf]});
        assert_eq!(object, json!({"a": [inner, inner, inner]}));
        let long = json!("x".repeat(10_000));
        for (schema, expected) in [
            (nested(12, 60, &json!("")), TooLarge::Values),
            (nested(2, 60, &long), TooLarge::Bytes),
            (nested(60, 1_000, &long), TooLarge::Bytes),
        ] {
            let mut object = json!({});
            assert_eq!(schema.default(&mut object), Err(expected));
            assert_eq!(schema.fill(&mut json!({})), Err(expected));
            // What there is of it has its bounds.
            assert!(object.to_string().len() < 8 << 20);
        }
        // Many items of the object's own, with a default each.
        let schema = nested(1, 1, &long);
        let mut object = json!({"a": vec![json!({}); 10_000]});
        assert_eq!(schema.default(&mut object), Err(TooLarge::Bytes));
    }
}
