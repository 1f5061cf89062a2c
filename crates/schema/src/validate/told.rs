//! What was found so far, and whether that is enough.

use serde_json::Value;

use crate::error::FieldError;
use crate::path::{FieldPath, Segment};
use crate::validate::MOST_TOLD;

/// Errors, and about how many bytes they take: a long key with a hundred thousand mistakes below it, or a list of ten thousand
/// supported values in each, would take far more than anybody reads.
#[derive(Default)]
pub(crate) struct Errors {
    errors: Vec<FieldError>,
    bytes: usize,
}

impl Errors {
    pub(crate) fn push(&mut self, error: FieldError) {
        self.bytes += weight(&error);
        self.errors.push(error);
    }

    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    pub(crate) fn len(&self) -> usize {
        self.errors.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes -= self.errors.drain(length..).map(|error| weight(&error)).sum::<usize>();
    }

    /// Whether so much was found that no more is looked for.
    pub(crate) fn is_enough(&self) -> bool {
        self.bytes > MOST_TOLD
    }

    pub(crate) fn into_inner(self) -> Vec<FieldError> {
        self.errors
    }
}

/// About how many bytes an error takes. What it takes besides its texts is about as much as a short one.
fn weight(error: &FieldError) -> usize {
    64 + length(&error.path) + error.detail.len() + error.value.as_ref().map_or(0, of_value)
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
