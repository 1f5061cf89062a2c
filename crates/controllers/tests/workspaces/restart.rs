//! Controllers and engine go and come back; and the folder is lost.

use std::sync::Arc;
use std::time::Duration;

use capt_api::workspace::WorkspaceTemplateApply;
use capt_controllers::runtime::lease::{Held, LASTS, LeaseError};
use capt_controllers::workspace::keeper::SecretKeeper;
use capt_e2e::until;
use capt_terraform::order::WorkspaceId;
use capt_terraform::state_backend::{Kept, StateBackend, StateBackendError};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::stage::{Harness, SOON, Stage, condition, truth};

/// A stage whose harness can be taken apart.
async fn stage(name: &str) -> (Stage, Arc<Harness>) {
    let harness = Arc::new(Harness::embedded().await);
    (Stage::new(Arc::clone(&harness), name).await, harness)
}

/// The harness alone, once the stage has let go of it.
fn alone(stage: Stage, harness: Arc<Harness>) -> (Harness, impl FnOnce(Arc<Harness>) -> Stage) {
    let Stage { harness: other, client, namespace, trace } = stage;
    drop(other);
    let harness = Arc::into_inner(harness).expect("nobody else has the harness");
    (harness, move |harness| Stage { harness, client, namespace, trace })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_outlives_its_controller() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (stage, harness) = stage("outlives").await;
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

    let (mut harness, back) = alone(stage, harness);
    let folder = harness.folder.path().join("engine");
    harness.restart(&folder, None).await;
    let stage = back(Arc::new(harness));
    std::fs::remove_file(&wait).unwrap();
    stage.ready("a").await;
    assert_eq!(stage.traces(), ["begun", "created a 1"], "one run, taken up again");
    stage.delete("a").await;
    stage.gone("a").await;
    assert_eq!(stage.traces().last().unwrap(), "destroyed a 1");
}

/// Nothing watches the folder of a local module.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resync_notices_an_edit_of_a_local_module() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (stage, harness) = stage("edited").await;
    let (mut harness, back) = alone(stage, harness);
    let (engine, module) = (harness.folder.path().join("engine"), harness.folder.path().join("modules/m"));
    std::fs::create_dir_all(&module).unwrap();
    let edit = |value: &str| {
        let text = format!("output \"it\" {{\n  value = \"{value}\"\n}}\n");
        // In one step, as editors save: half of a file is another module.
        let fresh = module.with_file_name("fresh.tf");
        std::fs::write(&fresh, text).unwrap();
        std::fs::rename(&fresh, module.join("main.tf")).unwrap();
    };
    edit("one");
    harness.resync = Duration::from_millis(500);
    harness.restart(&engine, None).await;
    let stage = back(Arc::new(harness));
    stage.put_template("m", json!({"module": {"source": module}})).await;
    stage.apply("a", "m", json!({})).await;
    for (now, next) in [("one", "two"), ("two", "three"), ("three", "four")] {
        let applied = |object: &WorkspaceTemplateApply| {
            truth(object, "Ready") == "True" && object.status.as_ref().unwrap().outputs["it"] == now
        };
        stage.when("a", now, applied).await;
        edit(next);
    }
    stage.delete("a").await;
    stage.gone("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_folder_loses_nothing() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (stage, harness) = stage("lost").await;
    let (mut harness, back) = alone(stage, harness);
    let keeper = |fence| {
        Some(Arc::new(SecretKeeper::new(harness.client.clone(), fence, true, "kube-system"))
            as Arc<dyn StateBackend>)
    };
    let (first, second) = (keeper(1), keeper(2));
    let folder = harness.folder.path().join("first");
    harness.restart(&folder, first).await;
    let harness = Arc::new(harness);
    let stage = back(Arc::clone(&harness));
    stage.template("thing", &stage.module()).await;
    stage.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    let before = stage.ready("a").await;

    let (mut harness, back) = alone(stage, harness);
    std::fs::remove_dir_all(&folder).unwrap();
    let folder = harness.folder.path().join("second");
    harness.restart(&folder, second).await;
    let stage = back(Arc::new(harness));
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

/// A controller comes back with its folder of before. Another one has deleted the workspace since, and built it anew; then its Secret is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_folder_is_not_gone_on_with() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (stage, harness) = stage("old").await;
    let (mut harness, back) = alone(stage, harness);
    let client = harness.client.clone();
    let keeper = |fence| {
        Some(Arc::new(SecretKeeper::new(client.clone(), fence, true, "kube-system")) as Arc<dyn StateBackend>)
    };
    let [first, second] = ["first", "second"].map(|name| harness.folder.path().join(name));
    harness.restart(&first, keeper(1)).await;
    let harness = Arc::new(harness);
    let stage = back(Arc::clone(&harness));
    stage.template("thing", &stage.module()).await;
    stage.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    stage.ready("a").await;

    let (mut harness, back) = alone(stage, harness);
    harness.restart(&second, keeper(2)).await;
    let harness = Arc::new(harness);
    let stage = back(Arc::clone(&harness));
    stage.delete("a").await;
    stage.gone("a").await;
    stage.apply("a", "thing", json!({"variables": {"name": "b"}})).await;
    let anew = stage.ready("a").await;

    let (mut harness, back) = alone(stage, harness);
    harness.restart(&first, keeper(3)).await;
    let harness = Arc::new(harness);
    let stage = back(Arc::clone(&harness));
    stage.apply("a", "thing", json!({"variables": {"name": "b"}, "timeout": "2h"})).await;
    let seen = stage.when("a", "seen", |object| object.metadata.generation > anew.metadata.generation).await;
    assert_eq!(seen.status.unwrap().last_applied_revision, anew.status.unwrap().last_applied_revision);
    let built = ["created a 1", "destroyed a 1", "created b 1"];
    assert_eq!(stage.traces(), built);

    let (mut harness, back) = alone(stage, harness);
    harness.stop().await;
    let stage = back(Arc::new(harness));
    stage.secrets().delete("capt-state-a", &DeleteParams::default()).await.unwrap();
    let Stage { harness, client: of_stage, namespace, trace } = stage;
    let mut harness = Arc::into_inner(harness).unwrap();
    harness.restart(&first, keeper(4)).await;
    let stage = Stage { harness: Arc::new(harness), client: of_stage, namespace, trace };
    stage.reason("a", "StateLost").await;
    stage.delete("a").await;
    let held = stage.when("a", "held", |object| truth(object, "Deleting") == "True").await;
    assert_eq!(condition(&held, "Ready").0, "StateLost", "{:?}", held.status);
    assert_eq!(stage.traces(), built);
}

#[tokio::test]
async fn one_holder_at_a_time() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    let never = |_: &str| false;
    let first = Held::take(&client, "default", "l", "first", LASTS, never).await.unwrap();
    let second =
        Held::take(&client, "default", "l", "second", LASTS, |other| other == "first").await.unwrap();
    assert!(second.fence() > first.fence(), "a holder that is gone is not waited for");
    let waits = tokio::spawn({
        let client = client.clone();
        async move { Held::take(&client, "default", "l", "third", LASTS, never).await.unwrap().fence() }
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
    let keeper = |fence| SecretKeeper::new(client.clone(), fence, true, "kube-system");
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
        let kept =
            Kept { record: bytes(1000, 1), inputs: bytes(500, 3), state: bytes(size, 2), running: None };
        keeper(1).keep(&workspace, kept.clone()).await.unwrap();
        assert!(keeper(1).load(&workspace).await.unwrap() == Some(kept), "{size}");
    }
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::default_namespaced(client.clone());
    assert_eq!(secrets.list(&ListParams::default()).await.unwrap().items.len(), 1, "old chunks are swept");

    // A later controller writes; the earlier one, which does not know yet, may not any more.
    let later = Kept { record: vec![2], state: vec![2], ..Kept::default() };
    keeper(2).keep(&workspace, later.clone()).await.unwrap();
    let refused = keeper(1).keep(&workspace, Kept::default()).await.unwrap_err();
    assert!(matches!(refused, StateBackendError::Fenced(_)), "{refused}");
    assert!(keeper(1).load(&workspace).await.unwrap() == Some(later));
    keeper(2).remove(&workspace).await.unwrap();
    assert!(secrets.list(&ListParams::default()).await.unwrap().items.is_empty());
}

/// With states in the data folder alone: a folder that is gone is told, and nothing is built a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_gone_is_told_and_nothing_is_built_again() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (stage, harness) = stage("gone").await;
    stage.template("thing", &stage.module()).await;
    stage.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    stage.ready("a").await;
    let (mut harness, back) = alone(stage, harness);
    let folder = harness.folder.path().join("engine");
    let (workspaces, aside) = (folder.join("workspaces"), harness.folder.path().join("aside"));
    harness.stop().await;
    std::fs::rename(&workspaces, &aside).unwrap();
    harness.restart(&folder, None).await;
    let harness = Arc::new(harness);
    let stage = back(Arc::clone(&harness));
    stage.reason("a", "StateLost").await;
    // Neither a change nor a retry nor a deletion goes on without the state.
    stage.apply("a", "thing", json!({"variables": {"name": "b"}})).await;
    stage.annotate("a", capt_api::names::annotations::RETRY, "now").await;
    stage.delete("a").await;
    let held = stage.when("a", "held", |object| truth(object, "Deleting") == "True").await;
    assert_eq!(condition(&held, "Ready").0, "StateLost", "{:?}", held.status);
    assert_eq!(stage.traces(), ["created a 1"]);

    let (mut harness, back) = alone(stage, harness);
    harness.stop().await;
    std::fs::remove_dir_all(&workspaces).unwrap();
    std::fs::rename(&aside, &workspaces).unwrap();
    harness.restart(&folder, None).await;
    let stage = back(Arc::new(harness));
    stage.gone("a").await;
    assert_eq!(stage.traces(), ["created a 1", "destroyed a 1"]);
}

/// A first apply that was under way when folder and controller were lost: what it made is not made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_apply_that_was_lost_is_told() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (stage, harness) = stage("halfway").await;
    let gate = stage.trace.with_extension("gate");
    let created = "command = \"echo created";
    let waits = format!("command = \"until test -e {}; do sleep 0.1; done; echo created", gate.display());
    stage.template("thing", &stage.module().replace(created, &waits)).await;
    stage.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    let working = |object: &WorkspaceTemplateApply| {
        let progress = object.status.as_ref().and_then(|status| status.progress.as_ref());
        progress.is_some_and(|progress| progress.current.is_some())
    };
    stage.when("a", "a resource is being made", working).await;
    let (mut harness, back) = alone(stage, harness);
    let folder = harness.folder.path().join("engine");
    harness.stop().await;
    std::fs::write(&gate, "").unwrap();
    let trace = gate.with_extension("trace");
    let made = async || std::fs::read_to_string(&trace).is_ok_and(|text| !text.is_empty()).then_some(());
    until("it is made", SOON, made).await.unwrap();
    let elsewhere = folder.with_file_name("elsewhere");
    harness.restart(&elsewhere, None).await;
    let stage = back(Arc::new(harness));
    stage.reason("a", "StateLost").await;
    // It stays: the next look knows no more than the first.
    stage.annotate("a", capt_api::names::annotations::RETRY, "now").await;
    stage.apply("a", "thing", json!({"variables": {"name": "b"}})).await;
    let seen = |object: &WorkspaceTemplateApply| {
        object.status.as_ref().and_then(|status| status.observed_generation) == object.metadata.generation
    };
    let held = stage.when("a", "seen", seen).await;
    assert_eq!(condition(&held, "Ready").0, "StateLost", "{:?}", held.status);
    assert_eq!(stage.traces(), ["created a 1"]);
}

/// A state that somebody cut is told, and restored by `capt state restore`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_state_is_told_and_restored() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (stage, harness) = stage("damaged").await;
    stage.template("thing", &stage.module()).await;
    stage.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    stage.ready("a").await;
    let (mut harness, back) = alone(stage, harness);
    let folder = harness.folder.path().join("engine");
    harness.stop().await;
    let workspace = std::fs::read_dir(folder.join("workspaces")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(workspace.join("state/terraform.tfstate"), "").unwrap();
    harness.restart(&folder, None).await;
    let stage = back(Arc::new(harness));
    stage.reason("a", "StateDamaged").await;
    stage.apply("a", "thing", json!({"variables": {"name": "a"}, "timeout": "2h"})).await;
    stage.reason("a", "StateDamaged").await;
    assert_eq!(stage.traces(), ["created a 1"]);
    stage.annotate("a", capt_api::names::annotations::RESTORE_STATE, "newest").await;
    stage.ready("a").await;
    assert_eq!(stage.traces(), ["created a 1"], "what exists is known again");
    stage.event("a", "RestoredState").await;
    stage.delete("a").await;
    stage.gone("a").await;
    assert_eq!(stage.traces(), ["created a 1", "destroyed a 1"]);
}
