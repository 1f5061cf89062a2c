//! What holds for every schema and every object.

use capt_schema::Schema;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const NAMES: [&str; 6] = ["a", "b", "c-d", "metadata", "kind", "namespace"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-10i64..10).prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no others", |v| v.is_finite()).prop_map(Value::from),
        "[a-z0-9:.\u{e9}-]{0,6}".prop_map(Value::from),
        Just(json!("2024-01-02T03:04:05Z")),
    ]
}

fn object() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn merge(base: &Value, more: Vec<(&str, Value)>) -> Value {
    let mut members: Map<String, Value> = base.as_object().cloned().unwrap_or_default();
    members.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
    Value::Object(members)
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"type": "string", "maxLength": 3, "pattern": "^[a-z]*$"})),
        Just(json!({"type": "string", "format": "date-time"})),
        Just(json!({"type": "string", "enum": ["a", "b"], "nullable": true})),
        Just(json!({"type": "string", "default": "b"})),
        Just(json!({"type": "integer", "minimum": -1, "default": 1})),
        Just(json!({"type": "number", "multipleOf": 0.5})),
        Just(json!({"type": "boolean", "nullable": true, "default": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "string", "anyOf": [{"minLength": 1}, {"not": {"pattern": "x"}}]})),
        Just(
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.size() < 3 || self == oldSelf"}]})
        ),
        Just(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
        ),
    ]
}

/// Structural by construction; a few are refused for other reasons (a rule on an element
/// that uses its old self).
fn schema() -> impl Strategy<Value = Value> {
    let node = leaf().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(&["atomic", "set"][..]), any::<bool>()).prop_map(
                |(items, list_type, nullable)| json!({
                    "type": "array", "items": items, "x-kubernetes-list-type": list_type, "nullable": nullable,
                })
            ),
            (prop::collection::btree_map(name(), inner.clone(), 0..4), any::<bool>(), any::<bool>()).prop_map(
                |(properties, preserve, default)| {
                    let mut more = vec![];
                    if preserve {
                        more.push(("x-kubernetes-preserve-unknown-fields", json!(true)));
                    }
                    if default {
                        more.push(("default", json!({})));
                    }
                    merge(&json!({"type": "object", "properties": properties}), more)
                }
            ),
            inner.prop_map(|values| json!({"type": "object", "additionalProperties": values})),
        ]
    });
    node.prop_map(|spec| json!({"type": "object", "properties": {"spec": spec}}))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn pruning_twice_is_pruning_once(schema in schema(), spec in object()) {
        if let Ok(schema) = Schema::compile(&schema) {
            let mut object = json!({"spec": spec, "other": 1});
            let before = schema.unknown_fields(&object);
            prop_assert_eq!(&schema.prune(&mut object), &before);
            let once = object.clone();
            prop_assert!(schema.prune(&mut object).is_empty());
            prop_assert!(schema.unknown_fields(&object).is_empty());
            prop_assert_eq!(object, once);
        }
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(schema in schema(), spec in object()) {
        if let Ok(schema) = Schema::compile(&schema) {
            let mut object = json!({"spec": spec});
            schema.default(&mut object).unwrap();
            let once = object.clone();
            schema.default(&mut object).unwrap();
            prop_assert_eq!(object, once);
        }
    }

    #[test]
    fn validation_ends_and_forgives_what_is_unchanged(schema in schema(), spec in object(), old in object()) {
        if let Ok(schema) = Schema::compile(&schema) {
            let (new, old) = (json!({"spec": spec}), json!({"spec": old}));
            let created = schema.validate(&new, None);
            schema.validate(&new, Some(&old));
            let unchanged = schema.validate(&new, Some(&new));
            prop_assert!(unchanged.len() <= created.len() + 1, "{:?} {:?}", created, unchanged);
            for error in &created {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn any_json_compiles_or_is_refused(schema in object()) {
        let _ = Schema::compile(&schema);
        let _ = Schema::compile(&json!({"type": "object", "properties": {"spec": schema}}));
    }

    #[test]
    fn any_rule_compiles_or_is_refused(rule in "[a-z0-9.()\\[\\]{}?:&|!<>=+*/%,'\" _-]{0,40}") {
        let _ = Schema::compile(&json!({
            "type": "object",
            "x-kubernetes-validations": [{"rule": rule}],
            "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
        }));
    }

    #[test]
    fn any_pattern_compiles_or_is_refused(pattern in "[a-z0-9.()\\[\\]{}?:&|!<>=+*^$,\\\\dwsQE-]{0,20}", text in ".{0,10}") {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "string", "pattern": pattern}}});
        if let Ok(schema) = Schema::compile(&schema) {
            schema.validate(&json!({"spec": text}), None);
        }
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let mut schema = json!({"type": "string"});
    for _ in 0..5_000 {
        let properties = Map::from_iter([("a".to_owned(), schema)]);
        schema = Value::Object(Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), Value::Object(properties)),
        ]));
    }
    assert!(Schema::compile(&schema).is_err());
    // The standard drop of so deep a value recurses, which a test's small stack may not bear.
    std::mem::forget(schema);
    for rule in [
        format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000)),
        format!("{}true", "!".repeat(5_000)),
        format!("self{}", ".a".repeat(5_000)),
        format!("1{} > 0", " + 1".repeat(5_000)),
        format!("{}true", "true ? true : ".repeat(5_000)),
        format!("{}1{} == []", "[".repeat(5_000), "]".repeat(5_000)),
    ] {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
        let result = Schema::compile(&schema);
        assert!(result.is_err() || rule.starts_with('!'), "{}", &rule[..20]);
    }
    let long = format!("true{}", " && true".repeat(5_000));
    assert!(
        Schema::compile(&json!({"type": "object", "x-kubernetes-validations": [{"rule": long}]})).is_ok()
    );
}

#[test]
fn a_rule_that_runs_away_is_stopped() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {"n": {
        "type": "array",
        "maxItems": 1000,
        "items": {"type": "integer"},
        "x-kubernetes-validations": [
            {"rule": "self.all(x, self.all(y, x == y))", "message": "all the same"},
            {"rule": "self.size() < 0", "message": "never reached"},
        ],
    }}}))
    .expect("its worst case is within the limit of a schema");
    let said = |count: usize| -> Vec<String> {
        let object = json!({"n": vec![1; count]});
        schema.validate(&object, None).iter().map(ToString::to_string).collect()
    };
    assert_eq!(said(400), ["n: Invalid value: never reached"]);
    assert_eq!(
        said(450),
        [
            "n: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules \
          will be run due to call cost exceeds limit for rule: all the same"
        ]
    );
}

#[test]
fn a_schema_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Schema>();
    shared::<capt_schema::FieldError>();
}
