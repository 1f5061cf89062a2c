//! Writes: create, replace, patch, apply.
//!
//! A change is a function of the object that is there. It runs again when somebody else was faster, unless the
//! client named the version it wants to change.

use bytes::Bytes;
use serde_json::Value;

use super::admit::{self, Origin};
use super::patched::patched;
use super::preconditions::{
    check_uid, check_version, names_version, needs_version, registry_key, version_number,
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

/// How often a change is tried again because somebody else was faster; as many as Kubernetes does.
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

/// What a request does to an object.
#[derive(Clone, Debug)]
pub enum Change {
    /// Puts this in its place.
    Replace(Value),
    /// Changes a part of it.
    Patch(PatchBody),
}

impl Storage {
    /// Adds an object.
    pub async fn create(
        &self,
        target: &Target,
        mut object: Value,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Written, ApiError> {
        admit::shape(target, &mut object, options, &Origin::Body)?;
        admit::fits_path(target, &mut object, None)?;
        self.add(target, object, options, manager, Tracking::Update).await
    }

    /// Changes an object; an apply makes one that is not there.
    pub async fn change(
        &self,
        target: &Target,
        name: &str,
        change: &Change,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Written, ApiError> {
        let shaped;
        let change = match change {
            // A body is judged before anybody looks whether there is something to replace.
            Change::Replace(object) => {
                let mut object = object.clone();
                admit::shape(target, &mut object, options, &Origin::Body)?;
                admit::fits_path(target, &mut object, Some(name))?;
                check_name(name)?;
                shaped = Change::Replace(object);
                &shaped
            }
            Change::Patch(_) => change,
        };
        let mut tries = TRIES;
        loop {
            let Some(live) = self.store.get(&target.key(name)) else {
                return self.change_nothing(target, name, change, options, manager).await;
            };
            let revision = live.revision();
            let old = encode::to_value(target, &live);
            let new = self.changed(target, name, &old, change, options, manager)?;
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
                Err(WriteError::Conflict { .. }) if tries > 1 && !names_version(change) => tries -= 1,
                Err(error) => return Err(write_error(target, name, &error)),
            }
        }
    }

    /// A change of an object that is not there.
    async fn change_nothing(
        &self,
        target: &Target,
        name: &str,
        change: &Change,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Written, ApiError> {
        let resource = &target.served.resource;
        let applied = match change {
            // Through its scale, it was there a moment ago.
            _ if target.status || options.through_scale => return Err(ApiError::not_found(resource, name)),
            Change::Patch(PatchBody::Apply(applied)) => applied,
            Change::Replace(object)
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
        let mut object = self.applied(target, None, applied, options, manager)?;
        admit::shape(target, &mut object, options, &Origin::Apply(managed_fields::object_text(applied)))?;
        if let Some(uid) = Meta::of(&object).uid() {
            return Err(ApiError::uid_of_apply(resource, name, uid));
        }
        admit::fits_path(target, &mut object, Some(name))?;
        version_number(&object)?;
        self.add(target, object, options, manager, Tracking::Done).await
    }

    /// Nobody gives rights away that they do not have.
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

    /// What a request makes of the object that is there, before the server puts its own in.
    fn wanted(
        &self,
        target: &Target,
        name: &str,
        live: &Value,
        change: &Change,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Value, ApiError> {
        let (mut new, origin) = match change {
            Change::Replace(object) => {
                check_uid(target, name, live, object, options)?;
                version_number(object)?;
                needs_version(target, name, object)?;
                return Ok(object.clone());
            }
            Change::Patch(PatchBody::Apply(applied)) => {
                let about = Origin::Apply(managed_fields::object_text(applied));
                (self.applied(target, Some(live), applied, options, manager)?, about)
            }
            Change::Patch(body) => {
                let (new, rest) = patched(target, live, body)?;
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
        admit::shape(target, &mut new, options, &origin)?;
        admit::fits_path(target, &mut new, Some(name))?;
        version_number(&new)?;
        if untouched {
            // Nothing is filled in where nothing was applied but what is there.
            let managed = new["metadata"]["managedFields"].take();
            new = live.clone();
            metadata_mut(&mut new).insert("managedFields".into(), managed);
        }
        Ok(new)
    }

    /// What a change makes of the object that is there, ready to be stored.
    fn changed(
        &self,
        target: &Target,
        name: &str,
        live: &Value,
        change: &Change,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Value, ApiError> {
        let part = part_of(target);
        let applies = matches!(change, Change::Patch(PatchBody::Apply(_)));
        let mut new = self.wanted(target, name, live, change, options, manager)?;
        check_version(target, name, live, &new)?;
        let stated = ["uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
            .map(|name| (name, new["metadata"].get(name).cloned()));
        let emptied = admit::take_emptied(target, &mut new);
        if !applies {
            self.track(target, Some(live), &mut new, options, manager);
        }
        prepare(target, live, &mut new, part);
        if applies {
            managed_fields::keep_times(live, &mut new);
        }
        // What a client says of these is judged, although it is the server that says it in the end.
        for (name, value) in stated {
            // What is being deleted keeps its time.
            let kept = name == "deletionTimestamp" && Meta::of(live).deletion_timestamp().is_some();
            // The store leaves it out, but nothing is stored.
            let kept = kept || part == Part::Status || (name == "selfLink" && !options.dry_run);
            let said = value.filter(|value| value.is_string() || value.is_number());
            if let (Some(value), false) = (said, kept) {
                metadata_mut(&mut new).insert(name.into(), value);
            }
        }
        self.check_grant(target, name, &new, Some(live), options)?;
        admit::put_emptied(&mut new, emptied);
        admit::validate(target, &new, Some(live))?;
        admit::warn(target, &new, Some(live), options);
        admit::take_emptied(target, &mut new);
        // What goes does not go through the store.
        if !delete::is_finished(&new) {
            encode::settle(target, &mut new);
        }
        Ok(new)
    }

    /// Puts a changed object in its place; one that waits for nothing any more goes instead.
    async fn put(
        &self,
        target: &Target,
        name: &str,
        ready: Ready,
        expected: Revision,
    ) -> Result<Bytes, WriteError> {
        let key = target.key(name);
        match ready {
            Ready::Gone(told) => {
                self.store.delete(key, Some(expected)).await?;
                Ok(told)
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
    /// It goes. What the request made of it is told, although it was never stored.
    Gone(Bytes),
    /// It is stored.
    Stored(store::Value),
}

impl Ready {
    fn of(target: &Target, new: &Value, revision: Revision) -> Result<Self, ApiError> {
        if delete::is_finished(new) {
            return Ok(Self::Gone(with_version(new.clone(), revision).to_string().into()));
        }
        encode::to_store_within_bounds(target, new).map(Self::Stored)
    }
}

/// Puts in what is the server's, and takes back what a write of this part does not reach.
fn prepare(target: &Target, live: &Value, new: &mut Value, part: Part) {
    let resource = &target.served.resource;
    if !resource.custom && target.status {
        rules::prepare_status_update(&resource.group, &resource.kind, new, live);
    } else if !resource.custom {
        rules::prepare_update(&resource.group, &resource.kind, new, live);
    }
    update::prepare(live, new, part);
    if !resource.custom && resource.kind == "CustomResourceDefinition" && !target.status {
        // A version to be stored in joins the others, although nobody writes the status.
        crd::prepare_update(new, live);
    }
    if let (Some(given), false) = (live["metadata"].get("generation"), counts_generations(target)) {
        metadata_mut(new).insert("generation".into(), given.clone());
    }
}

/// Whether a write left an object as it was, but for its managers.
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
