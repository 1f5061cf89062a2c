//! A machine's Node: found, cordoned, emptied, removed.

use capt_api::machine::NodeRef;
use capt_planner::machine::DrainOutcome;
use futures::StreamExt;
use k8s_openapi::api::core::v1;
use kube::Resource;
use kube::api::{
    DeleteParams, EvictParams, GetParams, ListParams, Patch, PatchParams, Preconditions, Request,
};
use serde::de::IgnoredAny;
use serde_json::json;

use super::DrainSubject;
use super::answer::{Node, PAGE, Page, Pod};
use super::reach::{Workload, shortened};
use crate::runtime::name::is_object_name;

/// Pages of one list that are read: more objects than any cluster has.
const PAGES: usize = 400;
/// Pods that one pass sees to; the next one sees to the rest. Kubelets run 110 unless they are told otherwise.
const PODS: usize = 500;
/// Evictions that are asked for at the same time.
const AT_ONCE: usize = 8;

fn nodes() -> Request {
    Request::new(v1::Node::url_path(&(), None))
}

fn pods(namespace: Option<&str>) -> Request {
    Request::new(v1::Pod::url_path(&(), namespace))
}

/// Asks pods to leave the machine's Node, and says which are still there.
pub async fn drain(workload: &Workload, subject: &DrainSubject) -> Result<DrainOutcome, kube::Error> {
    let Some(node) = find(workload, subject).await? else { return Ok(DrainOutcome::NoNode) };
    let known = NodeRef { name: node.name().to_owned(), uid: node.uid().to_owned() };
    if !node.is_cordoned() {
        let cordoned = json!({"metadata": {"uid": known.uid}, "spec": {"unschedulable": true}});
        let request = nodes().patch(&known.name, &PatchParams::default(), &Patch::Merge(&cordoned));
        workload.ask::<IgnoredAny>(request).await?;
    }
    let leaving = leaving(workload, &node).await?;
    let asked = leaving.into_iter().map(|pod| evict(workload, pod)).collect::<Vec<_>>();
    let answers: Vec<Answer> =
        futures::stream::iter(asked).buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
    let (going, staying): (Vec<Answer>, Vec<Answer>) = answers.into_iter().partition(Result::is_ok);
    let (mut going, mut refused) = (texts(going), texts(staying));
    going.sort();
    refused.sort();
    Ok(if going.is_empty() && refused.is_empty() {
        DrainOutcome::Empty(known)
    } else {
        DrainOutcome::Left(known, going, refused)
    })
}

/// Name of a pod that is on its way, or of one that may not go yet, with the reason.
type Answer = Result<String, String>;

fn texts(outcomes: Vec<Answer>) -> Vec<String> {
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|refused| refused)).collect()
}

/// Removes a Node, if it still is this one.
pub async fn remove(workload: &Workload, node: &NodeRef) -> Result<DrainOutcome, kube::Error> {
    let only = Preconditions { uid: Some(node.uid.clone()), resource_version: None };
    let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
    match workload.ask::<IgnoredAny>(nodes().delete(&node.name, &params)).await {
        Ok(_) => Ok(DrainOutcome::Removed),
        // Gone, or another by now.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(DrainOutcome::Removed),
        Err(error) => Err(error),
    }
}

/// The machine's Node: the one with its providerID; where Nodes have none, the one with one of its names.
async fn find(workload: &Workload, subject: &DrainSubject) -> Result<Option<Node>, kube::Error> {
    let mut named = None;
    // Outputs of a module give them.
    for name in subject.names.iter().filter(|name| is_object_name(name)) {
        let node: Node = match workload.ask(nodes().get(name, &GetParams::default())).await {
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            node => node?,
        };
        match (node.provider_id(), subject.provider_id.as_deref()) {
            (Some(theirs), Some(ours)) if theirs == ours => return Ok(usable(node)),
            // Another machine has this name.
            (Some(_), Some(_)) => {}
            (None, _) | (_, None) => named = named.or(usable(node)),
        }
    }
    let Some(wanted) = subject.provider_id.as_deref() else { return Ok(named) };
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..PAGES {
        let mut page: Page<Node> = workload.ask(nodes().list(&params)).await?;
        let next = page.next();
        if let Some(found) = page.items.into_iter().find(|node| node.provider_id() == Some(wanted)) {
            return Ok(usable(found));
        }
        params.continue_token = next;
        if params.continue_token.is_none() {
            break;
        }
    }
    Ok(named)
}

/// A Node whose name can be one: it becomes part of requests and of our own status.
fn usable(node: Node) -> Option<Node> {
    (is_object_name(node.name()) && node.uid().len() <= 64).then_some(node)
}

/// Pods that must leave a Node, as many as one pass sees to.
async fn leaving(workload: &Workload, node: &Node) -> Result<Vec<Pod>, kube::Error> {
    let silent = node.is_silent();
    let mut params = ListParams::default().fields(&format!("spec.nodeName={}", node.name())).limit(PAGE);
    let mut all = Vec::new();
    for _ in 0..PAGES {
        let mut page: Page<Pod> = match workload.ask(pods(None).list(&params)).await {
            // An API without pods runs none.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(all),
            page => page?,
        };
        params.continue_token = page.next();
        let leave =
            |pod: &Pod| is_object_name(pod.name()) && is_object_name(pod.namespace()) && pod.matters(silent);
        all.extend(page.items.into_iter().filter(leave));
        if params.continue_token.is_none() || all.len() >= PODS {
            break;
        }
    }
    all.truncate(PODS);
    Ok(all)
}

/// Asks a pod to leave; no answer where it is gone.
async fn evict(workload: &Workload, pod: Pod) -> Option<Answer> {
    let shown = format!("{}/{}", pod.namespace(), pod.name());
    if pod.is_deleting() {
        return Some(Ok(shown));
    }
    let request = pods(Some(pod.namespace())).evict(pod.name(), &EvictParams::default());
    match workload.ask::<IgnoredAny>(request).await {
        Ok(_) => Some(Ok(shown)),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(kube::Error::Api(status)) => Some(Err(format!("{shown} ({})", shortened(status.message)))),
        Err(error) => Some(Err(format!("{shown} ({})", shortened(error.to_string())))),
    }
}
