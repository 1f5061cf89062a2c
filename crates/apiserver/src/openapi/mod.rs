//! The documents from which clients learn what objects look like and what requests may say.
//!
//! A document per group and version in OpenAPI v3 ([`document`], found through [`index`]), and one for everything
//! in OpenAPI v2 ([`document_v2`]). `kubectl` reads three things in them: the schemas (`explain`, strategic merge
//! in `apply` and `diff`, validation in older versions), the kinds they are of, and whether the PATCH operation of
//! a kind knows `fieldValidation` (without it, `kubectl` validates by itself, badly).
//!
//! All are pure functions of the resources that are served; the caller keeps them until those change.
//!
//! OpenAPI v2 is JSON, and its definitions also protobuf ([`gnostic`]) for clients that insist on it.

mod components;
mod custom;
pub mod gnostic;
mod operations;
mod parameters;
mod paths;
mod v2;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    discovery::{content_hash, groups, of_version},
    resource::Resource,
};

pub use v2::document_v2;

/// Version of Kubernetes whose API is described; it is what clients show.
const DESCRIBED: &str = "1.36";

/// The groups and versions that have a document, with its path below `/openapi/v3/`: `api/v1`, `apis/apps/v1`.
pub fn documents(resources: &[Arc<Resource>]) -> Vec<(String, String, String)> {
    let core = ("api/v1".to_owned(), String::new(), "v1".to_owned());
    let named = groups(resources).into_iter().flat_map(|group| {
        let name = group.name;
        group
            .versions
            .into_iter()
            .map(move |version| (format!("apis/{name}/{version}"), name.to_owned(), version.to_owned()))
    });
    std::iter::once(core).chain(named).collect()
}

/// `/openapi/v3`: where the documents are. Takes the path and the [`content_hash`] of each.
pub fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map<String, Value> = documents
        .into_iter()
        .map(|(path, hash)| {
            (path.to_owned(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}))
        })
        .collect();
    json!({"paths": paths})
}

/// The OpenAPI v3 document of one group and version; `None` if nothing of it is served.
pub fn document(group: &str, version: &str, resources: &[Arc<Resource>]) -> Option<Value> {
    let served = of_version(resources, group, version);
    if served.is_empty() {
        return None;
    }
    let paths = paths::of(&served);
    let schemas = components::of(&served, &paths);
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": DESCRIBED},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": security()},
        },
    }))
}

fn security() -> Value {
    json!({"type": "apiKey", "description": "A bearer token.", "name": "authorization", "in": "header"})
}

/// All documents with their hashes and the index over them, in one go.
pub fn all(resources: &[Arc<Resource>]) -> (Value, Vec<(String, String, Value)>) {
    let found: Vec<(String, String, Value)> = documents(resources)
        .into_iter()
        .filter_map(|(path, group, version)| {
            let document = document(&group, &version, resources)?;
            Some((path, content_hash(&document), document))
        })
        .collect();
    let index = index(found.iter().map(|(path, hash, _)| (path.as_str(), hash.as_str())));
    (index, found)
}

#[cfg(test)]
mod tests;
