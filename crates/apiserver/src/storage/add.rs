//! Creation of an object: its name, the fields of the server, its namespace.

use std::sync::Arc;

use serde_json::Value;

use super::track::{Tracking, counts_generations};
use super::{Storage, Target, Written, admit, encode, write_error};
use crate::builtin::rules;
use crate::object::create::{self, Creation};
use crate::object::{Meta, metadata_mut};
use crate::rbac;
use crate::request::path::{Verb, authorization_namespace, forbidden_resource};
use crate::request::write::WriteOptions;
use crate::status::{ApiError, GroupResource};
use crate::store::{Key, Object, WriteError};

/// The number of further names drawn for an object whose generated name is taken; as many as in Kubernetes.
const NAMES: usize = 7;

impl Storage {
    /// Stores a new object.
    pub(super) async fn add(
        &self,
        target: &Target,
        mut object: Value,
        options: &WriteOptions,
        manager: &str,
        tracking: Tracking,
    ) -> Result<Written, ApiError> {
        let resource = &target.served.resource;
        if resource.terminating {
            return Err(terminating(target, &object));
        }
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
        let creation = Creation {
            namespace: target.namespace.as_deref(),
            uid: &uid,
            now: &now,
            generation: counts_generations(target),
            from_body: tracking == Tracking::Update,
            drop_status: target.served.version.status && resource.custom,
        };
        create::prepare(&mut object, &creation);
        if !resource.custom {
            rules::prepare_create(&resource.group, &resource.kind, &mut object);
        }
        self.check_grant(target, "", &object, None, options)?;
        admit::validate(target, &object, None, None)?;
        admit::warn(target, &object, None, options);
        encode::drop_unstored(target, &mut object);
        self.check_namespace(target)?;
        let name = Meta::of(&object).name().unwrap_or_default().to_owned();
        if tracking != Tracking::Update {
            self.check_create(target, &name, options)?;
        }
        if stated_version.is_some() && tracking != Tracking::Replace && !options.dry_run {
            return Err(ApiError::Unclassified(
                "resourceVersion should not be set on objects to be created".into(),
            ));
        }
        if options.dry_run {
            return self.as_if_added(target, object, &name, stated_version);
        }
        metadata_mut(&mut object).remove("selfLink");
        let value = encode::to_store_within_bounds(target, &object)?;
        // The store takes its time, and many writes may wait for it: what they wait with is bytes, if it may be.
        let kept = generated.then(|| std::mem::take(&mut object));
        drop(object);
        let stored = match (self.store.create(target.key(&name), value).await, kept) {
            (Err(WriteError::AlreadyExists { .. }), Some(object)) => self.add_drawn(target, object).await?,
            (stored, _) => self.stored(target, &name, stored)?,
        };
        Ok(Written { object: encode::to_bytes(target, &stored), created: true })
    }

    /// The result of a dry run, which stores nothing.
    fn as_if_added(
        &self,
        target: &Target,
        mut object: Value,
        name: &str,
        stated_version: Option<String>,
    ) -> Result<Written, ApiError> {
        if self.store.get(&target.key(name)).is_some() {
            return Err(self.taken(target, name));
        }
        // The stated version was not checked, and is shown as it was sent.
        if let Some(version) = stated_version {
            metadata_mut(&mut object).insert("resourceVersion".into(), version.into());
        }
        encode::as_read(target, &mut object);
        Ok(Written { object: object.to_string().into(), created: true })
    }

    /// Authorizes the `create` of an update or an apply that creates the object: the request was authorized as a change. The
    /// name is known here, so rules with resource names count.
    fn check_create(&self, target: &Target, name: &str, options: &WriteOptions) -> Result<(), ApiError> {
        let Some(user) = &options.user else { return Ok(()) };
        let resource = &target.served.resource;
        let wanted = rbac::ResourceAttributes {
            group: &resource.group,
            plural: &resource.plural,
            subresource: "",
            name,
            namespace: authorization_namespace(target.namespace.as_deref(), &resource.plural, Some(name))
                .unwrap_or_default(),
        };
        let object = rbac::Attributes::Resource(wanted);
        let verdict = self.rbac.authorize(&self.store, user, Verb::Create.as_str(), &object);
        if verdict.allowed {
            return Ok(());
        }
        Err(forbidden_resource(&user.name, Verb::Create, &wanted, &verdict.reason))
    }

    /// The stored object, or the error for the client.
    fn stored(
        &self,
        target: &Target,
        name: &str,
        stored: Result<Arc<Object>, WriteError>,
    ) -> Result<Arc<Object>, ApiError> {
        stored.map_err(|error| match error {
            WriteError::AlreadyExists { .. } => self.taken(target, name),
            error => write_error(target, name, &error),
        })
    }

    /// The error where the name of a new object is taken.
    fn taken(&self, target: &Target, name: &str) -> ApiError {
        let there = self.get_value(target, name).unwrap_or_default();
        if Meta::of(&there).deletion_timestamp().is_some() {
            let resource = GroupResource::of(&target.served.resource);
            return ApiError::Deleting { resource, name: name.to_owned() };
        }
        ApiError::already_exists(&target.served.resource, name)
    }

    /// Stores a new object whose generated name was taken under another one.
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

    /// Refuses a creation in a namespace that does not exist or is terminating.
    fn check_namespace(&self, target: &Target) -> Result<(), ApiError> {
        let Some(name) = target.namespace.as_deref().filter(|_| target.served.resource.namespaced) else {
            return Ok(());
        };
        // Where namespaces are not served, as in a test of a few kinds, every name is allowed.
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
}

/// The error for a creation while the CRD is being deleted.
fn terminating(target: &Target, object: &Value) -> ApiError {
    ApiError::Forbidden {
        resource: Some(GroupResource::of(&target.served.resource)),
        name: Meta::of(object).name().unwrap_or_default().to_owned(),
        why: "create not allowed while custom resource definition is terminating".to_owned(),
    }
}
