use capt_schema::Schema;
use serde_json::json;

use super::*;

fn all() -> Vec<Arc<Resource>> {
    resources().into_iter().chain(virtual_resources()).collect()
}

#[test]
fn every_kind_has_a_definition_and_a_structural_schema() {
    for resource in all() {
        let name = definition_name(&resource.group, &resource.kind).unwrap();
        assert!(definitions().contains_key(&name), "{name}");
        let version = &resource.versions[0];
        let schema = Schema::compile(&version.open_api);
        assert!(schema.is_ok(), "{}: {:?}", resource.kind, schema.err());
        let fields = field_kind(&resource.group, &resource.kind);
        assert!(fields.is_ok(), "{}: {:?}", resource.kind, fields.err());
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn check(value: &Value) {
        if let Some(name) = structural::reference(value) {
            assert!(definitions().contains_key(name), "{name}");
        }
        match value {
            Value::Object(members) => members.values().for_each(check),
            Value::Array(elements) => elements.iter().for_each(check),
            _ => {}
        }
    }
    definitions().values().for_each(check);
}

#[test]
fn the_schema_finds_unknown_fields_and_wrong_types() {
    let resources = all();
    let schema = |kind: &str| {
        let resource = resources.iter().find(|resource| resource.kind == kind).unwrap();
        Schema::compile(&resource.versions[0].open_api).unwrap()
    };
    let role = json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "verb": "x"}], "spec": {}});
    let unknown: Vec<String> =
        schema("Role").unknown_fields(&role).iter().map(|field| field.path.to_string()).collect();
    assert_eq!(unknown, ["rules[0].verb", "spec"]);
    let errors = schema("ConfigMap").validate(&json!({"data": {"a": 1}}), None);
    assert_eq!(errors[0].path.to_string(), "data.a");
    let node = json!({"status": {"capacity": {"cpu": 0.5, "memory": "1Gi"}, "images": [{"names": ["a"]}]}});
    assert_eq!(schema("Node").validate(&node, None), []);
    // What may be anything keeps everything.
    let crd = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "x-y": 1}}}]}});
    assert_eq!(schema("CustomResourceDefinition").unknown_fields(&crd), []);
}

#[test]
fn lists_say_how_they_are_merged() {
    let resources = resources();
    let account = resources.iter().find(|resource| resource.kind == "ServiceAccount").unwrap();
    let secrets = account.versions[0].open_api.pointer("/properties/secrets").unwrap();
    assert_eq!(secrets["x-kubernetes-list-type"], "map");
    assert_eq!(secrets["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(secrets["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(secrets["items"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(secrets["items"]["required"], json!(["name"]));
}

#[test]
fn questions_are_only_asked() {
    for resource in virtual_resources() {
        assert_eq!(resource.verbs, ["create"]);
    }
    let namespaces = resources().into_iter().find(|resource| resource.plural == "namespaces").unwrap();
    assert!(!namespaces.verbs.contains(&"deletecollection"));
    assert!(namespaces.versions[0].status && !namespaces.namespaced);
}

#[test]
fn fields_to_select_by_have_values() {
    let resources = resources();
    let find = |group: &str, kind: &str| {
        resources.iter().find(|resource| resource.group == group && resource.kind == kind).unwrap()
    };
    let event = json!({"involvedObject": {"name": "p"}, "reportingComponent": "c", "source": {}});
    assert_eq!(field_value(find("", "Event"), "involvedObject.name", &event), "p");
    assert_eq!(field_value(find("", "Event"), "source", &event), "c");
    assert_eq!(field_value(find("", "Event"), "reason", &event), "");
    assert_eq!(field_value(find("", "Node"), "spec.unschedulable", &json!({})), "false");
    assert!(
        find("events.k8s.io", "Event").versions[0].selectable_fields.contains(&"regarding.uid".to_owned())
    );
}

#[test]
fn the_groups_of_the_api_are_those_of_its_resources() {
    let groups = |name: &str| STORED.iter().chain(VIRTUAL).any(|row| row.group == name);
    for row in STORED.iter().chain(VIRTUAL) {
        assert!(crate::resource::is_api_group(row.group), "{}", row.group);
    }
    assert!(!groups("example.com") && !crate::resource::is_api_group("example.com"));
}
