//! Pruning: dropping what the schema does not state.
//!
//! `x-kubernetes-preserve-unknown-fields` keeps unknown members of its object but pruning
//! goes on below the members that are stated. A resource (the root or an embedded one) always
//! keeps `apiVersion`, `kind` and `metadata`.

use serde_json::Value;

use crate::node::{Node, is_type_or_object_meta};
use crate::path::{Segment, Trail};
use crate::schema::UnknownField;

/// Whether the members a resource always has are kept.
#[derive(Clone, Copy)]
pub(crate) struct Resource(pub bool);

/// Finds the unknown fields of `value`, sorted by path.
pub(crate) fn find(value: &Value, node: &Node, resource: Resource) -> Vec<UnknownField> {
    let mut finder = Finder { found: Vec::new() };
    finder.walk(value, Some(node), resource, Trail::ROOT);
    finder.found.sort_by_cached_key(|unknown| unknown.path.to_string());
    finder.found
}

/// Drops the unknown fields of `value` and returns them, sorted by path.
pub(crate) fn apply(value: &mut Value, node: &Node, resource: Resource) -> Vec<UnknownField> {
    let found = find(value, node, resource);
    for unknown in &found {
        remove(value, unknown.path.segments());
    }
    found
}

fn remove(value: &mut Value, path: &[Segment]) {
    match (path, value) {
        // Not `remove`, which may disturb the order of the others.
        ([Segment::Field(name)], Value::Object(members)) => members.retain(|key, _| key != name),
        ([Segment::Field(name), rest @ ..], Value::Object(members)) => {
            if let Some(member) = members.get_mut(name) {
                remove(member, rest);
            }
        }
        ([Segment::Index(index), rest @ ..], Value::Array(elements)) => {
            if let Some(element) = elements.get_mut(*index) {
                remove(element, rest);
            }
        }
        _ => {}
    }
}

struct Finder {
    found: Vec<UnknownField>,
}

impl Finder {
    fn walk(&mut self, value: &Value, node: Option<&Node>, resource: Resource, trail: Trail<'_>) {
        let preserve = node.is_some_and(|node| node.preserve_unknown);
        self.within(value, node, resource, preserve, trail);
    }

    /// `preserve` holds for the members of this value, and for those of elements of a list.
    fn within(
        &mut self,
        value: &Value,
        node: Option<&Node>,
        resource: Resource,
        preserve: bool,
        trail: Trail<'_>,
    ) {
        match value {
            Value::Object(members) => {
                let is_resource = resource.0 || node.is_some_and(|node| node.embedded_resource);
                for (name, member) in members {
                    if !(is_resource && is_type_or_object_meta(name)) {
                        self.member(name, member, node, preserve, trail);
                    }
                }
            }
            Value::Array(elements) => {
                let items = node.and_then(|node| node.items.as_deref());
                if preserve && items.is_none() {
                    return;
                }
                for (index, element) in elements.iter().enumerate() {
                    let trail = trail.index(index);
                    if preserve {
                        self.within(element, items, Resource(false), true, trail);
                    } else {
                        self.walk(element, items, Resource(false), trail);
                    }
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, name: &str, member: &Value, node: Option<&Node>, preserve: bool, trail: Trail<'_>) {
        let schema = node.and_then(|node| {
            node.properties.get(name).map(Some).or_else(|| {
                // A bare `additionalProperties: true` keeps the member but states nothing of it.
                node.additional.as_ref().map(|_| node.additional_schema())
            })
        });
        match schema {
            Some(schema) => self.walk(member, schema, Resource(false), trail.field(name)),
            None if preserve => {}
            None => self.found.push(UnknownField {
                path: trail.field(name).to_path(),
                known: node.map(|node| node.properties.keys().cloned().collect()).unwrap_or_default(),
            }),
        }
    }
}
