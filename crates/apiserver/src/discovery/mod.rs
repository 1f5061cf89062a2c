//! Discovery documents: the groups, versions and resources that are served.
//!
//! Two forms of the same facts: the older one, a document per group and version ([`api_groups`], [`api_resources`]
//! and so on), and the aggregated one, everything in one document ([`aggregated_core`], [`aggregated_groups`]).
//! All are pure functions of the resources that are served; the caller keeps them until those change.

mod aggregated;
mod hash;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{
    builtin,
    resource::{Resource, Version, crd::compare_versions},
};

pub use aggregated::{AGGREGATED_CONTENT_TYPE, aggregated_core, aggregated_groups};
pub use hash::content_hash;
use hash::storage_version_hash;

/// The groups that come first, in the order of Kubernetes' priorities; all others follow by name.
const FIRST_GROUPS: [&str; 6] = [
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
];

/// Verbs of `/status` and `/scale`.
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A group with its versions, best first.
pub(crate) struct Group<'a> {
    pub name: &'a str,
    pub versions: Vec<&'a str>,
}

/// The named groups that are served, in the order in which clients see them; the core group is not among them.
pub(crate) fn groups(resources: &[Arc<Resource>]) -> Vec<Group<'_>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in resources.iter().filter(|resource| !resource.group.is_empty()) {
        let versions = found.entry(&resource.group).or_default();
        versions.extend(resource.versions.iter().map(|version| version.name.as_str()));
    }
    let mut groups: Vec<Group<'_>> = found
        .into_iter()
        .map(|(name, mut versions)| {
            versions.sort_unstable_by(|a, b| compare_versions(a, b));
            versions.dedup();
            Group { name, versions }
        })
        .filter(|group| !group.versions.is_empty())
        .collect();
    let rank = |group: &Group<'_>| {
        FIRST_GROUPS.iter().position(|first| *first == group.name).unwrap_or(FIRST_GROUPS.len())
    };
    groups.sort_by_key(rank);
    groups
}

/// The resources of one group and version with that version, by plural.
pub(crate) fn of_version<'a>(
    resources: &'a [Arc<Resource>],
    group: &str,
    version: &str,
) -> Vec<(&'a Resource, &'a Version)> {
    let mut found: Vec<(&Resource, &Version)> = resources
        .iter()
        .filter(|resource| resource.group == group)
        .filter_map(|resource| {
            let version = resource.versions.iter().find(|candidate| candidate.name == version)?;
            Some((resource.as_ref(), version.as_ref()))
        })
        .collect();
    found.sort_unstable_by(|(a, _), (b, _)| a.plural.cmp(&b.plural));
    found
}

/// A subresource as discovery lists it.
pub(crate) struct Subresource {
    pub name: &'static str,
    pub verbs: Vec<&'static str>,
    /// True if it answers with `autoscaling/v1` Scale and not with the object itself.
    pub scale: bool,
}

/// The subresources of a version, in the order in which clients see them.
pub(crate) fn subresources(resource: &Resource, version: &Version) -> Vec<Subresource> {
    let own = builtin::SUBRESOURCES
        .iter()
        .filter(|own| !resource.custom && own.group == resource.group && own.plural == resource.plural);
    let mut found: Vec<Subresource> =
        own.map(|own| Subresource { name: own.name, verbs: own.verbs.to_vec(), scale: false }).collect();
    let verbs = SUBRESOURCE_VERBS.to_vec();
    if version.status {
        found.push(Subresource { name: "status", verbs: verbs.clone(), scale: false });
    }
    if version.scale.is_some() {
        found.push(Subresource { name: "scale", verbs, scale: true });
    }
    found
}

/// `/api`: the versions of the core group. `address` is where clients reach the server.
pub fn api_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`: all named groups.
pub fn api_groups(resources: &[Arc<Resource>]) -> Value {
    let groups: Vec<Value> = groups(resources).iter().map(group_entry).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`: one group, if it is served.
pub fn api_group(group: &str, resources: &[Arc<Resource>]) -> Option<Value> {
    let groups = groups(resources);
    let entry = group_entry(groups.iter().find(|candidate| candidate.name == group)?);
    let mut document = json!({"kind": "APIGroup", "apiVersion": "v1"});
    for (name, value) in entry.as_object()? {
        document[name.as_str()] = value.clone();
    }
    Some(document)
}

fn group_entry(group: &Group<'_>) -> Value {
    let version =
        |version: &&str| json!({"groupVersion": format!("{}/{version}", group.name), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({"name": group.name, "preferredVersion": versions[0].clone(), "versions": versions})
}

/// `/api/v1` or `/apis/<group>/<version>`: the resources of a version, if there are any.
pub fn api_resources(group: &str, version: &str, resources: &[Arc<Resource>]) -> Option<Value> {
    let found = of_version(resources, group, version);
    if found.is_empty() {
        return None;
    }
    let entries: Vec<Value> =
        found.into_iter().flat_map(|(resource, version)| resource_entries(resource, version)).collect();
    let mut document = json!({"kind": "APIResourceList"});
    if group.is_empty() {
        document["groupVersion"] = version.into();
    } else {
        document["apiVersion"] = "v1".into();
        document["groupVersion"] = format!("{group}/{version}").into();
    }
    document["resources"] = entries.into();
    Some(document)
}

fn resource_entries(resource: &Resource, version: &Version) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    with_names(resource, &mut main);
    if let Some(hash) = storage_hash(resource) {
        main["storageVersionHash"] = hash.into();
    }
    let sub = |sub: Subresource| {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, sub.name),
            "singularName": "",
            "namespaced": resource.namespaced,
        });
        if sub.scale {
            entry["group"] = "autoscaling".into();
            entry["version"] = "v1".into();
        }
        entry["kind"] = if sub.scale { "Scale".into() } else { resource.kind.as_str().into() };
        entry["verbs"] = sub.verbs.into();
        entry
    };
    std::iter::once(main).chain(subresources(resource, version).into_iter().map(sub)).collect()
}

/// The hash of the version a resource is stored in, where it is stored at all. A version that is stored and not served has none.
fn storage_hash(resource: &Resource) -> Option<String> {
    let is_stored = resource.verbs.contains(&"list") && resource.verbs.contains(&"create");
    let is_served = resource.versions.iter().any(|version| version.name == resource.storage_version);
    // Clients compare hashes with those of other servers, so they are those of kube-apiserver's storage: events of both groups
    // are the same objects there, and definitions have never left their first version.
    let (group, version) = match resource.group.as_str() {
        "events.k8s.io" => ("", "v1"),
        "apiextensions.k8s.io" => ("apiextensions.k8s.io", "v1beta1"),
        group => (group, resource.storage_version.as_str()),
    };
    (is_stored && is_served).then(|| storage_version_hash(group, version, &resource.kind))
}

fn with_names(resource: &Resource, entry: &mut Value) {
    for (name, values) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !values.is_empty() {
            entry[name] = json!(values);
        }
    }
}

#[cfg(test)]
mod tests;
