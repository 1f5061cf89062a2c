//! Deployments that grow and shrink, and sets that lose machines.

use std::collections::BTreeSet;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use capt_e2e::until;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fleet::{Fleet, deployment, nothing_is_left, rolling, started};
use crate::stage::{SOON, Stage};

pub async fn five_eight_two_none(stage: &Stage) {
    started(stage, 5, &rolling()).await;
    let five = stage.standing();
    stage.scale(8).await;
    stage.rolled_out().await;
    let eight = stage.standing();
    assert!(eight.len() == 8 && eight.is_superset(&five), "{eight:?}");
    stage.scale(2).await;
    stage.rolled_out().await;
    let two = stage.standing();
    assert!(two.len() == 2 && two.is_subset(&eight), "{two:?}");
    assert_eq!(two, stage.machine_names().await);
    let object = stage.api::<CaptMachineDeployment>().get("web").await.unwrap();
    let status = object.status.unwrap();
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (2, 2, 2));
    assert_eq!(stage.traces().len(), 8 + 6, "nothing was built or destroyed twice");
    stage.event("web", "CreatedSet").await;
    stage.delete_all().await;
}

pub async fn no_replicas(stage: &Stage) {
    started(stage, 0, &rolling()).await;
    let sets = stage.api::<CaptMachineSet>().list(&ListParams::default()).await.unwrap();
    assert_eq!(sets.items.len(), 1);
    assert!(stage.traces().is_empty());
    stage.scale(1).await;
    stage.rolled_out().await;
    stage.scale(0).await;
    stage.rolled_out().await;
    assert_eq!(stage.traces().len(), 2);
    stage.delete_all().await;
}

pub async fn a_machine_leaves_its_set(stage: &Stage) {
    started(stage, 2, &rolling()).await;
    let before = stage.standing();
    let leaver = before.first().unwrap().clone();
    let body = json!({"metadata": {"labels": {"app": "debug"}}});
    let machines = stage.api::<CaptMachine>();
    machines.patch(&leaver, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
    let released = until("released", SOON, async || {
        let object = machines.get(&leaver).await.unwrap();
        object.owner_references().is_empty().then_some(())
    });
    released.await.unwrap();
    let three = until("a third", SOON, async || (stage.standing().len() == 3).then(|| stage.standing()));
    let three = three.await.unwrap();
    assert!(three.is_superset(&before), "{three:?}");
    stage.rolled_out().await;
    stage.api::<CaptMachineDeployment>().delete("web", &DeleteParams::background()).await.unwrap();
    stage.when_gone::<CaptMachineDeployment>("web").await;
    assert_eq!(stage.standing(), BTreeSet::from([leaver.clone()]), "what left stays");
    machines.delete(&leaver, &DeleteParams::background()).await.unwrap();
    stage.when_gone::<CaptMachine>(&leaver).await;
    nothing_is_left(stage).await;
}

pub async fn a_deleted_machine_is_replaced(stage: &Stage) {
    started(stage, 2, &rolling()).await;
    let before = stage.standing();
    let victim = before.first().unwrap().clone();
    stage.api::<CaptMachine>().delete(&victim, &DeleteParams::background()).await.unwrap();
    stage.when_gone::<CaptMachine>(&victim).await;
    stage.rolled_out().await;
    let after = stage.standing();
    assert!(after.len() == 2 && !after.contains(&victim), "{after:?}");
    assert_eq!(after, stage.machine_names().await);
    stage.delete_all().await;
}

/// The owner goes last. Only where something plays the garbage collector's part.
pub async fn foreground_deletion(stage: &Stage) {
    if !stage.harness.collects_garbage() {
        return;
    }
    started(stage, 2, &rolling()).await;
    stage.put("CaptMachineDeployment", "web", deployment(3, "large", &rolling())).await;
    let api = stage.api::<CaptMachineDeployment>();
    api.delete("web", &DeleteParams::foreground()).await.unwrap();
    stage.when_gone::<CaptMachineDeployment>("web").await;
    nothing_is_left(stage).await;
}

/// A name that belongs to another is passed over, and the other is not touched.
pub async fn a_name_that_is_taken(stage: &Stage) {
    stage.template("machine", &stage.machine_module()).await;
    let maps = stage.api::<ConfigMap>();
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
    let machines = stage.api::<CaptMachine>();
    let theirs: CaptMachine = serde_json::from_value(theirs).unwrap();
    let before = machines.create(&PostParams::default(), &theirs).await.unwrap();
    let spec = json!({"replicas": 2, "selector": web["selector"], "template": web["template"]});
    stage.put("CaptMachineSet", "s", spec).await;
    let two = until("two machines", SOON, async || {
        let set = stage.api::<CaptMachineSet>().get("s").await.unwrap();
        (set.status?.available_replicas == 2).then(|| stage.standing())
    });
    assert_eq!(two.await.unwrap(), BTreeSet::from(["s-0".to_owned(), "s-2".to_owned()]));
    assert_eq!(machines.get("s-1").await.unwrap().resource_version(), before.resource_version());
    stage.api::<CaptMachineSet>().delete("s", &DeleteParams::background()).await.unwrap();
    stage.when_gone::<CaptMachineSet>("s").await;
    machines.delete("s-1", &DeleteParams::background()).await.unwrap();
    stage.when_gone::<CaptMachine>("s-1").await;
    nothing_is_left(stage).await;
}
