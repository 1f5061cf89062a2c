//! A machine's Node: found, cordoned, emptied, removed.

use capt_api::machine::NodeRef;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::{Outcome, Subject};

/// Objects in one page of a list.
const PAGE: u32 = 500;
/// Evictions that are asked for at the same time.
const AT_ONCE: usize = 8;
/// The kubelet's copy of a pod that it runs by itself; deleting that stops nothing.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Asks pods to leave the machine's Node, and says which are still there.
pub async fn drain(client: &Client, subject: &Subject) -> Result<Outcome, kube::Error> {
    let Some(node) = find(client, subject).await? else { return Ok(Outcome::NoNode) };
    let name = node.name_any();
    let known = NodeRef { name: name.clone(), uid: node.uid().unwrap_or_default() };
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true) {
        let cordoned = json!({"metadata": {"uid": known.uid}, "spec": {"unschedulable": true}});
        let nodes: Api<Node> = Api::all(client.clone());
        nodes.patch(&name, &PatchParams::default(), &Patch::Merge(&cordoned)).await?;
    }
    let silent = is_silent(&node);
    let mut leaving = pods_on(client, &name).await?;
    leaving.retain(|pod| matters(pod, silent));
    let asked = leaving.into_iter().map(|pod| evict(client.clone(), pod)).collect::<Vec<_>>();
    let answers: Vec<Answer> =
        futures::stream::iter(asked).buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
    let (going, staying): (Vec<Answer>, Vec<Answer>) = answers.into_iter().partition(Result::is_ok);
    let (mut going, mut refused) = (texts(going), texts(staying));
    going.sort();
    refused.sort();
    Ok(if going.is_empty() && refused.is_empty() {
        Outcome::Empty(known)
    } else {
        Outcome::Left(known, going, refused)
    })
}

/// Name of a pod that is on its way, or of one that may not go yet, with the reason.
type Answer = Result<String, String>;

fn texts(outcomes: Vec<Answer>) -> Vec<String> {
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|refused| refused)).collect()
}

/// Removes a Node, if it still is this one.
pub async fn remove(client: &Client, node: &NodeRef) -> Result<Outcome, kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let only = Preconditions { uid: Some(node.uid.clone()), resource_version: None };
    let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
    match nodes.delete(&node.name, &params).await {
        Ok(_) => Ok(Outcome::Removed),
        // Gone, or another by now.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Outcome::Removed),
        Err(error) => Err(error),
    }
}

/// The machine's Node: the one with its providerID; where Nodes have none, the one with one of its names.
async fn find(client: &Client, subject: &Subject) -> Result<Option<Node>, kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut named = None;
    for name in &subject.names {
        let Some(node) = nodes.get_opt(name).await? else { continue };
        match (provider_id(&node), subject.provider_id.as_deref()) {
            (Some(theirs), Some(ours)) if theirs == ours => return Ok(Some(node)),
            // Another machine has this name.
            (Some(_), Some(_)) => {}
            (None, _) | (_, None) => named = named.or(Some(node)),
        }
    }
    let Some(wanted) = subject.provider_id.as_deref() else { return Ok(named) };
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = nodes.list(&page).await?;
        let more = list.metadata.continue_.filter(|token| !token.is_empty());
        if let Some(found) = list.items.into_iter().find(|node| provider_id(node) == Some(wanted)) {
            return Ok(Some(found));
        }
        let Some(token) = more else { return Ok(named) };
        page.continue_token = Some(token);
    }
}

fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

/// Whether nobody has heard of the Node's kubelet for a while: pods that are on their way out there will not arrive.
fn is_silent(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "Unknown")
}

async fn pods_on(client: &Client, node: &str) -> Result<Vec<Pod>, kube::Error> {
    let pods: Api<Pod> = Api::all(client.clone());
    let mut page = ListParams::default().fields(&format!("spec.nodeName={node}")).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let list = match pods.list(&page).await {
            Ok(list) => list,
            // An API without pods runs none.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(all),
            Err(error) => return Err(error),
        };
        all.extend(list.items);
        let Some(token) = list.metadata.continue_.filter(|token| !token.is_empty()) else { return Ok(all) };
        page.continue_token = Some(token);
    }
}

/// Whether a pod must leave before its Node goes.
fn matters(pod: &Pod, silent: bool) -> bool {
    let finished = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let of_daemon_set = pod.owner_references().iter().any(|owner| {
        owner.controller == Some(true) && owner.kind == "DaemonSet" && owner.api_version.starts_with("apps/")
    });
    let lost = silent && pod.metadata.deletion_timestamp.is_some();
    !(matches!(finished, Some("Succeeded" | "Failed"))
        || of_daemon_set
        || pod.annotations().contains_key(MIRROR)
        || lost)
}

/// Asks a pod to leave; no answer where it is gone.
async fn evict(client: Client, pod: Pod) -> Option<Answer> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let shown = format!("{namespace}/{name}");
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(Ok(shown));
    }
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    match pods.evict(&name, &EvictParams::default()).await {
        Ok(_) => Some(Ok(shown)),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(kube::Error::Api(status)) => Some(Err(format!("{shown} ({})", status.message))),
        Err(error) => Some(Err(format!("{shown} ({error})"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn which_pods_must_leave() {
        let owner = |kind: &str, api: &str| {
            json!({"ownerReferences": [{
                "apiVersion": api, "kind": kind, "name": "o", "uid": "u", "controller": true,
            }]})
        };
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let rows: [(Value, Value, bool, bool); 8] = [
            (json!({}), json!({"phase": "Running"}), false, true),
            (owner("ReplicaSet", "apps/v1"), json!({}), false, true),
            (owner("DaemonSet", "apps/v1"), json!({}), false, false),
            (owner("DaemonSet", "other/v1"), json!({}), false, true),
            (json!({"annotations": {MIRROR: "x"}}), json!({}), false, false),
            (json!({}), json!({"phase": "Succeeded"}), false, false),
            (going.clone(), json!({"phase": "Running"}), false, true),
            (going, json!({"phase": "Running"}), true, false),
        ];
        for (metadata, status, silent, leaves) in rows {
            let pod = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
            assert_eq!(matters(&pod, silent), leaves, "{metadata} {status}");
        }
    }
}
