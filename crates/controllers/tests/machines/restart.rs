//! Controllers and engine go and come back in the middle of things.

use std::collections::BTreeMap;
use std::sync::Arc;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::fixture::{Fixture, Harness, SOON};
use crate::fleet::{Fleet, deployment, is_ready, rolling, started};
use crate::rollouts::sizes;

/// Stops everything but the API, and starts it again.
async fn again(fixture: Fixture) -> Fixture {
    let Fixture { harness, client, namespace, trace } = fixture;
    let mut harness = Arc::into_inner(harness).expect("nobody else has the harness");
    let folder = harness.folder.path().join("engine");
    harness.restart(&folder, None).await;
    Fixture { harness: Arc::new(harness), client, namespace, trace }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_outlives_its_controllers() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let mut fixture = Fixture::new(Arc::new(Harness::embedded().await), "outlives").await;
    started(&fixture, 3, &rolling()).await;
    fixture.put("CaptMachineDeployment", "web", deployment(3, "large", &rolling())).await;
    for lines in 4..9 {
        let moved = until("it moves", SOON, async || (fixture.traces().len() >= lines).then_some(()));
        moved.await.unwrap_or_else(|error| panic!("{error}: {:#?}", fixture.traces()));
        fixture = again(fixture).await;
    }
    fixture.rolled_out().await;
    assert_eq!(sizes(&fixture), [1, 2, 3, 4, 3, 4, 3, 4, 3], "{:#?}", fixture.traces());
    assert_eq!(fixture.standing(), fixture.machine_names().await);
    fixture.delete_all().await;
}

/// Versions of everything that the controllers write.
async fn versions(fixture: &Fixture) -> BTreeMap<String, Option<String>> {
    let all = ListParams::default();
    let mut versions = BTreeMap::new();
    for one in fixture.api::<CaptMachineDeployment>().list(&all).await.unwrap() {
        versions.insert(format!("deployment {}", one.name_any()), one.resource_version());
    }
    for one in fixture.api::<CaptMachineSet>().list(&all).await.unwrap() {
        versions.insert(format!("set {}", one.name_any()), one.resource_version());
    }
    for one in fixture.api::<CaptMachine>().list(&all).await.unwrap() {
        versions.insert(format!("machine {}", one.name_any()), one.resource_version());
    }
    for one in fixture.applies().list(&all).await.unwrap() {
        versions.insert(format!("workspace {}", one.name_any()), one.resource_version());
    }
    versions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_rest_nothing_is_written() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let fixture = Fixture::new(Arc::new(Harness::embedded().await), "rest").await;
    started(&fixture, 3, &rolling()).await;
    fixture.put("CaptMachineDeployment", "web", deployment(3, "large", &rolling())).await;
    fixture.rolled_out().await;
    let before = versions(&fixture).await;
    // New controllers look at everything; a machine that comes and goes shows that they have.
    let fixture = again(fixture).await;
    let other = json!({
        "workspaceTemplateRef": {"name": "machine"}, "nodeGroupRef": {"name": "workers"}, "instanceType": "small",
    });
    fixture.put("CaptMachine", "other", other).await;
    fixture.machine("other", "ready", is_ready).await;
    let workspace = fixture.get("other-machine").await;
    assert_eq!(workspace.metadata.generation, Some(1), "its inputs were written once");
    let mut after = versions(&fixture).await;
    after.retain(|name, _| !name.contains("other"));
    assert_eq!(after, before);
}
