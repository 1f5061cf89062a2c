//! Tests of parsers, and the resources that tests talk about.

mod bodies;
mod headers;
mod paths;
mod queries;
mod selectors;

use std::sync::Arc;

use serde_json::Value;

use crate::resource::{Column, Resource, Version};

pub(crate) fn version(columns: Vec<Column>, selectable: &[&str]) -> Version {
    Version {
        name: "v1".to_owned(),
        deprecation: None,
        open_api: Value::Null.into(),
        status: true,
        scale: None,
        columns,
        selectable_fields: selectable.iter().map(|field| (*field).to_owned()).collect(),
    }
}

pub(crate) fn resource(
    group: &str,
    plural: &str,
    kind: &str,
    namespaced: bool,
    version: Version,
) -> Resource {
    Resource {
        group: group.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        verbs: Vec::new(),
        custom: group.contains("example"),
        versions: vec![Arc::new(version)],
        storage_version: "v1".to_owned(),
        stored_versions: Vec::new(),
        defined_at: crate::resource::DefinedAt::default(),
        terminating: false,
    }
}

pub(crate) fn config_maps() -> Resource {
    resource("", "configmaps", "ConfigMap", true, version(Vec::new(), &[]))
}

pub(crate) fn things() -> Resource {
    resource(
        "edge.example.com",
        "things",
        "Thing",
        true,
        version(Vec::new(), &["spec.color", "spec.n", "spec.b"]),
    )
}
