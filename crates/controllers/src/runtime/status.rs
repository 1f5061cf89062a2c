//! One status write per reconcile, and none where nothing changed. Where only details changed, it may wait for the next.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use tokio::time::Instant;

use super::brief::Brief;
use super::error::Error;
use super::name::Name;

/// Timeout for an answer: the client's own retries could hold a reconcile for minutes.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Time that details wait for the next ones: what changes around an object mostly changes together.
const HOLD: Duration = Duration::from_millis(500);

/// Writes the status of objects of one kind, and remembers what it wrote: the cache may still show the one before.
#[derive(Debug)]
pub struct StatusWriter<S> {
    manager: &'static str,
    /// Takes the details out of a status, where it has any.
    gist: Option<fn(&mut S)>,
    written: Mutex<HashMap<Name, Written<S>>>,
    held: Held,
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
        Self { manager, gist: None, written: Mutex::default(), held: Held::default() }
    }

    /// The same for a kind whose status has details that nobody acts upon: what is left without them is worth a write at once.
    pub fn with_details(manager: &'static str, gist: fn(&mut S)) -> Self {
        Self { gist: Some(gist), ..Self::new(manager) }
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

    /// Writes the status, if it is another one. `Some`: only details are, and they are written after that time.
    pub async fn write<K>(
        &self,
        client: &Client,
        object: &K,
        current: Option<&S>,
        status: S,
    ) -> Result<Option<Duration>, Error>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let name = Name::of(object);
        if current == Some(&status) {
            self.held.told(&name);
            return Ok(None);
        }
        if current.is_some_and(|current| self.differs_in_details(current, &status))
            && let Some(left) = self.held.wait(&name, Instant::now())
        {
            return Ok(Some(left));
        }
        let api: Api<Brief<K>> = Api::namespaced(client.clone(), &name.namespace);
        let attempt = || format!("write the status of {} {name}", K::kind(&()));
        // An object of the same name that was created meanwhile is not meant, and a write of a status does not look at the uid. While the
        // cache still shows one that is gone, only the API tells.
        if object.meta().deletion_timestamp.is_some() {
            let found = tokio::time::timeout(PATIENCE, api.get_metadata_opt(&name.name)).await;
            let found = found.map_err(|_| Error::Slow(attempt()))?.map_err(Error::api(attempt()))?;
            if found.and_then(|found| found.metadata.uid) != object.uid() {
                return Ok(None);
            }
        }
        let patch = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": name.name},
            "status": status,
        });
        let params = PatchParams::apply(self.manager).force();
        let patch = Patch::Apply(&patch);
        let write = api.patch_status(&name.name, &params, &patch);
        let answer = tokio::time::timeout(PATIENCE, write).await.map_err(|_| Error::Slow(attempt()))?;
        let stored = answer.map_err(Error::api(attempt()))?;
        let written = Written { version: version(&stored), status };
        self.held.told(&name);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(name, written);
        Ok(None)
    }

    fn differs_in_details(&self, current: &S, status: &S) -> bool {
        let Some(gist) = self.gist else { return false };
        let [current, status] = [current, status].map(|status| {
            let mut status = status.clone();
            gist(&mut status);
            status
        });
        current == status
    }

    /// Objects whose status, as this writer wrote it, says so; only while the cache may still show the one before.
    pub fn wrote(&self, says: impl Fn(&S) -> bool) -> Vec<Name> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.iter().filter(|(_, ours)| says(&ours.status)).map(|(name, _)| name.clone()).collect()
    }

    /// Drops what is known of an object that is gone.
    pub fn forget(&self, name: &Name) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.held.told(name);
    }
}

/// Since when details of objects are others than their status says.
#[derive(Debug, Default)]
struct Held(Mutex<HashMap<Name, Instant>>);

impl Held {
    /// Returns the time that the details of this object still wait.
    fn wait(&self, name: &Name, now: Instant) -> Option<Duration> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *since.entry(name.clone()).or_insert(now);
        HOLD.checked_sub(now.duration_since(since)).filter(|left| !left.is_zero())
    }

    fn told(&self, name: &Name) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// Takes the words out of conditions: they follow what is told elsewhere.
pub fn without_messages(conditions: &mut [Condition]) {
    for condition in conditions {
        condition.message.clear();
    }
}

/// Resource versions are numbers that grow; Kubernetes promises so since 1.35.
pub fn version<K: Resource>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_wait_once_and_not_for_ever() {
        let (held, start) = (Held::default(), Instant::now());
        let name = Name::new("default", "t");
        assert_eq!(held.wait(&name, start), Some(HOLD));
        assert_eq!(held.wait(&name, start + HOLD / 2), Some(HOLD / 2), "another change does not prolong it");
        assert_eq!(held.wait(&name, start + HOLD), None);
        held.told(&name);
        assert_eq!(held.wait(&name, start + HOLD), Some(HOLD), "the next one waits again");
    }
}
