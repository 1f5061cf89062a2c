use serde_json::json;

use super::*;

fn types() -> TypeInfo {
    let definitions = json!({"Node": {"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        }},
        "spec": {"type": "object", "properties": {
            "taints": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object", "properties": {"key": {"type": "string"}}}},
            "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {"type": {"type": "string"}, "rolling": {"type": "object"}}},
            "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace", "properties": {"a": {"type": "string"}}},
        }},
        "status": {"type": "object", "properties": {"conditions": {
            "type": "array",
            "items": {"type": "object", "properties": {
                "type": {"type": "string"}, "status": {"type": "string"}, "message": {"type": "string"},
            }},
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "type",
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        }}},
    }}});
    TypeInfo::from_definitions(definitions.as_object().unwrap(), "Node").unwrap()
}

#[test]
fn merges() {
    let conditions = |items: Value| json!({"status": {"conditions": items}});
    let finalizers = |items: Value| json!({"metadata": {"finalizers": items}});
    for (object, patch, expected) in [
        // Maps, nulls and directives.
        (
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
            json!({"metadata": {"labels": {"a": null, "c": "3"}}}),
            json!({"metadata": {"labels": {"b": "2", "c": "3"}}}),
        ),
        (
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
            json!({"metadata": {"labels": {"c": "3"}}}),
        ),
        (
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
            json!({"metadata": {"labels": {}}}),
        ),
        (json!({}), json!({"metadata": {"labels": {"a": null}}}), json!({"metadata": {"labels": {}}})),
        (json!({}), json!({"spec": {"$patch": "delete"}}), json!({})),
        (
            json!({"spec": {"whole": {"a": "1"}}}),
            json!({"spec": {"whole": {}}}),
            json!({"spec": {"whole": {}}}),
        ),
        (
            json!({"spec": {"strategy": {"type": "a", "rolling": {}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "b"}}}),
            json!({"spec": {"strategy": {"type": "b"}}}),
        ),
        // Lists.
        (
            json!({"spec": {"taints": [{"key": "a"}]}}),
            json!({"spec": {"taints": [{"key": "b"}]}}),
            json!({"spec": {"taints": [{"key": "b"}]}}),
        ),
        (
            conditions(json!([{"type": "A", "status": "1"}, {"type": "B"}])),
            conditions(json!([{"type": "B", "status": "2"}, {"type": "C"}])),
            conditions(json!([{"type": "A", "status": "1"}, {"type": "B", "status": "2"}, {"type": "C"}])),
        ),
        (
            conditions(json!([{"type": "A"}, {"type": "B"}])),
            conditions(json!([{"$patch": "delete", "type": "A"}])),
            conditions(json!([{"type": "B"}])),
        ),
        (
            conditions(json!([{"type": "A"}])),
            conditions(json!([{"type": "B"}, {"$patch": "replace"}])),
            conditions(json!([{"type": "B"}])),
        ),
        (
            conditions(json!([{"type": "A"}, {"type": "B"}, {"type": "C"}])),
            json!({"status": {"$setElementOrder/conditions": [{"type": "C"}, {"type": "A"}], "conditions": [{"type": "A", "status": "1"}]}}),
            conditions(json!([{"type": "B"}, {"type": "C"}, {"type": "A", "status": "1"}])),
        ),
        (finalizers(json!(["a", "b"])), finalizers(json!(["c", "b"])), finalizers(json!(["c", "a", "b"]))),
        (
            finalizers(json!(["a", "b"])),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            finalizers(json!(["b"])),
        ),
        (
            finalizers(json!(["a", "b"])),
            json!({"metadata": {"$setElementOrder/finalizers": ["b", "a"]}}),
            finalizers(json!(["b", "a"])),
        ),
    ] {
        let mut object = object;
        strategic_merge_patch(&mut object, &mut patch.clone(), &types()).unwrap();
        assert_eq!(object, expected, "{patch}");
    }
}

#[test]
fn words() {
    for (patch, code, expected) in [
        (json!([]), 400, "invalid JSON document"),
        (json!({"status": {"$patch": "merge"}}), 500, "unknown patch type: merge in map: map[$patch:merge]"),
        (
            json!({"status": {"conditions": [{"status": "1"}]}}),
            500,
            "map: map[status:1] does not contain declared merge key: type",
        ),
        (json!({"status": {"$retainKeys": "x"}}), 400, "invalid patch format of retainKeys"),
        (
            json!({"status": {"$retainKeys": ["x"], "conditions": []}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (json!({"status": {"$deleteFromPrimitiveList": []}}), 400, "invalid patch format of primitive list"),
        (json!({"status": {"$setElementOrder": []}}), 400, "invalid patch format of setElementOrder list"),
        (
            json!({"status": {"conditions": ["a"]}}),
            500,
            "list element types are not identical: [[map[type:A]] [a]]",
        ),
        (
            json!({"status": {"$setElementOrder/conditions": [{"type": "B"}], "conditions": [{"type": "A"}]}}),
            500,
            "The order in patch list:\n[map[type:A]]\n doesn't match $setElementOrder list:\n[map[type:B]]\n",
        ),
    ] {
        let mut object = json!({"status": {"conditions": [{"type": "A"}]}});
        let error = strategic_merge_patch(&mut object, &mut patch.clone(), &types()).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, expected));
    }
}

/// Each item of a key works on what the one before left, and all of them together on so much.
#[test]
fn items_of_one_key_are_bounded() {
    let merged = |count: usize, length: usize| {
        let mut object = json!({"status": {"conditions": [{"type": "A", "message": "x".repeat(length)}]}});
        let item = |n: usize| json!({"type": "A", "status": n.to_string(), "message": null});
        let items: Vec<Value> = (0..count).map(item).collect();
        let first = json!({"type": "A", "reason": "x".repeat(length)});
        let items: Vec<Value> = std::iter::once(first).chain(items).collect();
        let mut patch = json!({"status": {"conditions": items}});
        strategic_merge_patch(&mut object, &mut patch, &types()).map(|()| object)
    };
    let expected = json!({"status": {"conditions": [{"type": "A", "reason": "xx", "status": "999"}]}});
    assert_eq!(merged(1_000, 2), Ok(expected));
    assert_eq!(merged(1_000, 100_000), Err(StrategicError::TooLarge));
    assert_eq!(StrategicError::TooLarge.code(), 413);
}

/// Messages show what is left of a patch once it was carried out.
#[test]
fn what_was_carried_out_is_not_shown() {
    let object = json!({
        "metadata": {"labels": {"a": "1"}, "finalizers": ["a"]},
        "spec": {"strategy": {"type": "a"}},
        "status": {"conditions": [{"type": "A", "status": "1"}]},
    });
    for (patch, rest) in [
        (json!({"$patch": "replace", "kind": "Node"}), json!({"kind": "Node"})),
        (
            json!({"metadata": {"labels": {"b": null, "$patch": "replace"}}}),
            json!({"metadata": {"labels": {"b": null}}}),
        ),
        (
            json!({"metadata": {"$setElementOrder/finalizers": ["b", "a"], "finalizers": ["b"], "name": "x"}}),
            json!({"metadata": {"name": "x"}}),
        ),
        (json!({"metadata": {"$setElementOrder/finalizers": ["a"]}}), json!({"metadata": {}})),
        (
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "b"}}}),
            json!({"spec": {"strategy": {"type": "b"}}}),
        ),
        // Nothing is there to delete.
        (json!({"spec": {"whole": {"a": null, "b": "x"}}}), json!({"spec": {"whole": {"b": "x"}}})),
        (json!({"spec": {"whole": {"in": {"$patch": "delete"}}}}), json!({"spec": {"whole": {}}})),
        // Something is, or it is an item: these stay.
        (json!({"metadata": {"labels": {"a": null}}}), json!({"metadata": {"labels": {"a": null}}})),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
        ),
        (
            json!({"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}),
            json!({"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}),
        ),
    ] {
        let mut left = patch.clone();
        strategic_merge_patch(&mut object.clone(), &mut left, &types()).unwrap();
        assert_eq!(left, rest, "{patch}");
    }
}
