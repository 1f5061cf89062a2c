//! Served resources: their names, versions and schemas.
//!
//! Built-in resources and those that CRDs define are the same to the rest of the server: a [`Resource`] per
//! group and plural, with one [`Version`] per served version. Nothing here changes once built; a changed CRD
//! makes a new `Resource`.

pub mod crd;
pub(crate) mod schema_cache;

use std::sync::Arc;

use serde_json::Value;

use crate::lazy::Lazy;

/// The groups that the API itself serves.
const API_GROUPS: [&str; 7] = [
    "",
    "apiextensions.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "rbac.authorization.k8s.io",
];

/// Returns true if the API itself serves a group. No definition may add to one: names, kinds and places in the store would be shared
/// with what rights, leases and definitions are kept in.
pub fn is_api_group(group: &str) -> bool {
    API_GROUPS.contains(&group)
}

/// `apiVersion` of objects: `v1`, `example.com/v1`.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// A kind of object that the server stores and serves, in all its versions.
#[derive(Debug, PartialEq)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// Lower-case plural, the name in paths: `configmaps`.
    pub plural: String,
    /// Lower-case singular: `configmap`.
    pub singular: String,
    /// CamelCase kind: `ConfigMap`.
    pub kind: String,
    /// Kind of lists: `ConfigMapList`.
    pub list_kind: String,
    /// Short names for kubectl: `cm`.
    pub short_names: Vec<String>,
    /// Groups of kinds for kubectl: `all`.
    pub categories: Vec<String>,
    /// True if objects live in namespaces.
    pub namespaced: bool,
    /// Verbs that clients may use: get, list, watch, create, update, patch, delete, deletecollection.
    pub verbs: Vec<&'static str>,
    /// True if a CRD defines it; built-ins have their own rules and strategic merge patch.
    pub custom: bool,
    /// Served versions, in order of preference (Kubernetes' version priority).
    pub versions: Vec<Arc<Version>>,
    /// Name of the version that is stored; its schema decides pruning.
    pub storage_version: String,
    /// Versions that objects may be stored in still: each that was the storage version.
    pub stored_versions: Vec<String>,
    /// When it was last defined.
    pub defined_at: DefinedAt,
    /// True while its definition is deleted: its objects go, and no new ones come.
    pub terminating: bool,
}

/// The revision at which a definition was read. Two resources that differ in it alone are the same: what counts is
/// since when there is one like it.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefinedAt(pub u64);

impl PartialEq for DefinedAt {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// One served version of a resource.
#[derive(Debug, PartialEq)]
pub struct Version {
    /// `v1beta1`.
    pub name: String,
    /// `deprecated: true` adds a warning to every answer; the text, where the CRD gives one.
    pub deprecation: Option<String>,
    /// OpenAPI v3 schema of the whole object, as JSON with `x-kubernetes-*` extensions. For built-ins too.
    pub open_api: Lazy<Value>,
    /// True if `/status` is its own endpoint.
    pub status: bool,
    /// `/scale`, where there is one.
    pub scale: Option<Scale>,
    /// Columns of `kubectl get`, after NAME and before what the client adds. For CRDs without columns: AGE.
    /// Built-in kinds have theirs from [`crate::output::table`].
    pub columns: Vec<Column>,
    /// Fields that may be selected by, besides metadata.name and metadata.namespace: `spec.nodeName`, with their JSON paths.
    pub selectable_fields: Vec<String>,
}

/// Columns of one version. Each of them is looked for in every object that is shown.
pub(crate) const MAX_COLUMNS: usize = 400;

/// The paths of the values of the scale subresource; simple JSON paths such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The replicas wanted.
    pub spec_replicas: String,
    /// The replicas observed.
    pub status_replicas: String,
    /// The label selector, as text.
    pub label_selector: Option<String>,
}

/// A column of `kubectl get`.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// integer, number, string, boolean, date.
    pub kind: String,
    /// Format, as in OpenAPI.
    pub format: String,
    /// The description of the column.
    pub description: String,
    /// 0 is always shown, higher ones with `-o wide`.
    pub priority: i32,
    /// JSON path such as `.status.conditions[?(@.type=="Ready")].status`.
    pub json_path: String,
}
