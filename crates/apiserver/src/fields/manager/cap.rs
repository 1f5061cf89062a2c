//! Keeping the number of updaters small.
//!
//! Controllers and people come and go; each leaves an entry with the last field it changed. Beyond a limit the
//! oldest are merged into one entry for each version. Appliers are never merged: they may come back to give up
//! what they own.

use super::super::{
    managed::{Managed, ManagedFieldsEntry, Operation},
    time::Timestamp,
};

/// As in Kubernetes.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

pub(super) fn cap_updaters(managed: &mut Managed) {
    let is_updater = |entry: &&ManagedFieldsEntry| entry.operation == Operation::Update;
    let mut count = managed.entries.iter().filter(is_updater).count();
    if count <= MAX_UPDATERS {
        return;
    }
    let mut updaters: Vec<_> = managed
        .entries
        .iter()
        .filter(is_updater)
        .map(|entry| (entry.time.map_or(0, Timestamp::unix), entry.identifier(), entry.clone()))
        .collect();
    updaters.sort_by(|left, right| (left.0, &left.1).cmp(&(right.0, &right.1)));

    // The oldest of each version waits for a second one to be merged with.
    let mut first_of_version: Vec<ManagedFieldsEntry> = Vec::new();
    for (_, _, entry) in updaters {
        if count <= MAX_UPDATERS {
            break;
        }
        let Some(first) = first_of_version.iter().find(|first| first.api_version == entry.api_version) else {
            first_of_version.push(entry);
            continue;
        };
        merge_into_bucket(managed, first, &entry);
        count -= 1;
    }
}

fn merge_into_bucket(managed: &mut Managed, first: &ManagedFieldsEntry, entry: &ManagedFieldsEntry) {
    let bucket = ManagedFieldsEntry {
        manager: ANCIENT.to_owned(),
        operation: Operation::Update,
        api_version: entry.api_version.clone(),
        // The later of the two.
        time: entry.time,
        subresource: String::new(),
        fields: entry.fields.clone(),
    };
    if managed.find(&bucket).is_none()
        && let Some(place) = managed.find(first)
    {
        let ManagedFieldsEntry { fields, .. } = managed.entries.swap_remove(place);
        managed.entries.push(ManagedFieldsEntry { fields, ..bucket.clone() });
    }
    if let Some(place) = managed.find(entry) {
        managed.entries.swap_remove(place);
    }
    if let Some(place) = managed.find(&bucket) {
        let into = &mut managed.entries[place];
        into.fields = std::mem::take(&mut into.fields).union(bucket.fields);
        into.time = bucket.time;
    }
}
