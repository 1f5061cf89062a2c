//! Field management: server-side apply as Kubernetes means it.
//!
//! Every object carries in `metadata.managedFields` who manages which of its fields. Appliers send only the fields
//! they care for; the server merges them, refuses to change what others manage, and removes what an applier no
//! longer sends. All other writes are tracked, so that an apply can conflict with them.
//!
//! Everything here is pure: JSON values in, JSON values out; the time is an argument.
//!
//! ```text
//! element, set, codec   paths, sets of paths, their JSON form (fieldsV1)
//! types                 how the maps and lists of a kind hang together
//! project, compare, merge, remove, validate, reconcile   walks over values with their types
//! managed               the entries of managedFields
//! manager               what writes do to them
//! ```

mod codec;
mod compare;
mod element;
mod item;
mod managed;
mod manager;
mod merge;
mod misfit;
mod order;
mod project;
mod reconcile;
mod remove;
mod set;
pub(crate) mod text;
mod time;
mod types;
mod validate;

pub use codec::CodecError;
pub use compare::{Comparison, compare};
pub use element::{ElementError, PathElement, display_path};
pub use item::ItemError;
pub use managed::{Managed, ManagedError, ManagedFieldsEntry, Operation};
pub(crate) use manager::object_text;
pub use manager::{
    Causes, Conflict, ConflictCause, Conflicts, FieldsError, Kind, ReplicaPaths, Replicas, ResetFields,
    Write, apply, apply_scale, keep_times, update, update_scale,
};
pub use merge::merge;
pub use misfit::{Misfit, Misfits};
pub(crate) use order::equal;
pub use project::to_field_set;
pub use remove::{extract, remove_items};
pub use set::FieldSet;
pub use time::Timestamp;
pub(crate) use types::TypeId;
pub use types::{PatchMeta, SchemaError, TypeInfo, object_meta_schema};
pub use validate::{Duplicates, validate};
