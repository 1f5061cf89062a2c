//! Keeping the number of updaters small.
//!
//! Controllers and people come and go; each leaves an entry with the last field it changed. Beyond a limit the
//! oldest are merged into one entry for each version. Appliers are never merged: they may come back to give up
//! what they own.

use std::collections::HashMap;

use super::super::{
    managed::{Managed, ManagedFieldsEntry, Operation},
    set::FieldSet,
    time::Timestamp,
};

/// As in Kubernetes.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// The entry that old changes of a version are merged into.
struct Bucket {
    place: usize,
    /// The sets that are merged into it, joined at the end.
    parts: Vec<FieldSet>,
}

pub(super) fn cap_updaters(managed: &mut Managed) {
    let is_updater = |entry: &ManagedFieldsEntry| entry.operation == Operation::Update;
    let mut count = managed.entries.iter().filter(|entry| is_updater(entry)).count();
    if count <= MAX_UPDATERS {
        return;
    }
    let mut entries: Vec<_> = std::mem::take(&mut managed.entries).into_iter().map(Some).collect();
    // The oldest of each version waits for a second one to be merged with.
    let mut first_of_version = HashMap::new();
    let mut buckets = there_already(&entries);
    for place in by_age(&entries) {
        if count <= MAX_UPDATERS {
            break;
        }
        let Some(version) = entries[place].as_ref().map(|entry| entry.api_version.clone()) else { continue };
        let Some(&first) = first_of_version.get(&version) else {
            first_of_version.insert(version, place);
            continue;
        };
        count -= 1;
        let bucket = buckets.entry(version.clone()).or_insert_with(|| {
            if let Some(first) = &mut entries[first] {
                ANCIENT.clone_into(&mut first.manager);
                first.subresource.clear();
            }
            Bucket { place: first, parts: Vec::new() }
        });
        let (into, Some(merged)) = (bucket.place, entries[place].take()) else { continue };
        if into == place {
            // As upstream, which takes away what it has just merged.
            buckets.remove(&version);
        } else if let Some(into) = &mut entries[into] {
            // The later of the two.
            into.time = merged.time;
            bucket.parts.push(merged.fields);
        }
    }
    for Bucket { place, mut parts } in buckets.into_values() {
        if let Some(entry) = &mut entries[place] {
            parts.push(std::mem::take(&mut entry.fields));
            entry.fields = FieldSet::union_all(parts);
        }
    }
    managed.entries = entries.into_iter().flatten().collect();
}

/// The places of the updaters, the oldest first.
fn by_age(entries: &[Option<ManagedFieldsEntry>]) -> Vec<usize> {
    let updaters = entries.iter().enumerate().filter_map(|(place, entry)| {
        let entry = entry.as_ref().filter(|entry| entry.operation == Operation::Update)?;
        Some((entry.time.map_or(0, Timestamp::unix), entry.identifier(), place))
    });
    let mut updaters: Vec<_> = updaters.collect();
    updaters.sort();
    updaters.into_iter().map(|(_, _, place)| place).collect()
}

/// The entries for old changes that are there already, by version.
fn there_already(entries: &[Option<ManagedFieldsEntry>]) -> HashMap<String, Bucket> {
    let buckets = entries.iter().enumerate().filter_map(|(place, entry)| {
        let entry = entry.as_ref()?;
        let is_one =
            entry.manager == ANCIENT && entry.operation == Operation::Update && entry.subresource.is_empty();
        is_one.then(|| (entry.api_version.clone(), Bucket { place, parts: Vec::new() }))
    });
    buckets.collect()
}
