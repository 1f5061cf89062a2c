//! The verbs, without HTTP: from a parsed request to the store and back.
//!
//! ```text
//! read:   get, list, watch         straight from the store's memory
//! write:  admit -> prepare -> manage fields -> validate -> store   (again on a conflict that is not the client's)
//! remove: mark or delete, alone or a whole collection
//! ```

mod add;
mod admit;
mod encode;
mod patch;
mod preconditions;
mod read;
mod remove;
mod scale;
mod track;
mod write;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::runtime::Handle;

use crate::rbac::Rbac;
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use crate::store::{Key, Object, Store, WriteError};

pub use admit::report_body;
pub use encode::{is_as_stored, may_grow, to_bytes, to_value};
pub use read::{Listed, selected};
pub use write::{Change, PatchBody};

/// Gives the time and what must be unique; injected, so that tests decide both.
pub trait Source: Send + Sync + 'static {
    /// The time in RFC 3339, to the second.
    fn now(&self) -> String;
    /// A new uid.
    fn uid(&self) -> String;
    /// A number below `below`.
    fn draw(&self, below: usize) -> usize;
}

/// The verbs on one store and one registry.
pub struct Storage {
    /// The store of objects.
    pub store: Store,
    /// The served resources.
    pub registry: Registry,
    /// The authorizer.
    pub rbac: Rbac,
    /// Threads of the server itself, once it has some.
    pub(crate) threads: OnceLock<Handle>,
    source: Arc<dyn Source>,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The resource, namespace and subresource of a request.
#[derive(Clone, Debug)]
pub struct Target {
    /// The resource, in the version of the path.
    pub served: Arc<Served>,
    /// The namespace of the path.
    pub namespace: Option<String>,
    /// True if it is about `/status`.
    pub status: bool,
}

impl Target {
    /// The key of an object of this target.
    pub fn key(&self, name: &str) -> Key {
        Key::new(Arc::clone(&self.served.store_name), self.namespace.as_deref().unwrap_or_default(), name)
    }
}

/// The result of a write.
#[derive(Debug)]
pub struct Written {
    /// The object as it is now, in the version of the path: mostly the very bytes that are stored.
    pub object: Bytes,
    /// True if it is new.
    pub created: bool,
}

impl Storage {
    /// Storage on a store; serves nothing yet.
    pub fn new(store: Store, source: Arc<dyn Source>) -> Self {
        Self { store, registry: Registry::default(), rbac: Rbac::default(), threads: OnceLock::new(), source }
    }

    /// The time in RFC 3339, to the second.
    pub fn now(&self) -> String {
        self.source.now()
    }

    /// The object of this name.
    pub fn find(&self, target: &Target, name: &str) -> Result<Arc<Object>, ApiError> {
        let missing = || ApiError::not_found(&target.served.resource, name);
        self.store.get(&target.key(name)).ok_or_else(missing)
    }
}

/// The error of the store as the client sees it.
fn write_error(target: &Target, name: &str, error: &WriteError) -> ApiError {
    let resource = &target.served.resource;
    match error {
        WriteError::AlreadyExists { .. } => ApiError::already_exists(resource, name),
        WriteError::NotFound { .. } => ApiError::not_found(resource, name),
        WriteError::Conflict { .. } => ApiError::modified(resource, name),
        other => ApiError::Internal(other.to_string()),
    }
}
