//! Deletion: one object, or a whole collection.

use serde_json::{Value, json};

use super::admit::{self, Origin};
use super::preconditions::{check_uid, check_version, version_number};
use super::{Storage, Target, encode, write_error};
use crate::builtin::rules;
use crate::object::delete::{self, Deletion, Propagation};
use crate::object::{Meta, metadata_mut};
use crate::request::delete::DeleteOptions;
use crate::request::query::ListOptions;
use crate::request::write::WriteOptions;
use crate::resource::crd::{self, CLEANUP_FINALIZER};
use crate::status::{self, ApiError, GroupResource};
use crate::store::{Key, WriteError};

const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// Namespaces that cannot be deleted; as in kube-apiserver's NamespaceLifecycle, `kube-node-lease` is not among them.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

impl Storage {
    /// Deletes an object. The answer is the object where it stays for its finalizers, else a `Status`.
    pub async fn delete(
        &self,
        target: &Target,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, ApiError> {
        loop {
            let stored = self.find(target, name)?;
            let object = encode::to_value(target, &stored);
            check(target, name, &object, options)?;
            check_immortal(target, name, &object)?;
            let now = self.source.now();
            let deletion = match hold_definition(target, &object, &now) {
                Some(held) => Deletion::Mark(held),
                None if is_terminating(target, &object) => Deletion::Waiting,
                None => delete::begin(&object, propagation(target, options), &now),
            };
            let value = match deletion {
                // Read in another version, it may have lost what that one does not know.
                Deletion::Waiting
                    if !options.dry_run && encode::changes(target, &stored, &object, &object) =>
                {
                    Some(encode::to_store_marked(target, &stored, &object))
                }
                Deletion::Waiting => return Ok(object),
                Deletion::Remove if options.dry_run => return Ok(gone(target, name, &object)),
                Deletion::Mark(marked) if options.dry_run => return Ok(marked),
                Deletion::Remove => None,
                Deletion::Mark(marked) => Some(encode::to_store_marked(target, &stored, &marked)),
            };
            let (key, revision) = (target.key(name), stored.revision());
            // The store takes its time, and many deletions may wait for it.
            drop((stored, object));
            let outcome = match value {
                Some(value) => {
                    let written = self.store.update(key, value, Some(revision)).await;
                    written.map(|stored| encode::to_value(target, &stored))
                }
                None => self
                    .store
                    .delete(key, Some(revision))
                    .await
                    .map(|deleted| gone(target, name, &encode::to_value(target, &deleted))),
            };
            match outcome {
                Ok(answer) => return Ok(answer),
                // Another write was faster: decide anew.
                Err(WriteError::Conflict { .. }) => {}
                Err(error) => return Err(write_error(target, name, &error)),
            }
        }
    }

    /// Changes the metadata of an object, if it still has that uid; one without finalizers is deleted then. This is the server's
    /// own work: rules and defaults that a tenant wrote into a CRD cannot prevent it.
    pub async fn edit_metadata(
        &self,
        target: &Target,
        name: &str,
        uid: &str,
        edit: impl Fn(&mut Value),
    ) -> Result<(), ApiError> {
        loop {
            let stored = self.find(target, name)?;
            let mut object = encode::to_value(target, &stored);
            if Meta::of(&object).uid() != Some(uid) {
                return Ok(());
            }
            edit(&mut object["metadata"]);
            let is_finished = delete::is_finished(&object);
            let value = (!is_finished).then(|| encode::to_store_marked(target, &stored, &object));
            let (key, revision) = (target.key(name), stored.revision());
            // The store takes its time.
            drop((stored, object));
            let written = match value {
                Some(value) => self.store.update(key, value, Some(revision)).await,
                None => self.store.delete(key, Some(revision)).await,
            };
            match written {
                Ok(_) => return Ok(()),
                // Another write was faster: try again on its result.
                Err(WriteError::Conflict { .. }) => {}
                Err(error) => return Err(write_error(target, name, &error)),
            }
        }
    }

    /// Sets the finalizers in the spec of a namespace; a terminating one without finalizers is deleted.
    pub async fn finalize(&self, target: &Target, name: &str, finalizers: &Value) -> Result<Value, ApiError> {
        self.set_finalizers(target, name, finalizers, None).await
    }

    /// Sets the finalizers to those of a namespace that a client sends to `/finalize`.
    pub async fn finalize_as(
        &self,
        target: &Target,
        name: &str,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let mut body = admit::admit(target, body, options, &Origin::Body)?.object;
        admit::fits_path(target, &mut body, Some(name))?;
        version_number(&body)?;
        let finalizers = body["spec"].get("finalizers").cloned().unwrap_or_else(|| json!([]));
        self.set_finalizers(target, name, &finalizers, Some((&body, options))).await
    }

    async fn set_finalizers(
        &self,
        target: &Target,
        name: &str,
        finalizers: &Value,
        asked: Option<(&Value, &WriteOptions)>,
    ) -> Result<Value, ApiError> {
        loop {
            let stored = self.find(target, name)?;
            let mut object = encode::to_value(target, &stored);
            if let Some((body, options)) = asked {
                check_uid(target, name, &object, body, options)?;
                check_version(target, name, &object, body)?;
            }
            object["spec"]["finalizers"] = finalizers.clone();
            admit::refuse(target, &object, &rules::validate_finalize(&object))?;
            let value = encode::to_store_within_bounds(target, &object)?;
            if asked.is_some_and(|(_, options)| options.dry_run) {
                return Ok(object);
            }
            let written = if delete::is_finished(&object) {
                self.store.delete(target.key(name), Some(stored.revision())).await
            } else {
                self.store.update(target.key(name), value, Some(stored.revision())).await
            };
            match written {
                Ok(stored) => return Ok(encode::to_value(target, &stored)),
                // Another write was faster: try again on its result.
                Err(WriteError::Conflict { .. }) => {}
                Err(error) => return Err(write_error(target, name, &error)),
            }
        }
    }

    /// Deletes every object that the options select.
    pub async fn delete_collection(
        &self,
        target: &Target,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let keys = self.list(target, list)?.keys();
        self.delete_each(target, keys, options).await
    }

    /// Deletes these objects one after the other. Only keys are held meanwhile: the objects may be many, and may change.
    pub async fn delete_each(
        &self,
        target: &Target,
        keys: Vec<Key>,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        for Key { namespace, name, .. } in keys {
            let namespace = Some(&*namespace).filter(|namespace| !namespace.is_empty());
            let namespaced = Target { namespace: namespace.map(str::to_owned), ..target.clone() };
            match self.delete(&namespaced, &name, options).await {
                Ok(_) | Err(ApiError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Refuses to delete a namespace that the system needs.
fn check_immortal(target: &Target, name: &str, object: &Value) -> Result<(), ApiError> {
    let is_one = &*target.served.store_name == "/namespaces" && IMMORTAL.contains(&name);
    // A namespace that is being deleted already is not checked.
    if !is_one || is_terminating(target, object) {
        return Ok(());
    }
    Err(ApiError::Forbidden {
        resource: Some(GroupResource::of(&target.served.resource)),
        name: name.to_owned(),
        why: "this namespace may not be deleted".to_owned(),
    })
}

/// Returns whether a namespace is terminating and has finalizers: a second deletion changes nothing then.
fn is_terminating(target: &Target, object: &Value) -> bool {
    let waits = object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
    &*target.served.store_name == "/namespaces" && Meta::of(object).deletion_timestamp().is_some() && waits
}

/// Marks a CRD that is deleted for the first time: it stays until its objects are gone, whatever the propagation policy.
fn hold_definition(target: &Target, object: &Value, now: &str) -> Option<Value> {
    let resource = &target.served.resource;
    let is_definition = resource.kind == "CustomResourceDefinition" && !resource.custom;
    if !is_definition || Meta::of(object).deletion_timestamp().is_some() {
        return None;
    }
    let mut held = object.clone();
    let mut finalizers: Vec<&str> = Meta::of(object).finalizers().collect();
    if !finalizers.contains(&CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER);
    }
    let metadata = metadata_mut(&mut held);
    metadata.insert("finalizers".into(), json!(finalizers));
    metadata.insert("deletionTimestamp".into(), now.into());
    crd::set_terminating(&mut held, crd::Cleanup::Pending, now);
    Some(held)
}

fn check(target: &Target, name: &str, object: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let meta = Meta::of(object);
    let resource = &target.served.resource;
    // These resources check the preconditions by themselves, with messages of their own.
    if matches!(&*target.served.store_name, "/namespaces" | DEFINITIONS) {
        let conditions = [
            ("UID", &options.uid, meta.uid()),
            ("ResourceVersion", &options.resource_version, meta.resource_version()),
        ];
        for (what, wanted, found) in conditions {
            if let Some(wanted) = wanted.as_deref().filter(|wanted| Some(*wanted) != found) {
                let found = found.unwrap_or_default();
                return Err(ApiError::own_precondition(resource, name, what, wanted, found));
            }
        }
    }
    match (&options.uid, meta.uid()) {
        (Some(wanted), found) if Some(wanted.as_str()) != found => {
            return Err(ApiError::uid_precondition(resource, name, wanted, found.unwrap_or_default()));
        }
        _ => {}
    }
    match (&options.resource_version, meta.resource_version()) {
        (Some(wanted), found) if Some(wanted.as_str()) != found => {
            Err(ApiError::version_precondition(resource, name, wanted, found.unwrap_or_default()))
        }
        _ => Ok(()),
    }
}

fn propagation(target: &Target, options: &DeleteOptions) -> Option<Propagation> {
    // Events have no dependents.
    if &*target.served.store_name == "/events" {
        return None;
    }
    match (options.propagation, options.orphan_dependents) {
        (Some(Propagation::Foreground), _) => Some(Propagation::Foreground),
        // For namespaces the deprecated field means foreground.
        (None, Some(false)) if &*target.served.store_name == "/namespaces" => Some(Propagation::Foreground),
        (Some(Propagation::Background), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some(Propagation::Orphan), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (None, None) => None,
    }
}

fn gone(target: &Target, name: &str, object: &Value) -> Value {
    // The deletion of a service account is answered with the object, all others with a Status.
    if &*target.served.store_name == "/serviceaccounts" {
        return object.clone();
    }
    status::deleted(&target.served.resource, name, Meta::of(object).uid().unwrap_or_default())
}
