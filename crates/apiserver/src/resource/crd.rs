//! From a `CustomResourceDefinition` to the [`Resource`] it defines.
//!
//! ```text
//! body -> decode -> prepare_* -> validate_* -> store -> accept -> store status -> resource -> serve
//! ```
//!
//! Everything works on the JSON of `apiextensions.k8s.io/v1`. [`accept`] is what Kubernetes does in controllers
//! after the write: it decides which names a definition gets, and whether it is established. Only an
//! [established](is_established) definition is served.

mod budget;
mod cache;
mod order;
mod spec;
mod status;
mod validate;
mod version;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Column, DefinedAt, Resource, Scale, Version};
use crate::object::Meta;
use crate::object::fields::{get, keep, list, text};

pub use budget::{CrdBudget, weight};
pub use cache::{CachedCrd, CrdCache};
pub use order::compare_versions;
pub use status::{Cleanup, Names, Unserved, accept, is_established, set_condition, set_terminating};
pub use validate::{validate_create, validate_status, validate_update};

/// Holds a definition that is being deleted until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// In the order in which discovery shows them.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Why a definition defines nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CrdError {
    /// No version is marked as the stored one; validation does not let such a definition pass.
    #[error("the definition {name:?} has no storage version")]
    NoStorageVersion {
        /// Name of the definition.
        name: String,
    },
}

/// The values of fields that were not given.
pub fn apply_defaults(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if get(spec, &["names"]).is_object() {
        let kind = text(spec, &["names", "kind"]).to_owned();
        if text(spec, &["names", "singular"]).is_empty() && !kind.is_empty() {
            spec["names"]["singular"] = kind.to_lowercase().into();
        }
        if text(spec, &["names", "listKind"]).is_empty() && !kind.is_empty() {
            spec["names"]["listKind"] = format!("{kind}List").into();
        }
    }
    if get(spec, &["conversion"]).is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    let webhook = get(spec, &["conversion", "webhook"]);
    if webhook.is_object()
        && get(webhook, &["clientConfig"]).is_null()
        && get(webhook, &["conversionReviewVersions"]).is_null()
        && let Some(conversion) = spec["conversion"].as_object_mut()
    {
        conversion.remove("webhook");
    }
    if let Some(service) = spec.pointer_mut("/conversion/webhook/clientConfig/service")
        && get(service, &["port"]).is_null()
    {
        service["port"] = 443.into();
    }
}

/// A new definition has no status but the version it is stored in.
pub fn prepare_create(crd: &mut Value) {
    let stored: Vec<Value> = storage_version(crd).map(Value::from).into_iter().collect();
    let names = json!({"plural": "", "kind": ""});
    let stored = if stored.is_empty() { Value::Null } else { stored.into() };
    crd["status"] = json!({"conditions": null, "acceptedNames": names, "storedVersions": stored});
}

/// Keeps the status, and remembers every version that objects may be stored in.
pub fn prepare_update(crd: &mut Value, old: &Value) {
    keep(crd, old, "status");
    let Some(storage) = storage_version(crd).map(str::to_owned) else { return };
    let mut stored = list(crd, &["status", "storedVersions"]).to_vec();
    if !stored.iter().any(|version| *version == storage.as_str()) {
        stored.push(storage.into());
        if !get(crd, &["status"]).is_object() {
            crd["status"] = json!({});
        }
        crd["status"]["storedVersions"] = stored.into();
    }
}

fn storage_version(crd: &Value) -> Option<&str> {
    let versions = list(crd, &["spec", "versions"]);
    versions.iter().find(|version| is_true(version, "storage")).map(|version| text(version, &["name"]))
}

fn is_true(object: &Value, name: &str) -> bool {
    object.get(name) == Some(&Value::Bool(true))
}

/// The resource that a definition defines: its served versions, best first, under the names it was given.
pub fn resource(crd: &Value) -> Result<Resource, CrdError> {
    resource_with(crd, versions(crd))
}

/// The resource of the objects that go with a definition, in the version they are stored in and with whatever they hold;
/// none if there cannot be any.
///
/// Its own objects are those of its group and plural, which its name fixes. Its other names may be those of another one, and
/// whether it is served now says nothing about what is stored.
pub fn of_objects(crd: &Value) -> Option<Resource> {
    let spec = get(crd, &["spec"]);
    // One that was stored in a group of the API itself names objects that are not its own.
    let was_served = is_established(crd) || status::is_left_out(crd);
    if !was_served || super::is_api_group(text(spec, &["group"])) {
        return None;
    }
    let stored = json!({"name": storage_version(crd)?});
    resource_with(crd, vec![Arc::new(served_version(spec, &stored))]).ok()
}

/// The served versions of a definition, best first. They hold its schemas, and these are nearly all of it.
fn versions(crd: &Value) -> Vec<Arc<Version>> {
    let spec = get(crd, &["spec"]);
    let mut versions: Vec<&Value> =
        list(spec, &["versions"]).iter().filter(|version| is_true(version, "served")).collect();
    versions.sort_by(|a, b| compare_versions(text(a, &["name"]), text(b, &["name"])));
    versions.into_iter().map(|version| Arc::new(served_version(spec, version))).collect()
}

/// The resource of a definition whose versions are known; its schemas are not asked for.
fn resource_with(crd: &Value, versions: Vec<Arc<Version>>) -> Result<Resource, CrdError> {
    let spec = get(crd, &["spec"]);
    let no_storage = || CrdError::NoStorageVersion { name: text(crd, &["metadata", "name"]).to_owned() };
    let storage_version = storage_version(crd).ok_or_else(no_storage)?.to_owned();
    let accepted = get(crd, &["status", "acceptedNames"]);
    let version = text(crd, &["metadata", "resourceVersion"]);
    let name = |name: &str| match text(accepted, &[name]) {
        "" => text(spec, &["names", name]).to_owned(),
        accepted => accepted.to_owned(),
    };
    // Absent because refused and absent because not wanted look the same: only a name tells whether any was accepted.
    let names = if text(accepted, &["plural"]).is_empty() { get(spec, &["names"]) } else { accepted };
    Ok(Resource {
        group: text(spec, &["group"]).to_owned(),
        // Never another one: it is what the store calls the objects.
        plural: text(spec, &["names", "plural"]).to_owned(),
        singular: name("singular"),
        kind: name("kind"),
        list_kind: name("listKind"),
        short_names: texts(names, "shortNames"),
        categories: texts(names, "categories"),
        namespaced: text(spec, &["scope"]) == "Namespaced",
        verbs: VERBS.to_vec(),
        custom: true,
        stored_versions: texts(get(crd, &["status"]), "storedVersions"),
        versions,
        storage_version,
        defined_at: DefinedAt(version.parse().unwrap_or_default()),
        terminating: Meta::of(crd).deletion_timestamp().is_some(),
    })
}

fn texts(object: &Value, name: &str) -> Vec<String> {
    list(object, &[name]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn served_version(spec: &Value, version: &Value) -> Version {
    let open_api = match get(version, &["schema", "openAPIV3Schema"]) {
        Value::Null => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        schema => schema.clone(),
    };
    let scale = get(version, &["subresources", "scale"]);
    let scale_path = |name: &str| text(scale, &[name]).to_owned();
    // Validation refuses such a path; one that was stored before it did is not served.
    let is_too_deep = version::is_too_deep(text(scale, &["specReplicasPath"]));
    let simple = |field: &Value| text(field, &["jsonPath"]).trim_start_matches('.').to_owned();
    Version {
        name: text(version, &["name"]).to_owned(),
        deprecation: is_true(version, "deprecated").then(|| deprecation(spec, version)),
        open_api: open_api.into(),
        status: get(version, &["subresources", "status"]).is_object(),
        scale: (scale.is_object() && !is_too_deep).then(|| Scale {
            spec_replicas: scale_path("specReplicasPath"),
            status_replicas: scale_path("statusReplicasPath"),
            label_selector: Some(scale_path("labelSelectorPath")).filter(|path| !path.is_empty()),
        }),
        columns: columns(version),
        selectable_fields: list(version, &["selectableFields"]).iter().map(simple).collect(),
    }
}

/// The warning of a deprecated version; where none is given, it names the best newer one.
fn deprecation(spec: &Value, version: &Value) -> String {
    if let Some(warning) = get(version, &["deprecationWarning"]).as_str() {
        return warning.to_owned();
    }
    let (group, kind, name) =
        (text(spec, &["group"]), text(spec, &["names", "kind"]), text(version, &["name"]));
    let newer = list(spec, &["versions"])
        .iter()
        .filter(|other| is_true(other, "served") && !is_true(other, "deprecated"))
        .map(|other| text(other, &["name"]))
        .filter(|other| compare_versions(other, name).is_lt())
        .min_by(|a, b| compare_versions(a, b));
    match newer {
        Some(newer) => format!("{group}/{name} {kind} is deprecated; use {group}/{newer} {kind}"),
        None => format!("{group}/{name} {kind} is deprecated"),
    }
}

fn columns(version: &Value) -> Vec<Column> {
    let columns: Vec<Column> = list(version, &["additionalPrinterColumns"])
        .iter()
        .map(|column| Column {
            name: text(column, &["name"]).to_owned(),
            kind: text(column, &["type"]).to_owned(),
            format: text(column, &["format"]).to_owned(),
            description: text(column, &["description"]).to_owned(),
            priority: get(column, &["priority"])
                .as_i64()
                .and_then(|it| it.try_into().ok())
                .unwrap_or_default(),
            json_path: text(column, &["jsonPath"]).to_owned(),
        })
        .collect();
    if !columns.is_empty() {
        return columns;
    }
    vec![Column {
        name: "Age".into(),
        kind: "date".into(),
        format: String::new(),
        description: "Time since the object was created.".into(),
        priority: 0,
        json_path: ".metadata.creationTimestamp".into(),
    }]
}

#[cfg(test)]
mod tests;
