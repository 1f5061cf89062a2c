//! Writes to the API that every controller needs, each with a deadline and only to the object that is meant.

use std::fmt::Debug;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::brief::Brief;
use super::error::Error;
use super::name::Name;
use super::status::{PATIENCE, version};

/// A namespaced kind that is known at compile time.
pub trait Kind:
    Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// Result of deleting an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deleted {
    /// It is on its way out, as of this version.
    Going(u64),
    /// It is gone.
    Gone,
}

/// Writes under one field manager.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    manager: &'static str,
}

impl Writer {
    /// A writer.
    pub fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    /// The client underneath.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn api<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn post(&self) -> PostParams {
        PostParams { field_manager: Some(self.manager.into()), ..PostParams::default() }
    }

    /// Reads an object past all caches. No object has a name that cannot be one, which would be another address.
    pub async fn read<K: Kind>(&self, name: &Name) -> Result<Option<K>, Error> {
        if name.problem(&K::kind(&())).is_some() {
            return Ok(None);
        }
        let api = self.api::<K>(&name.namespace);
        in_time(format!("read {} {name}", K::kind(&())), api.get_opt(&name.name)).await
    }

    /// Creates an object.
    pub async fn create<K: Kind>(&self, object: &K) -> Result<K, Error> {
        let name = Name::of(object);
        let (api, post) = (self.api::<K>(&name.namespace), self.post());
        in_time(format!("create {} {name}", K::kind(&())), api.create(&post, object)).await
    }

    /// Replaces an object, if it has the version that was read.
    pub async fn replace<K: Kind>(&self, object: &K) -> Result<K, Error> {
        let name = Name::of(object);
        let (api, post) = (self.api::<K>(&name.namespace), self.post());
        in_time(format!("replace {} {name}", K::kind(&())), api.replace(&name.name, &post, object)).await
    }

    /// Applies a part of an object: what this manager applied before and leaves out now goes.
    pub async fn apply<K: Kind>(&self, name: &Name, part: &Value, force: bool) -> Result<K, Error> {
        let api = self.api::<K>(&name.namespace);
        let mut params = PatchParams::apply(self.manager);
        params.force = force;
        let patch = Patch::Apply(part);
        in_time(format!("apply {} {name}", K::kind(&())), api.patch(&name.name, &params, &patch)).await
    }

    /// Merges into an object, if it still is this one.
    pub async fn merge<K: Kind>(&self, object: &K, mut body: Value) -> Result<Brief<K>, Error> {
        let name = Name::of(object);
        let api: Api<Brief<K>> = Api::namespaced(self.client.clone(), &name.namespace);
        body["metadata"]["uid"] = json!(object.meta().uid);
        let params = PatchParams { field_manager: Some(self.manager.into()), ..PatchParams::default() };
        let patch = Patch::Merge(&body);
        in_time(format!("change {} {name}", K::kind(&())), api.patch(&name.name, &params, &patch)).await
    }

    /// Changes lists in the metadata, which are written whole: only over the version that was read.
    pub async fn metadata<K: Kind>(
        &self,
        object: &K,
        mut metadata: Map<String, Value>,
    ) -> Result<u64, Error> {
        metadata.insert("resourceVersion".into(), json!(object.meta().resource_version));
        let stored = self.merge(object, json!({ "metadata": metadata })).await?;
        Ok(version(&stored))
    }

    /// Puts a finalizer on.
    pub async fn hold<K: Kind>(&self, object: &K, finalizer: &str) -> Result<u64, Error> {
        let mut all = object.meta().finalizers.clone().unwrap_or_default();
        all.push(finalizer.to_owned());
        self.metadata(object, [("finalizers".to_owned(), json!(all))].into_iter().collect()).await
    }

    /// Takes a finalizer off. That the object is gone is a success.
    pub async fn release<K: Kind>(&self, object: &K, finalizer: &str) -> Result<(), Error> {
        let mut all = object.meta().finalizers.clone().unwrap_or_default();
        all.retain(|known| known != finalizer);
        let metadata = [("finalizers".to_owned(), json!(all))].into_iter().collect();
        match self.metadata(object, metadata).await {
            Err(error) if error.code() == Some(404) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Deletes an object, if it is this one. That it is gone, or another by now, is a success.
    pub async fn delete<K: Kind>(&self, name: &Name, uid: &str) -> Result<Deleted, Error> {
        let only = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        match self.delete_if::<K>(name, only).await {
            Err(error) if error.code() == Some(409) => Ok(Deleted::Gone),
            other => other,
        }
    }

    /// Deletes an object if it has the resourceVersion that was seen: a decision to delete it may not hold for a later one.
    /// What the garbage collector has released meanwhile (`--cascade=orphan`) is not the owner's any more, though a cache may
    /// still show it so; a machine that has become ready serves somebody.
    pub async fn delete_seen<K: Kind>(&self, object: &K) -> Result<Deleted, Error> {
        let meta = object.meta();
        let only = Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
        self.delete_if::<K>(&Name::of(object), only).await
    }

    async fn delete_if<K: Kind>(&self, name: &Name, only: Preconditions) -> Result<Deleted, Error> {
        let api = self.api::<K>(&name.namespace);
        let params = DeleteParams { preconditions: Some(only), ..DeleteParams::background() };
        let answer =
            in_time(format!("delete {} {name}", K::kind(&())), api.delete(&name.name, &params)).await;
        match answer {
            Ok(answer) => Ok(answer.left().map_or(Deleted::Gone, |object| Deleted::Going(version(&object)))),
            Err(error) if error.code() == Some(404) => Ok(Deleted::Gone),
            Err(error) => Err(error),
        }
    }

    /// Writes a status, if the object has the version that was read; gives the new version.
    pub async fn status<K: Kind>(&self, object: &K, status: &impl Serialize) -> Result<u64, Error> {
        let name = Name::of(object);
        let api: Api<Brief<K>> = Api::namespaced(self.client.clone(), &name.namespace);
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {
                "name": name.name, "uid": object.meta().uid, "resourceVersion": object.meta().resource_version,
            },
            "status": status,
        });
        let params = PatchParams::apply(self.manager).force();
        let patch = Patch::Apply(&body);
        let attempt = format!("write the status of {} {name}", K::kind(&()));
        let stored = in_time(attempt, api.patch_status(&name.name, &params, &patch)).await?;
        Ok(version(&stored))
    }
}

async fn in_time<T>(attempt: String, work: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(answer) => answer.map_err(Error::api(attempt)),
        Err(_) => Err(Error::Slow(attempt)),
    }
}
