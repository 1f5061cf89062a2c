//! Controllers and engine go and come back; and the folder is lost.

use std::sync::Arc;
use std::time::Duration;

use capt_api::names::annotations;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_controllers::runtime::lease::{Candidate, LASTS, LeaseError};
use capt_controllers::workspace::state_secrets::SecretStateBackend;
use capt_e2e::until;
use capt_terraform::order::WorkspaceId;
use capt_terraform::state_backend::{Kept, StateBackend, StateBackendError};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::fixture::{Fixture, Harness, SOON, condition, truth};

/// A fixture whose harness can be taken apart.
async fn fixture(name: &str) -> (Fixture, Arc<Harness>) {
    let harness = Arc::new(Harness::embedded().await);
    (Fixture::new(Arc::clone(&harness), name).await, harness)
}

/// The harness alone, once the fixture has let go of it.
fn alone(fixture: Fixture, harness: Arc<Harness>) -> (Harness, impl FnOnce(Arc<Harness>) -> Fixture) {
    let Fixture { harness: other, client, namespace, trace } = fixture;
    drop(other);
    let harness = Arc::into_inner(harness).expect("nobody else has the harness");
    (harness, move |harness| Fixture { harness, client, namespace, trace })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_outlives_its_controller() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (fixture, harness) = fixture("outlives").await;
    let wait = fixture.trace.with_extension("wait");
    std::fs::write(&wait, "").unwrap();
    let module = fixture.module().replace(
        "command = \"echo created",
        &format!(
            "command = \"echo begun >> {}; while test -e {}; do sleep 0.1; done; echo created",
            fixture.trace.display(),
            wait.display()
        ),
    );
    fixture.template("thing", &module).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    until("it runs", SOON, async || (!fixture.traces().is_empty()).then_some(())).await.unwrap();

    let (mut harness, back) = alone(fixture, harness);
    let folder = harness.folder.path().join("engine");
    harness.restart(&folder, None).await;
    let fixture = back(Arc::new(harness));
    std::fs::remove_file(&wait).unwrap();
    fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["begun", "created a 1"], "one run, taken up again");
    fixture.delete("a").await;
    fixture.gone("a").await;
    assert_eq!(fixture.traces().last().unwrap(), "destroyed a 1");
}

/// Nothing watches the folder of a local module.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resync_notices_an_edit_of_a_local_module() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (fixture, harness) = fixture("edited").await;
    let (mut harness, back) = alone(fixture, harness);
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
    let fixture = back(Arc::new(harness));
    fixture.put_template("m", json!({"module": {"source": module}})).await;
    fixture.apply("a", "m", json!({})).await;
    for (now, next) in [("one", "two"), ("two", "three"), ("three", "four")] {
        let applied = |object: &WorkspaceTemplateApply| {
            truth(object, "Ready") == "True" && object.status.as_ref().unwrap().outputs["it"] == now
        };
        fixture.when("a", now, applied).await;
        edit(next);
    }
    fixture.delete("a").await;
    fixture.gone("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_folder_loses_nothing() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (fixture, harness) = fixture("lost").await;
    let (mut harness, back) = alone(fixture, harness);
    let state_backend = |fence| {
        Some(Arc::new(SecretStateBackend::new(harness.client.clone(), fence, true, "kube-system"))
            as Arc<dyn StateBackend>)
    };
    let (first, second) = (state_backend(1), state_backend(2));
    let folder = harness.folder.path().join("first");
    harness.restart(&folder, first).await;
    let harness = Arc::new(harness);
    let fixture = back(Arc::clone(&harness));
    fixture.template("thing", &fixture.module()).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    let before = fixture.ready("a").await;

    let (mut harness, back) = alone(fixture, harness);
    std::fs::remove_dir_all(&folder).unwrap();
    let folder = harness.folder.path().join("second");
    harness.restart(&folder, second).await;
    let fixture = back(Arc::new(harness));
    // A change that starts nothing shows that the new controllers have looked.
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}, "timeout": "2h"})).await;
    let seen =
        fixture.when("a", "seen", |object| object.metadata.generation > before.metadata.generation).await;
    assert_eq!(seen.status.unwrap().last_applied_revision, before.status.unwrap().last_applied_revision);
    assert_eq!(fixture.traces(), ["created a 1"]);
    assert_eq!(fixture.processes(), 0, "nothing is run for what is known");
    fixture.delete("a").await;
    fixture.gone("a").await;
    assert_eq!(fixture.traces(), ["created a 1", "destroyed a 1"]);
    let left = fixture.secrets().list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty(), "nothing is left behind: {:?}", left.items);
}

/// A controller comes back with its folder of before. Another one has deleted the workspace since, and built it anew; then its Secret is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_folder_is_not_gone_on_with() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (fixture, harness) = fixture("old").await;
    let (mut harness, back) = alone(fixture, harness);
    let client = harness.client.clone();
    let state_backend = |fence| {
        Some(Arc::new(SecretStateBackend::new(client.clone(), fence, true, "kube-system"))
            as Arc<dyn StateBackend>)
    };
    let [first, second] = ["first", "second"].map(|name| harness.folder.path().join(name));
    harness.restart(&first, state_backend(1)).await;
    let harness = Arc::new(harness);
    let fixture = back(Arc::clone(&harness));
    fixture.template("thing", &fixture.module()).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    fixture.ready("a").await;

    let (mut harness, back) = alone(fixture, harness);
    harness.restart(&second, state_backend(2)).await;
    let harness = Arc::new(harness);
    let fixture = back(Arc::clone(&harness));
    fixture.delete("a").await;
    fixture.gone("a").await;
    fixture.apply("a", "thing", json!({"variables": {"name": "b"}})).await;
    let anew = fixture.ready("a").await;

    let (mut harness, back) = alone(fixture, harness);
    harness.restart(&first, state_backend(3)).await;
    let harness = Arc::new(harness);
    let fixture = back(Arc::clone(&harness));
    fixture.apply("a", "thing", json!({"variables": {"name": "b"}, "timeout": "2h"})).await;
    let seen =
        fixture.when("a", "seen", |object| object.metadata.generation > anew.metadata.generation).await;
    assert_eq!(seen.status.unwrap().last_applied_revision, anew.status.unwrap().last_applied_revision);
    let built = ["created a 1", "destroyed a 1", "created b 1"];
    assert_eq!(fixture.traces(), built);

    let (mut harness, back) = alone(fixture, harness);
    harness.stop().await;
    let fixture = back(Arc::new(harness));
    fixture.secrets().delete("capt-state-a", &DeleteParams::default()).await.unwrap();
    let Fixture { harness, client: of_stage, namespace, trace } = fixture;
    let mut harness = Arc::into_inner(harness).unwrap();
    harness.restart(&first, state_backend(4)).await;
    let fixture = Fixture { harness: Arc::new(harness), client: of_stage, namespace, trace };
    fixture.reason("a", "StateLost").await;
    fixture.delete("a").await;
    let held = fixture.when("a", "held", |object| truth(object, "Deleting") == "True").await;
    assert_eq!(condition(&held, "Ready").0, "StateLost", "{:?}", held.status);
    assert_eq!(fixture.traces(), built);
}

#[tokio::test]
async fn one_holder_at_a_time() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    let never = |_: &str| false;
    let candidate = |holder: &str| Candidate::new("default", "l", holder, LASTS);
    let first = candidate("first").take(&client, never).await.unwrap();
    let second = candidate("second").take(&client, |other| other == "first").await.unwrap();
    assert!(second.fence() > first.fence(), "a holder that is gone is not waited for");
    let waits = tokio::spawn({
        let (client, third) = (client.clone(), candidate("third"));
        async move { third.take(&client, never).await.unwrap().fence() }
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
    let state_backend = |fence| SecretStateBackend::new(client.clone(), fence, true, "kube-system");
    let bytes = |size: usize, seed: u64| {
        // Noise, which does not compress: the size is that of the Secrets.
        let step = |state: &mut u64| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some(u8::try_from(*state >> 56).unwrap())
        };
        std::iter::repeat(()).scan(seed, |state, ()| step(state)).take(size).collect::<Vec<u8>>()
    };
    assert!(state_backend(1).load(&workspace).await.unwrap().is_none());
    for size in [0, 10, 700_000, 3_000_000, 2_000_000, 5] {
        let kept =
            Kept { record: bytes(1000, 1), inputs: bytes(500, 3), state: bytes(size, 2), running: None };
        state_backend(1).keep(&workspace, kept.clone()).await.unwrap();
        assert!(state_backend(1).load(&workspace).await.unwrap() == Some(kept), "{size}");
    }
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::default_namespaced(client.clone());
    assert_eq!(secrets.list(&ListParams::default()).await.unwrap().items.len(), 1, "old chunks are swept");

    // A later controller writes; the earlier one, which does not know yet, may not any more.
    let later = Kept { record: vec![2], state: vec![2], ..Kept::default() };
    state_backend(2).keep(&workspace, later.clone()).await.unwrap();
    let refused = state_backend(1).keep(&workspace, Kept::default()).await.unwrap_err();
    assert!(matches!(refused, StateBackendError::Fenced(_)), "{refused}");
    assert!(state_backend(1).load(&workspace).await.unwrap() == Some(later));
    state_backend(2).remove(&workspace).await.unwrap();
    assert!(secrets.list(&ListParams::default()).await.unwrap().items.is_empty());
}

/// With states in the data folder alone: a folder that is gone is told, and nothing is built a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_gone_is_told_and_nothing_is_built_again() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (fixture, harness) = fixture("gone").await;
    fixture.template("thing", &fixture.module()).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    fixture.ready("a").await;
    let (mut harness, back) = alone(fixture, harness);
    let folder = harness.folder.path().join("engine");
    let (workspaces, aside) = (folder.join("workspaces"), harness.folder.path().join("aside"));
    harness.stop().await;
    std::fs::rename(&workspaces, &aside).unwrap();
    harness.restart(&folder, None).await;
    let harness = Arc::new(harness);
    let fixture = back(Arc::clone(&harness));
    fixture.reason("a", "StateLost").await;
    // Neither a change nor a retry nor a deletion goes on without the state.
    fixture.apply("a", "thing", json!({"variables": {"name": "b"}})).await;
    fixture.annotate("a", annotations::RETRY, "now").await;
    fixture.delete("a").await;
    let held = fixture.when("a", "held", |object| truth(object, "Deleting") == "True").await;
    assert_eq!(condition(&held, "Ready").0, "StateLost", "{:?}", held.status);
    assert_eq!(fixture.traces(), ["created a 1"]);

    let (mut harness, back) = alone(fixture, harness);
    harness.stop().await;
    std::fs::remove_dir_all(&workspaces).unwrap();
    std::fs::rename(&aside, &workspaces).unwrap();
    harness.restart(&folder, None).await;
    let fixture = back(Arc::new(harness));
    fixture.gone("a").await;
    assert_eq!(fixture.traces(), ["created a 1", "destroyed a 1"]);
}

/// A first apply that was under way when folder and controller were lost: what it made is not made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_apply_that_was_lost_is_told() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (fixture, harness) = fixture("halfway").await;
    let gate = fixture.trace.with_extension("gate");
    let created = "command = \"echo created";
    let waits = format!("command = \"until test -e {}; do sleep 0.1; done; echo created", gate.display());
    fixture.template("thing", &fixture.module().replace(created, &waits)).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    let working = |object: &WorkspaceTemplateApply| {
        let progress = object.status.as_ref().and_then(|status| status.progress.as_ref());
        progress.is_some_and(|progress| progress.current.is_some())
    };
    fixture.when("a", "a resource is being made", working).await;
    let (mut harness, back) = alone(fixture, harness);
    let folder = harness.folder.path().join("engine");
    harness.stop().await;
    std::fs::write(&gate, "").unwrap();
    let trace = gate.with_extension("trace");
    let made = async || std::fs::read_to_string(&trace).is_ok_and(|text| !text.is_empty()).then_some(());
    until("it is made", SOON, made).await.unwrap();
    let elsewhere = folder.with_file_name("elsewhere");
    harness.restart(&elsewhere, None).await;
    let fixture = back(Arc::new(harness));
    fixture.reason("a", "StateLost").await;
    // It stays: the next look knows no more than the first.
    fixture.annotate("a", annotations::RETRY, "now").await;
    fixture.apply("a", "thing", json!({"variables": {"name": "b"}})).await;
    let seen = |object: &WorkspaceTemplateApply| {
        object.status.as_ref().and_then(|status| status.observed_generation) == object.metadata.generation
    };
    let held = fixture.when("a", "seen", seen).await;
    assert_eq!(condition(&held, "Ready").0, "StateLost", "{:?}", held.status);
    assert_eq!(fixture.traces(), ["created a 1"]);
}

/// A controller stands still in the first moments of a first apply, of which the status tells nothing yet, and another one takes over with
/// a folder of its own. Where nothing was begun, the folder that would know of it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_apply_that_no_status_tells_of_is_not_begun_again() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (fixture, harness) = fixture("moments").await;
    let gate = fixture.trace.with_extension("gate");
    let waits = format!("command = \"until test -e {}; do sleep 0.1; done; echo created", gate.display());
    fixture.template("slow", &fixture.module().replace("command = \"echo created", &waits)).await;
    fixture.apply("a", "slow", json!({"variables": {"name": "a"}})).await;
    let working = |object: &WorkspaceTemplateApply| {
        let progress = object.status.as_ref().and_then(|status| status.progress.as_ref());
        progress.is_some_and(|progress| progress.current.is_some())
    };
    fixture.when("a", "a resource is being made", working).await;
    let applies: Api<WorkspaceTemplateApply> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    // As the status was a moment before.
    let (mut harness, back) = alone(fixture, harness);
    harness.stop().await;
    let mut early = applies.get("a").await.unwrap();
    early.status = None;
    early.metadata.managed_fields = None;
    applies.replace_status("a", &PostParams::default(), &early).await.unwrap();
    let folder = harness.folder.path().join("engine");
    harness.restart(&folder.with_file_name("elsewhere"), None).await;
    let harness = Arc::new(harness);
    let fixture = back(Arc::clone(&harness));
    fixture.reason("a", "StateLost").await;

    // The run of another one was ordered, and nothing of it was begun.
    let (mut harness, back) = alone(fixture, harness);
    harness.stop().await;
    let folder_id = early.annotations()[annotations::FIRST_APPLY].split_once('/').unwrap().1.to_owned();
    early.metadata = ObjectMeta { name: Some("b".into()), ..ObjectMeta::default() };
    let uid = applies.create(&PostParams::default(), &early).await.unwrap().metadata.uid.unwrap();
    let note = json!({"metadata": {"annotations": {annotations::FIRST_APPLY: format!("{uid}/{folder_id}")}}});
    applies.patch("b", &PatchParams::default(), &Patch::Merge(&note)).await.unwrap();
    std::fs::write(&gate, "").unwrap();
    harness.restart(&folder, None).await;
    let fixture = back(Arc::new(harness));
    for name in ["a", "b"] {
        fixture.ready(name).await;
    }
    assert_eq!(fixture.traces(), ["created a 1", "created a 1"], "one for each");
}

/// A state that somebody cut is told, and restored by `capt state restore`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_state_is_told_and_restored() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let (fixture, harness) = fixture("damaged").await;
    fixture.template("thing", &fixture.module()).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    fixture.ready("a").await;
    let (mut harness, back) = alone(fixture, harness);
    let folder = harness.folder.path().join("engine");
    harness.stop().await;
    let workspace = std::fs::read_dir(folder.join("workspaces")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(workspace.join("state/terraform.tfstate"), "").unwrap();
    harness.restart(&folder, None).await;
    let fixture = back(Arc::new(harness));
    fixture.reason("a", "StateDamaged").await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}, "timeout": "2h"})).await;
    fixture.reason("a", "StateDamaged").await;
    assert_eq!(fixture.traces(), ["created a 1"]);
    fixture.annotate("a", annotations::RESTORE_STATE, "newest").await;
    fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created a 1"], "what exists is known again");
    fixture.event("a", "RestoredState").await;
    fixture.delete("a").await;
    fixture.gone("a").await;
    assert_eq!(fixture.traces(), ["created a 1", "destroyed a 1"]);
}
