//! Known blockers of a deletion, before it begins.

use capt_api::conditions::{reasons, types};
use capt_api::machine::CaptMachine;
use capt_api::names::{annotations, finalizers, labels};
use capt_api::refs::ObjectRef;
use capt_api::workspace::WorkspaceTemplateApply;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::client::Connection;
use super::super::doctor;
use super::super::family::Member;
use super::super::object::{Reference, ResourceKind};
use super::super::pause::is_paused;
use super::preview::is_kept;

/// Users of an object that are named one by one.
const NAMED: usize = 3;
/// By whom the workspace of a paused owner is paused; the owner resumes it when it is deleted.
const BY_OWNER: &str = "owner";

/// Objects that a deletion may have to wait for, besides those that are deleted.
#[derive(Default)]
struct OtherObjects {
    users: Vec<DependentObject>,
    /// Paused Clusters of what is deleted.
    paused: Vec<String>,
    /// Why nobody would do the work.
    controller: Option<String>,
}

/// An object, by kind, namespace and name.
type ObjectKey = (&'static str, String, String);

/// An object that needs others.
struct DependentObject {
    key: ObjectKey,
    needs: Vec<ObjectKey>,
}

impl DependentObject {
    fn workspace(object: &WorkspaceTemplateApply) -> Self {
        let (own, spec) = (object.namespace().unwrap_or_default(), &object.spec);
        let sources = spec.variables_from.iter().filter_map(|from| from.workspace_ref.as_ref());
        let awaited = spec.wait_for_workspaces.iter().chain(sources);
        let mut needs: Vec<ObjectKey> =
            awaited.map(|one| mentioned("WorkspaceTemplateApply", one, &own)).collect();
        needs.push(mentioned("WorkspaceTemplate", &spec.template_ref, &own));
        Self { key: ("WorkspaceTemplateApply", own, object.name_any()), needs }
    }

    fn machine(object: &CaptMachine) -> Self {
        let own = object.namespace().unwrap_or_default();
        let group = object.spec.node_group_ref.iter().map(|group| mentioned("NodeGroup", group, &own));
        Self { needs: group.collect(), key: ("CaptMachine", own, object.name_any()) }
    }
}

fn mentioned(kind: &'static str, reference: &ObjectRef, own: &str) -> ObjectKey {
    let namespace = reference.namespace.clone().unwrap_or_else(|| own.to_owned());
    (kind, namespace, reference.name.clone())
}

/// One line for each thing that a deletion will wait for.
pub async fn find(connection: &Connection, members: &[&Member]) -> Vec<String> {
    let has = |kind: &str| members.iter().any(|member| member.kind.name == kind);
    let mut others = OtherObjects::default();
    if has("WorkspaceTemplate") || has("WorkspaceTemplateApply") {
        others.users.extend(list(connection).await.iter().map(DependentObject::workspace));
    }
    if has("NodeGroup") {
        others.users.extend(list(connection).await.iter().map(DependentObject::machine));
    }
    let mut clusters: Vec<String> = members
        .iter()
        .filter_map(|member| member.object.labels().get(labels::CLUSTER_NAME).cloned())
        .collect();
    clusters.sort_unstable();
    clusters.dedup();
    for name in clusters {
        let cluster = Reference { kind: ResourceKind::named("Cluster"), name };
        // Without Cluster API no Cluster pauses anything.
        if cluster.get_opt(connection).await.ok().flatten().is_some_and(|found| is_paused(&found)) {
            others.paused.push(cluster.name);
        }
    }
    if members.iter().any(|member| member.object.finalizers().iter().any(|name| is_ours(name))) {
        others.controller = doctor::missing_controller(connection).await;
    }
    judge(members, &others, &connection.namespace)
}

/// The objects of every namespace, or of this one where the others may not be read.
async fn list<K>(connection: &Connection) -> Vec<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let everywhere: Api<K> = Api::all(connection.client.clone());
    if let Ok(all) = everywhere.list(&ListParams::default()).await {
        return all.items;
    }
    connection.api::<K>().list(&ListParams::default()).await.map(|all| all.items).unwrap_or_default()
}

fn judge(members: &[&Member], others: &OtherObjects, namespace: &str) -> Vec<String> {
    let is = |member: &Member, (kind, at, name): &ObjectKey| {
        member.kind.name == *kind && at == namespace && member.object.name_any() == *name
    };
    let mut lines = Vec::new();
    for cluster in &others.paused {
        lines.push(format!(
            "cluster/{cluster} is paused and holds all that belongs to it: capt resume cluster/{cluster}"
        ));
    }
    for member in members {
        let (reference, object) = (member.reference(), &member.object);
        // A paused Cluster is among those above, by the name that its parts carry.
        if holds_itself(member) && !(member.kind.is_cluster() && others.paused.contains(&reference.name)) {
            lines.push(format!("{reference} is paused: capt resume {reference}"));
        }
        let foreign: Vec<&str> =
            object.finalizers().iter().map(String::as_str).filter(|name| !is_ours(name)).collect();
        if !foreign.is_empty() {
            let noun = if foreign.len() == 1 { "finalizer" } else { "finalizers" };
            lines.push(format!(
                "{reference} has the {noun} {} of another controller, which has to remove {}",
                foreign.join(", "),
                if foreign.len() == 1 { "it" } else { "them" }
            ));
        }
        // What is deleted with it does not hold it for long.
        let stays = |user: &&DependentObject| !members.iter().any(|member| is(member, &user.key));
        let users = others.users.iter().filter(|user| user.needs.iter().any(|needed| is(member, needed)));
        let mut users: Vec<String> = users.filter(stays).map(|user| shown(&user.key, namespace)).collect();
        users.sort();
        if !users.is_empty() {
            let those = if users.len() == 1 { "that" } else { "those" };
            lines.push(format!("{reference} is used by {}: delete {those} first", few(&users)));
        }
        lines.extend(
            member.workspace().and_then(|workspace| held(&workspace)).map(|why| format!("{reference} {why}")),
        );
    }
    lines.extend(others.controller.clone());
    lines
}

/// Returns true if an object itself is paused, in a way that blocks its deletion.
fn holds_itself(member: &Member) -> bool {
    let note = member.object.annotations().get(annotations::PAUSED).map(String::as_str);
    let annotated = note.is_some_and(|by| by != BY_OWNER);
    // A paused deployment holds its rollout, not its deletion.
    let field = member.object.data.pointer("/spec/paused").and_then(Value::as_bool) == Some(true);
    annotated || field && member.kind.name != "CaptMachineDeployment"
}

/// Finalizers of CAPT and Cluster API, and those of Kubernetes' garbage collector.
fn is_ours(finalizer: &str) -> bool {
    finalizer.contains(finalizers::DOMAIN) || !finalizer.contains('/')
}

/// `KIND/NAME`, with the namespace where it is another.
fn shown((kind, at, name): &ObjectKey, namespace: &str) -> String {
    let place = if at == namespace { String::new() } else { format!(" in namespace {at}") };
    format!("{}/{name}{place}", ResourceKind::named(kind).word())
}

fn few(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// Why the destroy of a workspace will wait or is likely to fail.
fn held(workspace: &WorkspaceTemplateApply) -> Option<String> {
    let status = workspace.status.as_ref()?;
    let find = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let run = status.progress.is_some() && workspace.metadata.deletion_timestamp.is_none();
    if is_kept(workspace) {
        return run.then(|| "is kept, and waits for its run to end".to_owned());
    }
    if let Some(stalled) = find(types::STALLED).filter(|stalled| stalled.status == "True") {
        return Some(format!("is stalled: {}: {}", stalled.reason, words(&stalled.message)));
    }
    let ready = find(types::READY).filter(|ready| ready.status != "True");
    if let Some(refused) = ready.filter(|ready| ready.reason == reasons::REFERENCE_NOT_GRANTED) {
        return Some(format!("lacks a ReferenceGrant: {}", words(&refused.message)));
    }
    if let Some(failed) = ready.filter(|_| {
        workspace.metadata.deletion_timestamp.is_some() && status.consecutive_failures.unwrap_or_default() > 0
    }) {
        return Some(format!("is not destroyed yet: {}", words(&failed.message)));
    }
    run.then(|| "has a run under way, which is interrupted first".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(kind: &str, name: &str, rest: Value) -> Member {
        let mut value = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {}});
        merge(&mut value, rest);
        Member { kind: ResourceKind::named(kind), object: serde_json::from_value(value).unwrap() }
    }

    fn merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    fn workspace(name: &str, rest: Value) -> Member {
        let mut value = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply", "spec": {"templateRef": {"name": "t"}}});
        merge(&mut value, rest);
        member("WorkspaceTemplateApply", name, value)
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"status": {"conditions": [{
            "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}})
    }

    fn user(member: &Member) -> DependentObject {
        match member.workspace() {
            Some(workspace) => DependentObject::workspace(&workspace),
            None => DependentObject::machine(&member.object.clone().try_parse().unwrap()),
        }
    }

    #[test]
    fn what_holds_a_deletion_is_told_before_it() {
        let paused = json!({"spec": {"paused": true}});
        let by_owner = json!({"metadata": {"annotations": {annotations::PAUSED: BY_OWNER}}});
        let rows = [
            (workspace("a", json!({})), vec![]),
            (workspace("a", paused.clone()), vec!["wtapply/a is paused: capt resume wtapply/a"]),
            (workspace("a", by_owner), vec![]),
            (member("CaptMachineDeployment", "d", paused), vec![]),
            (
                member("CAPTCluster", "n", json!({"metadata": {"annotations": {annotations::PAUSED: ""}}})),
                vec!["captcluster/n is paused: capt resume captcluster/n"],
            ),
            (
                member(
                    "CaptMachine",
                    "m",
                    json!({"metadata": {"finalizers": [finalizers::MACHINE, "example.com/keep", "orphan"]}}),
                ),
                vec![
                    "captmachine/m has the finalizer example.com/keep of another controller, which has to remove it",
                ],
            ),
            (
                workspace("a", condition("Stalled", "True", "StateLost", "no state\nis here")),
                vec!["wtapply/a is stalled: StateLost: no state is here"],
            ),
            (
                workspace("a", condition("Ready", "False", "ReferenceNotGranted", "no grant in there")),
                vec!["wtapply/a lacks a ReferenceGrant: no grant in there"],
            ),
            (
                workspace("a", json!({"status": {"progress": {"done": 1, "total": 3}}})),
                vec!["wtapply/a has a run under way, which is interrupted first"],
            ),
            (
                workspace(
                    "a",
                    json!({"spec": {"retainWorkspaceOnDelete": true}, "status": {"progress": {"done": 1, "total": 3}}}),
                ),
                vec!["wtapply/a is kept, and waits for its run to end"],
            ),
        ];
        for (member, expected) in rows {
            assert_eq!(
                judge(&[&member], &OtherObjects::default(), "default"),
                expected,
                "{}",
                member.reference()
            );
        }
    }

    #[test]
    fn what_others_use_waits_for_them() {
        let needs = |name: &str| workspace(name, json!({"spec": {"waitForWorkspaces": [{"name": "net"}]}}));
        let (net, app) = (workspace("net", json!({})), needs("app"));
        let machine = |name: &str| {
            let reference =
                json!({"spec": {"workspaceTemplateRef": {"name": "t"}, "nodeGroupRef": {"name": "g"}}});
            let mut value =
                json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachine"});
            merge(&mut value, reference);
            member("CaptMachine", name, value)
        };
        let (template, group) =
            (member("WorkspaceTemplate", "t", json!({})), member("NodeGroup", "g", json!({})));
        let machines: Vec<Member> = (0..5).map(|number| machine(&format!("m{number}"))).collect();
        let users = || {
            let mut users: Vec<DependentObject> = machines.iter().map(user).collect();
            let mut elsewhere = user(&needs("far"));
            elsewhere.key.1 = "there".into();
            users.extend([user(&net), user(&app), elsewhere]);
            OtherObjects { users, ..OtherObjects::default() }
        };
        let told = |members: &[&Member]| judge(members, &users(), "default");
        assert_eq!(
            told(&[&template]),
            [
                "workspacetemplate/t is used by wtapply/app, wtapply/far in namespace there, wtapply/net: delete those first"
            ]
        );
        assert_eq!(
            told(&[&net, &app]),
            ["wtapply/net is used by wtapply/far in namespace there: delete that first"],
            "what goes with it does not hold it"
        );
        assert_eq!(
            told(&[&group]),
            [
                "nodegroup/g is used by captmachine/m0, captmachine/m1, captmachine/m2 and 2 more: delete those first"
            ]
        );
        let all: Vec<&Member> = machines.iter().chain([&group]).collect();
        assert!(told(&all).is_empty());
        let held = OtherObjects {
            paused: vec!["demo".into()],
            controller: Some("none".into()),
            ..OtherObjects::default()
        };
        let cluster = member("Cluster", "demo", json!({"spec": {"paused": true}}));
        assert_eq!(
            judge(&[&cluster], &held, "default"),
            ["cluster/demo is paused and holds all that belongs to it: capt resume cluster/demo", "none"]
        );
    }
}
