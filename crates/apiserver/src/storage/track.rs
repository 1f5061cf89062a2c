//! Field management of writes.

use serde_json::{Map, Value};

use super::{Storage, Target};
use crate::builtin::rules;
use crate::managed_fields::{self, FieldSet, FieldsError, Replicas, ResetFields, Timestamp, Write};
use crate::object::update::Part;
use crate::request::write::WriteOptions;
use crate::resource::Version;
use crate::resource::api_version;
use crate::status::{ApiError, Cause};

/// The path of the replicas in each version.
fn replica_paths(target: &Target) -> Vec<(String, Option<FieldSet>)> {
    let resource = &target.served.resource;
    let path = |version: &Version| {
        let scale = version.scale.as_ref()?;
        let names: Vec<&str> = scale.spec_replicas.split('.').skip(1).collect();
        Some(FieldSet::of_fields(&[&names]))
    };
    let versions = resource.versions.iter();
    versions.map(|version| (api_version(&resource.group, &version.name), path(version))).collect()
}

fn replicas(target: &Target, object: &Value) -> i64 {
    let path = target.served.version.scale.as_ref().map_or("", |scale| &scale.spec_replicas);
    let found = path.split('.').skip(1).try_fold(object, |value, name| value.get(name));
    found.and_then(Value::as_i64).unwrap_or(0)
}

/// The state of field tracking of a new object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracking {
    Update,
    /// As an update that makes what it was to replace.
    Replace,
    Done,
}

impl Storage {
    pub(super) fn applied(
        &self,
        target: &Target,
        live: Option<&Value>,
        applied: &Value,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Value, ApiError> {
        let applied = self.with_write(target, options, manager, |write| match live {
            Some(live) if options.through_scale => scaled(target, write, live, applied, options.force),
            _ => managed_fields::apply(write, live, applied, options.force),
        });
        applied.map_err(fields_error)
    }

    /// A write never fails for its managedFields: after an error the object has none.
    pub(super) fn track(
        &self,
        target: &Target,
        live: Option<&Value>,
        new: &mut Value,
        options: &WriteOptions,
        manager: &str,
    ) {
        self.with_write(target, options, manager, |write| match live {
            Some(live) if options.through_scale => {
                let replicas = Replicas { old: replicas(target, live), new: replicas(target, new) };
                managed_fields::update_scale(write, new, &replica_paths(target), replicas);
            }
            _ => {
                let _ = managed_fields::update(write, live, new);
            }
        });
    }

    fn with_write<T>(
        &self,
        target: &Target,
        options: &WriteOptions,
        manager: &str,
        work: impl FnOnce(&Write<'_>) -> T,
    ) -> T {
        let served = &target.served;
        let reset = served.resource.versions.iter().fold(ResetFields::NONE, |reset, version| {
            let version = api_version(&served.resource.group, &version.name);
            match part_of(target) {
                Part::Whole => reset,
                // As in kube-apiserver, other versions of a custom resource do not reset it.
                Part::AllButStatus if served.resource.custom && version != served.api_version => reset,
                Part::AllButStatus => reset.and(&version, FieldSet::of_fields(&[&["status"]])),
                Part::Status => reset.and(&version, FieldSet::of_fields(&[&["metadata"], &["spec"]])),
                Part::StatusAndMetadata => reset.and(&version, FieldSet::of_fields(&[&["spec"]])),
            }
        });
        let now = Timestamp::parse(&self.source.now()).expect("the source tells the time in RFC 3339");
        work(&Write {
            kind: &served.kind,
            api_version: &served.api_version,
            subresource: match (target.status, options.through_scale) {
                (true, _) => "status",
                (false, true) => "scale",
                (false, false) => "",
            },
            reset: &reset,
            manager,
            now,
        })
    }
}

/// The object after its scale was applied to; of what is applied, only the replicas count, and which object is meant.
fn scaled(
    target: &Target,
    write: &Write<'_>,
    live: &Value,
    applied: &Value,
    force: bool,
) -> Result<Value, FieldsError> {
    let mut new = live.clone();
    let mut patch = applied.clone();
    patch["metadata"] = Value::Object(Map::new());
    for name in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(value) = applied["metadata"].get(name) {
            patch["metadata"][name] = value.clone();
        }
    }
    // A merge of objects does not fail.
    let _ = crate::patch::merge_patch(&mut new, patch);
    let replicas = Replicas { old: replicas(target, live), new: replicas(target, &new) };
    managed_fields::apply_scale(write, &mut new, &replica_paths(target), replicas, force)?;
    Ok(new)
}

pub(super) fn part_of(target: &Target) -> Part {
    match (target.status, target.served.version.status) {
        (true, _) if matches!(&*target.served.store_name, "/nodes" | "/namespaces") => {
            Part::StatusAndMetadata
        }
        (true, _) => Part::Status,
        (false, true) => Part::AllButStatus,
        (false, false) => Part::Whole,
    }
}

pub(super) fn counts_generations(target: &Target) -> bool {
    let resource = &target.served.resource;
    resource.custom || rules::tracks_generation(&resource.group, &resource.kind)
}

fn fields_error(error: FieldsError) -> ApiError {
    match error {
        FieldsError::Conflicts(conflicts) => ApiError::ApplyConflict {
            message: conflicts.to_string(),
            causes: Cause::bounded(
                conflicts
                    .causes()
                    .map(|cause| Cause::new("FieldManagerConflict", cause.message, cause.field)),
            ),
        },
        FieldsError::OtherType(_) | FieldsError::HasManagedFields => ApiError::BadRequest(error.to_string()),
        other => ApiError::Unclassified(other.to_string()),
    }
}
