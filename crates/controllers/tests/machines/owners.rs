//! What nobody owns is taken up, what is let go lives on, and what an owner leaves behind is not lost.

use std::collections::BTreeSet;
use std::fmt::Debug;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use capt_api::workspace::WorkspaceTemplateApply;
use capt_e2e::until;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::{Fixture, SOON};
use crate::fleet::{Fleet, deployment, is_ready, nothing_is_left, put, rolling, started};

async fn merge<K>(fixture: &Fixture, name: &str, body: &Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    fixture.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
}

/// Name of an object's controller.
fn controller<K: Resource>(object: &K) -> Option<String> {
    let owners = object.meta().owner_references.iter().flatten();
    owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.name.clone())
}

/// Deletes an object and leaves what it owns. Where nobody collects garbage, that part is played here.
async fn orphan<P, C>(fixture: &Fixture, name: &str)
where
    P: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    C: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let parents = fixture.api::<P>();
    parents.delete(name, &DeleteParams::orphan()).await.unwrap();
    if !fixture.harness.collects_garbage() {
        for child in fixture.api::<C>().list(&ListParams::default()).await.unwrap() {
            if child.owner_references().iter().any(|owner| owner.name == name) {
                merge::<C>(fixture, &child.name_any(), &json!({"metadata": {"ownerReferences": null}})).await;
            }
        }
        let free = until("the collector's finalizer goes", SOON, async || {
            let Some(parent) = parents.get_opt(name).await.unwrap() else { return Some(()) };
            let mut left = parent.finalizers().to_vec();
            left.retain(|known| known != "orphan");
            let version = parent.resource_version();
            let body = json!({"metadata": {"finalizers": left, "resourceVersion": version}});
            parents.patch(name, &PatchParams::default(), &Patch::Merge(&body)).await.ok().map(drop)
        });
        free.await.unwrap();
    }
}

/// Waits until an object has this controller.
async fn owned<K>(fixture: &Fixture, name: &str, by: Option<&str>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let mut last = None;
    let done = until("its owner", SOON, async || {
        last = fixture.api::<K>().get_opt(name).await.unwrap();
        (controller(last.as_ref()?).as_deref() == by).then_some(())
    });
    let done = done.await;
    assert!(done.is_ok(), "{name} should be {by:?}'s: {last:#?}");
}

async fn available(fixture: &Fixture, set: &str, machines: i32) {
    let mut last = None;
    let done = until("available", SOON, async || {
        last = fixture.api::<CaptMachineSet>().get_opt(set).await.unwrap()?.status;
        let status = last.as_ref()?;
        (status.available_replicas == machines && status.replicas == machines).then_some(())
    });
    let done = done.await;
    assert!(done.is_ok(), "{set} has not {machines} machines: {last:#?}");
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|&name| name.to_owned()).collect()
}

fn set(replicas: i32) -> Value {
    let web = deployment(replicas, "small", &rolling());
    json!({"replicas": replicas, "selector": web["selector"], "template": web["template"]})
}

pub async fn machines_are_adopted_and_released(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let web = deployment(0, "small", &rolling());
    let labels = json!({"labels": {"app": "web"}});
    put(fixture, "CaptMachine", "by-hand", labels, web["template"]["spec"].clone()).await;
    fixture.machine("by-hand", "ready", is_ready).await;
    fixture.put("CaptMachineSet", "s", set(2)).await;
    available(fixture, "s", 2).await;
    assert_eq!(fixture.standing(), names(&["by-hand", "s-0"]), "one is taken up, one is made");
    owned::<CaptMachine>(fixture, "by-hand", Some("s")).await;
    fixture.event("s", "AdoptedMachine").await;

    merge::<CaptMachine>(fixture, "by-hand", &json!({"metadata": {"labels": {"app": "debug"}}})).await;
    owned::<CaptMachine>(fixture, "by-hand", None).await;
    available(fixture, "s", 2).await;
    fixture.event("s", "ReleasedMachine").await;
    fixture.api::<CaptMachineSet>().delete("s", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachineSet>("s").await;
    assert_eq!(fixture.standing(), names(&["by-hand"]));
    fixture.api::<CaptMachine>().delete("by-hand", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("by-hand").await;
    nothing_is_left(fixture).await;
}

pub async fn sets_are_adopted_and_released(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    put(fixture, "CaptMachineSet", "old", json!({"labels": {"app": "web"}}), set(1)).await;
    available(fixture, "old", 1).await;
    fixture.put("CaptMachineDeployment", "web", deployment(2, "small", &rolling())).await;
    owned::<CaptMachineSet>(fixture, "old", Some("web")).await;
    fixture.rolled_out().await;
    assert_eq!(fixture.standing(), names(&["old-0", "old-1"]), "it is the deployment's set now");
    fixture.event("web", "AdoptedSet").await;

    merge::<CaptMachineSet>(fixture, "old", &json!({"metadata": {"labels": {"app": "other"}}})).await;
    owned::<CaptMachineSet>(fixture, "old", None).await;
    let four =
        until("the deployment has its own", SOON, async || (fixture.standing().len() == 4).then_some(()));
    four.await.unwrap();
    fixture.rolled_out().await;
    fixture.event("web", "ReleasedSet").await;
    fixture.api::<CaptMachineDeployment>().delete("web", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachineDeployment>("web").await;
    assert_eq!(fixture.standing(), names(&["old-0", "old-1"]), "what was let go lives on");
    fixture.api::<CaptMachineSet>().delete("old", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachineSet>("old").await;
    nothing_is_left(fixture).await;
}

/// Owners go without what they own, level by level; whoever comes after them takes it up, and no machine notices.
pub async fn nothing_is_lost_with_its_owner(fixture: &Fixture) {
    started(fixture, 2, &rolling()).await;
    let first = fixture.standing();
    let sets = async || fixture.api::<CaptMachineSet>().list(&ListParams::default()).await.unwrap().items;
    let before = sets().await[0].name_any();
    orphan::<CaptMachineDeployment, CaptMachineSet>(fixture, "web").await;
    fixture.when_gone::<CaptMachineDeployment>("web").await;
    owned::<CaptMachineSet>(fixture, &before, None).await;
    fixture.put("CaptMachineDeployment", "web", deployment(2, "small", &rolling())).await;
    owned::<CaptMachineSet>(fixture, &before, Some("web")).await;
    fixture.rolled_out().await;
    assert_eq!(sets().await.len(), 1);

    let uid = sets().await[0].uid();
    orphan::<CaptMachineSet, CaptMachine>(fixture, &before).await;
    let another = until("another set", SOON, async || {
        let all = sets().await;
        let fresh = all.iter().find(|set| set.uid() != uid && all.len() == 1)?;
        (fresh.status.as_ref()?.available_replicas == 2).then(|| fresh.name_any())
    });
    let another = another.await.unwrap();
    for name in &first {
        owned::<CaptMachine>(fixture, name, Some(&another)).await;
    }
    fixture.rolled_out().await;
    assert_eq!(fixture.machine_names().await, first);
    assert_eq!(fixture.traces().len(), 2, "no machine was built or destroyed: {:#?}", fixture.traces());
    fixture.delete_all().await;
}

pub async fn an_orphaned_workspace_is_taken_up(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let spec = deployment(0, "small", &rolling())["template"]["spec"].clone();
    fixture.put("CaptMachine", "m", spec.clone()).await;
    fixture.machine("m", "ready", is_ready).await;
    orphan::<CaptMachine, WorkspaceTemplateApply>(fixture, "m").await;
    fixture.when_gone::<CaptMachine>("m").await;
    owned::<WorkspaceTemplateApply>(fixture, "m-machine", None).await;
    assert_eq!(fixture.traces(), ["created m small"], "what it built stays");
    fixture.put("CaptMachine", "m", spec).await;
    fixture.machine("m", "ready", is_ready).await;
    owned::<WorkspaceTemplateApply>(fixture, "m-machine", Some("m")).await;
    assert_eq!(fixture.traces(), ["created m small"], "and is taken up again");
    fixture.api::<CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("m").await;
    nothing_is_left(fixture).await;
}
