//! One status write per reconcile, and none where nothing changed.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::Error;
use super::name::Name;

/// How long an answer may take: the client's own retries could hold a reconcile for minutes.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Writes the status of objects of one kind, and remembers what it wrote: the cache may still show the one before.
#[derive(Debug)]
pub struct StatusWriter<S> {
    manager: &'static str,
    written: Mutex<HashMap<Name, Written<S>>>,
}

#[derive(Debug)]
struct Written<S> {
    version: u64,
    status: S,
}

impl<S> StatusWriter<S>
where
    S: Clone + Debug + PartialEq + Serialize,
{
    /// A writer that owns its fields under this name.
    pub fn new(manager: &'static str) -> Self {
        Self { manager, written: Mutex::default() }
    }

    /// The status as it is: that of the cache, or ours where the cache is behind.
    pub fn current<K: Resource>(&self, object: &K, cached: Option<&S>) -> Option<S> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let name = Name::of(object);
        match written.get(&name) {
            Some(ours) if ours.version > version(object) => Some(ours.status.clone()),
            Some(_) => {
                written.remove(&name);
                cached.cloned()
            }
            None => cached.cloned(),
        }
    }

    /// Writes the status, if it is another one.
    pub async fn write<K>(
        &self,
        client: &Client,
        object: &K,
        current: Option<&S>,
        status: S,
    ) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        if current == Some(&status) {
            return Ok(());
        }
        let name = Name::of(object);
        let api: Api<K> = Api::namespaced(client.clone(), &name.namespace);
        let patch = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            // An object of the same name that was created meanwhile is not meant.
            "metadata": {"name": name.name, "uid": object.uid()},
            "status": status,
        });
        let params = PatchParams::apply(self.manager).force();
        let patch = Patch::Apply(&patch);
        let write = api.patch_status(&name.name, &params, &patch);
        let attempt = || format!("write the status of {} {name}", K::kind(&()));
        let answer = tokio::time::timeout(PATIENCE, write).await.map_err(|_| Error::Slow(attempt()))?;
        let stored = answer.map_err(Error::api(attempt()))?;
        let written = Written { version: version(&stored), status };
        self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(name, written);
        Ok(())
    }

    /// Objects whose status, as this writer wrote it, says so; only while the cache may still show the one before.
    pub fn wrote(&self, says: impl Fn(&S) -> bool) -> Vec<Name> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.iter().filter(|(_, ours)| says(&ours.status)).map(|(name, _)| name.clone()).collect()
    }

    /// Drops what is known of an object that is gone.
    pub fn forget(&self, name: &Name) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// Resource versions are numbers that grow; Kubernetes promises so since 1.35.
pub fn version<K: Resource>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}
