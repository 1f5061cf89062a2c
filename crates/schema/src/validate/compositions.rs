//! `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::Value;

use crate::error::FieldError;
use crate::go::text;
use crate::node::Node;
use crate::path::{FieldPath, Trail};
use crate::validate::errors::Errors;
use crate::validate::value::{Matching, checked};

/// Checks them all. Nothing inside of them correlates with an old value.
pub(super) fn compositions(
    node: &Node,
    value: &Value,
    trail: Trail<'_>,
    matching: &Matching,
    errors: &mut Errors,
) -> usize {
    let checks = &node.checks;
    let mut passed = 1;
    if !checks.any_of.is_empty() {
        let outcome = alternatives(&checks.any_of, value, trail, matching, true);
        passed += outcome.passed;
        if outcome.valid == 0 {
            general(errors, trail, |name| format!("{name} must validate at least one schema (anyOf)"));
            outcome.tell(value, trail, matching, errors);
        }
    }
    if !checks.one_of.is_empty() {
        let outcome = alternatives(&checks.one_of, value, trail, matching, false);
        if outcome.valid < 2 {
            passed += outcome.passed;
        }
        if outcome.valid != 1 {
            let found = match outcome.valid {
                0 => "Found none valid".to_owned(),
                n => format!("Found {n} valid alternatives"),
            };
            general(errors, trail, |name| {
                format!("{name} must validate one and only one schema (oneOf). {found}")
            });
            outcome.tell(value, trail, matching, errors);
        }
    }
    let mut satisfied = 0;
    for schema in &checks.all_of {
        let start = errors.len();
        passed += checked(schema, value, trail, None, matching, errors);
        satisfied += usize::from(errors.len() == start);
    }
    if satisfied != checks.all_of.len() {
        let addition = if satisfied == 0 { ". None validated" } else { "" };
        general(errors, trail, |name| format!("{name} must validate all the schemas (allOf){addition}"));
    }
    if let Some(not) = &checks.not {
        let mut refused = Errors::counting();
        checked(not, value, trail, None, matching, &mut refused);
        if refused.is_empty() {
            general(errors, trail, |name| format!("{name} must not validate the schema (not)"));
        }
    }
    passed
}

/// Errors of a value as a whole, with its name.
fn general(errors: &mut Errors, trail: Trail<'_>, detail: impl FnOnce(String) -> String) {
    errors.push_with(|| FieldError::invalid(&FieldPath::root(), "", detail(text::quote(&trail.name()))));
}

struct Alternatives<'n> {
    /// Number of valid alternatives.
    valid: usize,
    /// The passed checks of the first valid one, or of the best that failed.
    passed: usize,
    /// The best that failed, if none is valid.
    best: Option<&'n Node>,
}

impl Alternatives<'_> {
    /// Tells what the best that failed says. Only it is asked for words, and so it is checked once more: the others are
    /// dropped, and what they would say can be as long as the definition.
    fn tell(&self, value: &Value, trail: Trail<'_>, matching: &Matching, errors: &mut Errors) {
        if let Some(schema) = self.best.filter(|_| !errors.counts_only()) {
            checked(schema, value, trail, None, matching, errors);
        }
    }
}

fn alternatives<'n>(
    schemas: &'n [Node],
    value: &Value,
    trail: Trail<'_>,
    matching: &Matching,
    first_is_enough: bool,
) -> Alternatives<'n> {
    let mut outcome = Alternatives { valid: 0, passed: 0, best: None };
    for schema in schemas {
        let mut errors = Errors::counting();
        let passed = checked(schema, value, trail, None, matching, &mut errors);
        if errors.is_empty() {
            if outcome.valid == 0 {
                outcome.passed = passed;
            }
            outcome.valid += 1;
            outcome.best = None;
            if first_is_enough {
                break;
            }
        } else if outcome.valid == 0 && (outcome.best.is_none() || passed > outcome.passed) {
            outcome.passed = passed;
            outcome.best = Some(schema);
        }
    }
    outcome
}
