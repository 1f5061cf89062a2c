//! The kind of the object, as field management needs it.

use serde_json::{Map, Value};

use crate::managed_fields::{set::FieldSet, types::TypeInfo};

/// A kind with all its versions.
#[derive(Clone, Debug)]
pub struct Kind {
    name: String,
    versions: Vec<(String, TypeInfo)>,
    zero: Value,
}

impl Kind {
    /// A kind without versions.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), versions: Vec::new(), zero: Value::Object(Map::new()) }
    }

    /// Adds a version. Fields of managers that wrote versions that are not here are forgotten.
    #[must_use]
    pub fn with_version(mut self, api_version: &str, types: TypeInfo) -> Self {
        self.versions.push((api_version.to_owned(), types));
        self
    }

    /// What an object has before anything was set. Empty for custom resources; some builtin kinds have members that
    /// are always there (`spec` and `status` of a Namespace), which no creator comes to own.
    #[must_use]
    pub fn with_zero(mut self, zero: Value) -> Self {
        self.zero = zero;
        self
    }

    /// The name of the kind.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn zero(&self) -> &Value {
        &self.zero
    }

    /// The types of one version.
    pub fn types(&self, api_version: &str) -> Option<&TypeInfo> {
        self.versions.iter().find(|(version, _)| version == api_version).map(|(_, types)| types)
    }
}

/// Fields that a write does not reach, by version: the server puts the stored ones back before it stores the object.
#[derive(Clone, Debug, Default)]
pub struct ResetFields {
    by_version: Vec<(String, FieldSet)>,
}

impl ResetFields {
    /// A write reaches everything.
    pub const NONE: Self = Self { by_version: Vec::new() };

    /// These fields, and everything below them, in one version.
    pub fn new(api_version: &str, fields: FieldSet) -> Self {
        Self::NONE.and(api_version, fields)
    }

    /// And these in another.
    #[must_use]
    pub fn and(mut self, api_version: &str, fields: FieldSet) -> Self {
        self.by_version.push((api_version.to_owned(), fields));
        self
    }

    /// Writes of an object whose status is a subresource.
    pub fn of_main(api_version: &str) -> Self {
        Self::new(api_version, FieldSet::of_fields(&[&["status"]]))
    }

    /// Writes of the status of an object.
    pub fn of_status(api_version: &str) -> Self {
        Self::new(api_version, FieldSet::of_fields(&[&["metadata"], &["spec"]]))
    }

    pub(super) fn of(&self, api_version: &str) -> Option<&FieldSet> {
        self.by_version.iter().find(|(version, _)| version == api_version).map(|(_, fields)| fields)
    }
}
