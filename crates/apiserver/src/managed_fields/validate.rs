//! Whether a value fits its type, as far as merging needs it to.
//!
//! Schema validation proper is elsewhere and says more; this finds what would make merging ambiguous: unknown
//! fields, values of another JSON type, items without keys, and duplicates.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use super::{
    element::PathElement,
    item::element_of,
    misfit::Misfits,
    text,
    types::{Handle, ListType, MapType, Scalar, TypeId, TypeInfo},
};

/// The treatment of items with the same key. Live objects may have them: they were stored before the list
/// had keys, or by writers that are not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// They are not looked for.
    Allowed,
    /// They are misfits.
    Refused,
}

/// Checks `value` against its type.
pub fn validate(value: &Value, types: &TypeInfo, duplicates: Duplicates) -> Result<(), Misfits> {
    let mut walk = Walk { types, duplicates, trail: Vec::new(), found: Misfits::default() };
    walk.value(value, types.root());
    if walk.found.is_empty() { Ok(()) } else { Err(walk.found) }
}

struct Walk<'a> {
    types: &'a TypeInfo,
    duplicates: Duplicates,
    /// The path of the walk; texts are built only for errors.
    trail: Vec<Step<'a>>,
    found: Misfits,
}

enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Element(PathElement),
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Element(element) => element.fmt(f),
        }
    }
}

impl<'a> Walk<'a> {
    fn report(&mut self, message: impl FnOnce() -> String) {
        self.found.add(&self.trail, message);
    }

    fn misfit(&mut self, expected: &str, value: &Value) {
        self.report(|| format!("expected {expected}, got &{{{}}}", text::in_message(value)));
    }

    fn value(&mut self, value: &'a Value, of: TypeId) {
        match (self.types.atom(of).of(value), value) {
            (_, Value::Null) => {}
            (Handle::Map(map), Value::Object(members)) => self.members(members, map),
            (Handle::List(list), Value::Array(items)) => self.items(items, list),
            (Handle::Scalar(scalar), _) => self.scalar(value, scalar),
            (Handle::Map(_), _) => self.misfit("map", value),
            (Handle::List(_), _) => self.misfit("list", value),
        }
    }

    fn scalar(&mut self, value: &Value, scalar: Scalar) {
        match (scalar, value) {
            (Scalar::Numeric, Value::Number(_))
            | (Scalar::String, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => {}
            (Scalar::Numeric, _) => {
                self.report(|| format!("expected numeric (int or float), got {}", text::type_name(value)));
            }
            (Scalar::String, _) => self.report(|| {
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", text::literal(value))
            }),
            (Scalar::Boolean, _) => self.misfit("boolean", value),
            (Scalar::Untyped, _) => self.misfit("any scalar", value),
        }
    }

    fn members(&mut self, members: &'a serde_json::Map<String, Value>, map: &MapType) {
        for (name, member) in members {
            self.trail.push(Step::Field(name));
            match map.member(name) {
                Some(of) => self.value(member, of),
                None => self.report(|| "field not declared in schema".to_owned()),
            }
            self.trail.pop();
        }
    }

    fn items(&mut self, items: &'a [Value], list: &ListType) {
        let mut seen: BTreeSet<PathElement> = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let step = if list.is_atomic() {
                Step::Index(index)
            } else {
                let element = match element_of(self.types, list, item) {
                    Ok(element) => element,
                    Err(error) => return self.report(|| format!("element {index}: {error}")),
                };
                if self.duplicates == Duplicates::Refused && !seen.insert(element.clone()) {
                    self.report(|| format!("duplicate entries for key {element}"));
                }
                Step::Element(element)
            };
            self.trail.push(step);
            self.value(item, list.items);
            self.trail.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words() {
        let types = TypeInfo::from_crd_schema(&json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "number": {"type": "integer"},
                "yes": {"type": "boolean"},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "list": {"type": "array", "items": {"type": "integer"}},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {"type": "object", "properties": {
                        "port": {"type": "integer"}, "protocol": {"type": "string"}, "name": {"type": "string"},
                    }},
                },
            },
        }}}))
        .unwrap();
        for (spec, expected) in [
            (json!({"other": 1}), ".spec.other: field not declared in schema"),
            (json!({"text": 1}), ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
            (json!({"number": "1"}), ".spec.number: expected numeric (int or float), got string"),
            (json!({"yes": "no"}), ".spec.yes: expected boolean, got &{no}"),
            (json!({"map": []}), ".spec.map: expected map, got &{[]}"),
            (
                json!({"map": {"a": {}}}),
                ".spec.map.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{}}",
            ),
            (json!({"set": {"a": 1}}), ".spec.set: expected list, got &{map[a:1]}"),
            (json!({"set": ["a", "a"]}), ".spec.set: duplicate entries for key [=\"a\"]"),
            (
                json!({"set": [null]}),
                ".spec.set: element 0: associative list without keys has an element that's an explicit null",
            ),
            (json!({"list": [1, "a"]}), ".spec.list[1]: expected numeric (int or float), got string"),
            (json!({"ports": [{"port": 1}, {"port": 1}]}), ".spec.ports: duplicate entries for key [port=1]"),
            (
                json!({"ports": [{"name": "a"}]}),
                ".spec.ports: element 0: associative list with keys has an element that omits all key fields \
                 [\"port\" \"protocol\"] (and doesn't have default values for any key fields)",
            ),
            (
                json!({"text": 1, "set": ["a", "a"]}),
                "errors:\n  .spec.text: expected string, got &value.valueUnstructured{Value:1}\n  .spec.set: duplicate entries for key [=\"a\"]",
            ),
        ] {
            let error = validate(&json!({"spec": spec}), &types, Duplicates::Refused).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let fine = json!({"spec": {"text": null, "map": null, "set": null, "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}});
        assert_eq!(validate(&fine, &types, Duplicates::Refused), Ok(()));
        assert_eq!(validate(&json!({"spec": {"set": ["a", "a"]}}), &types, Duplicates::Allowed), Ok(()));
    }
}
