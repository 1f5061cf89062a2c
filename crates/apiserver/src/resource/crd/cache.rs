//! The definitions as they were last read. They are long, and a change is mostly one of one of them: the others are not read
//! again.

use std::collections::HashMap;
use std::sync::Arc;

use capt_schema::Schema;
use serde::Deserialize;
use serde_json::Value;

use super::{CrdBudget, Unserved, budget, is_established, resource_with, text, versions};
use crate::resource::{Resource, Version, is_api_group, schema_cache};
use crate::store::{Object, Revision};

/// Every definition, in the order of the store.
#[derive(Debug, Default)]
pub struct CrdCache {
    /// All of them.
    pub all: Vec<CachedCrd>,
    /// The revision of the store that they are of, where all was done that it asks for.
    pub up_to: Option<Revision>,
}

/// One of them.
#[derive(Debug)]
pub struct CachedCrd {
    /// The definition without its schemas.
    pub outline: Value,
    versions: Vec<Arc<Version>>,
    /// Their schemas, to be served, and the estimated memory, once it was asked for.
    schemas: Vec<Arc<Schema>>,
    weight: Option<usize>,
    /// The problem of a schema that was stored before it was refused, once it was looked for.
    refused: Option<String>,
    /// True if it waits for room, without its versions.
    waits: bool,
    /// The resource it defines, once it was asked for.
    resource: Option<Arc<Resource>>,
    /// Of the object that was read; none if it must be read again.
    revision: Option<Revision>,
}

impl CrdCache {
    /// Brings it up to date with what the store holds.
    pub fn read(&mut self, objects: &[Arc<Object>]) {
        let before = std::mem::take(&mut self.all).into_iter();
        let mut before: HashMap<String, CachedCrd> =
            before.map(|known| (known.name().to_owned(), known)).collect();
        for object in objects {
            self.all.push(match before.remove(&*object.key().name) {
                Some(known) if known.revision == Some(object.revision()) => known,
                known => CachedCrd::read(object, known.as_ref()),
            });
        }
    }
}

impl CachedCrd {
    /// Unchanged schemas are shared with the previous versions.
    fn read(object: &Object, before: Option<&Self>) -> Self {
        let mut outline: Value =
            serde_json::from_slice(object.bytes()).expect("the store holds the JSON it was given");
        let mut versions = versions(&outline);
        if let Some(same) = before.filter(|known| known.versions == versions) {
            versions.clone_from(&same.versions);
        }
        for version in
            outline.pointer_mut("/spec/versions").and_then(Value::as_array_mut).into_iter().flatten()
        {
            version.as_object_mut().map(|version| version.shift_remove("schema"));
        }
        Self {
            outline,
            versions,
            schemas: Vec::new(),
            weight: None,
            refused: None,
            waits: false,
            resource: None,
            revision: Some(object.revision()),
        }
    }

    /// Gets room for it, or keeps as little of it as there may be and tells why it is not served.
    pub fn find_room(&mut self, room: &CrdBudget, object: &Object) -> Result<(), Unserved> {
        let weight = self.weigh();
        let found = match &self.refused {
            Some(problem) => {
                room.leave(self.name());
                Err(Unserved::SchemaRefused(problem.clone()))
            }
            None => room.give(self.name(), weight).map_err(Unserved::NoRoom),
        };
        if found.is_err() {
            self.versions.clear();
            self.schemas.clear();
            self.resource = None;
            self.waits = true;
        } else if self.waits {
            *self = Self::read(object, None);
            self.weigh();
        }
        found
    }

    fn weigh(&mut self) -> usize {
        if let Some(weight) = self.weight {
            return weight;
        }
        for version in &self.versions {
            match schema_cache::take(&version.open_api) {
                Ok(schema) => self.schemas.push(schema),
                Err(problem) => {
                    let problem = problem.first().map_or_else(String::new, ToString::to_string);
                    self.refused = Some(format!("version {} is refused by now: {problem}", version.name));
                }
            }
        }
        *self.weight.insert(budget::weight(&self.versions, &self.schemas))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        text(&self.outline, &["metadata", "name"])
    }

    /// Its status was decided anew, and `written` if that could be done; else it is read again.
    pub fn decided(&mut self, status: Value, written: Option<&[u8]>) {
        self.outline["status"] = status;
        self.resource = None;
        self.revision = written.and_then(revision);
    }

    /// The resource it defines, if it is established and not part of the API itself.
    pub fn resource(&mut self) -> Option<Arc<Resource>> {
        let group = self.outline.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
        if !is_established(&self.outline) || is_api_group(group) {
            return None;
        }
        if self.resource.is_none() {
            self.resource = resource_with(&self.outline, self.versions.clone()).ok().map(Arc::new);
        }
        self.resource.clone()
    }
}

/// The revision of an object, without reading the rest of it.
fn revision(object: &[u8]) -> Option<Revision> {
    #[derive(Deserialize)]
    struct Outer {
        metadata: Inner,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        resource_version: String,
    }
    let outer: Outer = serde_json::from_slice(object).ok()?;
    outer.metadata.resource_version.parse().ok().map(Revision::new)
}
