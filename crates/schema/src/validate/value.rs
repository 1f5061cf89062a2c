//! Values against the keywords of a schema.
//!
//! Error texts, and which errors of an `anyOf` or `oneOf` are shown, are kube-openapi's: of
//! the alternatives that fail, the one with most passed checks speaks. Hence every check here
//! returns a count of passed checks along with its errors.

use std::cell::{Cell, OnceCell};
use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::error::{FieldError, FieldErrorKind};
use crate::go::text;
use crate::node::{Additional, Kind, Node, Pattern};
use crate::path::Trail;
use crate::patterns::matching_cost;
use crate::validate::Correlated;
use crate::validate::compositions::compositions;
use crate::validate::errors::Errors;
use crate::validate::formats::Check;
use crate::validate::numbers;

/// Checks `value`, forgiving what did not change since `correlated`'s old value.
pub(crate) fn check(
    node: &Node,
    value: &Value,
    correlated: Option<&Correlated<'_>>,
    errors: &mut Vec<FieldError>,
) {
    let matching = Matching::default();
    check_within(node, value, correlated, &matching, errors);
    errors.extend(matching.exceeded.into_inner());
}

/// The same with a budget that more than this value shares. Its owner asks it for its error at the end.
pub(crate) fn check_within(
    node: &Node,
    value: &Value,
    correlated: Option<&Correlated<'_>>,
    matching: &Matching,
    errors: &mut Vec<FieldError>,
) {
    let mut found = Errors::default();
    checked(node, value, Trail::ROOT, correlated, matching, &mut found);
    errors.extend(told_once(found.into_inner()));
}

/// The work that the patterns of a schema may be on one object, in units of [`matching_cost`]: some seconds at worst, where a
/// pattern of ten characters on a text of megabytes would take minutes. Ten of the usual patterns on the longest text fit.
const MOST_MATCHING: u64 = 4_000_000;

/// Bound of comparisons of a schema with a value for one object, about a second: `allOf` and its like compare each of theirs with all that
/// is in a value, and the largest object without them takes a tenth of it.
const MOST_CHECKED: u64 = 20_000_000;

/// The work on one object so far: of patterns, and of schemas that are compared with values.
#[derive(Default)]
pub(crate) struct Matching {
    spent: Cell<u64>,
    checked: Cell<u64>,
    /// Told once, for the first thing that was not looked at. Nothing is after it.
    exceeded: OnceCell<FieldError>,
}

impl Matching {
    /// Counts one schema that is compared with one value; false once there were too many.
    fn look(&self, trail: Trail<'_>) -> bool {
        if self.exceeded.get().is_some() {
            return false;
        }
        self.checked.set(self.checked.get() + 1);
        if self.checked.get() <= MOST_CHECKED {
            return true;
        }
        self.exceeded.get_or_init(|| {
            let detail =
                "too many values for the alternatives of the schema, which would take too long to compare";
            FieldError::new(&trail.to_path(), FieldErrorKind::TooLong, None, detail)
        });
        false
    }

    /// The error of the first thing that was too much.
    pub fn into_error(self) -> Option<FieldError> {
        self.exceeded.into_inner()
    }

    /// Matches a text; a text that is too long for what is left counts as one that does.
    fn is_match(&self, pattern: &Pattern, value: &str, trail: Trail<'_>) -> bool {
        if self.exceeded.get().is_some() {
            return true;
        }
        self.spent.set(self.spent.get().saturating_add(matching_cost(&pattern.compiled, value.len())));
        if self.spent.get() <= MOST_MATCHING {
            return pattern.compiled.regex.is_match(value);
        }
        self.exceeded.get_or_init(|| {
            let detail = "too much text for the patterns of the schema, which would take too long to match";
            FieldError::new(&trail.to_path(), FieldErrorKind::TooLong, None, detail)
        });
        true
    }
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

pub(super) fn checked(
    node: &Node,
    value: &Value,
    trail: Trail<'_>,
    correlated: Option<&Correlated<'_>>,
    matching: &Matching,
    errors: &mut Errors,
) -> usize {
    if errors.is_enough() || !matching.look(trail) {
        return 0;
    }
    if correlated.is_some_and(|correlated| is_cheap(node, value, trail) && correlated.is_unchanged()) {
        return 0;
    }
    let start = errors.len();
    let passed = keywords(node, value, trail, correlated, matching, errors);
    if errors.len() > start && correlated.is_some_and(Correlated::is_unchanged) {
        errors.truncate(start);
    }
    passed
}

/// Returns whether to find out if a value has changed takes no longer than to check it, which is not needed then. It would for each
/// object within an object, down to the last.
fn is_cheap(node: &Node, value: &Value, trail: Trail<'_>) -> bool {
    let checks = &node.checks;
    let is_compared_in_part = checks.enumeration.values.is_empty()
        && checks.all_of.is_empty()
        && checks.any_of.is_empty()
        && checks.one_of.is_empty()
        && checks.not.is_none();
    !value.is_object() || trail.is_top() || !is_compared_in_part
}

fn keywords(
    node: &Node,
    value: &Value,
    trail: Trail<'_>,
    correlated: Option<&Correlated<'_>>,
    matching: &Matching,
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
    passed += 1 + compositions(node, value, trail, matching, errors);
    match value {
        Value::String(text) => passed += strings(node, text, trail, matching, errors),
        Value::Number(number) => {
            passed += 2;
            let mut found = Vec::new();
            // Errors that are only counted have no long names.
            let trail = if errors.counts_only() { Trail::ROOT } else { trail };
            numbers::check(node, number, trail, &mut found);
            errors.extend(found);
        }
        Value::Array(elements) => passed += 2 + list(node, elements, trail, correlated, matching, errors),
        _ => {}
    }
    passed += 1;
    enumeration(node, value, trail, errors);
    if let Value::Object(members) = value {
        passed += 1 + object(node, members, trail, correlated, matching, errors);
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
        errors.push_with(|| type_error(trail, type_names(node), "null"));
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
            errors.push_with(|| type_error(trail, &format.name, actual_format));
            return false;
        }
        // A schema of strings with a format lets a list pass; so does an API server.
        if text_or_list && !expects(Kind::Number) && !expects(Kind::Integer) {
            return true;
        }
    }
    if !fits {
        errors.push_with(|| type_error(trail, type_names(node), actual));
    }
    fits
}

fn strings(node: &Node, value: &str, trail: Trail<'_>, matching: &Matching, errors: &mut Errors) -> usize {
    string_bounds(node, value, trail, matching, errors);
    let Some(format) = &node.checks.format else { return 1 };
    let Check::Text(check) = format.check else { return 1 };
    if !check.accepts(value) {
        errors.push_with(|| type_error(trail, &format.name, value));
    }
    2
}

/// Tells the first of length and pattern that is violated.
fn string_bounds(node: &Node, value: &str, trail: Trail<'_>, matching: &Matching, errors: &mut Errors) {
    let checks = &node.checks;
    if checks.max_length.is_some() || checks.min_length.is_some() {
        let length = i64::try_from(value.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            return errors.push_with(|| too_long(trail, max));
        }
        if let Some(min) = checks.min_length.filter(|min| length < *min) {
            return errors.push_with(|| {
                let detail = format!("{} in body should be at least {min} chars long", trail.name());
                FieldError::invalid(&trail.to_path(), value, detail)
            });
        }
    }
    let Some(pattern) = &checks.pattern else { return };
    if !matching.is_match(pattern, value, trail) {
        errors.push_with(|| {
            let detail = format!("{} in body should match '{}'", trail.name(), pattern.source);
            FieldError::invalid(&trail.to_path(), value, detail)
        });
    }
}

fn too_long(trail: Trail<'_>, max: i64) -> FieldError {
    let unit = if max == 1 { "byte" } else { "bytes" };
    let detail =
        if max < 0 { "value is too long".to_owned() } else { format!("may not be more than {max} {unit}") };
    FieldError::new(&trail.to_path(), FieldErrorKind::TooLong, None, detail)
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
    matching: &Matching,
    errors: &mut Errors,
) -> usize {
    let mut passed = 0;
    if let Some(items) = &node.items {
        for (index, element) in elements.iter().enumerate() {
            let child = correlated.and_then(|correlated| correlated.index(index));
            passed += checked(items, element, trail.index(index), child.as_ref(), matching, errors);
        }
    }
    if let Some(min) = node.checks.min_items.filter(|min| signed(elements.len()) < *min) {
        errors.push_with(|| too_few(trail, elements.len(), min, "items"));
    }
    if let Some(max) = node.checks.max_items.filter(|max| signed(elements.len()) > *max) {
        errors.push_with(|| too_many(trail, elements.len(), max));
    }
    passed
}

fn object(
    node: &Node,
    members: &Map<String, Value>,
    trail: Trail<'_>,
    correlated: Option<&Correlated<'_>>,
    matching: &Matching,
    errors: &mut Errors,
) -> usize {
    let checks = &node.checks;
    if let Some(min) = checks.min_properties.filter(|min| signed(members.len()) < *min) {
        errors.push_with(|| too_few(trail, members.len(), min, "properties"));
    }
    if let Some(max) = checks.max_properties.filter(|max| signed(members.len()) > *max) {
        errors.push_with(|| too_many(trail, members.len(), max));
    }
    let child = |name: &str| correlated.and_then(|correlated| correlated.key(name));
    let mut passed = 0;
    match &node.additional {
        None | Some(Additional::Allowed(true)) => {}
        Some(Additional::Allowed(false)) => {
            for name in members.keys().filter(|name| !node.properties.contains_key(*name)) {
                errors.push_with(|| {
                    let detail = format!("{}.{name} in body is a forbidden property", trail.name());
                    FieldError::invalid(&trail.to_path(), name.as_str(), detail)
                });
            }
        }
        Some(Additional::Schema(schema)) => {
            for (name, member) in members {
                if !node.properties.contains_key(name) {
                    passed +=
                        checked(schema, member, trail.field(name), child(name).as_ref(), matching, errors);
                }
            }
        }
    }
    for (name, schema, member) in stated(node, members) {
        // Old and new are of one kind by construction, so a change of these is invisible.
        let hidden = trail.is_root() && (name == "kind" || name == "apiVersion");
        let child = if hidden { None } else { child(name) };
        passed += checked(schema, member, trail.field(name), child.as_ref(), matching, errors);
    }
    for name in checks.required.iter().filter(|name| !members.contains_key(*name)) {
        errors.push_with(|| FieldError::required(&trail.field(name).to_path(), ""));
    }
    passed
}

/// The members that are properties, in the order of these. Neither does a list of small objects look at all properties for each,
/// nor a small schema at all members.
fn stated<'a>(node: &'a Node, members: &'a Map<String, Value>) -> Vec<(&'a str, &'a Node, &'a Value)> {
    if node.properties.len() <= members.len() {
        let mut found = Vec::new();
        for (name, schema) in &node.properties {
            found.extend(members.get(name).map(|member| (name.as_str(), &**schema, member)));
        }
        return found;
    }
    let found = |(name, member): (&'a String, &'a Value)| {
        node.properties.get(name).map(|schema| (name.as_str(), &**schema, member))
    };
    let mut found: Vec<_> = members.iter().filter_map(found).collect();
    found.sort_unstable_by_key(|(name, ..)| *name);
    found
}

fn enumeration(node: &Node, value: &Value, trail: Trail<'_>, errors: &mut Errors) {
    let enumeration = &node.checks.enumeration;
    if enumeration.refuses(value) {
        errors.push_with(|| {
            FieldError::not_supported(&trail.to_path(), value.clone(), &enumeration.supported())
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Schema;

    /// A pattern of a few characters takes a minute on a text of a megabyte.
    #[test]
    fn alternatives_have_a_budget() {
        for (keyword, minimum) in [("allOf", 0), ("anyOf", 1), ("oneOf", 0)] {
            let alternatives =
                vec![serde_json::json!({"maxItems": 100_000, "items": {"minimum": minimum}}); 3000];
            let schema = Schema::compile(&serde_json::json!({"type": "object", "properties": {
                "a": {"type": "array", "items": {"type": "integer"}, keyword: alternatives},
            }}))
            .unwrap();
            let errors = schema.validate(&serde_json::json!({"a": vec![0; 20_000]}), None);
            let told =
                errors.iter().any(|error| error.detail.contains("too many values for the alternatives"));
            assert!(told, "{keyword}: {:?}", errors.first());
        }
    }

    #[test]
    fn patterns_have_a_budget() {
        let huge = r"\pL{200}x";
        let text = "é1".repeat(500_000);
        let nested = |schema: Value| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"t": schema, "u": {"type": "string"}}}}});
        let string = |more: Value| {
            let mut schema = json!({"type": "string"});
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            nested(schema)
        };
        for schema in [
            string(json!({"pattern": huge})),
            string(json!({"anyOf": [{"pattern": huge}, {"minLength": 1}]})),
            string(json!({"not": {"pattern": huge}})),
            string(json!({"allOf": vec![json!({"pattern": "1$"}); 500]})),
        ] {
            let compiled = Schema::compile(&schema).unwrap();
            let object = json!({"spec": {"t": text}});
            let told = compiled.validate(&object, None);
            let told = told.iter().find(|error| error.detail.starts_with("too much text"));
            assert_eq!(told.map(|error| error.path.to_string()).as_deref(), Some("spec.t"), "{huge}");
            // An object that was stored before this bound can be edited elsewhere, and is matched nowhere.
            let edited = json!({"spec": {"t": text, "u": "new"}, "status": {}});
            assert_eq!(compiled.validate(&edited, Some(&object)), [], "{huge}");
        }
        // The usual ones have room for the longest text of an object.
        let usual =
            string(json!({"pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}));
        let longest = json!({"spec": {"t": "a".repeat(3 << 20)}});
        assert_eq!(Schema::compile(&usual).unwrap().validate(&longest, None), []);
    }
}
