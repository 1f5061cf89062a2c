//! Controllers and engine go and come back; and the folder is lost.

use std::sync::Arc;

use capt_controllers::runtime::lease::{Held, LeaseError};
use capt_controllers::workspace::keeper::SecretKeeper;
use capt_e2e::until;
use capt_terraform::keeper::{KeepError, Keeper, Kept};
use capt_terraform::order::WorkspaceId;
use kube::api::ListParams;
use serde_json::json;

use crate::stage::{House, SOON, Stage};

/// A stage whose house can be taken apart.
async fn stage(name: &str) -> (Stage, Arc<House>) {
    let house = Arc::new(House::embedded().await);
    (Stage::new(Arc::clone(&house), name).await, house)
}

/// The house alone, once the stage has let go of it.
fn alone(stage: Stage, house: Arc<House>) -> (House, impl FnOnce(Arc<House>) -> Stage) {
    let Stage { house: other, client, namespace, trace } = stage;
    drop(other);
    let house = Arc::into_inner(house).expect("nobody else has the house");
    (house, move |house| Stage { house, client, namespace, trace })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_outlives_its_controller() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (stage, house) = stage("outlives").await;
    let wait = stage.trace.with_extension("wait");
    std::fs::write(&wait, "").unwrap();
    let module = stage.module().replace(
        "command = \"echo created",
        &format!(
            "command = \"echo begun >> {}; while test -e {}; do sleep 0.1; done; echo created",
            stage.trace.display(),
            wait.display()
        ),
    );
    stage.template("thing", &module).await;
    stage.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    until("it runs", SOON, async || (!stage.traces().is_empty()).then_some(())).await.unwrap();

    let (mut house, back) = alone(stage, house);
    let folder = house.folder.path().join("engine");
    house.restart(&folder, None).await;
    let stage = back(Arc::new(house));
    std::fs::remove_file(&wait).unwrap();
    stage.ready("a").await;
    assert_eq!(stage.traces(), ["begun", "created a 1"], "one run, taken up again");
    stage.delete("a").await;
    stage.gone("a").await;
    assert_eq!(stage.traces().last().unwrap(), "destroyed a 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_folder_loses_nothing() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (stage, house) = stage("lost").await;
    let (mut house, back) = alone(stage, house);
    let keeper =
        |fence| Some(Arc::new(SecretKeeper::new(house.client.clone(), fence, true)) as Arc<dyn Keeper>);
    let (first, second) = (keeper(1), keeper(2));
    let folder = house.folder.path().join("first");
    house.restart(&folder, first).await;
    let house = Arc::new(house);
    let stage = back(Arc::clone(&house));
    stage.template("thing", &stage.module()).await;
    stage.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    let before = stage.ready("a").await;

    let (mut house, back) = alone(stage, house);
    std::fs::remove_dir_all(&folder).unwrap();
    let folder = house.folder.path().join("second");
    house.restart(&folder, second).await;
    let stage = back(Arc::new(house));
    // A change that starts nothing shows that the new controllers have looked.
    stage.apply("a", "thing", json!({"variables": {"name": "a"}, "timeout": "2h"})).await;
    let seen =
        stage.when("a", "seen", |object| object.metadata.generation > before.metadata.generation).await;
    assert_eq!(seen.status.unwrap().last_applied_revision, before.status.unwrap().last_applied_revision);
    assert_eq!(stage.traces(), ["created a 1"]);
    assert_eq!(stage.processes(), 0, "nothing is run for what is known");
    stage.delete("a").await;
    stage.gone("a").await;
    assert_eq!(stage.traces(), ["created a 1", "destroyed a 1"]);
    let left = stage.secrets().list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty(), "nothing is left behind: {:?}", left.items);
}

#[tokio::test]
async fn one_holder_at_a_time() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    let never = |_: &str| false;
    let first = Held::take(&client, "default", "l", "first", never).await.unwrap();
    let second = Held::take(&client, "default", "l", "second", |other| other == "first").await.unwrap();
    assert!(second.fence() > first.fence(), "a holder that is gone is not waited for");
    let waits = tokio::spawn({
        let client = client.clone();
        async move { Held::take(&client, "default", "l", "third", never).await.unwrap().fence() }
    });
    let mut first = first;
    let lost = first.keep().await;
    assert!(matches!(&lost, LeaseError::Taken { holder, .. } if holder == "second"), "{lost}");
    assert!(!waits.is_finished());
    let fence = second.fence();
    second.release().await;
    assert!(waits.await.unwrap() > fence);
}

#[tokio::test]
async fn states_in_secrets() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    let workspace = WorkspaceId::new("default/w");
    let keeper = |fence| SecretKeeper::new(client.clone(), fence, true);
    let bytes = |size: usize, seed: u64| {
        // Noise, which does not compress: the size is that of the Secrets.
        let step = |state: &mut u64| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some(u8::try_from(*state >> 56).unwrap())
        };
        std::iter::repeat(()).scan(seed, |state, ()| step(state)).take(size).collect::<Vec<u8>>()
    };
    assert!(keeper(1).load(&workspace).await.unwrap().is_none());
    for size in [0, 10, 700_000, 3_000_000, 2_000_000, 5] {
        let kept = Kept { record: bytes(1000, 1), state: bytes(size, 2) };
        keeper(1).keep(&workspace, kept.clone()).await.unwrap();
        assert!(keeper(1).load(&workspace).await.unwrap() == Some(kept), "{size}");
    }
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::default_namespaced(client.clone());
    assert_eq!(secrets.list(&ListParams::default()).await.unwrap().items.len(), 1, "old chunks are swept");

    // A later controller writes; the earlier one, which does not know yet, may not any more.
    let later = Kept { record: vec![2], state: vec![2] };
    keeper(2).keep(&workspace, later.clone()).await.unwrap();
    let refused = keeper(1).keep(&workspace, Kept::default()).await.unwrap_err();
    assert!(matches!(refused, KeepError::Fenced(_)), "{refused}");
    assert!(keeper(1).load(&workspace).await.unwrap() == Some(later));
    keeper(2).remove(&workspace).await.unwrap();
    assert!(secrets.list(&ListParams::default()).await.unwrap().items.is_empty());
}
