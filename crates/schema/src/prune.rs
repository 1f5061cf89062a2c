//! Pruning: dropping what the schema does not state.
//!
//! `x-kubernetes-preserve-unknown-fields` keeps unknown members of its object but pruning
//! goes on below the members that are stated. A resource (the root or an embedded one) always
//! keeps `apiVersion`, `kind` and `metadata`.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::node::{Node, is_type_or_object_meta};
use crate::path::Trail;
use crate::schema::UnknownField;

/// Bytes of paths that are told; fields beyond that are dropped in silence. More than anybody reads, and a bound for an
/// object with a long key and a hundred thousand unknown fields below it.
const MOST_TOLD: usize = 4 << 20;

/// True if the fields that every resource has are kept.
#[derive(Clone, Copy)]
pub(crate) struct Resource(pub bool);

/// Finds the unknown fields of `value`, sorted by path.
pub(crate) fn find(value: &Value, node: &Node, resource: Resource) -> Vec<UnknownField> {
    apply(&mut value.clone(), node, resource)
}

/// Drops the unknown fields of `value` and returns them, sorted by path.
pub(crate) fn apply(value: &mut Value, node: &Node, resource: Resource) -> Vec<UnknownField> {
    let mut pruner = Pruner::default();
    pruner.walk(value, Some(node), resource, Trail::ROOT);
    let mut found = pruner.found;
    found.sort_by_cached_key(|unknown| unknown.path.to_string());
    found
}

#[derive(Default)]
struct Pruner {
    found: Vec<UnknownField>,
    told: usize,
    /// The names each schema knows, made for the first field that it does not.
    known: HashMap<Option<*const Node>, Arc<[String]>>,
}

impl Pruner {
    fn walk(&mut self, value: &mut Value, node: Option<&Node>, resource: Resource, trail: Trail<'_>) {
        let preserve = node.is_some_and(|node| node.preserve_unknown);
        self.within(value, node, resource, preserve, trail);
    }

    /// `preserve` holds for the members of this value, and for those of elements of a list.
    fn within(
        &mut self,
        value: &mut Value,
        node: Option<&Node>,
        resource: Resource,
        preserve: bool,
        trail: Trail<'_>,
    ) {
        match value {
            Value::Object(members) => {
                let is_resource = resource.0 || node.is_some_and(|node| node.embedded_resource);
                // One pass, which leaves the others in their order.
                members.retain(|name, member| {
                    (is_resource && is_type_or_object_meta(name))
                        || self.keeps(name, member, node, preserve, trail)
                });
            }
            Value::Array(elements) => {
                let items = node.and_then(|node| node.items.as_deref());
                if preserve && items.is_none() {
                    return;
                }
                for (index, element) in elements.iter_mut().enumerate() {
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

    /// Prunes a member; one that is unknown itself is told, and not kept.
    fn keeps(
        &mut self,
        name: &str,
        member: &mut Value,
        node: Option<&Node>,
        preserve: bool,
        trail: Trail<'_>,
    ) -> bool {
        let schema = node.and_then(|node| {
            node.properties.get(name).map(|node| Some(&**node)).or_else(|| {
                // A bare `additionalProperties: true` keeps the member but states nothing of it.
                node.additional.as_ref().map(|_| node.additional_schema())
            })
        });
        match schema {
            Some(schema) => self.walk(member, schema, Resource(false), trail.field(name)),
            None if preserve => {}
            None => {
                self.tell(node, trail.field(name));
                return false;
            }
        }
        true
    }

    fn tell(&mut self, node: Option<&Node>, trail: Trail<'_>) {
        self.told += trail.len();
        if self.told > MOST_TOLD {
            return;
        }
        let names = || node.into_iter().flat_map(|node| node.properties.keys().cloned()).collect();
        let known = self.known.entry(node.map(std::ptr::from_ref)).or_insert_with(names);
        self.found.push(UnknownField { path: trail.to_path(), known: Arc::clone(known) });
    }
}
