//! Verdicts and words of a real API server, recorded; see `golden/README.md`.

use capt_schema::{FieldError, Schema};
use serde_json::{Value, json};

fn shown<'a>(errors: impl IntoIterator<Item = &'a FieldError>) -> Vec<Value> {
    sorted(errors.into_iter().map(|e| json!([e.path.to_string(), e.reason(), e.body()])).collect())
}

/// The order of errors follows that of a Go map, so it is none.
fn sorted(mut errors: Vec<Value>) -> Vec<Value> {
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn expected(case: &Value, key: &str) -> Vec<Value> {
    sorted(case.get(key).and_then(Value::as_array).cloned().unwrap_or_default())
}

fn cases(recorded: &str) -> Vec<Value> {
    serde_json::from_str(recorded).expect("the recording is JSON")
}

fn prepare(schema: &Schema, object: &Value) -> (Value, Vec<String>) {
    let mut object = object.clone();
    let unknown = schema.prune(&mut object).iter().map(|unknown| unknown.path.to_string()).collect();
    schema.default(&mut object).expect("few defaults");
    (object, unknown)
}

/// As Go writes JSON: a whole number has no fraction.
fn encoded(value: &Value) -> Value {
    match value {
        Value::Array(elements) => elements.iter().map(encoded).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), encoded(value))).collect()
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole and small in these recordings")]
        Value::Number(number) => match number.as_f64() {
            Some(double) if double.fract() == 0.0 && double.abs() < 1e15 => json!(double as i64),
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

fn check_case(case: &Value) {
    let schema = match Schema::compile(&case["schema"]) {
        Ok(schema) => {
            assert_eq!(expected(case, "refused"), Vec::<Value>::new(), "{}", case["schema"]);
            schema
        }
        Err(errors) => {
            assert_eq!(shown(&errors), expected(case, "refused"), "{}", case["schema"]);
            return;
        }
    };
    for object in case["objects"].as_array().expect("objects are listed") {
        let (new, unknown) = prepare(&schema, &object["new"]);
        let old = object.get("old").map(|old| prepare(&schema, old).0);
        let errors = schema.validate(&new, old.as_ref());
        let context = format!("{} on {object}", case["schema"]);
        assert_eq!(shown(&errors), expected(object, "errors"), "{context}");
        if let Some(stored) = object.get("stored") {
            assert_eq!(&encoded(&new), stored, "{context}");
        }
        if old.is_none() {
            let dropped: Vec<Value> = unknown.into_iter().map(Value::from).collect();
            assert_eq!(dropped, expected(object, "unknown"), "{context}");
        }
    }
}

#[test]
fn values() {
    cases(include_str!("golden/values.json")).iter().for_each(check_case);
}

#[test]
fn schemas() {
    cases(include_str!("golden/schemas.json")).iter().for_each(check_case);
}

#[test]
fn updates() {
    cases(include_str!("golden/updates.json")).iter().for_each(check_case);
}

fn with_rule(properties: &Value, rule: &str) -> Value {
    json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": properties,
        "x-kubernetes-validations": [{"rule": rule, "message": "no"}],
    }}})
}

#[test]
fn costs() {
    let recorded: Value = serde_json::from_str(include_str!("golden/costs.json")).expect("JSON");
    for case in recorded["rules"].as_array().expect("rules are listed") {
        let rule = case["rule"].as_str().expect("a rule is text");
        let refused = Schema::compile(&with_rule(&recorded["properties"], rule)).err().unwrap_or_default();
        assert_eq!(shown(&refused), expected(case, "refused"), "{rule}");
    }
    recorded["schemas"].as_array().expect("schemas are listed").iter().for_each(check_case);
}

#[test]
fn rules() {
    let recorded: Value = serde_json::from_str(include_str!("golden/rules.json")).expect("JSON");
    for case in recorded["rules"].as_array().expect("rules are listed") {
        let rule = case["rule"].as_str().expect("a rule is text");
        let schema = match Schema::compile(&with_rule(&recorded["properties"], rule)) {
            Ok(schema) => schema,
            Err(errors) => {
                assert_eq!(shown(&errors), expected(case, "refused"), "{rule}");
                continue;
            }
        };
        assert!(case.get("refused").is_none(), "{rule} should be refused");
        if case.get("errors").is_none() {
            continue;
        }
        let (object, _) = prepare(&schema, &json!({"spec": recorded["spec"]}));
        let errors = schema.validate(&object, None);
        assert_eq!(shown(&errors), expected(case, "errors"), "{rule}");
        if errors.is_empty() {
            negated_is_violated(&recorded["properties"], rule, &object);
        }
    }
}

/// A rule that holds must hold for its own sake.
fn negated_is_violated(properties: &Value, rule: &str, object: &Value) {
    let negated = format!("!({rule}\n)");
    let schema = Schema::compile(&with_rule(properties, &negated)).expect("its negation compiles");
    let errors: Vec<String> = schema.validate(object, None).iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["spec: Invalid value: no"], "{negated}");
}
