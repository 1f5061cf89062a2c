//! The effect of a write on the managers of an object.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use serde_json::Value;

use super::{Conflicts, FieldsError, Write};
use crate::managed_fields::{
    compare::{Comparison, compare},
    managed::Managed,
    reconcile::reconcile,
    set::FieldSet,
    types::TypeInfo,
    validate::{Duplicates, validate},
};

/// Brings the fields of every manager in line with the present schema, and forgets managers of versions that are no
/// more.
pub(super) fn reconcile_all(
    write: &Write<'_>,
    live: &Value,
    managed: &mut Managed,
) -> Result<(), FieldsError> {
    let mut checked: HashSet<String> = HashSet::new();
    let mut failed = None;
    managed.entries.retain_mut(|entry| {
        let Some(types) = write.kind.types(&entry.api_version) else { return false };
        if entry.api_version != write.api_version && checked.insert(entry.api_version.clone()) {
            let fits = types_at_version(write, live, &entry.api_version, String::new);
            failed = failed.take().or(fits.err().map(|error| match error {
                FieldsError::Converted { misfits, .. } => FieldsError::Stale(misfits),
                other => other,
            }));
        }
        reconcile(&mut entry.fields, types);
        true
    });
    failed.map_or(Ok(()), Err)
}

/// The types of an object in a version, if it fits them. Versions differ in their types and `apiVersion` only, which takes no
/// part in merging.
pub(super) fn types_at_version<'v>(
    write: &Write<'v>,
    object: &Value,
    api_version: &str,
    attempt: impl FnOnce() -> String,
) -> Result<&'v TypeInfo, FieldsError> {
    let Some(types) = write.kind.types(api_version) else {
        return write.types();
    };
    if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
        return Ok(types);
    }
    match validate(object, types, Duplicates::Refused) {
        Ok(()) => Ok(types),
        Err(misfits) => Err(FieldsError::Converted { attempt: attempt(), misfits }),
    }
}

/// The treatment of conflicts: an error, or forced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    Yes,
    No,
}

/// Removes changed and removed fields from all managers but `own`, or fails with conflicts. Returns the comparison.
pub(super) fn release_fields(
    write: &Write<'_>,
    old: &Value,
    new: &Value,
    managed: &mut Managed,
    own: Option<usize>,
    force: Force,
) -> Result<Comparison, FieldsError> {
    let mut here = compare(old, new, write.types()?);
    if let Some(reset) = write.reset.of(write.api_version) {
        here.ignore(reset);
    }
    let changed = here.changed();
    let mut others: HashMap<String, (Comparison, FieldSet)> = HashMap::new();
    let mut conflicts = Vec::new();
    for (place, entry) in managed.entries.iter_mut().enumerate() {
        if Some(place) == own {
            continue;
        }
        let (changed, removed) = if entry.api_version == write.api_version {
            (&changed, &here.removed)
        } else {
            let (there, changed) = match others.entry(entry.api_version.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(compare_at(write, old, new, &entry.api_version)?),
            };
            (&*changed, &there.removed)
        };
        match force {
            Force::Yes => entry.fields.subtract(changed),
            Force::No if entry.fields.is_disjoint(changed) => {}
            Force::No => conflicts.push((place, entry.fields.intersection(changed))),
        }
        entry.fields.subtract(removed);
    }
    if !conflicts.is_empty() {
        return Err(FieldsError::Conflicts(in_order(managed, conflicts)));
    }
    let mut place = 0;
    managed.entries.retain(|entry| {
        let keep = Some(place) == own || !entry.fields.is_empty();
        place += 1;
        keep
    });
    Ok(here)
}

fn compare_at(
    write: &Write<'_>,
    old: &Value,
    new: &Value,
    api_version: &str,
) -> Result<(Comparison, FieldSet), FieldsError> {
    let types = types_at_version(write, old, api_version, || "failed to convert old object".into())?;
    types_at_version(write, new, api_version, || "failed to convert new object".into())?;
    let mut comparison = compare(old, new, types);
    if let Some(reset) = write.reset.of(api_version) {
        comparison.ignore(reset);
    }
    let changed = comparison.changed();
    Ok((comparison, changed))
}

fn in_order(managed: &Managed, conflicts: Vec<(usize, FieldSet)>) -> Conflicts {
    let mut sorted: Vec<_> = conflicts
        .into_iter()
        .map(|(place, lost)| {
            let entry = &managed.entries[place];
            (entry.identifier(), entry, lost)
        })
        .collect();
    sorted.sort_by(|(left, ..), (right, ..)| left.cmp(right));
    let mut out = Conflicts::default();
    for (_, entry, lost) in sorted {
        out.add(entry, lost);
    }
    out
}
