//! Somebody types three zeros too many, and takes them back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use capt_api::workspace::WorkspaceTemplateApply;
use capt_controllers::Options;
use capt_controllers::runtime::conditions::find;
use futures::StreamExt;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};

use crate::fixture::Fixture;

const BURST: usize = 100;

pub async fn a_hundred_thousand(client: Client) {
    let fixture = Fixture::on(client, &Options::default()).await;
    // The most names that were ever given out and not seen as machines, and the largest step of the numbers.
    let (most, step) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let sets = fixture.api::<CaptMachineSet>();
    let mut events = sets.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let (seen_most, seen_step) = (Arc::clone(&most), Arc::clone(&step));
    let watching = tokio::spawn(async move {
        let mut before = 0;
        while let Some(Ok(WatchEvent::Added(set) | WatchEvent::Modified(set))) = events.next().await {
            let Some(given) = set.status.and_then(|status| status.allocation) else { continue };
            seen_most.fetch_max(given.pending.len(), Relaxed);
            seen_step.fetch_max(usize::try_from(given.next - before).unwrap(), Relaxed);
            before = given.next;
        }
    });
    fixture.deploy(100_000, "small").await;
    let status = fixture.when("a thousand", |status| status.replicas >= 1000).await;
    let scaling = find(&status.conditions, "ScalingUp").unwrap();
    assert_eq!(
        (scaling.status.as_str(), scaling.message.clone()),
        ("True", format!("{} of 100000 machines exist", status.replicas))
    );
    assert_eq!(find(&status.conditions, "Ready").unwrap().status, "False");
    fixture.scale(0).await;
    fixture.when("none", |status| status.replicas == 0 && status.terminating_replicas == 0).await;
    let status = fixture.rolled_out().await;
    assert_eq!(find(&status.conditions, "ScalingUp").unwrap().status, "False");
    let all = ListParams::default();
    assert_eq!(fixture.api::<CaptMachine>().list(&all).await.unwrap().items.len(), 0);
    let none = capt_e2e::until("no workspaces", Duration::from_secs(120), async || {
        fixture.api::<WorkspaceTemplateApply>().list(&all).await.unwrap().items.is_empty().then_some(())
    });
    none.await.unwrap();
    assert_eq!(fixture.executor.workspaces(), [], "nothing stands");
    watching.abort();
    assert!(most.load(Relaxed) <= BURST, "{} names were given out", most.load(Relaxed));
    assert!(step.load(Relaxed) <= BURST, "{} numbers at once", step.load(Relaxed));
    let deployments = fixture.api::<CaptMachineDeployment>();
    deployments.delete("fleet", &kube::api::DeleteParams::background()).await.unwrap();
    let gone = capt_e2e::until("gone", Duration::from_secs(120), async || {
        deployments.get_opt("fleet").await.unwrap().is_none().then_some(())
    });
    gone.await.unwrap();
}
