//! Removal of fields that an applier gave up.
//!
//! A field, item or entry is removed if its manager applied it last time and does not now, and no other manager owns it.

use serde_json::Value;

use super::{FieldsError, Write, release::types_at_version};
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
    let types = types_at_version(write, &merged, &last.api_version, || {
        "failed to prune fields: failed to convert merged object to last applied version".into()
    })?;
    let last_fields = last.fields.with_declared_fields(types, Some(types.root()));
    let pruned = remove_items(&merged, &last_fields, types);
    let pruned = add_back_owned(write, &merged, pruned, managed, &last.api_version)?;
    // Only fields of the applier may go: not unowned ones, or those that other managers left.
    types_at_version(write, &pruned, &last.api_version, || {
        "failed to prune fields: failed add back dangling items: failed to convert pruned object to last applied version"
            .into()
    })?;
    let mut gone = fields_of(&merged, types);
    gone.subtract(&fields_of(&pruned, types));
    Ok(remove_items(&merged, &gone.intersection(&last_fields), types))
}

/// Adds removed fields back that another manager owns, by the types of the versions of the owners: first by those of the
/// last apply.
fn add_back_owned(
    write: &Write<'_>,
    merged: &Value,
    pruned: Value,
    managed: &Managed,
    first_version: &str,
) -> Result<Value, FieldsError> {
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
        let types = types_at_version(write, merged, version, || attempt("merged"))?;
        types_at_version(write, &pruned, version, || attempt("pruned"))?;
        let fields = FieldSet::union_all(fields.into_iter().cloned());
        let kept = fields_of(&pruned, types).union(fields.with_declared_fields(types, Some(types.root())));
        let mut gone = fields_of(merged, types);
        gone.subtract(&kept);
        pruned = remove_items(merged, &gone, types);
    }
    Ok(pruned)
}

fn fields_of(object: &Value, types: &TypeInfo) -> FieldSet {
    to_field_set(object, types).with_declared_fields(types, Some(types.root()))
}
