//! Finds and watches the objects that Clusters name, of whatever kind they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capt_api::cluster::core::{Cluster, ClusterPartRef};
use capt_api::cluster::{CAPTCluster, CAPTControlPlane};
use capt_planner::cluster::core::{ClusterPart, PresentPart};
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use super::MANAGER;
use crate::runtime::status::PATIENCE;
use crate::runtime::{Cache, Error, Name};

/// A kind: its group and its name.
type GroupKind = (String, String);

/// An object that changed.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Changed {
    kind: GroupKind,
    name: Name,
}

/// Parts of all Clusters.
pub struct Parts {
    client: Client,
    kinds: Mutex<HashMap<GroupKind, ApiResource>>,
    watches: Mutex<JoinSet<()>>,
    changes: broadcast::Sender<Changed>,
}

impl Parts {
    /// None are known yet.
    pub fn new(client: Client) -> Arc<Self> {
        Arc::new(Self {
            client,
            kinds: Mutex::default(),
            watches: Mutex::default(),
            changes: broadcast::channel(1024).0,
        })
    }

    /// Finds an object that a Cluster names.
    pub async fn find(
        &self,
        reference: Option<&ClusterPartRef>,
        cluster: &Cluster,
    ) -> Result<ClusterPart, Error> {
        let Some(reference) = reference else { return Ok(ClusterPart::None) };
        let namespace = cluster.namespace().unwrap_or_default();
        if let Some(other) =
            reference.namespace.as_ref().filter(|other| !other.is_empty() && **other != namespace)
        {
            let message = format!("namespace {other}: a part of a Cluster is in its own namespace");
            return Ok(ClusterPart::Wrong(message));
        }
        if let Some(message) = Name::new(namespace.clone(), reference.name.clone()).problem(&reference.kind) {
            return Ok(ClusterPart::Wrong(message));
        }
        let Some(resource) = self.resource(reference).await? else {
            let message =
                format!("no kind {} in the group {} is installed", reference.kind, reference.group());
            return Ok(ClusterPart::Wrong(message));
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &resource);
        let attempt = format!("read {} {namespace}/{}", reference.kind, reference.name);
        Ok(match in_time(attempt, api.get_opt(&reference.name)).await? {
            Some(object) => ClusterPart::There(Box::new(PresentPart::of(&object, reference, cluster))),
            None => ClusterPart::Absent(reference.clone()),
        })
    }

    /// Makes an object a part of a Cluster.
    pub async fn adopt(&self, namespace: &str, part: &PresentPart, metadata: &Value) -> Result<(), Error> {
        let Some(api) = self.api(namespace, &part.reference).await? else { return Ok(()) };
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let attempt = format!("take {} for the Cluster", part.title());
        in_time(attempt, api.patch(&part.reference.name, &params, &patch)).await.map(drop)
    }

    /// Deletes a part, if it is this one. That it is gone is a success.
    pub async fn delete(&self, namespace: &str, part: &PresentPart) -> Result<(), Error> {
        let Some(api) = self.api(namespace, &part.reference).await? else { return Ok(()) };
        let only = Preconditions { uid: Some(part.uid.clone()), resource_version: None };
        let params = DeleteParams { preconditions: Some(only), ..DeleteParams::background() };
        match in_time(format!("delete {}", part.title()), api.delete(&part.reference.name, &params)).await {
            Err(error) if !matches!(error.code(), Some(404 | 409)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Clusters whose parts changed.
    pub fn changes(&self, clusters: &Cache<Cluster>) -> impl Stream<Item = Name> + Send + use<> {
        let clusters = clusters.clone();
        let receiver = self.changes.subscribe();
        futures::stream::unfold((receiver, clusters), |(mut receiver, clusters)| async move {
            let touched = match receiver.recv().await {
                Ok(changed) => named(&clusters, Some(&changed)),
                Err(broadcast::error::RecvError::Lagged(_)) => named(&clusters, None),
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            Some((futures::stream::iter(touched), (receiver, clusters)))
        })
        .flatten()
    }

    async fn api(
        &self,
        namespace: &str,
        reference: &ClusterPartRef,
    ) -> Result<Option<Api<DynamicObject>>, Error> {
        let resource = self.resource(reference).await?;
        Ok(resource.map(|resource| Api::namespaced_with(self.client.clone(), namespace, &resource)))
    }

    /// The resource of a kind, in the version that it likes best. From the first time on, its objects are watched.
    async fn resource(&self, reference: &ClusterPartRef) -> Result<Option<ApiResource>, Error> {
        let kind: GroupKind = (reference.group().to_owned(), reference.kind.clone());
        if let Some(known) = self.known().get(&kind) {
            return Ok(Some(known.clone()));
        }
        let resource = match own(&kind) {
            Some(resource) => resource,
            None => match self.discover(&kind).await? {
                Some(resource) => resource,
                None => return Ok(None),
            },
        };
        let fresh = self.known().insert(kind.clone(), resource.clone()).is_none();
        if fresh {
            let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(self.client.clone(), &resource);
            let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            watches.spawn(follow(api, kind, self.changes.clone()));
        }
        Ok(Some(resource))
    }

    async fn discover(&self, kind: &GroupKind) -> Result<Option<ApiResource>, Error> {
        let attempt = format!("find the kind {} of {}", kind.1, kind.0);
        match in_time(attempt, kube::discovery::group(&self.client, &kind.0)).await {
            Ok(group) => Ok(group.recommended_kind(&kind.1).map(|(resource, _)| resource)),
            Err(Error::Api { source, .. }) if is_missing(&source) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<GroupKind, ApiResource>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kinds of CAPT have one version, and are installed where it runs.
fn own(kind: &GroupKind) -> Option<ApiResource> {
    let own = [ApiResource::erase::<CAPTCluster>(&()), ApiResource::erase::<CAPTControlPlane>(&())];
    own.into_iter().find(|own| own.group == kind.0 && own.kind == kind.1)
}

/// Returns true if the group or kind is not served: an answer, not a failure.
fn is_missing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 404,
        kube::Error::Discovery(_) => true,
        _ => false,
    }
}

async fn follow(
    api: Api<PartialObjectMeta<DynamicObject>>,
    kind: GroupKind,
    changes: broadcast::Sender<Changed>,
) {
    let events = watcher(api, watcher::Config::default()).default_backoff().touched_objects();
    futures::pin_mut!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(object) => {
                let name = Name::new(object.namespace().unwrap_or_default(), object.name_any());
                // Nobody may be listening yet.
                let _ = changes.send(Changed { kind: kind.clone(), name });
            }
            Err(error) => tracing::warn!(kind = kind.1, %error, "watch failed, goes on"),
        }
    }
}

/// Clusters that name an object; all of them where it is not known which one changed.
fn named(clusters: &Cache<Cluster>, changed: Option<&Changed>) -> Vec<Name> {
    let names = |reference: &ClusterPartRef, changed: &Changed| {
        reference.name == changed.name.name
            && reference.kind == changed.kind.1
            && reference.group() == changed.kind.0
    };
    let all = clusters.all();
    let touched = all.iter().filter(|cluster| {
        let mut parts =
            [&cluster.spec.infrastructure_ref, &cluster.spec.control_plane_ref].into_iter().flatten();
        changed.is_none_or(|changed| {
            cluster.meta().namespace.as_ref() == Some(&changed.name.namespace)
                && parts.any(|reference| names(reference, changed))
        })
    });
    touched.map(|cluster| Name::of(cluster.as_ref())).collect()
}

async fn in_time<T>(attempt: String, work: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(answer) => answer.map_err(Error::api(attempt)),
        Err(_) => Err(Error::Slow(attempt)),
    }
}
