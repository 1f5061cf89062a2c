//! Defaults must be what they stand in for: pruned, and valid, rules included.

use serde_json::Value;

use crate::cel::rules;
use crate::error::FieldError;
use crate::node::{Node, is_type_or_object_meta};
use crate::path::{FieldPath, Trail};
use crate::prune::{self, Resource};
use crate::validate::{self, Errors};

pub(crate) fn check(root: &Node) -> Vec<FieldError> {
    let mut errors = Errors::default();
    visit(root, &FieldPath::root(), false, &mut errors);
    errors.into_inner()
}

/// Does not enter `additionalProperties`, as an API server does not.
fn visit(node: &Node, path: &FieldPath, inside_metadata: bool, errors: &mut Errors) {
    if errors.is_enough() {
        return;
    }
    let inside_metadata = inside_metadata && !node.embedded_resource;
    if let Some(default) = &node.default {
        let path_is_root = path.is_root();
        let path = path.field("default");
        let is_resource = path_is_root || node.embedded_resource;
        if !inside_metadata && !prune::find(default, node, Resource(is_resource)).is_empty() {
            errors.push(FieldError::invalid(&path, default.clone(), "must not have unknown fields"));
        }
        errors.extend(violations(node, default, path_is_root).into_iter().map(|error| error.under(&path)));
    }
    if let Some(items) = &node.items {
        visit(items, &path.field("items"), inside_metadata, errors);
    }
    let is_resource = path.is_root() || node.embedded_resource;
    for (name, property) in &node.properties {
        let inside = inside_metadata || (is_resource && is_type_or_object_meta(name));
        visit(property, &path.field("properties").key(name), inside, errors);
    }
}

fn violations(node: &Node, default: &Value, is_root: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if is_root && !node.embedded_resource {
        validate::check_resource(default, Trail::ROOT, &mut errors);
    }
    validate::check_resources(node, default, Trail::ROOT, &mut errors);
    if errors.is_empty() {
        validate::check_values(node, default, None, &mut errors);
    }
    if errors.is_empty() && node.has_rules {
        // As if it had been there before, and as if it had not.
        rules::check(node, default, Some(default), None, &mut errors);
        if errors.is_empty() {
            rules::check(node, default, None, None, &mut errors);
        }
    }
    errors
}
