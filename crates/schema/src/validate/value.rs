//! Values against the keywords of a schema.
//!
//! Error texts, and which errors of an `anyOf` or `oneOf` are shown, are kube-openapi's: of
//! the alternatives that fail, the one with most passed checks speaks. Hence every check here
//! returns a count of passed checks along with its errors.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::error::{FieldError, FieldErrorKind};
use crate::go::text;
use crate::node::{Additional, Kind, Node};
use crate::path::{FieldPath, Trail};
use crate::validate::Correlated;
use crate::validate::formats::Check;
use crate::validate::numbers;
use crate::validate::told::Errors;

/// Checks `value`, forgiving what did not change since `correlated`'s old value.
pub(crate) fn check(
    node: &Node,
    value: &Value,
    correlated: Option<&Correlated<'_>>,
    errors: &mut Vec<FieldError>,
) {
    let mut found = Errors::default();
    checked(node, value, Trail::ROOT, correlated, &mut found);
    errors.extend(told_once(found.into_inner()));
}

/// The same check can be met twice, through `allOf` and outside of it; it is told once.
fn told_once(mut errors: Vec<FieldError>) -> Vec<FieldError> {
    let mut seen = HashSet::new();
    let first: Vec<bool> =
        errors.iter().map(|error| seen.insert((error.kind, &error.detail, &error.path))).collect();
    let mut first = first.into_iter();
    errors.retain(|_| first.next().unwrap_or(true));
    errors
}

fn checked(
    node: &Node,
    value: &Value,
    trail: Trail<'_>,
    correlated: Option<&Correlated<'_>>,
    errors: &mut Errors,
) -> usize {
    if errors.is_enough() {
        return 0;
    }
    let start = errors.len();
    let passed = keywords(node, value, trail, correlated, errors);
    if errors.len() > start && correlated.is_some_and(Correlated::is_unchanged) {
        errors.truncate(start);
    }
    passed
}

fn keywords(
    node: &Node,
    value: &Value,
    trail: Trail<'_>,
    correlated: Option<&Correlated<'_>>,
    errors: &mut Errors,
) -> usize {
    if value.is_null() {
        let passed = usize::from(null_type(node, trail, errors));
        enumeration(node, value, trail, errors);
        return passed;
    }
    let mut passed = 1;
    if node.kind.is_some() || node.int_or_string || node.checks.format.is_some() {
        passed += 1 + usize::from(value_type(node, value, trail, errors));
    }
    passed += 1 + compositions(node, value, trail, errors);
    match value {
        Value::String(text) => passed += strings(node, text, trail, errors),
        Value::Number(number) => {
            passed += 2;
            let mut found = Vec::new();
            numbers::check(node, number, trail, &mut found);
            errors.extend(found);
        }
        Value::Array(elements) => passed += 2 + list(node, elements, trail, correlated, errors),
        _ => {}
    }
    passed += 1;
    enumeration(node, value, trail, errors);
    if let Value::Object(members) = value {
        passed += 1 + object(node, members, trail, correlated, errors);
    }
    passed
}

/// The JSON type of a value, and the format Go's type for it implies.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn type_names(node: &Node) -> &'static str {
    if node.int_or_string { "integer,string" } else { node.kind.map_or("", Kind::name) }
}

fn null_type(node: &Node, trail: Trail<'_>, errors: &mut Errors) -> bool {
    let valid = node.nullable || (node.kind.is_none() && !node.int_or_string);
    if !valid {
        errors.push(type_error(trail, type_names(node), "null"));
    }
    valid
}

fn type_error(trail: Trail<'_>, expected: &str, actual: &str) -> FieldError {
    let detail = format!("{} in body must be of type {expected}: {}", trail.name(), text::quote(actual));
    FieldError::new(&trail.to_path(), FieldErrorKind::TypeInvalid, Value::from(actual), detail)
}

fn value_type(node: &Node, value: &Value, trail: Trail<'_>, errors: &mut Errors) -> bool {
    let (actual, actual_format) = type_of(value);
    let expects = |kind: Kind| {
        node.kind == Some(kind) && !node.int_or_string
            || node.int_or_string && matches!(kind, Kind::Integer | Kind::String)
    };
    let whole = value.as_f64().is_some_and(|v| !value.is_i64() && numbers::is_json_integer(v));
    let fits = Kind::parse(actual).is_some_and(expects)
        || (whole && expects(Kind::Integer))
        || (actual == "integer" && expects(Kind::Number));
    let text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    if let Some(format) = &node.checks.format {
        if !text_or_list && !fits && actual_format != format.name {
            errors.push(type_error(trail, &format.name, actual_format));
            return false;
        }
        // A schema of strings with a format lets a list pass; so does an API server.
        if text_or_list && !expects(Kind::Number) && !expects(Kind::Integer) {
            return true;
        }
    }
    if !fits {
        errors.push(type_error(trail, type_names(node), actual));
    }
    fits
}

fn strings(node: &Node, value: &str, trail: Trail<'_>, errors: &mut Errors) -> usize {
    if let Some(error) = string_bounds(node, value, trail) {
        errors.push(error);
    }
    let Some(format) = &node.checks.format else { return 1 };
    let Check::Text(check) = format.check else { return 1 };
    if !check.accepts(value) {
        errors.push(type_error(trail, &format.name, value));
    }
    2
}

/// The first of length and pattern that is violated.
fn string_bounds(node: &Node, value: &str, trail: Trail<'_>) -> Option<FieldError> {
    let checks = &node.checks;
    if checks.max_length.is_some() || checks.min_length.is_some() {
        let length = i64::try_from(value.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            let unit = if max == 1 { "byte" } else { "bytes" };
            let detail = if max < 0 {
                "value is too long".to_owned()
            } else {
                format!("may not be more than {max} {unit}")
            };
            return Some(FieldError::new(&trail.to_path(), FieldErrorKind::TooLong, None, detail));
        }
        if let Some(min) = checks.min_length.filter(|min| length < *min) {
            let detail = format!("{} in body should be at least {min} chars long", trail.name());
            return Some(FieldError::invalid(&trail.to_path(), value, detail));
        }
    }
    let pattern = checks.pattern.as_ref()?;
    (!pattern.regex.is_match(value)).then(|| {
        let detail = format!("{} in body should match '{}'", trail.name(), pattern.source);
        FieldError::invalid(&trail.to_path(), value, detail)
    })
}

fn too_many(trail: Trail<'_>, actual: usize, max: i64) -> FieldError {
    let unit = if max == 1 { "item" } else { "items" };
    let detail =
        if max < 0 { "has too many items".to_owned() } else { format!("must have at most {max} {unit}") };
    FieldError::new(&trail.to_path(), FieldErrorKind::TooMany, Value::from(actual), detail)
}

fn too_few(trail: Trail<'_>, actual: usize, min: i64, unit: &str) -> FieldError {
    let detail = format!("{} in body should have at least {min} {unit}", trail.name());
    FieldError::invalid(&trail.to_path(), actual, detail)
}

fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn list(
    node: &Node,
    elements: &[Value],
    trail: Trail<'_>,
    correlated: Option<&Correlated<'_>>,
    errors: &mut Errors,
) -> usize {
    let mut passed = 0;
    if let Some(items) = &node.items {
        for (index, element) in elements.iter().enumerate() {
            let child = correlated.and_then(|correlated| correlated.index(index));
            passed += checked(items, element, trail.index(index), child.as_ref(), errors);
        }
    }
    if let Some(min) = node.checks.min_items.filter(|min| signed(elements.len()) < *min) {
        errors.push(too_few(trail, elements.len(), min, "items"));
    }
    if let Some(max) = node.checks.max_items.filter(|max| signed(elements.len()) > *max) {
        errors.push(too_many(trail, elements.len(), max));
    }
    passed
}

fn object(
    node: &Node,
    members: &Map<String, Value>,
    trail: Trail<'_>,
    correlated: Option<&Correlated<'_>>,
    errors: &mut Errors,
) -> usize {
    let checks = &node.checks;
    if let Some(min) = checks.min_properties.filter(|min| signed(members.len()) < *min) {
        errors.push(too_few(trail, members.len(), min, "properties"));
    }
    if let Some(max) = checks.max_properties.filter(|max| signed(members.len()) > *max) {
        errors.push(too_many(trail, members.len(), max));
    }
    let child = |name: &str| correlated.and_then(|correlated| correlated.key(name));
    let mut passed = 0;
    match &node.additional {
        None | Some(Additional::Allowed(true)) => {}
        Some(Additional::Allowed(false)) => {
            for name in members.keys().filter(|name| !node.properties.contains_key(*name)) {
                let detail = format!("{}.{name} in body is a forbidden property", trail.name());
                errors.push(FieldError::invalid(&trail.to_path(), name.as_str(), detail));
            }
        }
        Some(Additional::Schema(schema)) => {
            for (name, member) in members {
                if !node.properties.contains_key(name) {
                    passed += checked(schema, member, trail.field(name), child(name).as_ref(), errors);
                }
            }
        }
    }
    for (name, schema) in &node.properties {
        if let Some(member) = members.get(name) {
            // Old and new are of one kind by construction, so a change of these is invisible.
            let hidden = trail.is_root() && (name == "kind" || name == "apiVersion");
            let child = if hidden { None } else { child(name) };
            passed += checked(schema, member, trail.field(name), child.as_ref(), errors);
        }
    }
    for name in checks.required.iter().filter(|name| !members.contains_key(*name)) {
        errors.push(FieldError::required(&trail.field(name).to_path(), ""));
    }
    passed
}

fn enumeration(node: &Node, value: &Value, trail: Trail<'_>, errors: &mut Errors) {
    if let Some(supported) = node.checks.enumeration.refused(value) {
        errors.push(FieldError::not_supported(&trail.to_path(), value.clone(), &supported));
    }
}

/// `allOf`, `anyOf`, `oneOf` and `not`. Nothing inside of them correlates with an old value.
fn compositions(node: &Node, value: &Value, trail: Trail<'_>, errors: &mut Errors) -> usize {
    let checks = &node.checks;
    let mut passed = 1;
    let general = |errors: &mut Errors, detail: String| {
        errors.push(FieldError::invalid(&FieldPath::root(), "", detail));
    };
    if !checks.any_of.is_empty() {
        let outcome = alternatives(&checks.any_of, value, trail, true);
        passed += outcome.passed;
        if outcome.valid == 0 {
            let name = text::quote(&trail.name());
            general(errors, format!("{name} must validate at least one schema (anyOf)"));
            errors.extend(outcome.errors.into_inner());
        }
    }
    if !checks.one_of.is_empty() {
        let outcome = alternatives(&checks.one_of, value, trail, false);
        if outcome.valid < 2 {
            passed += outcome.passed;
        }
        if outcome.valid != 1 {
            let name = text::quote(&trail.name());
            let found = match outcome.valid {
                0 => "Found none valid".to_owned(),
                n => format!("Found {n} valid alternatives"),
            };
            general(errors, format!("{name} must validate one and only one schema (oneOf). {found}"));
            errors.extend(outcome.errors.into_inner());
        }
    }
    let mut satisfied = 0;
    for schema in &checks.all_of {
        let start = errors.len();
        passed += checked(schema, value, trail, None, errors);
        satisfied += usize::from(errors.len() == start);
    }
    if satisfied != checks.all_of.len() {
        let name = text::quote(&trail.name());
        let addition = if satisfied == 0 { ". None validated" } else { "" };
        general(errors, format!("{name} must validate all the schemas (allOf){addition}"));
    }
    if let Some(not) = &checks.not {
        let mut refused = Errors::default();
        checked(not, value, trail, None, &mut refused);
        if refused.is_empty() {
            let name = text::quote(&trail.name());
            general(errors, format!("{name} must not validate the schema (not)"));
        }
    }
    passed
}

struct Alternatives {
    /// How many are valid.
    valid: usize,
    /// The passed checks of the first valid one, or of the best that failed.
    passed: usize,
    /// The errors of the best that failed, if none is valid.
    errors: Errors,
}

fn alternatives(schemas: &[Node], value: &Value, trail: Trail<'_>, first_is_enough: bool) -> Alternatives {
    let mut outcome = Alternatives { valid: 0, passed: 0, errors: Errors::default() };
    let mut best: Option<usize> = None;
    for schema in schemas {
        let mut errors = Errors::default();
        let passed = checked(schema, value, trail, None, &mut errors);
        if errors.is_empty() {
            if outcome.valid == 0 {
                outcome.passed = passed;
            }
            outcome.valid += 1;
            outcome.errors = Errors::default();
            if first_is_enough {
                break;
            }
        } else if outcome.valid == 0 && best.is_none_or(|best| passed > best) {
            best = Some(passed);
            outcome.passed = passed;
            outcome.errors = errors;
        }
    }
    outcome
}
