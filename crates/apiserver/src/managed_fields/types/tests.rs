use serde_json::json;

use super::*;

#[test]
fn every_object_has_typed_metadata() {
    let types = TypeInfo::from_crd_schema(&json!({
        "type": "object",
        "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}},
    }))
    .unwrap();
    let root = types.atom(types.root()).map.as_ref().unwrap();
    assert!(root.rest.is_none());
    let metadata = types.atom(root.field("metadata").unwrap().of).map.as_ref().unwrap();
    let finalizers = types.atom(metadata.field("finalizers").unwrap().of).list.as_ref().unwrap();
    assert!(matches!(finalizers.relation, ListRelation::Set));
    assert_eq!(
        metadata.field("ownerReferences").unwrap().patch.as_ref().unwrap().merge_key.as_deref(),
        Some("uid")
    );
}

#[test]
fn unknown_fields_are_kept_below_the_extension() {
    let types = TypeInfo::from_crd_schema(&json!({
        "type": "object",
        "properties": {"spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"inner": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }},
    }))
    .unwrap();
    let root = types.atom(types.root()).map.as_ref().unwrap();
    let spec = types.atom(root.field("spec").unwrap().of).map.as_ref().unwrap();
    let inner = types.atom(spec.field("inner").unwrap().of).map.as_ref().unwrap();
    assert_eq!((spec.rest, inner.rest), (Some(DEDUCED), Some(DEDUCED)));
}

#[test]
fn definitions_may_be_recursive_and_overridden() {
    let definitions = json!({
        "Tree": {"type": "object", "properties": {
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
            "fixed": {"allOf": [{"$ref": "#/components/schemas/Leaf"}], "x-kubernetes-map-type": "atomic"},
            "loose": {"$ref": "#/components/schemas/Leaf"},
        }},
        "Leaf": {"type": "object", "properties": {"a": {"type": "string"}}},
    });
    let types = TypeInfo::from_definitions(definitions.as_object().unwrap(), "Tree").unwrap();
    let root = types.atom(types.root()).map.as_ref().unwrap();
    let children = types.atom(root.field("children").unwrap().of).list.as_ref().unwrap();
    assert_eq!(children.items, types.root());
    assert!(types.atom(root.field("fixed").unwrap().of).map.as_ref().unwrap().atomic);
    assert!(!types.atom(root.field("loose").unwrap().of).map.as_ref().unwrap().atomic);
}

#[test]
fn errors() {
    for (schema, expected) in [
        (json!({"type": "thing"}), "unrecognized type: 'thing'"),
        (json!({"type": "array"}), "`items` must be specified on arrays"),
        (json!({"type": "object", "x-kubernetes-map-type": "x"}), "unknown map type x"),
        (json!({"$ref": "#/x/Y"}), "no definition Y"),
    ] {
        let error = TypeInfo::from_crd_schema(&schema).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
