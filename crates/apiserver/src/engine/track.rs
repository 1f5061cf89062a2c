//! Who manages which field: what a write makes of `managedFields`.

use serde_json::Value;

use super::{Engine, Target};
use crate::builtin::rules;
use crate::fields::{self, FieldSet, FieldsError, ResetFields, Timestamp, Write};
use crate::object::update::Part;
use crate::registry::api_version;
use crate::request::write::WriteOptions;
use crate::status::{ApiError, Cause};

/// Whether somebody manages the replicas, in any version.
fn is_scale_managed(target: &Target, object: &Value) -> bool {
    let resource = &target.served.resource;
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.into_iter().any(|entry| {
        let written = |version: &str| entry["apiVersion"] == api_version(&resource.group, version).as_str();
        let version = resource.versions.iter().find(|version| written(&version.name));
        let scale = version.and_then(|version| version.scale.as_ref());
        scale.is_some_and(|scale| {
            let mut names = scale.spec_replicas.split('.').skip(1);
            names.try_fold(&entry["fieldsV1"], |fields, name| fields.get(format!("f:{name}"))).is_some()
        })
    })
}

/// In a scale, 0 replicas are none that are said, and nobody manages what nobody said.
fn forget_no_replicas(target: &Target, object: &mut Value, manager: &str) {
    let Some(scale) = &target.served.version.scale else { return };
    let replicas = scale.spec_replicas.split('.').skip(1).try_fold(&*object, |value, name| value.get(name));
    if replicas.and_then(Value::as_i64) != Some(0) {
        return;
    }
    if let Some(entries) = object["metadata"]["managedFields"].as_array_mut() {
        entries.retain(|entry| {
            entry["subresource"] != "scale" || entry["manager"] != manager || entry["operation"] != "Update"
        });
    }
}

/// Whether fields are still to be tracked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracking {
    Update,
    /// As an update that makes what it was to replace.
    Replace,
    Done,
}

impl Engine {
    pub(super) fn applied(
        &self,
        target: &Target,
        live: Option<&Value>,
        applied: &Value,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Value, ApiError> {
        self.with_write(target, options, manager, |write| fields::apply(write, live, applied, options.force))
            .map_err(fields_error)
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
        if options.through_scale && !live.is_some_and(|live| is_scale_managed(target, live)) {
            // Upstream begins to track nothing through a scale.
            return;
        }
        let _ = self.with_write(target, options, manager, |write| fields::update(write, live, new));
        if options.through_scale {
            forget_no_replicas(target, new, manager);
        }
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
                // Of a custom resource, other versions are judged without it.
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
            causes: conflicts
                .causes()
                .into_iter()
                .map(|cause| Cause::new("FieldManagerConflict", cause.message, cause.field))
                .collect(),
        },
        FieldsError::OtherType(_) | FieldsError::HasManagedFields => ApiError::BadRequest(error.to_string()),
        other => ApiError::Unclassified(other.to_string()),
    }
}
