//! Writes other than apply: the manager gets what it changed.

use serde_json::Value;

use super::{
    FieldsError, Write,
    cap::cap_updaters,
    managed_fields, never_managed, object_text,
    release::{Force, reconcile_all, release_fields},
    set_managed_fields, take_managed_fields,
};
use crate::managed_fields::{
    managed::{Managed, Operation},
    validate::{Duplicates, validate},
};

/// Sets `managedFields` of `new`, which a create, update or patch made of `live` (nothing for a create).
///
/// `managedFields` of `new` are heeded: `[]` and `[{}]` ask to forget all managers. Custom resources are decoded
/// without empty lists in their metadata, so of them only the second comes here.
///
/// A write never fails for its `managedFields`: after an error `new` has none, and the error is for the log.
pub fn update(write: &Write<'_>, live: Option<&Value>, new: &mut Value) -> Result<(), FieldsError> {
    let managed = managers_of(live, new, !write.subresource.is_empty());
    take_managed_fields(new);
    // An object without managers stays so until the first apply.
    if managed.entries.is_empty() && live.is_some() {
        return Ok(());
    }
    let managed = track(write, live.unwrap_or(write.kind.zero()), new, managed, write.manager)?;
    set_managed_fields(new, managed.encode());
    Ok(())
}

/// The managers after a change from `live` to `new` by the manager `by`.
pub(super) fn track(
    write: &Write<'_>,
    live: &Value,
    new: &Value,
    mut managed: Managed,
    by: &str,
) -> Result<Managed, FieldsError> {
    let types = write.types()?;
    validate(new, types, Duplicates::Allowed)
        .map_err(|misfits| FieldsError::New { object: object_text(new), misfits })?;
    validate(live, types, Duplicates::Allowed)
        .map_err(|misfits| FieldsError::Live { object: object_text(live), misfits })?;
    reconcile_all(write, live, &mut managed)?;
    let comparison = release_fields(write, live, new, &mut managed, None, Force::Yes)?;
    // The comparison leaves out what the write does not reach.
    let mut gained = comparison.modified.union(comparison.added);
    gained.subtract(never_managed());
    if !gained.is_empty() {
        let mut entry = write.entry(by, Operation::Update);
        entry.time = Some(write.now);
        if let Some(place) = managed.find(&entry) {
            gained = gained.union(managed.entries.swap_remove(place).fields);
        }
        entry.fields = gained;
        managed.entries.push(entry);
    }
    cap_updaters(&mut managed);
    Ok(managed)
}

/// The managers a write starts from: those it states, or else those of the live object.
fn managers_of(live: Option<&Value>, new: &Value, subresource: bool) -> Managed {
    let of_live = || Managed::decode(live.and_then(managed_fields)).unwrap_or_default();
    let stated = managed_fields(new);
    if subresource {
        return of_live();
    }
    if stated.is_some_and(is_reset) {
        return Managed::default();
    }
    // Clients that do not know the field leave it out; that must not lose it.
    match Managed::decode(stated) {
        Ok(managed) if !managed.entries.is_empty() => managed,
        _ => of_live(),
    }
}

/// An empty list, or a list of one empty entry, asks to forget all managers.
fn is_reset(stated: &Value) -> bool {
    let is_empty = |entry: &Value| match entry {
        Value::Object(fields) => fields.values().all(|value| value.is_null() || value.as_str() == Some("")),
        _ => false,
    };
    match stated.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => is_empty(only),
        _ => false,
    }
}
