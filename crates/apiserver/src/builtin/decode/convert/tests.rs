use serde_json::json;

use super::*;
use crate::builtin::resources;

/// Every value at every kind of place; the words are those of kube-apiserver 1.36 (`tests/mismatch.rs` asks it).
#[test]
fn what_fits_and_what_is_said_of_the_rest() {
    let count = |value: Value| ("", "Event", json!({"count": value}));
    let seconds = |value: Value| ("", "Event", json!({"metadata": {"generation": value}}));
    let reason = |value: Value| ("", "Event", json!({"reason": value}));
    let uid = |value: Value| ("", "Event", json!({"metadata": {"uid": value}}));
    let flag = |value: Value| ("", "Secret", json!({"immutable": value}));
    let bytes = |value: Value| ("", "Secret", json!({"data": {"k": value}}));
    let map = |value: Value| ("", "Secret", json!({"stringData": value}));
    let list = |value: Value| ("", "Namespace", json!({"spec": {"finalizers": value}}));
    let part = |value: Value| ("", "Namespace", json!({"spec": value}));
    let time = |value: Value| ("", "Event", json!({"firstTimestamp": value}));
    let schema = |value: Value| {
        let schema = json!({"additionalProperties": value});
        let spec = json!({"versions": [{"schema": {"openAPIV3Schema": schema}}]});
        ("apiextensions.k8s.io", "CustomResourceDefinition", json!({"spec": spec}))
    };
    let refused = [
        (count(json!(1.5)), "cannot convert float64 to int32"),
        (count(json!("1")), "unrecognized type: int32"),
        (count(json!(true)), "unrecognized type: int32"),
        (count(json!([])), "unrecognized type: int32"),
        (seconds(json!(0.1)), "cannot convert float64 to int64"),
        (reason(json!(1)), "cannot convert int64 to string"),
        (reason(json!(1.5)), "unrecognized type: string"),
        (reason(json!(true)), "unrecognized type: string"),
        (reason(json!({})), "unrecognized type: string"),
        (uid(json!(1)), "cannot convert int64 to types.UID"),
        (flag(json!(1)), "unrecognized type: bool"),
        (flag(json!("true")), "unrecognized type: bool"),
        (bytes(json!("?")), "error decoding from json: illegal base64 data at input byte 0"),
        (bytes(json!(1)), "cannot restore slice from int64"),
        (bytes(json!([0.5])), "cannot convert float64 to uint8"),
        (bytes(json!(["x"])), "unrecognized type: uint8"),
        (map(json!([])), "cannot restore map from slice"),
        (map(json!("x")), "cannot restore map from string"),
        (map(json!({"k": 1})), "cannot convert int64 to string"),
        (list(json!({})), "cannot restore slice from map"),
        (list(json!(1.5)), "cannot restore slice from float64"),
        (list(json!([1])), "cannot convert int64 to v1.FinalizerName"),
        (part(json!(true)), "cannot restore struct from: bool"),
        (part(json!([])), "cannot restore struct from: slice"),
        (time(json!(5)), "json: cannot unmarshal number into Go value of type string"),
        (schema(json!("x")), "boolean or JSON schema expected"),
        (
            schema(json!({"maxLength": 1.5})),
            "json: cannot unmarshal number 1.5 into Go struct field JSONSchemaProps.maxLength of type int64",
        ),
    ];
    for ((group, kind, object), expected) in refused {
        let said = convert(group, kind, &mut object.clone()).map_err(|error| error.to_string());
        assert_eq!(said, Err(expected.to_owned()), "{object}");
    }
    let taken = [
        (count(json!(2.0)), count(json!(2))),
        (count(json!(3_000_000_000_u32)), count(json!(-1_294_967_296))),
        (count(json!(1e20)), count(json!(0))),
        (seconds(json!(1e20)), seconds(json!(i64::MIN))),
        (seconds(json!(u64::MAX)), seconds(json!(i64::MIN))),
        (bytes(json!([1, 257.0, null])), bytes(json!("AQEA"))),
        (bytes(json!("")), bytes(json!(""))),
        (reason(Value::Null), reason(Value::Null)),
        (schema(json!(false)), schema(json!(false))),
    ];
    for ((group, kind, object), (_, _, expected)) in taken {
        let mut converted = object.clone();
        assert_eq!(convert(group, kind, &mut converted), Ok(()), "{object}");
        assert_eq!(converted, expected);
    }
}

/// The first one in Go's order, not in that of the body.
#[test]
fn one_mismatch_is_told() {
    let mut secret = json!({"type": 1, "immutable": 1, "data": 1, "metadata": {"labels": 1, "name": 1}});
    for expected in [
        "cannot convert int64 to string",
        "cannot restore map from int64",
        "unrecognized type: bool",
        "cannot restore map from int64",
        "cannot convert int64 to v1.SecretType",
    ] {
        assert_eq!(convert("", "Secret", &mut secret).unwrap_err().to_string(), expected);
        let place = ["/metadata/name", "/metadata/labels", "/immutable", "/data"]
            .into_iter()
            .find(|place| secret.pointer(place).is_some_and(|value| !value.is_null()));
        if let Some(place) = place {
            *secret.pointer_mut(place).unwrap() = Value::Null;
        }
    }
}

/// A field without a place in the order would never be looked at.
#[test]
fn every_field_of_every_kind_has_its_place() {
    fn check(package: Package, definition: &Definition, seen: &mut Vec<(Package, &'static str)>) {
        if seen.contains(&(package, definition.name)) {
            return;
        }
        seen.push((package, definition.name));
        for field in definition.all_fields() {
            let mut order = go::field_order(package, definition);
            assert!(order.any(|name| name == field.name), "{}.{}", definition.name, field.name);
            let mut kind = field.kind;
            while let Type::List(of) | Type::Atomic(of) | Type::Set(of) | Type::Keyed(of, _) | Type::Map(of) =
                kind
            {
                kind = *of;
            }
            if let Type::Of(package, name) = kind {
                check(package, definitions::find(package, name).unwrap(), seen);
            }
        }
    }
    let mut seen = Vec::new();
    for resource in resources() {
        let (package, definition) = definitions::find_kind(&resource.group, &resource.kind).unwrap();
        check(package, definition, &mut seen);
    }
    assert!(seen.len() > 50, "{}", seen.len());
}
