//! The paths of a group and version, with the requests they take.

use serde_json::{Map, Value, json};

use super::{operations::Subject, parameters};
use crate::{
    discovery::subresources,
    resource::{Resource, Version},
};

/// The paths of all resources, sorted.
pub(super) fn of(served: &[(&Resource, &Version)]) -> Map<String, Value> {
    let mut paths = Map::new();
    for (resource, version) in served {
        of_resource(resource, version, &mut paths);
    }
    paths.sort_keys();
    paths
}

fn of_resource(resource: &Resource, version: &Version, paths: &mut Map<String, Value>) {
    let root = match resource.group.as_str() {
        "" => format!("/api/{}", version.name),
        group => format!("/apis/{group}/{}", version.name),
    };
    let everywhere = format!("{root}/{}", resource.plural);
    let collection = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        everywhere.clone()
    };
    let item = format!("{collection}/{{name}}");
    let subject = |in_namespace, subresource| Subject { resource, version, subresource, in_namespace };

    let of_collection = [
        ("list", "get", "list"),
        ("create", "post", "post"),
        ("deletecollection", "delete", "deletecollection"),
    ];
    let of_item = [
        ("get", "get", "get"),
        ("update", "put", "put"),
        ("patch", "patch", "patch"),
        ("delete", "delete", "delete"),
    ];
    let verbs = &resource.verbs;
    add(paths, collection, &subject(resource.namespaced, None), &of_collection, verbs, false);
    if resource.namespaced {
        add(paths, everywhere, &subject(false, None), &of_collection[..1], verbs, false);
    }
    add(paths, item.clone(), &subject(resource.namespaced, None), &of_item, verbs, true);
    for sub in subresources(resource, version) {
        let subject = subject(resource.namespaced, Some(sub.name));
        add(paths, format!("{item}/{}", sub.name), &subject, &of_item, &sub.verbs, true);
    }
}

/// Adds a path with the operations (verb, method, action) that `verbs` allow; without any, none.
fn add(
    paths: &mut Map<String, Value>,
    path: String,
    subject: &Subject<'_>,
    operations: &[(&str, &str, &str)],
    verbs: &[&str],
    has_name: bool,
) {
    let mut entry = json!({});
    for (_, method, action) in operations.iter().filter(|(verb, ..)| verbs.contains(verb)) {
        entry[*method] = subject.operation(action);
    }
    if entry.as_object().is_some_and(|methods| !methods.is_empty()) {
        entry["parameters"] =
            parameters::common(has_name, subject.in_namespace, &subject.resource.kind).into();
        paths.insert(path, entry);
    }
}
