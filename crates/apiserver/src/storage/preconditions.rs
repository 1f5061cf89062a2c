//! Preconditions of a write: the resource version and the uid that it states.

use serde_json::Value;

use super::admit::Admitted;
use super::write::Edit;
use super::{PatchBody, Target};
use crate::builtin::rules;
use crate::object::Meta;
use crate::request::write::WriteOptions;
use crate::status::{ApiError, Cause, GroupResource, go};

/// Returns whether a change states the resource version of the object.
pub(super) fn states_version(edit: &Edit<'_>) -> bool {
    match edit {
        Edit::Replace(Admitted { object, .. })
        | Edit::Patch(PatchBody::Merge(object) | PatchBody::Strategic(object) | PatchBody::Apply(object)) => {
            Meta::of(object).resource_version().is_some()
        }
        Edit::Patch(PatchBody::Json(_)) => false,
    }
}

/// Refuses an update without a resource version, for kinds that require one.
pub(super) fn needs_version(target: &Target, name: &str, new: &Value) -> Result<(), ApiError> {
    let resource = &target.served.resource;
    let unconditional =
        !resource.custom && rules::allows_unconditional_update(&resource.group, &resource.kind);
    if unconditional || Meta::of(new).resource_version().is_some_and(|version| version != "0") {
        return Ok(());
    }
    let what = "Invalid value: 0: must be specified for an update";
    let cause = Cause::new("FieldValueInvalid", what, "metadata.resourceVersion");
    Err(ApiError::Invalid { kind: GroupResource::of(resource), name: name.to_owned(), causes: vec![cause] })
}

/// Refuses a resource version that is not a number, with the error of Go.
pub(super) fn version_number(object: &Value) -> Result<(), ApiError> {
    match Meta::of(object).resource_version() {
        Some(version) if version.parse::<u64>().is_err() => Err(ApiError::Unclassified(format!(
            "strconv.ParseUint: parsing {}: invalid syntax",
            go::quote(version)
        ))),
        _ => Ok(()),
    }
}

/// The key of an object in etcd, which some messages of kube-apiserver show.
pub(super) fn registry_key(target: &Target, name: &str, options: &WriteOptions) -> String {
    let resource = &target.served.resource;
    let place = match (resource.custom, &*resource.group, &*resource.plural) {
        (true, group, plural) | (false, group @ "apiextensions.k8s.io", plural) => {
            format!("{group}/{plural}")
        }
        (false, _, "nodes") => "minions".to_owned(),
        (false, _, plural) => plural.to_owned(),
    };
    let namespace = target.namespace.as_deref().map(|namespace| format!("/{namespace}")).unwrap_or_default();
    let root = if options.dry_run { "" } else { "/registry" };
    format!("{root}/{place}{namespace}/{name}")
}

/// Refuses an update that states another uid.
pub(super) fn check_uid(
    target: &Target,
    name: &str,
    live: &Value,
    new: &Value,
    options: &WriteOptions,
) -> Result<(), ApiError> {
    match (Meta::of(new).uid(), Meta::of(live).uid()) {
        (Some(wanted), Some(found)) if wanted != found => {
            let key = registry_key(target, name, options);
            Err(ApiError::uid_of_update(&target.served.resource, name, &key, wanted, found))
        }
        _ => Ok(()),
    }
}

/// Refuses a write that states another resource version.
pub(super) fn check_version(target: &Target, name: &str, live: &Value, new: &Value) -> Result<(), ApiError> {
    match Meta::of(new).resource_version().filter(|version| *version != "0") {
        Some(wanted) if Some(wanted) != Meta::of(live).resource_version() => {
            Err(ApiError::modified(&target.served.resource, name))
        }
        _ => Ok(()),
    }
}
