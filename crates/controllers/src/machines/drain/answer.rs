//! Answers of a cluster, read as far as draining needs them.
//!
//! Whoever may write a kubeconfig Secret decides who answers. So nothing is kept of an answer but the few fields below, and no more items
//! of a list than were asked for: a byte of JSON would otherwise become a hundred in memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Objects in one page of a list.
pub const PAGE: u32 = 50;

/// One page of a list.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub struct Page<T> {
    #[serde(default)]
    metadata: Option<PageMetadata>,
    /// The objects: [`PAGE`] of them at most.
    #[serde(deserialize_with = "items")]
    pub items: Vec<T>,
}

#[derive(Debug, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

impl<T> Page<T> {
    /// Returns the token for the next page; none after the last.
    pub fn next(&mut self) -> Option<String> {
        self.metadata.take()?.token.filter(|token| !token.is_empty())
    }
}

/// A Node.
#[derive(Debug, Deserialize)]
pub struct Node {
    metadata: Metadata,
    #[serde(default)]
    spec: Option<NodeSpec>,
    #[serde(default)]
    status: Option<NodeStatus>,
}

#[derive(Debug, Deserialize)]
struct NodeSpec {
    #[serde(default)]
    unschedulable: Option<bool>,
    #[serde(default, rename = "providerID")]
    provider_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    #[serde(default, deserialize_with = "any")]
    conditions: Any<NodeCondition>,
}

#[derive(Debug, Deserialize)]
struct NodeCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Matches for NodeCondition {
    fn matches(&self) -> bool {
        self.kind == "Ready" && self.status == "Unknown"
    }
}

impl Node {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// Returns the cloud's id of its machine.
    pub fn provider_id(&self) -> Option<&str> {
        self.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
    }

    /// Returns true if it is cordoned.
    pub fn is_cordoned(&self) -> bool {
        self.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
    }

    /// Returns true if its kubelet has not reported for a while: pods that are being deleted there will not end.
    pub fn is_silent(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.conditions.0)
    }
}

/// A pod.
#[derive(Debug, Deserialize)]
pub struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: Option<PodStatus>,
}

#[derive(Debug, Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: Option<String>,
}

impl Pod {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    /// Returns true if it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns true if it must leave before its Node goes.
    pub fn matters(&self, silent: bool) -> bool {
        let finished = self.status.as_ref().and_then(|status| status.phase.as_deref());
        let lost = silent && self.is_deleting();
        let mirrored = self.metadata.annotations.as_ref().is_some_and(|notes| notes.mirror.is_some());
        !(matches!(finished, Some("Succeeded" | "Failed"))
            || self.metadata.owner_references.0
            || mirrored
            || lost)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(default)]
    annotations: Option<Annotations>,
    /// True if a DaemonSet controls it.
    #[serde(default, deserialize_with = "any")]
    owner_references: Any<Owner>,
}

#[derive(Debug, Deserialize)]
struct Annotations {
    /// The kubelet's copy of a pod that it runs by itself; deleting that stops nothing.
    #[serde(default, rename = "kubernetes.io/config.mirror")]
    mirror: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    api_version: String,
    kind: String,
    #[serde(default)]
    controller: Option<bool>,
}

impl Matches for Owner {
    fn matches(&self) -> bool {
        self.controller == Some(true) && self.kind == "DaemonSet" && self.api_version.starts_with("apps/")
    }
}

/// Item that is looked for in a list.
trait Matches {
    fn matches(&self) -> bool;
}

/// True if an item of a list matches; the list itself is not kept.
#[derive(Debug)]
struct Any<T>(bool, PhantomData<T>);

impl<T> Default for Any<T> {
    fn default() -> Self {
        Self(false, PhantomData)
    }
}

/// Reads a list, item by item; null is an empty one.
struct List<T, F>(F, &'static str, PhantomData<T>);

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> bool> Visitor<'de> for List<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element()? {
            if !(self.0)(item) {
                return Err(A::Error::custom(self.1));
            }
        }
        Ok(())
    }
}

fn any<'de, D: Deserializer<'de>, T: Deserialize<'de> + Matches>(from: D) -> Result<Any<T>, D::Error> {
    let mut found = Any::default();
    let note = |item: T| {
        found.0 |= item.matches();
        true
    };
    from.deserialize_any(List(note, "", PhantomData))?;
    Ok(found)
}

fn items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let mut items = Vec::new();
    let keep = |item: T| {
        items.push(item);
        items.len() <= PAGE as usize
    };
    from.deserialize_any(List(keep, "it has more items than were asked for", PhantomData))?;
    Ok(items)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn which_pods_must_leave() {
        let owner = |kind: &str, api: &str| {
            json!({"ownerReferences": [{
                "apiVersion": api, "kind": kind, "name": "o", "uid": "u", "controller": true,
            }]})
        };
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
        let rows: [(Value, Value, bool, bool); 9] = [
            (json!({}), json!({"phase": "Running"}), false, true),
            (json!({"annotations": null, "ownerReferences": null}), Value::Null, false, true),
            (owner("ReplicaSet", "apps/v1"), json!({}), false, true),
            (owner("DaemonSet", "apps/v1"), json!({}), false, false),
            (owner("DaemonSet", "other/v1"), json!({}), false, true),
            (mirror, json!({}), false, false),
            (json!({}), json!({"phase": "Succeeded"}), false, false),
            (going.clone(), json!({"phase": "Running"}), false, true),
            (going, json!({"phase": "Running"}), true, false),
        ];
        for (mut metadata, status, silent, leaves) in rows {
            metadata["name"] = json!("p");
            let pod: Pod =
                serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap();
            assert_eq!(pod.matters(silent), leaves, "{metadata} {status}");
        }
    }

    #[test]
    fn nodes_are_read() {
        let silent = json!([{"type": "Other", "status": "True"}, {"type": "Ready", "status": "Unknown"}]);
        let rows = [
            (json!({}), Value::Null, (None, false, false)),
            (json!({"providerID": "", "unschedulable": true}), json!({}), (None, true, false)),
            (
                json!({"providerID": "aws:///i-1"}),
                json!({"conditions": null}),
                (Some("aws:///i-1"), false, false),
            ),
            (Value::Null, json!({"conditions": silent, "images": [{}]}), (None, false, true)),
        ];
        for (spec, status, expected) in rows {
            let body = json!({"metadata": {"name": "n", "uid": "u"}, "spec": spec, "status": status});
            let node: Node = serde_json::from_value(body).unwrap();
            assert_eq!((node.provider_id(), node.is_cordoned(), node.is_silent()), expected);
        }
    }

    #[test]
    fn a_page_is_no_longer_than_was_asked_for() {
        let page = |many: u32| {
            let items: Vec<Value> = (0..many).map(|n| json!({"metadata": {"name": n.to_string()}})).collect();
            serde_json::from_value::<Page<Pod>>(json!({"metadata": {"continue": "t"}, "items": items}))
        };
        let mut full = page(PAGE).unwrap();
        assert_eq!((full.items.len(), full.next().as_deref()), (PAGE as usize, Some("t")));
        assert!(page(PAGE + 1).unwrap_err().to_string().contains("more items than were asked for"));
        let mut empty: Page<Pod> = serde_json::from_value(json!({"items": null})).unwrap();
        assert!(empty.items.is_empty() && empty.next().is_none());
    }
}
