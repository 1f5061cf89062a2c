//! Server-side apply.

use serde_json::{Map, Value};

use super::{
    FieldsError, Write, last_applied, managed_fields, metadata, never_managed, object_text,
    prune::prune,
    release::{Force, reconcile_all, release_fields},
    set_managed_fields, type_text,
    update::track,
};
use crate::managed_fields::{
    managed::{Managed, Operation},
    merge::merge,
    order::equal,
    project::to_field_set,
    validate::{Duplicates, validate},
};

/// The manager of objects that were never applied to, for all they had then.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies a configuration to the live object, or to nothing. Returns the new object with its `managedFields`.
///
/// With `force` fields of others that would change are taken from them; without, they are
/// [`FieldsError::Conflicts`]. The caller defaults and validates the result, and calls
/// [`keep_times`](super::keep_times) on it.
pub fn apply(
    write: &Write<'_>,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
) -> Result<Value, FieldsError> {
    let managed = Managed::decode(live.and_then(managed_fields))?;
    check_type(write, applied)?;
    let live = live.map_or_else(|| empty_object(write), without_managed_fields);
    let managed = adopt(write, &live, managed)?;
    let (mut object, managed) = if force {
        attempt(write, &live, applied, managed, true)?
    } else {
        match attempt(write, &live, applied, managed.clone(), false) {
            Err(FieldsError::Conflicts(conflicts)) => {
                // Who moves from client-side to server-side apply does not conflict with himself.
                last_applied::resolve(write, &live, conflicts)?;
                attempt(write, &live, applied, managed, true)?
            }
            done => done?,
        }
    };
    last_applied::refresh(write, &mut object, applied);
    set_managed_fields(&mut object, managed.encode());
    Ok(object)
}

fn check_type(write: &Write<'_>, applied: &Value) -> Result<(), FieldsError> {
    let text = |name| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version != write.api_version || kind != write.kind.name() {
        return Err(FieldsError::OtherType(type_text(api_version, kind)));
    }
    Ok(())
}

fn empty_object(write: &Write<'_>) -> Value {
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), Value::String(write.api_version.to_owned()));
    object.insert("kind".to_owned(), Value::String(write.kind.name().to_owned()));
    if let Value::Object(zero) = write.kind.zero() {
        object.extend(zero.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    Value::Object(object)
}

/// They are often most of an object, and take no part in what follows.
fn without_managed_fields(live: &Value) -> Value {
    let Value::Object(members) = live else { return live.clone() };
    let member = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::Object(metadata) if name == "metadata" => Value::Object(
                metadata
                    .iter()
                    .filter(|(name, _)| *name != "managedFields")
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            ),
            other => other.clone(),
        };
        (name.clone(), value)
    };
    Value::Object(members.iter().map(member).collect())
}

/// Gives all fields of an unmanaged object to a manager of its own, so that applying conflicts with them.
fn adopt(write: &Write<'_>, live: &Value, managed: Managed) -> Result<Managed, FieldsError> {
    if managed.entries.is_empty() {
        return track(write, &empty_object(write), live, managed, BEFORE_FIRST_APPLY);
    }
    Ok(managed)
}

fn attempt(
    write: &Write<'_>,
    live: &Value,
    applied: &Value,
    mut managed: Managed,
    force: bool,
) -> Result<(Value, Managed), FieldsError> {
    if metadata(applied).and_then(|metadata| metadata.get("managedFields")).is_some_and(Value::is_array) {
        return Err(FieldsError::HasManagedFields);
    }
    let types = write.types()?;
    validate(applied, types, Duplicates::Refused)
        .map_err(|misfits| FieldsError::Applied { object: object_text(applied), misfits })?;
    validate(live, types, Duplicates::Allowed)
        .map_err(|misfits| FieldsError::Live { object: object_text(live), misfits })?;
    reconcile_all(write, live, &mut managed)?;

    let mut entry = write.entry(write.manager, Operation::Apply);
    entry.fields = to_field_set(applied, types);
    if let Some(reset) = write.reset.of(write.api_version) {
        entry.fields.subtract_below(reset);
    }
    let last = managed.find(&entry).map(|place| managed.entries.swap_remove(place));
    entry.time = last.as_ref().and_then(|last| last.time);
    let own = managed.entries.len();
    managed.entries.push(entry);

    let mut object = merge(live, applied, types);
    if let Some(last) = last {
        object = prune(write, object, &managed, own, &last)?;
    }
    let force = if force { Force::Yes } else { Force::No };
    release_fields(write, live, &object, &mut managed, Some(own), force)?;
    let changed = !equal(live, &object);
    // The own entry is the last one still: settling only drops others.
    if let Some(entry) = managed.entries.last_mut() {
        entry.fields.subtract(never_managed());
        if changed {
            entry.time = Some(write.now);
        }
        if entry.fields.is_empty() {
            managed.entries.pop();
        }
    }
    Ok((object, managed))
}
