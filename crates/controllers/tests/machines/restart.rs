//! Controllers and engine go and come back in the middle of things.

use std::collections::BTreeMap;
use std::sync::Arc;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::fleet::{Fleet, deployment, is_ready, rolling, started};
use crate::rollouts::sizes;
use crate::stage::{Harness, SOON, Stage};

/// Stops everything but the API, and starts it again.
async fn again(stage: Stage) -> Stage {
    let Stage { harness, client, namespace, trace } = stage;
    let mut harness = Arc::into_inner(harness).expect("nobody else has the harness");
    let folder = harness.folder.path().join("engine");
    harness.restart(&folder, None).await;
    Stage { harness: Arc::new(harness), client, namespace, trace }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_outlives_its_controllers() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let mut stage = Stage::new(Arc::new(Harness::embedded().await), "outlives").await;
    started(&stage, 3, &rolling()).await;
    stage.put("CaptMachineDeployment", "web", deployment(3, "large", &rolling())).await;
    for lines in 4..9 {
        let moved = until("it moves", SOON, async || (stage.traces().len() >= lines).then_some(()));
        moved.await.unwrap_or_else(|error| panic!("{error}: {:#?}", stage.traces()));
        stage = again(stage).await;
    }
    stage.rolled_out().await;
    assert_eq!(sizes(&stage), [1, 2, 3, 4, 3, 4, 3, 4, 3], "{:#?}", stage.traces());
    assert_eq!(stage.standing(), stage.machine_names().await);
    stage.delete_all().await;
}

/// Versions of everything that the controllers write.
async fn versions(stage: &Stage) -> BTreeMap<String, Option<String>> {
    let all = ListParams::default();
    let mut versions = BTreeMap::new();
    for one in stage.api::<CaptMachineDeployment>().list(&all).await.unwrap() {
        versions.insert(format!("deployment {}", one.name_any()), one.resource_version());
    }
    for one in stage.api::<CaptMachineSet>().list(&all).await.unwrap() {
        versions.insert(format!("set {}", one.name_any()), one.resource_version());
    }
    for one in stage.api::<CaptMachine>().list(&all).await.unwrap() {
        versions.insert(format!("machine {}", one.name_any()), one.resource_version());
    }
    for one in stage.applies().list(&all).await.unwrap() {
        versions.insert(format!("workspace {}", one.name_any()), one.resource_version());
    }
    versions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_rest_nothing_is_written() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let stage = Stage::new(Arc::new(Harness::embedded().await), "rest").await;
    started(&stage, 3, &rolling()).await;
    stage.put("CaptMachineDeployment", "web", deployment(3, "large", &rolling())).await;
    stage.rolled_out().await;
    let before = versions(&stage).await;
    // New controllers look at everything; a machine that comes and goes shows that they have.
    let stage = again(stage).await;
    let other = json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"}, "instanceType": "small",
    });
    stage.put("CaptMachine", "other", other).await;
    stage.machine("other", "ready", is_ready).await;
    let workspace = stage.get("other-machine").await;
    assert_eq!(workspace.metadata.generation, Some(1), "its inputs were written once");
    let mut after = versions(&stage).await;
    after.retain(|name, _| !name.contains("other"));
    assert_eq!(after, before);
}
