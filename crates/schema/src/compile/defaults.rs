//! Defaults must be what they stand in for: pruned, and valid, rules included.

use serde_json::Value;

use crate::cel::budget::Budget;
use crate::cel::rules;
use crate::error::FieldError;
use crate::node::{Node, is_type_or_object_meta};
use crate::path::{FieldPath, Trail};
use crate::prune::{self, Resource};
use crate::validate::{self, Errors, Matching};

pub(crate) fn check(root: &Node) -> Vec<FieldError> {
    let mut checks = Checks::default();
    checks.visit(root, &FieldPath::root(), false);
    checks.errors.extend(checks.matching.into_error());
    checks.errors.into_inner()
}

/// Mistakes so far, and the budgets left for all defaults together: they are checked at each start, too.
#[derive(Default)]
struct Checks {
    errors: Errors,
    budget: Budget,
    matching: Matching,
}

impl Checks {
    /// Does not enter `additionalProperties`, as an API server does not.
    fn visit(&mut self, node: &Node, path: &FieldPath, inside_metadata: bool) {
        if self.errors.is_enough() {
            return;
        }
        let inside_metadata = inside_metadata && !node.embedded_resource;
        if let Some(default) = &node.default {
            let path_is_root = path.is_root();
            let path = path.field("default");
            let is_resource = path_is_root || node.embedded_resource;
            if !inside_metadata && !prune::find(default, node, Resource(is_resource)).is_empty() {
                self.errors.push(FieldError::invalid(&path, default.clone(), "must not have unknown fields"));
            }
            let found = self.violations(node, default, path_is_root);
            self.errors.extend(found.into_iter().map(|error| error.under(&path)));
        }
        if let Some(items) = &node.items {
            self.visit(items, &path.field("items"), inside_metadata);
        }
        let is_resource = path.is_root() || node.embedded_resource;
        for (name, property) in &node.properties {
            let inside = inside_metadata || (is_resource && is_type_or_object_meta(name));
            self.visit(property, &path.field("properties").key(name), inside);
        }
    }

    fn violations(&mut self, node: &Node, default: &Value, is_root: bool) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if is_root && !node.embedded_resource {
            validate::check_resource(default, Trail::ROOT, &mut errors);
        }
        validate::check_resources(node, default, Trail::ROOT, &mut errors);
        if errors.is_empty() {
            validate::check_values(node, default, None, &self.matching, &mut errors);
        }
        if errors.is_empty() && node.has_rules {
            // As if it had been there before, and as if it had not.
            rules::check(node, default, Some(default), None, &mut self.budget, &mut errors);
            if errors.is_empty() {
                rules::check(node, default, None, None, &mut self.budget, &mut errors);
            }
        }
        errors
    }
}
