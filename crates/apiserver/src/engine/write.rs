//! Writes: create, replace, patch, apply.
//!
//! A change is a function of the object that is there. It runs again when somebody else was faster, unless the
//! client named the version it wants to change.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::admit::{self, Origin};
use super::{Engine, Target, Written, encode, write_error};
use crate::builtin::rules;
use crate::fields::{self, FieldSet, FieldsError, ResetFields, Timestamp, Write};
use crate::object::create::{self, Birth};
use crate::object::update::{self, Part};
use crate::object::{Meta, delete, metadata_mut};
use crate::patch::{self, JsonPatchError};
use crate::rbac::Grant;
use crate::registry::api_version;
use crate::request::write::WriteOptions;
use crate::status::{ApiError, Cause, GroupResource, go};
use crate::store::{Key, Object, Revision, WriteError};

/// How often a change is tried again because somebody else was faster; as many as Kubernetes does.
const TRIES: usize = 5;
/// How many more names are drawn for an object whose first one was taken; as many as Kubernetes does.
const NAMES: usize = 7;

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

impl Engine {
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
            if update::is_no_change(&old, &new) {
                return Ok(Written { object: encode::to_bytes(target, &live), created: false });
            }
            if options.dry_run {
                return Ok(Written {
                    object: with_version(new, revision).to_string().into(),
                    created: false,
                });
            }
            match self.put(target, name, &new, revision).await {
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
            _ if target.status => return Err(ApiError::not_found(resource, name)),
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
        admit::shape(target, &mut object, options, &Origin::Apply(fields::object_text(applied)))?;
        admit::fits_path(target, &mut object, Some(name))?;
        self.add(target, object, options, manager, Tracking::Done).await
    }

    /// Stores a new object.
    async fn add(
        &self,
        target: &Target,
        mut object: Value,
        options: &WriteOptions,
        manager: &str,
        tracking: Tracking,
    ) -> Result<Written, ApiError> {
        let resource = &target.served.resource;
        let stated_version = Meta::of(&object).resource_version().map(str::to_owned);
        if tracking != Tracking::Done {
            self.track(target, None, &mut object, options, manager);
        }
        if !resource.custom {
            rules::admit_create(&resource.group, &resource.kind, &mut object);
        }
        let generated = Meta::of(&object).name().is_none();
        if let Some(name) = create::generated_name(&object, |below| self.source.draw(below)) {
            metadata_mut(&mut object).insert("name".into(), name.into());
        }
        let (uid, now) = (self.source.uid(), self.source.now());
        let birth = Birth {
            namespace: target.namespace.as_deref(),
            uid: &uid,
            now: &now,
            generation: counts_generations(target),
            drop_status: target.served.version.status && resource.custom,
        };
        create::prepare(&mut object, &birth);
        if !resource.custom {
            rules::prepare_create(&resource.group, &resource.kind, &mut object);
        }
        self.check_grant(target, "", &object, None, options)?;
        admit::validate(target, &object, None)?;
        encode::settle(target, &mut object);
        self.check_namespace(target)?;
        if stated_version.is_some() && tracking != Tracking::Replace && !options.dry_run {
            return Err(ApiError::Unclassified(
                "resourceVersion should not be set on objects to be created".into(),
            ));
        }
        let name = Meta::of(&object).name().unwrap_or_default().to_owned();
        if options.dry_run {
            if self.store.get(&target.key(&name)).is_some() {
                return Err(self.taken(target, &name));
            }
            // Nobody looked at the version, and it is told as it came.
            if let Some(version) = stated_version {
                metadata_mut(&mut object).insert("resourceVersion".into(), version.into());
            }
            return Ok(Written { object: object.to_string().into(), created: true });
        }
        let stored = self.store.create(target.key(&name), encode::to_store(target, &object)).await;
        let stored = match stored {
            Err(WriteError::AlreadyExists { .. }) if generated => self.add_drawn(target, object).await?,
            Err(WriteError::AlreadyExists { .. }) => return Err(self.taken(target, &name)),
            stored => stored.map_err(|error| write_error(target, &name, &error))?,
        };
        Ok(Written { object: encode::to_bytes(target, &stored), created: true })
    }

    /// The answer where the name of a new object is taken.
    fn taken(&self, target: &Target, name: &str) -> ApiError {
        let there = self.get_value(target, name).unwrap_or_default();
        if Meta::of(&there).deletion_timestamp().is_some() {
            let resource = GroupResource::of(&target.served.resource);
            return ApiError::Deleting { resource, name: name.to_owned() };
        }
        ApiError::already_exists(&target.served.resource, name)
    }

    /// Stores a new object whose generated name was taken: under another one, if one is found soon.
    async fn add_drawn(&self, target: &Target, mut object: Value) -> Result<Arc<Object>, ApiError> {
        let mut tries = NAMES;
        loop {
            metadata_mut(&mut object).remove("name");
            let name = create::generated_name(&object, |below| self.source.draw(below)).unwrap_or_default();
            metadata_mut(&mut object).insert("name".into(), name.as_str().into());
            match self.store.create(target.key(&name), encode::to_store(target, &object)).await {
                Err(WriteError::AlreadyExists { .. }) if tries > 1 => tries -= 1,
                Err(WriteError::AlreadyExists { .. }) => {
                    let resource = GroupResource::of(&target.served.resource);
                    return Err(ApiError::GenerateName { resource, name });
                }
                stored => return stored.map_err(|error| write_error(target, &name, &error)),
            }
        }
    }

    /// Nobody gives rights away that they do not have.
    fn check_grant(
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

    /// Nothing is created in a namespace that is not there, or is going.
    fn check_namespace(&self, target: &Target) -> Result<(), ApiError> {
        let Some(name) = target.namespace.as_deref().filter(|_| target.served.resource.namespaced) else {
            return Ok(());
        };
        // Where namespaces are not served at all, as in a test of a few kinds, every name is one.
        if self.registry.current().find("", "v1", "namespaces").is_none() {
            return Ok(());
        }
        let missing =
            || ApiError::NotFound { resource: GroupResource::new("", "namespaces"), name: name.to_owned() };
        let namespace = self.store.get(&Key::new("/namespaces", "", name)).ok_or_else(missing)?;
        if !encode::is_deleting(&namespace) {
            return Ok(());
        }
        Err(ApiError::Forbidden {
            resource: Some(GroupResource::of(&target.served.resource)),
            name: String::new(),
            why: format!("unable to create new content in namespace {name} because it is being terminated"),
        })
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
        let (mut new, origin) = match change {
            Change::Replace(object) => (object.clone(), Origin::Body),
            Change::Patch(PatchBody::Apply(applied)) => {
                let about = Origin::Apply(fields::object_text(applied));
                (self.applied(target, Some(live), applied, options, manager)?, about)
            }
            Change::Patch(body) => {
                let new = patched(target, live, body)?;
                let shown = match body {
                    PatchBody::Strategic(patch) => fields::text::in_message(patch),
                    _ => new.to_string(),
                };
                (new, Origin::Patch(shown))
            }
        };
        if matches!(change, Change::Replace(_)) {
            version_number(&new)?;
            needs_version(target, name, &new)?;
        } else {
            admit::shape(target, &mut new, options, &origin)?;
            admit::fits_path(target, &mut new, Some(name))?;
        }
        if let Change::Replace(_) = change {
            check_uid(target, name, live, &new, options)?;
        }
        check_version(target, name, live, &new)?;
        let stated = ["uid", "deletionTimestamp"].map(|name| (name, new["metadata"].get(name).cloned()));
        if !applies {
            self.track(target, Some(live), &mut new, options, manager);
        }
        let resource = &target.served.resource;
        if !resource.custom && target.status {
            rules::prepare_status_update(&resource.group, &resource.kind, &mut new, live);
        } else if !resource.custom {
            rules::prepare_update(&resource.group, &resource.kind, &mut new, live);
        }
        update::prepare(live, &mut new, part);
        if let (Some(given), false) = (live["metadata"].get("generation"), counts_generations(target)) {
            metadata_mut(&mut new).insert("generation".into(), given.clone());
        }
        if applies {
            fields::keep_times(live, &mut new);
        }
        // What a client says of these is judged, although it is the server that says it in the end.
        for (name, value) in stated {
            if let (Some(value), false) = (value.filter(Value::is_string), part == Part::Status) {
                metadata_mut(&mut new).insert(name.into(), value);
            }
        }
        self.check_grant(target, name, &new, Some(live), options)?;
        admit::validate(target, &new, Some(live))?;
        encode::settle(target, &mut new);
        Ok(new)
    }

    /// Puts a changed object in its place; one that waits for nothing any more goes instead.
    async fn put(
        &self,
        target: &Target,
        name: &str,
        new: &Value,
        expected: Revision,
    ) -> Result<Bytes, WriteError> {
        let key = target.key(name);
        if delete::is_finished(new) {
            // What the request made of it is told, although it was never stored.
            self.store.delete(key, Some(expected)).await?;
            return Ok(with_version(new.clone(), expected).to_string().into());
        }
        let stored = self.store.update(key, encode::to_store(target, new), Some(expected)).await?;
        Ok(encode::to_bytes(target, &stored))
    }

    fn applied(
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
    fn track(
        &self,
        target: &Target,
        live: Option<&Value>,
        new: &mut Value,
        options: &WriteOptions,
        manager: &str,
    ) {
        let _ = self.with_write(target, options, manager, |write| fields::update(write, live, new));
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

/// Whether fields are still to be tracked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    Update,
    /// As an update that makes what it was to replace.
    Replace,
    Done,
}

fn part_of(target: &Target) -> Part {
    match (target.status, target.served.version.status) {
        (true, _) if matches!(&*target.served.store_name, "/nodes" | "/namespaces") => {
            Part::StatusAndMetadata
        }
        (true, _) => Part::Status,
        (false, true) => Part::AllButStatus,
        (false, false) => Part::Whole,
    }
}

fn counts_generations(target: &Target) -> bool {
    let resource = &target.served.resource;
    resource.custom || rules::tracks_generation(&resource.group, &resource.kind)
}

/// Whether a change says which version of the object it is meant for.
fn names_version(change: &Change) -> bool {
    match change {
        Change::Replace(object)
        | Change::Patch(PatchBody::Merge(object) | PatchBody::Strategic(object) | PatchBody::Apply(object)) => {
            Meta::of(object).resource_version().is_some()
        }
        Change::Patch(PatchBody::Json(_)) => false,
    }
}

/// Some kinds are only replaced by who says what is replaced.
fn needs_version(target: &Target, name: &str, new: &Value) -> Result<(), ApiError> {
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

/// A version is a number; anything else is told in Go's words.
fn version_number(object: &Value) -> Result<(), ApiError> {
    match Meta::of(object).resource_version() {
        Some(version) if version.parse::<u64>().is_err() => Err(ApiError::Unclassified(format!(
            "strconv.ParseUint: parsing {}: invalid syntax",
            go::quote(version)
        ))),
        _ => Ok(()),
    }
}

/// Where upstream's store has an object, which some messages show.
fn registry_key(target: &Target, name: &str, options: &WriteOptions) -> String {
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

/// A replacement that names an object by its uid is for that one alone.
fn check_uid(
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

fn check_version(target: &Target, name: &str, live: &Value, new: &Value) -> Result<(), ApiError> {
    match Meta::of(new).resource_version().filter(|version| *version != "0") {
        Some(wanted) if Some(wanted) != Meta::of(live).resource_version() => {
            Err(ApiError::modified(&target.served.resource, name))
        }
        _ => Ok(()),
    }
}

fn patched(target: &Target, live: &Value, body: &PatchBody) -> Result<Value, ApiError> {
    let mut object = live.clone();
    let outcome = match body {
        PatchBody::Json(patch) => match patch::json_patch(&mut object, patch.clone()) {
            Err(JsonPatchError::Failed(_)) => return Err(ApiError::PatchFailed),
            Err(error @ JsonPatchError::TooMany(_)) => {
                return Err(ApiError::RequestEntityTooLarge(error.to_string()));
            }
            outcome => outcome.map_err(|error| error.to_string()),
        },
        PatchBody::Merge(patch) if !patch.is_object() && !patch.is_null() => Err(not_an_object(patch)),
        PatchBody::Merge(patch) => {
            patch::merge_patch(&mut object, patch.clone()).map_err(|error| error.to_string())
        }
        PatchBody::Strategic(_) if target.served.resource.custom => {
            return Err(ApiError::UnsupportedMediaType {
                message: "the body of the request was in an unknown format - accepted media types include: \
                          application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                    .into(),
                routed: true,
            });
        }
        PatchBody::Strategic(patch) => {
            let types =
                target.served.kind.types(&target.served.api_version).expect("a served version has types");
            let outcome = patch::strategic_merge_patch(&mut object, patch.clone(), types);
            if let Err(error) = &outcome
                && error.code() == 500
            {
                return Err(ApiError::Unclassified(error.to_string()));
            }
            outcome.map_err(|error| error.to_string())
        }
        PatchBody::Apply(_) => Ok(()),
    };
    outcome.map_err(ApiError::BadRequest)?;
    Ok(object)
}

fn not_an_object(patch: &Value) -> String {
    let found = crate::request::json::kind_of(patch);
    format!(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    )
}

fn with_version(mut object: Value, revision: Revision) -> Value {
    metadata_mut(&mut object).insert("resourceVersion".into(), revision.to_string().into());
    object
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
