//! The steps that every object goes through on its way to the store, whatever its kind: pure functions on JSON.
//!
//! | Step | File |
//! |---|---|
//! | a new object gets its identity | [`create`] |
//! | a changed object keeps what is not the client's | [`update`] |
//! | a deleted object goes, or waits for its finalizers | [`delete`] |

pub mod create;
pub mod delete;
pub(crate) mod fields;
pub(crate) mod names;
pub mod update;

use serde_json::{Map, Value};

/// The members of `metadata` that decisions are made on.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a>(Option<&'a Map<String, Value>>);

impl<'a> Meta<'a> {
    /// The metadata of `object`; one without any reads as empty.
    pub fn of(object: &'a Value) -> Self {
        Self(object.get("metadata").and_then(Value::as_object))
    }

    fn text(self, key: &str) -> Option<&'a str> {
        self.0?.get(key)?.as_str().filter(|text| !text.is_empty())
    }

    /// `metadata.name`.
    pub fn name(self) -> Option<&'a str> {
        self.text("name")
    }

    /// `metadata.generateName`.
    pub fn generate_name(self) -> Option<&'a str> {
        self.text("generateName")
    }

    /// `metadata.namespace`.
    pub fn namespace(self) -> Option<&'a str> {
        self.text("namespace")
    }

    /// `metadata.uid`.
    pub fn uid(self) -> Option<&'a str> {
        self.text("uid")
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(self) -> Option<&'a str> {
        self.text("resourceVersion")
    }

    /// `metadata.deletionTimestamp`.
    pub fn deletion_timestamp(self) -> Option<&'a str> {
        self.text("deletionTimestamp")
    }

    /// `metadata.generation`; 0 for kinds without one.
    pub fn generation(self) -> i64 {
        self.0.and_then(|meta| meta.get("generation")).and_then(Value::as_i64).unwrap_or(0)
    }

    /// `metadata.finalizers`.
    pub fn finalizers(self) -> impl Iterator<Item = &'a str> {
        self.list("finalizers").filter_map(Value::as_str)
    }

    /// `metadata.ownerReferences`.
    pub fn owner_references(self) -> impl Iterator<Item = &'a Value> {
        self.list("ownerReferences")
    }

    fn list(self, key: &str) -> impl Iterator<Item = &'a Value> {
        self.0.and_then(|meta| meta.get(key)).and_then(Value::as_array).into_iter().flatten()
    }
}

/// The `metadata` of an object, made if it is not there.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let members = object.as_object_mut().expect("made an object above");
    let metadata = members.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("made an object above")
}
