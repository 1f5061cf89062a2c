//! What others need to know of Clusters. Cluster API may not be installed: then there is none, and nothing is logged
//! about it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capt_api::names::annotations;
use capt_api::refs::Endpoint;
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::{broadcast, watch};

use super::name::Name;

/// How long until somebody looks again whether the kind is there.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Versions that Cluster API serves, the newest first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// An object that a Cluster refers to, in its own namespace.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Reference {
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl Reference {
    /// Reads a reference of either version: v1beta2 has `apiGroup`, v1beta1 `apiVersion`.
    pub fn of(value: &Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().filter(|text| !text.is_empty());
        let group =
            text("apiGroup").or_else(|| text("apiVersion")?.split_once('/').map(|(group, _)| group))?;
        Some(Self { group: group.to_owned(), kind: text("kind")?.to_owned(), name: text("name")?.to_owned() })
    }
}

/// What is known of one Cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClusterFacts {
    /// Its uid.
    pub uid: String,
    /// It is paused, by its field or its annotation.
    pub paused: bool,
    /// It is on its way out.
    pub deleting: bool,
    /// Its infrastructure.
    pub infrastructure: Option<Reference>,
    /// Its control plane.
    pub control_plane: Option<Reference>,
    /// Where its API is.
    pub endpoint: Option<Endpoint>,
    /// The region that its annotation names.
    pub region: Option<String>,
    /// Its infrastructure was complete at least once.
    pub infrastructure_provisioned: bool,
}

impl ClusterFacts {
    fn of(object: &DynamicObject) -> Self {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let asked = spec["paused"].as_bool().unwrap_or(false);
        Self {
            uid: object.uid().unwrap_or_default(),
            paused: asked || object.annotations().contains_key(annotations::PAUSED),
            deleting: object.metadata.deletion_timestamp.is_some(),
            infrastructure: Reference::of(&spec["infrastructureRef"]),
            control_plane: Reference::of(&spec["controlPlaneRef"]),
            endpoint: endpoint(&spec["controlPlaneEndpoint"]),
            region: object.annotations().get(annotations::REGION).cloned().filter(|text| !text.is_empty()),
            infrastructure_provisioned: status["initialization"]["infrastructureProvisioned"] == true
                || status["infrastructureReady"] == true,
        }
    }
}

/// An endpoint that is one: v1beta1 writes an empty host and port 0 for none.
pub fn endpoint(value: &Value) -> Option<Endpoint> {
    let host = value["host"].as_str().filter(|host| !host.is_empty())?;
    let port = value["port"].as_i64().and_then(|port| i32::try_from(port).ok()).filter(|port| *port > 0)?;
    Some(Endpoint { host: host.to_owned(), port })
}

/// What is known of Clusters.
#[derive(Clone, Debug)]
pub struct Clusters {
    known: Arc<Mutex<HashMap<Name, ClusterFacts>>>,
    paused: broadcast::Sender<Name>,
    changes: broadcast::Sender<Name>,
    listed: watch::Sender<bool>,
}

impl Clusters {
    /// Follows Clusters, and the work that does so.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let clusters = Self::empty();
        let work = follow(clusters.clone(), client);
        (clusters, work)
    }

    fn empty() -> Self {
        Self {
            known: Arc::default(),
            paused: broadcast::channel(1024).0,
            changes: broadcast::channel(1024).0,
            listed: watch::channel(false).0,
        }
    }

    /// Whether a Cluster exists and is paused.
    pub fn is_paused(&self, name: &Name) -> bool {
        self.all().get(name).is_some_and(|facts| facts.paused)
    }

    /// One Cluster.
    pub fn get(&self, name: &Name) -> Option<ClusterFacts> {
        self.all().get(name).cloned()
    }

    /// Waits until it is known which Clusters there are, or that there is no such kind.
    pub async fn ready(&self) {
        // An error says that nobody follows any more, and with that everything has ended.
        let _ = self.listed.subscribe().wait_for(|listed| *listed).await;
    }

    /// Names of Clusters that were paused, or are not any more.
    pub fn changes(&self) -> impl Stream<Item = Name> + Send + 'static {
        self.stream(self.paused.subscribe())
    }

    /// Names of Clusters of which anything changed that is known here, or that came or went.
    pub fn any_changes(&self) -> impl Stream<Item = Name> + Send + 'static {
        self.stream(self.changes.subscribe())
    }

    fn stream(&self, from: broadcast::Receiver<Name>) -> impl Stream<Item = Name> + Send + use<> {
        let known = Arc::clone(&self.known);
        super::cache::names(from, move || {
            known.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Name, ClusterFacts>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is known of a Cluster; nothing where it is gone.
    fn note(&self, name: Name, facts: Option<&ClusterFacts>) {
        let now_paused = facts.is_some_and(|facts| facts.paused);
        let mut all = self.all();
        let before = match facts {
            Some(facts) => all.insert(name.clone(), facts.clone()),
            None => all.remove(&name),
        };
        drop(all);
        // Nobody may be listening yet.
        if before.as_ref().is_some_and(|before| before.paused) != now_paused {
            let _ = self.paused.send(name.clone());
        }
        if before.as_ref() != facts {
            let _ = self.changes.send(name);
        }
    }

    /// Takes one event of the watch. `relisted` has those that were known before a list that is under way.
    fn take(&self, event: Event<DynamicObject>, relisted: &mut HashSet<Name>) {
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let name = name_of(&object);
                relisted.remove(&name);
                self.note(name, Some(&ClusterFacts::of(&object)));
            }
            Event::Delete(object) => self.note(name_of(&object), None),
            Event::Init => *relisted = self.all().keys().cloned().collect(),
            Event::InitDone => {
                for gone in relisted.drain() {
                    self.note(gone, None);
                }
                self.listed.send_replace(true);
            }
        }
    }
}

fn name_of(object: &DynamicObject) -> Name {
    Name::new(object.namespace().unwrap_or_default(), object.name_any())
}

async fn follow(clusters: Clusters, client: Client) {
    loop {
        for version in VERSIONS {
            let kind = GroupVersionKind::gvk("cluster.x-k8s.io", version, "Cluster");
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
            if api.list(&ListParams::default().limit(1)).await.is_err() {
                continue;
            }
            let events = watcher::watcher(api, watcher::Config::default());
            futures::pin_mut!(events);
            let mut relisted = HashSet::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => clusters.take(event, &mut relisted),
                    Err(error) => {
                        tracing::debug!(%error, "watch of Clusters failed, starts again");
                        break;
                    }
                }
            }
        }
        clusters.listed.send_replace(true);
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, spec: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "n", "uid": "u"}, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn both_versions_are_read() {
        let old = json!({"apiVersion": "g.io/v1beta1", "kind": "K", "name": "x", "namespace": "n"});
        let new = json!({"apiGroup": "g.io", "kind": "K", "name": "x"});
        let same = Reference { group: "g.io".into(), kind: "K".into(), name: "x".into() };
        assert_eq!(Reference::of(&old).as_ref(), Some(&same));
        assert_eq!(Reference::of(&new).as_ref(), Some(&same));
        for none in [
            json!(null),
            json!({"kind": "K", "name": "x"}),
            json!({"apiGroup": "g", "kind": "K", "name": ""}),
        ] {
            assert_eq!(Reference::of(&none), None);
        }
        assert_eq!(endpoint(&json!({"host": "", "port": 0})), None);
        assert_eq!(endpoint(&json!({"host": "h", "port": 443})).unwrap().host, "h");
    }

    #[test]
    fn what_is_gone_after_a_list_is_gone() {
        let clusters = Clusters::empty();
        let mut paused = clusters.paused.subscribe();
        let mut changes = clusters.changes.subscribe();
        let mut relisted = HashSet::new();
        let mut take = |event| clusters.take(event, &mut relisted);
        take(Event::Apply(cluster("a", &json!({"paused": true}))));
        take(Event::Apply(cluster("b", &json!({}))));
        take(Event::Apply(cluster("b", &json!({}))));
        take(Event::Init);
        take(Event::InitApply(cluster("b", &json!({}))));
        take(Event::InitDone);
        let (a, b) = (Name::new("n", "a"), Name::new("n", "b"));
        assert!(!clusters.is_paused(&a) && clusters.get(&a).is_none() && clusters.get(&b).is_some());
        let told = |receiver: &mut broadcast::Receiver<Name>| {
            std::iter::from_fn(|| receiver.try_recv().ok()).collect::<Vec<_>>()
        };
        assert_eq!(told(&mut paused), [a.clone(), a.clone()]);
        assert_eq!(told(&mut changes), [a.clone(), b, a]);
    }
}
