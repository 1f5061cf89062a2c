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
            }, "size": {"type": "integer", "nullable": true, "default": 1}}}},
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
    let two = document_v2(&resources());
    let schema = &two["definitions"]["com.example.v1.Widget"];
    assert_eq!(schema["properties"]["size"], json!({}));
    assert_eq!(
        schema["properties"]["spec"],
        json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
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
