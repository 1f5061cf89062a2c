//! The types of the built-in kinds and of what they are made of, package by package.
//!
//! Names, types and merge behaviour are those of Kubernetes 1.36 (a test compares them with a real server);
//! descriptions are our own. Left out is what this server never reads nor writes.

mod apiextensions;
mod authentication;
mod coordination;
mod core;
mod events;
mod meta;
mod node;
mod rbac;

use serde_json::{Map, Value, json};

use super::schema::{Definition, DefinitionKind, schemas_of};

/// A Go package of Kubernetes: definitions are named after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Package {
    Core,
    Events,
    Coordination,
    Rbac,
    Authentication,
    Authorization,
    Autoscaling,
    Apiextensions,
    Meta,
    Resource,
    Runtime,
}

/// All packages with their tables; the core group has two files and one package.
const TABLES: &[(Package, &[Definition])] = &[
    (Package::Core, core::TABLE),
    (Package::Core, node::TABLE),
    (Package::Events, events::TABLE),
    (Package::Coordination, coordination::TABLE),
    (Package::Rbac, rbac::TABLE),
    (Package::Authentication, authentication::AUTHENTICATION),
    (Package::Authorization, authentication::AUTHORIZATION),
    (Package::Autoscaling, meta::AUTOSCALING),
    (Package::Apiextensions, apiextensions::TABLE),
    (Package::Meta, meta::TABLE),
    (Package::Resource, meta::RESOURCE),
    (Package::Runtime, meta::RUNTIME),
];

impl Package {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Core => "io.k8s.api.core.v1",
            Self::Events => "io.k8s.api.events.v1",
            Self::Coordination => "io.k8s.api.coordination.v1",
            Self::Rbac => "io.k8s.api.rbac.v1",
            Self::Authentication => "io.k8s.api.authentication.v1",
            Self::Authorization => "io.k8s.api.authorization.v1",
            Self::Autoscaling => "io.k8s.api.autoscaling.v1",
            Self::Apiextensions => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
            Self::Meta => "io.k8s.apimachinery.pkg.apis.meta.v1",
            Self::Resource => "io.k8s.apimachinery.pkg.api.resource",
            Self::Runtime => "io.k8s.apimachinery.pkg.runtime",
        }
    }

    /// The API group of the kinds in it.
    const fn group(self) -> &'static str {
        match self {
            Self::Events => "events.k8s.io",
            Self::Coordination => "coordination.k8s.io",
            Self::Rbac => "rbac.authorization.k8s.io",
            Self::Authentication => "authentication.k8s.io",
            Self::Authorization => "authorization.k8s.io",
            Self::Autoscaling => "autoscaling",
            Self::Apiextensions => "apiextensions.k8s.io",
            Self::Core | Self::Meta | Self::Resource | Self::Runtime => "",
        }
    }

    /// The full name of a definition.
    pub fn name_of(self, name: &str) -> String {
        format!("{}.{name}", self.prefix())
    }

    /// The entry of `x-kubernetes-group-version-kind` for a kind in it.
    pub fn identity(self, kind: &str) -> Value {
        json!({"group": self.group(), "kind": kind, "version": "v1"})
    }
}

/// All definitions as OpenAPI v3 schemas, by full name.
pub(super) fn all() -> Map<String, Value> {
    let mut schemas = Map::new();
    for (package, table) in TABLES {
        schemas_of(*package, table, &mut schemas);
    }
    schemas
}

/// The definition of a built-in kind.
pub(super) fn find_kind(group: &str, kind: &str) -> Option<(Package, &'static Definition)> {
    let tables = TABLES.iter().filter(|(package, _)| package.group() == group);
    tables.flat_map(|(package, table)| table.iter().map(|definition| (*package, definition))).find(
        |(_, definition)| {
            definition.name == kind
                && matches!(
                    definition.kind,
                    DefinitionKind::Kind | DefinitionKind::Answer | DefinitionKind::Envelope
                )
        },
    )
}

/// Any definition.
pub(super) fn find(package: Package, name: &str) -> Option<&'static Definition> {
    let tables = TABLES.iter().filter(|(of, _)| *of == package);
    tables.flat_map(|(_, table)| table.iter()).find(|definition| definition.name == name)
}
