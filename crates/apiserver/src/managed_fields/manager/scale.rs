//! Managers of the replicas of an object that is written through its scale.
//!
//! The managers of the replicas are the managers of the scale. A write changes the managers of the scale as any write does, and
//! they become those of the replicas again. On the way a manager who updated (and did not apply) loses the replicas from
//! the entry it had, and gets one for them alone; upstream has no time for what comes from a scale.

use std::collections::HashSet;

use serde_json::Value;

use super::{Conflicts, FieldsError, Write, managed_fields, set_managed_fields};
use crate::managed_fields::{
    managed::{Managed, ManagedFieldsEntry, Operation},
    set::FieldSet,
};

/// The API version of all managers of a scale.
const SCALE: &str = "autoscaling/v1";

/// The path of the replicas in each version of a kind; `None` in one without a scale.
pub type ReplicaPaths = [(String, Option<FieldSet>)];

/// The replicas before and after a write; a scale does not tell 0 from none.
#[derive(Clone, Copy, Debug)]
pub struct Replicas {
    /// Before.
    pub old: i64,
    /// After.
    pub new: i64,
}

/// Sets `managedFields` of an object whose scale was updated.
pub fn update_scale(write: &Write<'_>, object: &mut Value, paths: &ReplicaPaths, replicas: Replicas) {
    let Ok(managed) = Managed::decode(managed_fields(object)) else { return };
    let mut owners = owners(&managed, paths);
    if owners.is_empty() {
        // Upstream begins to track nothing through a scale.
        return;
    }
    if replicas.old != replicas.new {
        owners.clear();
        if replicas.new != 0 {
            owners.push(owner(write.entry(write.manager, Operation::Update)));
        }
    }
    set_managed_fields(object, give_back(write, managed, owners, paths).encode());
}

/// Sets `managedFields` of an object to whose scale something was applied, or tells who is in the way.
pub fn apply_scale(
    write: &Write<'_>,
    object: &mut Value,
    paths: &ReplicaPaths,
    replicas: Replicas,
    force: bool,
) -> Result<(), FieldsError> {
    let managed = Managed::decode(managed_fields(object))?;
    let mut owners = owners(&managed, paths);
    let own = owner(write.entry(write.manager, Operation::Apply));
    if replicas.old != replicas.new || replicas.old == 0 {
        let mut conflicts = Conflicts::default();
        for other in owners.iter().filter(|other| !other.is_of(&own)) {
            conflicts.add(other, FieldSet::of_fields(&[&["spec", "replicas"]]));
        }
        if !conflicts.0.is_empty() && !force {
            return Err(FieldsError::Conflicts(conflicts));
        }
        owners.clear();
    }
    if !owners.iter().any(|owner| owner.is_of(&own)) {
        owners.push(own);
    }
    set_managed_fields(object, give_back(write, managed, owners, paths).encode());
    Ok(())
}

fn owner(entry: ManagedFieldsEntry) -> ManagedFieldsEntry {
    ManagedFieldsEntry { api_version: SCALE.to_owned(), time: None, fields: FieldSet::EMPTY, ..entry }
}

fn path_in<'p>(paths: &'p ReplicaPaths, api_version: &str) -> Option<&'p FieldSet> {
    paths.iter().find(|(version, _)| version == api_version)?.1.as_ref()
}

/// The managers of the scale, in the order of their names.
fn owners(managed: &Managed, paths: &ReplicaPaths) -> Vec<ManagedFieldsEntry> {
    let mut owners: Vec<ManagedFieldsEntry> = Vec::new();
    for entry in &managed.entries {
        let owns = path_in(paths, &entry.api_version).is_some_and(|path| !entry.fields.is_disjoint(path));
        if owns {
            owners.push(owner(entry.clone()));
        }
    }
    owners.sort_by_cached_key(ManagedFieldsEntry::identifier);
    owners.dedup_by(|again, known| again.is_of(known));
    owners
}

/// The managers of the object, after those of its scale have changed.
fn give_back(
    write: &Write<'_>,
    managed: Managed,
    owners: Vec<ManagedFieldsEntry>,
    paths: &ReplicaPaths,
) -> Managed {
    // The name of one who updates includes the version, which is another one.
    let applied = owners.iter().filter(|owner| owner.operation == Operation::Apply);
    let mut applied: HashSet<String> = applied.map(ManagedFieldsEntry::identifier).collect();
    let mut stayed = HashSet::new();
    let mut out = Managed::default();
    for mut entry in managed.entries {
        // Versions that are no more have managers no more.
        if !paths.iter().any(|(version, _)| *version == entry.api_version) {
            continue;
        }
        if let Some(path) = path_in(paths, &entry.api_version).filter(|path| !entry.fields.is_disjoint(path))
        {
            match applied.take(&entry.identifier()) {
                Some(name) => drop(stayed.insert(name)),
                None => entry.fields.subtract(path),
            }
        }
        if !entry.fields.is_empty() {
            out.entries.push(entry);
        }
    }
    let here = path_in(paths, write.api_version).cloned().unwrap_or_default();
    let api_version = write.api_version.to_owned();
    let others = owners.into_iter().filter(|owner| !stayed.contains(&owner.identifier()));
    out.entries.extend(others.map(|owner| ManagedFieldsEntry {
        api_version: api_version.clone(),
        fields: here.clone(),
        ..owner
    }));
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::managed_fields::{
        manager::{Kind, ResetFields},
        time::Timestamp,
        types::TypeInfo,
    };

    fn paths() -> Vec<(String, Option<FieldSet>)> {
        let path = FieldSet::of_fields(&[&["spec", "replicas"]]);
        vec![("g/v1".to_owned(), Some(path)), ("g/v2".to_owned(), None)]
    }

    fn run(entries: &Value, work: impl FnOnce(&Write<'_>, &mut Value)) -> Vec<String> {
        let kind = Kind::new("Thing").with_version("g/v1", TypeInfo::deduced());
        let write = Write {
            kind: &kind,
            api_version: "g/v1",
            subresource: "scale",
            reset: &ResetFields::NONE,
            manager: "m",
            now: Timestamp::parse("2026-01-01T00:00:00Z").unwrap(),
        };
        let mut object = json!({"metadata": {"managedFields": entries}});
        work(&write, &mut object);
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        let shown = |entry: &Value| {
            format!(
                "{} {} {}{} {}",
                entry["manager"].as_str().unwrap(),
                entry["operation"].as_str().unwrap(),
                entry.get("subresource").map_or("", |_| "scale "),
                if entry.get("time").is_some() { "timed" } else { "timeless" },
                entry["fieldsV1"]
            )
        };
        entries.iter().map(shown).collect()
    }

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "g/v1", "time": "2020-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn who_updated_gets_an_entry_for_the_replicas_alone() {
        let both = json!([entry("a", "Update", &json!({"f:spec": {"f:replicas": {}, "f:x": {}}}))]);
        let same = run(&both, |write, object| {
            update_scale(write, object, &paths(), Replicas { old: 1, new: 1 });
        });
        let rest = r#"a Update timed {"f:spec":{"f:x":{}}}"#;
        assert_eq!(same, [r#"a Update timeless {"f:spec":{"f:replicas":{}}}"#, rest]);
        let other = run(&both, |write, object| {
            update_scale(write, object, &paths(), Replicas { old: 1, new: 2 });
        });
        assert_eq!(other, [r#"m Update scale timeless {"f:spec":{"f:replicas":{}}}"#, rest]);
        let none = run(&both, |write, object| {
            update_scale(write, object, &paths(), Replicas { old: 1, new: 0 });
        });
        assert_eq!(none, [rest]);
    }

    #[test]
    fn who_applied_keeps_an_entry() {
        let applied = json!([entry("a", "Apply", &json!({"f:spec": {"f:replicas": {}, "f:x": {}}}))]);
        let whole = r#"a Apply timed {"f:spec":{"f:replicas":{},"f:x":{}}}"#;
        let same = run(&applied, |write, object| {
            apply_scale(write, object, &paths(), Replicas { old: 1, new: 1 }, false).unwrap();
        });
        assert_eq!(same, [r#"m Apply scale timeless {"f:spec":{"f:replicas":{}}}"#, whole]);
        let refused = run(&applied, |write, object| {
            let error = apply_scale(write, object, &paths(), Replicas { old: 1, new: 2 }, false).unwrap_err();
            assert_eq!(
                error.to_string(),
                "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
            );
        });
        assert_eq!(refused, [whole]);
    }
}
