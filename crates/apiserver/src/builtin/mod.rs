//! The resources that are there without any CRD: what they are called, what they look like, what rules they have.
//!
//! ```text
//! definitions (tables) --schema--> definitions() : OpenAPI v3 with $ref    --> documents, apply, strategic merge
//!                                       |
//!                                  structural    --> Version::open_api     --> prune, type check
//! ```
//!
//! [`resources`] are stored; [`virtual_resources`] are questions that are answered on creation and never stored.
//! Rules beyond the schema are pure functions over JSON: [`prepare_create`] and [`prepare_update`] complete what
//! a client sends, [`validate_create`] and [`validate_update`] validate it, with the messages of Kubernetes 1.36.

pub mod decode;
mod definitions;
pub mod events;
mod fields;
pub mod protobuf;
pub(crate) mod rules;
mod schema;
mod structural;

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use crate::lazy::Lazy;
use crate::managed_fields::{Kind, SchemaError, TypeInfo};
use crate::resource::{Resource, Version, api_version};

pub use crate::object::names::NameRule;
pub use decode::{DecodeError, Decoded, decode};
pub use fields::field_value;
pub use rules::{
    allows_create_on_update, allows_unconditional_update, name_rule, prepare_create, prepare_finalize,
    prepare_status_update, prepare_update, tracks_generation, validate_create, validate_finalize,
    validate_status_update, validate_update,
};
pub use schema::REFERENCE_PREFIX;

/// Verbs of a resource that is stored.
const ALL_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

const NOT_ALL_AT_ONCE: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const READS: [&str; 3] = ["get", "list", "watch"];

static DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(definitions::all);

/// The definitions of all built-in kinds and of what they are made of, as `components.schemas` of an OpenAPI v3
/// document has them: by full name, with references between them.
pub fn definitions() -> &'static Map<String, Value> {
    &DEFINITIONS
}

/// The name under which [`definitions()`] has a built-in kind.
pub fn definition_name(group: &str, kind: &str) -> Option<String> {
    definitions::find_kind(group, kind).map(|(package, definition)| package.name_of(definition.name))
}

/// The field types of a built-in kind. Events of the two groups do not know each other's managers.
pub(crate) fn field_kind(group: &str, kind: &str) -> Result<Kind, SchemaError> {
    let types = TypeInfo::from_definitions(definitions(), &definition_name(group, kind).unwrap_or_default())?;
    // What is there before anything is set is what an empty body decodes to.
    let zero = decode(group, kind, json!({})).map_or_else(|_| json!({}), |decoded| decoded.object);
    Ok(Kind::new(kind).with_zero(zero).with_version(&api_version(group, "v1"), types))
}

/// A subresource that only one built-in has, besides `/status` and `/scale`.
#[derive(Debug)]
pub struct Subresource {
    /// Group of the resource.
    pub group: &'static str,
    /// Plural of the resource.
    pub plural: &'static str,
    /// Name of the subresource.
    pub name: &'static str,
    /// Verbs it knows.
    pub verbs: &'static [&'static str],
}

/// Subresources of built-ins that are neither `/status` nor `/scale`.
pub const SUBRESOURCES: &[Subresource] =
    &[Subresource { group: "", plural: "namespaces", name: "finalize", verbs: &["update"] }];

/// One line of the table of resources.
struct Row {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    status: bool,
    categories: &'static [&'static str],
    verbs: &'static [&'static str],
}

const fn row(group: &'static str, kind: &'static str, plural: &'static str, namespaced: bool) -> Row {
    let verbs = &ALL_VERBS;
    Row { group, kind, plural, short_names: &[], namespaced, status: false, categories: &[], verbs }
}

impl Row {
    const fn short(self, short_names: &'static [&'static str]) -> Self {
        Self { short_names, ..self }
    }

    const fn with_status(self) -> Self {
        Self { status: true, ..self }
    }

    const fn in_category(self, categories: &'static [&'static str]) -> Self {
        Self { categories, ..self }
    }

    const fn only(self, verbs: &'static [&'static str]) -> Self {
        Self { verbs, ..self }
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

const STORED: &[Row] = &[
    row("", "ConfigMap", "configmaps", true).short(&["cm"]),
    row("", "Event", "events", true).short(&["ev"]),
    // All namespaces at once cannot be meant.
    row("", "Namespace", "namespaces", false).short(&["ns"]).with_status().only(&NOT_ALL_AT_ONCE),
    row("", "Node", "nodes", false).short(&["no"]).with_status(),
    row("", "Secret", "secrets", true),
    row("", "ServiceAccount", "serviceaccounts", true).short(&["sa"]),
    // There are none, and clients may see that: `kubectl cluster-info` and `kubectl get all` look for them.
    row("", "Service", "services", true).short(&["svc"]).in_category(&["all"]).only(&READS),
    row("events.k8s.io", "Event", "events", true).short(&["ev"]),
    row(RBAC, "ClusterRoleBinding", "clusterrolebindings", false),
    row(RBAC, "ClusterRole", "clusterroles", false),
    row(RBAC, "RoleBinding", "rolebindings", true),
    row(RBAC, "Role", "roles", true),
    row("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false)
        .short(&["crd", "crds"])
        .in_category(&["api-extensions"])
        .with_status(),
    row("coordination.k8s.io", "Lease", "leases", true),
];

const VIRTUAL: &[Row] = &[
    row("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", false),
    row("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews", true),
    row("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews", false),
    row("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews", false),
    row("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", false),
];

/// The resources that are stored.
pub fn resources() -> Vec<Arc<Resource>> {
    static RESOURCES: LazyLock<Vec<Arc<Resource>>> =
        LazyLock::new(|| STORED.iter().map(|row| Arc::new(resource(row, row.verbs))).collect());
    RESOURCES.clone()
}

/// The resources that are answered on creation and never stored; `create` is their only verb.
pub fn virtual_resources() -> Vec<Arc<Resource>> {
    static RESOURCES: LazyLock<Vec<Arc<Resource>>> =
        LazyLock::new(|| VIRTUAL.iter().map(|row| Arc::new(resource(row, &["create"]))).collect());
    RESOURCES.clone()
}

fn resource(row: &Row, verbs: &[&'static str]) -> Resource {
    let (group, kind) = (row.group, row.kind);
    let open_api = Lazy::new(move || match definition_name(group, kind) {
        Some(name) => structural::of_kind(definitions(), &name),
        None => structural::of_kind(definitions(), kind),
    });
    let version = Version {
        name: "v1".into(),
        deprecation: None,
        open_api,
        status: row.status,
        scale: None,
        // Not all of their cells stand at a path: `output::table` makes them.
        columns: Vec::new(),
        selectable_fields: fields::selectable(row.group, row.kind),
    };
    Resource {
        group: row.group.into(),
        plural: row.plural.into(),
        singular: row.kind.to_lowercase(),
        kind: row.kind.into(),
        list_kind: format!("{}List", row.kind),
        short_names: row.short_names.iter().map(|&name| name.into()).collect(),
        categories: row.categories.iter().map(|&name| name.into()).collect(),
        namespaced: row.namespaced,
        verbs: verbs.to_vec(),
        custom: false,
        versions: vec![Arc::new(version)],
        storage_version: "v1".into(),
        stored_versions: Vec::new(),
        defined_at: crate::resource::DefinedAt::default(),
        terminating: false,
    }
}

#[cfg(test)]
mod tests;
