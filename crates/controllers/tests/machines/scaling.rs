//! Deployments that grow and shrink, and sets that lose machines.

use std::collections::BTreeSet;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use capt_e2e::until;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixture::{Fixture, SOON};
use crate::fleet::{Fleet, deployment, nothing_is_left, rolling, started};

pub async fn five_eight_two_none(fixture: &Fixture) {
    started(fixture, 5, &rolling()).await;
    let five = fixture.standing();
    fixture.scale(8).await;
    fixture.rolled_out().await;
    let eight = fixture.standing();
    assert!(eight.len() == 8 && eight.is_superset(&five), "{eight:?}");
    fixture.scale(2).await;
    fixture.rolled_out().await;
    let two = fixture.standing();
    assert!(two.len() == 2 && two.is_subset(&eight), "{two:?}");
    assert_eq!(two, fixture.machine_names().await);
    let object = fixture.api::<CaptMachineDeployment>().get("web").await.unwrap();
    let status = object.status.unwrap();
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (2, 2, 2));
    assert_eq!(fixture.traces().len(), 8 + 6, "nothing was built or destroyed twice");
    fixture.event("web", "CreatedSet").await;
    fixture.delete_all().await;
}

pub async fn no_replicas(fixture: &Fixture) {
    started(fixture, 0, &rolling()).await;
    let sets = fixture.api::<CaptMachineSet>().list(&ListParams::default()).await.unwrap();
    assert_eq!(sets.items.len(), 1);
    assert!(fixture.traces().is_empty());
    fixture.scale(1).await;
    fixture.rolled_out().await;
    fixture.scale(0).await;
    fixture.rolled_out().await;
    assert_eq!(fixture.traces().len(), 2);
    fixture.delete_all().await;
}

pub async fn a_machine_leaves_its_set(fixture: &Fixture) {
    started(fixture, 2, &rolling()).await;
    let before = fixture.standing();
    let leaver = before.first().unwrap().clone();
    let body = json!({"metadata": {"labels": {"app": "debug"}}});
    let machines = fixture.api::<CaptMachine>();
    machines.patch(&leaver, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    let released = until("released", SOON, async || {
        let object = machines.get(&leaver).await.unwrap();
        object.owner_references().is_empty().then_some(())
    });
    released.await.unwrap();
    let three = until("a third", SOON, async || (fixture.standing().len() == 3).then(|| fixture.standing()));
    let three = three.await.unwrap();
    assert!(three.is_superset(&before), "{three:?}");
    fixture.rolled_out().await;
    fixture.api::<CaptMachineDeployment>().delete("web", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachineDeployment>("web").await;
    assert_eq!(fixture.standing(), BTreeSet::from([leaver.clone()]), "what left stays");
    machines.delete(&leaver, &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>(&leaver).await;
    nothing_is_left(fixture).await;
}

pub async fn a_deleted_machine_is_replaced(fixture: &Fixture) {
    started(fixture, 2, &rolling()).await;
    let before = fixture.standing();
    let victim = before.first().unwrap().clone();
    fixture.api::<CaptMachine>().delete(&victim, &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>(&victim).await;
    fixture.rolled_out().await;
    let after = fixture.standing();
    assert!(after.len() == 2 && !after.contains(&victim), "{after:?}");
    assert_eq!(after, fixture.machine_names().await);
    fixture.delete_all().await;
}

/// The owner goes last. Only where something plays the garbage collector's part.
pub async fn foreground_deletion(fixture: &Fixture) {
    if !fixture.harness.collects_garbage() {
        return;
    }
    started(fixture, 2, &rolling()).await;
    fixture.put("CaptMachineDeployment", "web", deployment(3, "large", &rolling())).await;
    let api = fixture.api::<CaptMachineDeployment>();
    api.delete("web", &DeleteParams::foreground()).await.unwrap();
    fixture.when_gone::<CaptMachineDeployment>("web").await;
    nothing_is_left(fixture).await;
}

/// A name that belongs to another is passed over, and the other is not touched.
pub async fn a_name_that_is_taken(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let maps = fixture.api::<ConfigMap>();
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "owner"}})).unwrap();
    let owner = maps.create(&PostParams::default(), &map).await.unwrap();
    let web = deployment(2, "small", &rolling());
    let theirs = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachine",
        "metadata": {
            "name": "s-1", "annotations": {"cluster.x-k8s.io/managed-by": "others"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "controller": true,
            }],
        },
        "spec": web["template"]["spec"],
    });
    let machines = fixture.api::<CaptMachine>();
    let theirs: CaptMachine = serde_json::from_value(theirs).unwrap();
    let before = machines.create(&PostParams::default(), &theirs).await.unwrap();
    let spec = json!({"replicas": 2, "selector": web["selector"], "template": web["template"]});
    fixture.put("CaptMachineSet", "s", spec).await;
    let two = until("two machines", SOON, async || {
        let set = fixture.api::<CaptMachineSet>().get("s").await.unwrap();
        (set.status?.available_replicas == 2).then(|| fixture.standing())
    });
    assert_eq!(two.await.unwrap(), BTreeSet::from(["s-0".to_owned(), "s-2".to_owned()]));
    assert_eq!(machines.get("s-1").await.unwrap().resource_version(), before.resource_version());
    fixture.api::<CaptMachineSet>().delete("s", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachineSet>("s").await;
    machines.delete("s-1", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachine>("s-1").await;
    nothing_is_left(fixture).await;
}
