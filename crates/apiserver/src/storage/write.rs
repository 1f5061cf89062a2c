//! Writes: create, replace, patch, apply.
//!
//! A change is a function of the live object. It runs again after a conflict, unless the client has stated the
//! resource version that it changes.

use bytes::Bytes;
use serde_json::Value;

use super::admit::{self, Admitted, Origin};
use super::patch::apply_patch;
use super::preconditions::{
    check_uid, check_version, needs_version, registry_key, states_version, version_number,
};
use super::track::{Tracking, counts_generations, part_of};
use super::{Storage, Target, Written, encode, write_error};
use crate::builtin::rules;
use crate::managed_fields;
use crate::object::update::{self, Part};
use crate::object::{Meta, delete, metadata_mut};
use crate::rbac::Grant;
use crate::request::path::check_name;
use crate::request::write::WriteOptions;
use crate::resource::crd;
use crate::status::ApiError;
use crate::store::{self, Revision, WriteError};

/// The number of attempts of a change that meets conflicts; as many as in Kubernetes.
const TRIES: usize = 5;

/// A patch of one of the four kinds.
#[derive(Clone, Debug)]
pub enum PatchBody {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' own, for built-in kinds.
    Strategic(Value),
    /// Server-side apply.
    Apply(Value),
}

/// The change that a request makes to an object.
#[derive(Clone, Debug)]
pub enum Change {
    /// Replaces the object.
    Replace(Value),
    /// Changes a part of the object.
    Patch(PatchBody),
}

/// A change on its way to the store: a replacement is admitted once, a patch with each live object that it is tried on.
pub(super) enum Edit<'a> {
    Replace(Admitted),
    Patch(&'a PatchBody),
}

impl Storage {
    /// Creates an object.
    pub async fn create(
        &self,
        target: &Target,
        object: Value,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Written, ApiError> {
        let mut object = admit::admit(target, object, options, &Origin::Body)?.object;
        admit::fits_path(target, &mut object, None)?;
        self.add(target, object, options, manager, Tracking::Update).await
    }

    /// Changes an object; an apply creates a missing one.
    pub async fn change(
        &self,
        target: &Target,
        name: &str,
        change: &Change,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Written, ApiError> {
        let edit = match change {
            // A replacement is admitted before the live object is looked up.
            Change::Replace(object) => {
                let mut admitted = admit::admit(target, object.clone(), options, &Origin::Body)?;
                admit::fits_path(target, &mut admitted.object, Some(name))?;
                check_name(name)?;
                Edit::Replace(admitted)
            }
            Change::Patch(patch) => Edit::Patch(patch),
        };
        let mut tries = TRIES;
        loop {
            let Some(live) = self.store.get(&target.key(name)) else {
                return self.change_missing(target, name, &edit, options, manager).await;
            };
            let revision = live.revision();
            let old = encode::to_value(target, &live);
            let new = self.changed(target, name, &old, &edit, options, manager)?;
            if !encode::changes(target, &live, &old, &new) {
                return Ok(Written { object: encode::to_bytes(target, &live), created: false });
            }
            let ready = Ready::of(target, &new, revision)?;
            if options.dry_run {
                let mut new = new;
                encode::as_read(target, &mut new);
                return Ok(Written {
                    object: with_version(new, revision).to_string().into(),
                    created: false,
                });
            }
            // The store takes its time, and many writes may wait for it: what they wait with is bytes.
            drop((old, new));
            match self.put(target, name, ready, revision).await {
                Ok(object) => return Ok(Written { object, created: false }),
                Err(WriteError::Conflict { .. }) if tries > 1 && !states_version(&edit) => tries -= 1,
                Err(error) => return Err(write_error(target, name, &error)),
            }
        }
    }

    /// Changes an object that does not exist: creates it, where the change may.
    async fn change_missing(
        &self,
        target: &Target,
        name: &str,
        edit: &Edit<'_>,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Written, ApiError> {
        let resource = &target.served.resource;
        let applied = match edit {
            // A scale has been read from the object a moment ago.
            _ if target.status || options.through_scale => return Err(ApiError::not_found(resource, name)),
            Edit::Patch(PatchBody::Apply(applied)) => applied,
            Edit::Replace(Admitted { object, .. })
                if !resource.custom && rules::allows_create_on_update(&resource.group, &resource.kind) =>
            {
                if let Some(uid) = Meta::of(object).uid() {
                    let key = registry_key(target, name, options);
                    return Err(ApiError::uid_of_update(resource, name, &key, uid, ""));
                }
                version_number(object)?;
                let object = object.clone();
                return self.add(target, object, options, manager, Tracking::Replace).await;
            }
            _ => return Err(ApiError::not_found(resource, name)),
        };
        let object = self.applied(target, None, applied, options, manager)?;
        let origin = Origin::Apply(managed_fields::object_text(applied));
        let mut object = admit::admit(target, object, options, &origin)?.object;
        if let Some(uid) = Meta::of(&object).uid() {
            return Err(ApiError::uid_of_apply(resource, name, uid));
        }
        admit::fits_path(target, &mut object, Some(name))?;
        version_number(&object)?;
        self.add(target, object, options, manager, Tracking::Done).await
    }

    /// Refuses a role or a binding that grants rights which its author does not have.
    pub(super) fn check_grant(
        &self,
        target: &Target,
        name: &str,
        new: &Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        let Some(user) = &options.user else { return Ok(()) };
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let grant = Grant { resource: &target.served.resource, namespace, name, new, old };
        self.rbac.check_grant(&self.store, user, &grant)
    }

    /// The admitted result of a change, before the server sets its own fields.
    fn edited(
        &self,
        target: &Target,
        name: &str,
        live: &Value,
        edit: &Edit<'_>,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Admitted, ApiError> {
        let (new, origin) = match edit {
            Edit::Replace(admitted) => {
                let object = &admitted.object;
                check_uid(target, name, live, object, options)?;
                version_number(object)?;
                needs_version(target, name, object)?;
                return Ok(admitted.clone());
            }
            Edit::Patch(PatchBody::Apply(applied)) => {
                let about = Origin::Apply(managed_fields::object_text(applied));
                (self.applied(target, Some(live), applied, options, manager)?, about)
            }
            Edit::Patch(body) => {
                let (new, rest) = apply_patch(target, live, body)?;
                let origin = match (body, rest) {
                    (_, Some(rest)) => Origin::StrategicPatch(managed_fields::text::in_message(&rest)),
                    (PatchBody::Json(_), None) => Origin::JsonPatch(new.to_string()),
                    (_, None) => Origin::Patch(new.to_string()),
                };
                (new, origin)
            }
        };
        let applies = matches!(origin, Origin::Apply(_));
        let untouched = applies && target.served.versions_differ && is_untouched(live, &new);
        let mut admitted = admit::admit(target, new, options, &origin)?;
        let new = &mut admitted.object;
        admit::fits_path(target, new, Some(name))?;
        version_number(new)?;
        if untouched {
            // An apply that changes no value adds no defaults either.
            let managed = new["metadata"]["managedFields"].take();
            *new = live.clone();
            metadata_mut(new).insert("managedFields".into(), managed);
        }
        Ok(admitted)
    }

    /// The result of a change, ready to be stored.
    fn changed(
        &self,
        target: &Target,
        name: &str,
        live: &Value,
        edit: &Edit<'_>,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Value, ApiError> {
        let part = part_of(target);
        let applies = matches!(edit, Edit::Patch(PatchBody::Apply(_)));
        let Admitted { object: mut new, emptied } =
            self.edited(target, name, live, edit, options, manager)?;
        check_version(target, name, live, &new)?;
        let stated = ["uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
            .map(|name| (name, new["metadata"].get(name).cloned()));
        if !applies {
            self.track(target, Some(live), &mut new, options, manager);
        }
        prepare(target, live, &mut new, part);
        if applies {
            managed_fields::keep_times(live, &mut new);
        }
        // Values that a client states for fields of the server are validated as well.
        for (name, value) in stated {
            // An object that is being deleted keeps its timestamp.
            let kept = name == "deletionTimestamp" && Meta::of(live).deletion_timestamp().is_some();
            // A dry run shows it, although the store leaves it out.
            let kept = kept || part == Part::Status || (name == "selfLink" && !options.dry_run);
            let stated = value.filter(|value| value.is_string() || value.is_number());
            if let (Some(value), false) = (stated, kept) {
                metadata_mut(&mut new).insert(name.into(), value);
            }
        }
        self.check_grant(target, name, &new, Some(live), options)?;
        admit::validate(target, &new, Some(live), emptied)?;
        admit::warn(target, &new, Some(live), options);
        // An object that is removed is not encoded for the store.
        if !delete::is_finished(&new) {
            encode::drop_unstored(target, &mut new);
        }
        Ok(new)
    }

    /// Stores a changed object, or deletes it once its last finalizer is gone.
    async fn put(
        &self,
        target: &Target,
        name: &str,
        ready: Ready,
        expected: Revision,
    ) -> Result<Bytes, WriteError> {
        let key = target.key(name);
        match ready {
            Ready::Deleted(shown) => {
                self.store.delete(key, Some(expected)).await?;
                Ok(shown)
            }
            Ready::Stored(value) => {
                let stored = self.store.update(key, value, Some(expected)).await?;
                Ok(encode::to_bytes(target, &stored))
            }
        }
    }
}

/// A changed object on its way to the store.
enum Ready {
    /// The object is deleted; the response shows the result of the request, which is never stored.
    Deleted(Bytes),
    /// The object is stored.
    Stored(store::Value),
}

impl Ready {
    fn of(target: &Target, new: &Value, revision: Revision) -> Result<Self, ApiError> {
        if delete::is_finished(new) {
            return Ok(Self::Deleted(with_version(new.clone(), revision).to_string().into()));
        }
        encode::to_store_within_bounds(target, new).map(Self::Stored)
    }
}

/// Sets the fields of the server, and restores those that a write of this part does not reach.
fn prepare(target: &Target, live: &Value, new: &mut Value, part: Part) {
    let resource = &target.served.resource;
    if !resource.custom && target.status {
        rules::prepare_status_update(&resource.group, &resource.kind, new, live);
    } else if !resource.custom {
        rules::prepare_update(&resource.group, &resource.kind, new, live);
    }
    update::prepare(live, new, part);
    if !resource.custom && resource.kind == "CustomResourceDefinition" && !target.status {
        // A new storage version is added to `status.storedVersions` by a write of the spec.
        crd::prepare_update(new, live);
    }
    if let (Some(given), false) = (live["metadata"].get("generation"), counts_generations(target)) {
        metadata_mut(new).insert("generation".into(), given.clone());
    }
}

/// Returns whether a write changes nothing but the managed fields.
fn is_untouched(live: &Value, new: &Value) -> bool {
    let mut same = new.clone();
    match live["metadata"].get("managedFields") {
        Some(managed) => drop(metadata_mut(&mut same).insert("managedFields".into(), managed.clone())),
        None => drop(metadata_mut(&mut same).shift_remove("managedFields")),
    }
    managed_fields::equal(live, &same)
}

fn with_version(mut object: Value, revision: Revision) -> Value {
    metadata_mut(&mut object).insert("resourceVersion".into(), revision.to_string().into());
    object
}
