//! Removing what an applier gave up.
//!
//! A field, item or entry goes when the applier applied it last time, does not now, and nobody else owns it.

use std::borrow::Cow;

use serde_json::Value;

use super::{FieldsError, Write, settle::at_version};
use crate::managed_fields::{
    managed::{Managed, ManagedFieldsEntry},
    project::to_field_set,
    remove::remove_items,
    set::FieldSet,
    types::TypeInfo,
};

/// The merged object without what its applier, at place `own`, gave up since `last`.
pub(super) fn prune(
    write: &Write<'_>,
    merged: Value,
    managed: &Managed,
    own: usize,
    last: &ManagedFieldsEntry,
) -> Result<Value, FieldsError> {
    // What is applied again is owned by the applier, with everything around it.
    let given_up =
        last.api_version != write.api_version || !last.fields.is_subset(&managed.entries[own].fields);
    if last.fields.is_empty() || !given_up || write.kind.types(&last.api_version).is_none() {
        return Ok(merged);
    }
    let (converted, types) = at_version(write, &merged, &last.api_version, || {
        "failed to prune fields: failed to convert merged object to last applied version".into()
    })?;
    let last_fields = last.fields.with_declared_fields(types, Some(types.root()));
    let pruned = remove_items(&converted, &last_fields, types);
    let (merged_then, pruned) =
        add_back_owned(write, converted.into_owned(), pruned, managed, &last.api_version)?;
    // Only what the applier had may go: not what is unowned or what others left.
    let (pruned, _) = at_version(write, &pruned, &last.api_version, || {
        "failed to prune fields: failed add back dangling items: failed to convert pruned object to last applied version"
            .into()
    })?;
    let mut gone = fields_of(&merged_then, types);
    gone.subtract(&fields_of(&pruned, types));
    let out = remove_items(&merged_then, &gone.intersection(&last_fields), types);
    Ok(in_version(write, out))
}

/// What is removed but owned comes back, in the versions of the owners: first in that of the last apply, because
/// what is missing may be needed to convert.
fn add_back_owned(
    write: &Write<'_>,
    merged: Value,
    pruned: Value,
    managed: &Managed,
    first_version: &str,
) -> Result<(Value, Value), FieldsError> {
    let mut owned: Vec<(&str, Vec<&FieldSet>)> = Vec::new();
    for entry in &managed.entries {
        match owned.iter_mut().find(|(version, _)| *version == entry.api_version) {
            Some((_, fields)) => fields.push(&entry.fields),
            None => owned.push((&entry.api_version, vec![&entry.fields])),
        }
    }
    owned.sort_by_key(|(version, _)| *version != first_version);
    let mut pruned = pruned;
    for (version, fields) in owned {
        if write.kind.types(version).is_none() {
            continue;
        }
        let attempt = |what: &str| {
            format!(
                "failed to prune fields: failed add back owned items: failed to convert {what} object at version {version}"
            )
        };
        let (merged_there, types) = at_version(write, &merged, version, || attempt("merged"))?;
        let (pruned_there, _) = at_version(write, &pruned, version, || attempt("pruned"))?;
        let fields = FieldSet::union_all(fields.into_iter().cloned());
        let kept =
            fields_of(&pruned_there, types).union(fields.with_declared_fields(types, Some(types.root())));
        let mut gone = fields_of(&merged_there, types);
        gone.subtract(&kept);
        let back = remove_items(&merged_there, &gone, types);
        let back = match (&merged_there, &pruned_there) {
            (Cow::Borrowed(_), Cow::Borrowed(_)) => back,
            _ => write.kind.converted(&back, first_version).into_owned(),
        };
        pruned = back;
    }
    Ok((merged, pruned))
}

fn fields_of(object: &Value, types: &TypeInfo) -> FieldSet {
    to_field_set(object, types).with_declared_fields(types, Some(types.root()))
}

fn in_version(write: &Write<'_>, object: Value) -> Value {
    match write.kind.converted(&object, write.api_version) {
        Cow::Owned(converted) => converted,
        Cow::Borrowed(_) => object,
    }
}
