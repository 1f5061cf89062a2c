//! Everything in one document, `apidiscovery.k8s.io/v2`: what newer clients ask for.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Subresource, groups, of_version, subresources, with_names};
use crate::resource::{Resource, Version};

/// The content type of an aggregated document. A client that names it in `Accept` gets one, others do not.
pub const AGGREGATED_CONTENT_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`, aggregated: the core group.
pub fn aggregated_core(resources: &[Arc<Resource>]) -> Value {
    document(&[json!({"metadata": {}, "versions": [version_entry(resources, "", "v1")]})])
}

/// `/apis`, aggregated: all named groups.
pub fn aggregated_groups(resources: &[Arc<Resource>]) -> Value {
    let entry = |group: super::Group<'_>| {
        let versions = group.versions.iter().map(|version| version_entry(resources, group.name, version));
        json!({"metadata": {"name": group.name}, "versions": versions.collect::<Vec<_>>()})
    };
    let items: Vec<Value> = groups(resources).into_iter().map(entry).collect();
    document(&items)
}

fn document(items: &[Value]) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn version_entry(resources: &[Arc<Resource>], group: &str, version: &str) -> Value {
    let found = of_version(resources, group, version);
    let entries: Vec<Value> = found.into_iter().map(|(resource, version)| entry(resource, version)).collect();
    json!({"version": version, "resources": entries, "freshness": "Current"})
}

fn entry(resource: &Resource, version: &Version) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": response_kind(resource, version, false),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    with_names(resource, &mut entry);
    let subresource = |sub: Subresource| {
        let kind = response_kind(resource, version, sub.scale);
        json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
    };
    let subresources: Vec<Value> = subresources(resource, version).into_iter().map(subresource).collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

/// The kind of the answer. For built-ins, empty group and version mean those of the document, as Kubernetes has it.
fn response_kind(resource: &Resource, version: &Version, scale: bool) -> Value {
    match (scale, resource.custom) {
        (true, _) => json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
        (false, true) => json!({"group": resource.group, "version": version.name, "kind": resource.kind}),
        (false, false) => json!({"group": "", "version": "", "kind": resource.kind}),
    }
}
