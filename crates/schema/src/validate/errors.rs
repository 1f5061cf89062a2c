//! The errors found so far, and the limit on their number.

use serde_json::Value;

use crate::error::FieldError;
use crate::path::{FieldPath, Segment};
use crate::validate::MOST_TOLD;

/// Errors, and about how many bytes they take: a long key with a hundred thousand mistakes below it, or a list of ten thousand
/// supported values in each, would take far more than anybody reads.
#[derive(Default)]
pub(crate) struct Errors {
    list: Vec<FieldError>,
    bytes: usize,
    /// Number of errors that are only counted.
    counted: Option<usize>,
}

/// Bytes of an error besides its texts: about as much as a short one.
const SHORT: usize = 64;

impl Errors {
    /// Only counts: a `not` and the choice of an alternative need no messages.
    pub(crate) fn counting() -> Self {
        Self { counted: Some(0), ..Self::default() }
    }

    pub(crate) fn counts_only(&self) -> bool {
        self.counted.is_some()
    }

    pub(crate) fn push(&mut self, error: FieldError) {
        self.push_with(|| error);
    }

    /// Adds an error, built only if it is kept.
    pub(crate) fn push_with(&mut self, make: impl FnOnce() -> FieldError) {
        if let Some(counted) = &mut self.counted {
            *counted += 1;
            self.bytes += SHORT;
            return;
        }
        let error = make();
        self.bytes += weight(&error);
        self.list.push(error);
    }

    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    pub(crate) fn len(&self) -> usize {
        self.counted.unwrap_or(self.list.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        if let Some(counted) = &mut self.counted {
            self.bytes -= SHORT * counted.saturating_sub(length);
            *counted = length.min(*counted);
            return;
        }
        self.bytes -= self.list.drain(length..).map(|error| weight(&error)).sum::<usize>();
    }

    /// Returns whether so much was found that no more is looked for.
    pub(crate) fn is_enough(&self) -> bool {
        self.bytes > MOST_TOLD
    }

    pub(crate) fn into_inner(self) -> Vec<FieldError> {
        self.list
    }
}

/// About how many bytes an error takes.
fn weight(error: &FieldError) -> usize {
    SHORT + length(&error.path) + error.detail.len() + error.value.as_ref().map_or(0, of_value)
}

fn length(path: &FieldPath) -> usize {
    let step = |segment: &Segment| match segment {
        Segment::Field(name) | Segment::Key(name) => name.len() + 1,
        Segment::Index(_) => 8,
    };
    path.segments().iter().map(step).sum()
}

fn of_value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 32 + of_value(item)).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| 64 + name.len() + of_value(member)).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Schema;

    /// Whatever it is that makes errors long: the schema, the value, or the way to it.
    #[test]
    fn errors_are_bounded_in_bytes() {
        let names: Vec<String> = (0..10_000).map(|n| format!("supported-{n}")).collect();
        let long = "x".repeat(100_000);
        let items =
            |items: Value| json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}});
        let all: Vec<Value> = (0..2_000).map(|n| json!({"minLength": 200_000 + n})).collect();
        for (schema, item, count) in [
            (items(json!({"type": "string", "enum": names})), json!("a"), 10_000),
            (items(json!({"type": "string", "pattern": "x".repeat(10_000)})), json!("a"), 10_000),
            (items(json!({"type": "string", "allOf": all})), json!(long), 10),
        ] {
            let object = json!({"l": vec![item; count]});
            let schema = Schema::compile(&schema).unwrap();
            let bytes: usize = schema.validate(&object, None).iter().map(weight).sum();
            assert!(bytes > MOST_TOLD && bytes < MOST_TOLD + (1 << 20), "{bytes}");
        }
        // What did not change is forgiven, and does not count.
        let schema = items(json!({"type": "string", "enum": names}));
        let schema = Schema::compile(&schema).unwrap();
        let old = json!({"l": vec!["a"; 1_000]});
        let mut new = old.clone();
        new["l"].as_array_mut().unwrap().push(json!("b"));
        assert!(schema.validate(&old, Some(&old)).is_empty());
        assert!(!schema.validate(&new, Some(&old)).is_empty());
    }

    /// `anyOf` and `not` only count errors: no messages are built, for any number of items.
    #[test]
    fn dropped_errors_have_no_words() {
        let words: Vec<String> = (0..5_000).map(|n| format!("supported-{n}")).collect();
        let refused = json!({"enum": words, "pattern": "x".repeat(10_000)});
        let item =
            json!({"type": "string", "anyOf": [refused, {"minLength": 1}], "not": {"anyOf": [refused]}});
        let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": item}}});
        let schema = Schema::compile(&schema).unwrap();
        let before = crate::validate::enumeration::shown();
        assert_eq!(schema.validate(&json!({"l": vec!["a"; 1_000]}), None), []);
        assert_eq!(crate::validate::enumeration::shown() - before, 0, "words that were made");
        // What is list is list as before, by the best alternative.
        let item = json!({"type": "string", "anyOf": [{"enum": ["b"]}, {"maxLength": 0, "pattern": "b"}]});
        let schema = json!({"type": "object", "properties": {"s": item}});
        let list = Schema::compile(&schema).unwrap().validate(&json!({"s": "a"}), None);
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(list.len(), 2, "{list:?}");
        assert_eq!(list[1], "s: Unsupported value: \"a\": supported values: \"b\"");
    }

    /// A long name is in the path of every mistake below it: of a schema, and of resources in an object.
    #[test]
    fn long_names_are_not_told_for_each_child() {
        let (long, children) = ("n".repeat(1 << 20), 2_000);
        let of =
            |child: Value| -> Value { (0..children).map(|n| (format!("c{n}"), child.clone())).collect() };
        let below = |properties: Value| json!({"type": "object", "properties": {(long.as_str()): {"type": "object", "properties": properties}}});
        for child in [
            json!({}),
            json!({"type": "string", "pattern": "("}),
            json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "string"}}),
            json!({"x-kubernetes-preserve-unknown-fields": false}),
            json!({"type": 5}),
            json!({"type": "string", "default": 5}),
        ] {
            let errors = Schema::compile(&below(of(child.clone()))).err().unwrap();
            let bytes: usize = errors.iter().map(weight).sum();
            assert!(bytes < 4 * MOST_TOLD, "{child}: {bytes}");
        }
        let resources = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
        let map = |of: &Value| json!({"type": "object", "additionalProperties": of});
        let schema =
            Schema::compile(&json!({"type": "object", "properties": {"m": map(&map(&resources))}})).unwrap();
        let errors = schema.validate(&json!({"m": {(long.as_str()): of(json!({}))}}), None);
        let bytes: usize = errors.iter().map(weight).sum();
        assert!(bytes < 4 * MOST_TOLD, "{bytes}");
    }
}
