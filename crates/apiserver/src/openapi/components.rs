//! The schemas of a document: those of its kinds and all they refer to.

use serde_json::{Map, Value, json};

use super::custom;
use crate::{
    builtin::{self, REFERENCE_PREFIX},
    resource::{Resource, Version},
};

/// The name of a kind's schema.
pub(super) fn name_of(resource: &Resource, version: &Version) -> String {
    if !resource.custom
        && let Some(name) = builtin::definition_name(&resource.group, &resource.kind)
    {
        return name;
    }
    custom::name_of(&resource.group, &version.name, &resource.kind)
}

/// The name of the schema of a kind's lists.
pub(super) fn list_name_of(resource: &Resource, version: &Version) -> String {
    if resource.custom {
        custom::name_of(&resource.group, &version.name, &resource.list_kind)
    } else {
        format!("{}List", name_of(resource, version))
    }
}

/// All schemas that the kinds and the paths need, by name.
pub(super) fn of(served: &[(&Resource, &Version)], paths: &Map<String, Value>) -> Map<String, Value> {
    let mut schemas = Map::new();
    for (resource, version) in served.iter().filter(|(resource, _)| resource.custom) {
        let name = name_of(resource, version);
        let list = custom::list(resource, version, &name);
        schemas.insert(name, custom::kind(resource, version));
        schemas.insert(list_name_of(resource, version), list);
    }
    let mut wanted = Vec::new();
    for paths in paths.values() {
        references(paths, &mut wanted);
    }
    schemas.values().for_each(|schema| references(schema, &mut wanted));
    while let Some(name) = wanted.pop() {
        if let Some(schema) = builtin::definitions().get(&name)
            && !schemas.contains_key(&name)
        {
            references(schema, &mut wanted);
            schemas.insert(name, schema.clone());
        }
    }
    for (resource, version) in served {
        tag_delete_options(&mut schemas, &resource.group, &version.name);
    }
    schemas.sort_keys();
    schemas
}

/// Options of deletions may be written in the version of what is deleted.
fn tag_delete_options(schemas: &mut Map<String, Value>, group: &str, version: &str) {
    let options = schemas.get_mut("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    if let Some(Value::Array(kinds)) =
        options.and_then(|options| options.get_mut("x-kubernetes-group-version-kind"))
    {
        let kind = json!({"group": group, "kind": "DeleteOptions", "version": version});
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(name) = members
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|target| target.strip_prefix(REFERENCE_PREFIX))
            {
                found.push(name.to_owned());
            }
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
        _ => {}
    }
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE_PREFIX}{name}")})
}
