use serde_json::json;

use super::*;
use crate::{builtin, resource::crd};

fn resources() -> Vec<Arc<Resource>> {
    let crd = json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
        "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            }, "size": {"type": "integer", "nullable": true, "default": 1},
            "port": {"x-kubernetes-int-or-string": true},
            "small": {"x-kubernetes-int-or-string": true, "anyOf": [{"maximum": 3}]},
            "said": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}},
        }],
    }});
    let mut resources = builtin::resources();
    resources.extend(builtin::virtual_resources());
    resources.push(Arc::new(crd::resource(&crd).unwrap()));
    resources
}

#[test]
fn every_patch_knows_field_validation_and_its_kind() {
    for (path, group, version) in documents(&resources()) {
        let document = document(&group, &version, &resources()).unwrap();
        for (target, entry) in document["paths"].as_object().unwrap() {
            let Some(patch) = entry.get("patch") else { continue };
            let parameters = patch["parameters"].as_array().unwrap();
            let knows = |name: &str| parameters.iter().any(|it| it["name"] == name && it["in"] == "query");
            assert!(knows("fieldValidation") && knows("dryRun") && knows("force"), "{path} {target}");
            assert_eq!(patch["x-kubernetes-group-version-kind"]["group"], group.as_str(), "{path} {target}");
        }
    }
}

#[test]
fn every_reference_of_a_document_is_in_it() {
    fn check(value: &Value, prefix: &str, known: &Map<String, Value>) {
        match value {
            Value::Object(members) => {
                if let Some(target) = members.get("$ref").and_then(Value::as_str) {
                    assert!(
                        target.strip_prefix(prefix).is_some_and(|name| known.contains_key(name)),
                        "{target}"
                    );
                }
                members.values().for_each(|member| check(member, prefix, known));
            }
            Value::Array(elements) => elements.iter().for_each(|element| check(element, prefix, known)),
            _ => {}
        }
    }
    let resources = resources();
    for (_, group, version) in documents(&resources) {
        let mut document = document(&group, &version, &resources).unwrap();
        let known = document["components"]["schemas"].as_object().unwrap().clone();
        // A schema may have a member of that name.
        document["components"]["schemas"]
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !name.ends_with("JSONSchemaProps"));
        check(&document, builtin::REFERENCE_PREFIX, &known);
    }
    let mut document = document_v2(&resources);
    let known = document["definitions"].as_object().unwrap().clone();
    document["definitions"].as_object_mut().unwrap().retain(|name, _| !name.ends_with("JSONSchemaProps"));
    check(&document, "#/definitions/", &known);
}

#[test]
fn a_custom_resource_is_completed() {
    let document = document("example.com", "v1", &resources()).unwrap();
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(schema["properties"]["metadata"]["allOf"][0]["$ref"], meta);
    assert_eq!(schema["properties"]["spec"]["properties"]["metadata"]["allOf"][0]["$ref"], meta);
    assert_eq!(schema["properties"]["spec"]["required"], json!(["kind", "apiVersion"]));
    assert_eq!(
        schema["x-kubernetes-group-version-kind"],
        json!([{"group": "example.com", "kind": "Widget", "version": "v1"}])
    );
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    assert_eq!(schema["properties"]["port"], json!({"x-kubernetes-int-or-string": true, "anyOf": either}));
    assert_eq!(schema["properties"]["said"], schema["properties"]["port"]);
    assert_eq!(
        schema["properties"]["small"],
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"maximum": 3}], "allOf": [{"anyOf": either}]})
    );
    let two = document_v2(&resources());
    let schema = &two["definitions"]["com.example.v1.Widget"];
    assert_eq!(schema["properties"]["port"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(schema["properties"]["size"], json!({}));
    assert_eq!(
        schema["properties"]["spec"],
        json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
    );
}

/// A kind whose root takes anything is an object to clients of version 2, and described as ever in version 3.
#[test]
fn what_is_open_at_its_root_is_an_object() {
    let version = |name: &str, schema: &Value| json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}});
    let open = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": "Anything.",
        "required": ["spec"], "properties": {"spec": {"type": "string"}},
    });
    let crd = json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "bags", "kind": "Bag", "singular": "bag", "listKind": "BagList"},
        "versions": [version("v1", &open), version("v2", &Value::Null)],
    }});
    let resources = [Arc::new(crd::resource(&crd).unwrap())];
    let two = document_v2(&resources);
    for version in ["v1", "v2"] {
        let kinds = json!([{"group": "example.com", "kind": "Bag", "version": version}]);
        assert_eq!(
            two["definitions"][format!("com.example.{version}.Bag")],
            json!({"type": "object", "x-kubernetes-group-version-kind": kinds})
        );
        let three = document("example.com", version, &resources).unwrap();
        let schema = &three["components"]["schemas"][format!("com.example.{version}.Bag")];
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["properties"]["kind"]["type"], "string");
    }
}

#[test]
fn version_two_leaves_open_what_it_cannot_say() {
    for (three, two) in [
        (json!({"type": "string", "nullable": true, "enum": ["a"]}), json!({"enum": ["a"]})),
        (
            json!({"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "string"}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        (json!({"type": "array"}), json!({})),
        (
            json!({"type": "object", "nullable": true, "additionalProperties": {"type": "array", "items": {"type": "string"}}}),
            json!({"additionalProperties": {"type": "array", "items": {"type": "string"}}}),
        ),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "nullable": true}}}),
            json!({"type": "object", "properties": {"a": {}}}),
        ),
        (
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
            json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
    ] {
        assert_eq!(v2::schema(&three), two, "{three}");
    }
}

/// `kubectl explain` shows the sentences that people know, of every kind and list and of objects within others.
#[test]
fn what_every_object_has_is_described_as_in_kubernetes() {
    let texts = |about: &str| {
        let mut found = std::collections::BTreeSet::new();
        for (_, group, version) in documents(&resources()) {
            let document = document(&group, &version, &resources()).unwrap();
            for schema in document["components"]["schemas"].as_object().unwrap().values() {
                let is_kind = schema.get("x-kubernetes-group-version-kind").is_some();
                found.extend(
                    is_kind
                        .then(|| schema["properties"][about]["description"].as_str().map(str::to_owned))
                        .flatten(),
                );
            }
        }
        found.into_iter().collect::<Vec<_>>()
    };
    let conventions =
        "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    assert_eq!(
        texts("apiVersion"),
        [format!(
            "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized \
         schemas to the latest internal value, and may reject unrecognized values. {conventions}#resources"
        )]
    );
    assert_eq!(
        texts("kind"),
        [format!(
            "Kind is a string value representing the REST resource this object represents. Servers may infer this from the \
         endpoint the client submits requests to. Cannot be updated. In CamelCase. {conventions}#types-kinds"
        )]
    );
    let document = document("example.com", "v1", &resources()).unwrap();
    let inner =
        &document["components"]["schemas"]["com.example.v1.Widget"]["properties"]["spec"]["properties"];
    assert_eq!(
        inner["kind"]["description"],
        format!(
            "kind is a string value representing the type of this object. In CamelCase. {conventions}#types-kinds"
        )
    );
}

#[test]
fn the_index_leads_to_documents_by_their_content() {
    let (index, documents) = all(&resources());
    let (path, hash, document) = &documents[0];
    assert_eq!(path, "api/v1");
    assert_eq!(index["paths"]["api/v1"]["serverRelativeURL"], format!("/openapi/v3/api/v1?hash={hash}"));
    assert_eq!(*hash, content_hash(document));
    assert_eq!(index["paths"].as_object().unwrap().len(), documents.len());
    assert_eq!(self::document("nobody.example.com", "v1", &resources()), None);
}
