//! Field management: what every write does to `managedFields`, and server-side apply.
//!
//! ```text
//! apply:   decode managers -> adopt unmanaged object -> merge -> prune what was given up -> release -> encode
//! update:  decode managers -> release -> join own earlier fields -> cap -> encode
//! release: compare old and new object; others lose what changed (or it is a conflict), all lose what is gone
//! ```
//!
//! The caller decodes and defaults objects, gives managers their names, puts back what a write may not change, and
//! validates. After an apply it defaults the result and calls [`keep_times`] before it compares it with the stored
//! object; after any other patch or update it calls [`update()`] on the result.

mod apply;
mod cap;
mod conflict;
mod kind;
mod last_applied;
mod prune;
mod release;
mod scale;
mod times;
mod update;

use serde_json::{Map, Value};

pub use apply::apply;
pub use conflict::{Causes, Conflict, ConflictCause, Conflicts};
pub use kind::{Kind, ResetFields};
pub use scale::{ReplicaPaths, Replicas, apply_scale, update_scale};
pub use times::keep_times;
pub use update::update;

use super::{
    managed::{ManagedError, ManagedFieldsEntry, Operation},
    misfit::Misfits,
    set::FieldSet,
    time::Timestamp,
    types::TypeInfo,
};

/// The context of a write: kind, version, manager and time.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The version of the request: `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The fields that the write resets.
    pub reset: &'a ResetFields,
    /// The name of the manager.
    pub manager: &'a str,
    /// The time of the write.
    pub now: Timestamp,
}

/// Why fields could not be managed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// Others own fields that would change. Status 409, reason `Conflict`.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// The applied object is of another kind or version. Status 400.
    #[error("invalid object type: {0}")]
    OtherType(String),
    /// The applied object has `managedFields`. Status 400.
    #[error("metadata.managedFields must be nil")]
    HasManagedFields,
    /// `managedFields` of the live object cannot be read. Status 500, as all that follow.
    #[error("failed to decode managed fields: {0}")]
    Managed(#[from] ManagedError),
    /// The request is of a version the kind does not have.
    #[error("no corresponding type for {0}")]
    NoType(String),
    /// The applied object does not fit its type.
    #[error("failed to create typed patch object ({object}): {misfits}")]
    Applied {
        /// Namespace, name and kind.
        object: String,
        /// The misfits.
        misfits: Misfits,
    },
    /// The live object does not fit its type: the schema has changed.
    #[error("failed to create typed live object ({object}): {misfits}")]
    Live {
        /// Namespace, name and kind.
        object: String,
        /// The misfits.
        misfits: Misfits,
    },
    /// The new object does not fit its type.
    #[error("failed to convert new object ({object}) to smd typed: {misfits}")]
    New {
        /// Namespace, name and kind.
        object: String,
        /// The misfits.
        misfits: Misfits,
    },
    /// The live object does not fit its type in the version of another manager.
    #[error("{0}")]
    Stale(Misfits),
    /// The object does not fit its type in the version of another manager.
    #[error("{attempt}: {misfits}")]
    Converted {
        /// The attempted operation, and its object.
        attempt: String,
        /// The misfits.
        misfits: Misfits,
    },
}

impl<'a> Write<'a> {
    fn types(&self) -> Result<&'a TypeInfo, FieldsError> {
        let missing = || FieldsError::NoType(type_text(self.api_version, self.kind.name()));
        self.kind.types(self.api_version).ok_or_else(missing)
    }

    /// The entry of this writer, without fields.
    fn entry(&self, manager: &str, operation: Operation) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            time: None,
            subresource: self.subresource.to_owned(),
            fields: FieldSet::EMPTY,
        }
    }
}

/// Fields without managers.
fn never_managed() -> &'static FieldSet {
    static FIELDS: std::sync::LazyLock<FieldSet> = std::sync::LazyLock::new(|| {
        FieldSet::of_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    &FIELDS
}

fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

fn managed_fields(object: &Value) -> Option<&Value> {
    metadata(object)?.get("managedFields")
}

fn take_managed_fields(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        // Not `remove`, which may disturb the order of the others.
        metadata.retain(|name, _| name != "managedFields");
    }
}

fn set_managed_fields(object: &mut Value, managed: Option<Value>) {
    let Value::Object(object) = object else { return };
    match (object.get_mut("metadata"), managed) {
        (Some(Value::Object(metadata)), Some(managed)) => {
            metadata.insert("managedFields".to_owned(), managed);
        }
        (None | Some(Value::Null), Some(managed)) => {
            let mut metadata = Map::new();
            metadata.insert("managedFields".to_owned(), managed);
            object.insert("metadata".to_owned(), Value::Object(metadata));
        }
        _ => {}
    }
}

/// A kind in messages: `apps/v1, Kind=Deployment`, `/v1, Kind=ConfigMap`.
fn type_text(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

/// An object in messages: `default/a; apps/v1, Kind=Deployment`.
pub(crate) fn object_text(object: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let of_metadata = |name| text(metadata(object).and_then(|metadata| metadata.get(name)));
    let of_type = type_text(&text(object.get("apiVersion")), &text(object.get("kind")));
    format!("{}/{}; {of_type}", of_metadata("namespace"), of_metadata("name"))
}

#[cfg(test)]
mod tests;
