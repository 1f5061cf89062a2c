//! What a tenant only mentions binds nobody, tells the tenant nothing, and lends no rights.

use capt_api::conditions::reasons;
use capt_controllers::CrossNamespace;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::borders::{Borders, REFUSED, condition, refusal};
use crate::fixture::Harness;

const APPLY: &str = "WorkspaceTemplateApply";
const MODULE: &str = "resource \"terraform_data\" \"thing\" {}\noutput \"label\" { value = \"built\" }\n";

fn template() -> Value {
    json!({"spec": {"template": {"spec": {"module": MODULE}}}})
}

/// A harness, both namespaces, and a workspace that stands in each.
async fn begin(name: &str) -> Option<(Harness, Borders)> {
    if !crate::can_run() {
        return None;
    }
    let harness = Harness::embedded().await;
    let borders = Borders::new(&harness.client, name).await;
    for namespace in [&borders.tenant, &borders.vault] {
        borders.put(namespace, "WorkspaceTemplate", "own", &template()).await;
    }
    borders.put(&borders.tenant, APPLY, "a", &json!({"spec": {"templateRef": {"name": "own"}}})).await;
    borders.when(APPLY, "a", "ready", ready).await;
    Some((harness, borders))
}

fn ready(object: &Value) -> Option<()> {
    (condition(object, "Ready")["status"] == "True").then_some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mention_holds_nothing_up() {
    let Some((_house, borders)) = begin("mention").await else { return };
    let (vault, tenant) = (borders.vault.clone(), borders.tenant.clone());
    borders.put(&vault, APPLY, "built", &json!({"spec": {"templateRef": {"name": "own"}}})).await;
    borders.when_in(&vault, APPLY, "built", "ready", ready).await;
    borders.put(&vault, "WorkspaceTemplate", "shared", &template()).await;
    borders.put(&vault, "NodeGroup", "workers", &json!({"spec": {"external": {"name": "ng-1"}}})).await;
    // A workspace that stands, and mentions theirs; an instance and a machine that mention the rest.
    let mention = json!({"spec": {"waitForWorkspaces": [{"name": "built", "namespace": vault}]}});
    borders.change(APPLY, "a", &mention).await;
    let shared = json!({"spec": {"templateRef": {"name": "shared", "namespace": vault}}});
    borders.put(&tenant, APPLY, "b", &shared).await;
    let machine = json!({"spec": {
        "workspaceTemplateRef": {"name": "own"}, "nodeGroupRef": {"name": "workers", "namespace": vault},
        "instanceType": "small",
    }});
    borders.put(&tenant, "CaptMachine", "m", &machine).await;
    borders.when(APPLY, "b", REFUSED, |object| refusal(object).map(drop)).await;
    borders.when("CaptMachine", "m", REFUSED, |object| refusal(object).map(drop)).await;
    for (kind, name) in [(APPLY, "built"), ("WorkspaceTemplate", "shared"), ("NodeGroup", "workers")] {
        borders.delete(&vault, kind, name).await;
        borders.gone(&vault, kind, name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_holds_no_backend() {
    let Some((mut harness, borders)) = begin("backend").await else { return };
    let (vault, tenant) = (borders.vault.clone(), borders.tenant.clone());
    let state = harness.folder.path().join("victim.tfstate");
    let module = |label: &str| {
        let backend =
            format!("terraform {{\n  backend \"local\" {{\n    path = \"{}\"\n  }}\n}}\n", state.display());
        let module = backend + &MODULE.replace("built", label);
        json!({"spec": {"template": {"spec": {"module": module}}}})
    };
    let is = |label: &'static str| {
        move |object: &Value| {
            assert_ne!(condition(object, "Ready")["reason"], reasons::BACKEND_IN_USE, "{object:#}");
            (object["status"]["outputs"]["label"] == label).then_some(())
        }
    };
    borders.put(&vault, "WorkspaceTemplate", "victim", &module("one")).await;
    borders.put(&vault, APPLY, "victim", &json!({"spec": {"templateRef": {"name": "victim"}}})).await;
    borders.when_in(&vault, APPLY, "victim", "ready", is("one")).await;
    let hash = |object: &Value| object["status"]["backendHash"].as_str().map(str::to_owned);
    let hash = borders.when_in(&vault, APPLY, "victim", "its backend", hash).await;

    // One whose template is nowhere, and one that has built something else and cannot be resolved any more.
    borders.put(&tenant, APPLY, "nowhere", &json!({"spec": {"templateRef": {"name": "nowhere"}}})).await;
    let secret = json!({"spec": {"variablesFrom": [{"secretRef": {"name": "nowhere"}, "map": {"a": "a"}}]}});
    borders.change(APPLY, "a", &secret).await;
    let forged = json!({"status": {"backendHash": hash}});
    for name in ["nowhere", "a"] {
        borders
            .when(APPLY, name, "told", |object| condition(object, "Synced")["reason"].as_str().map(drop))
            .await;
        let api = borders.api(&tenant, APPLY);
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&forged)).await.unwrap();
    }
    borders.put(&vault, "WorkspaceTemplate", "victim", &module("two")).await;
    borders.when_in(&vault, APPLY, "victim", "changed", is("two")).await;
    // Nor after a restart, when nobody remembers who had what.
    let folder = harness.folder.path().join("engine");
    harness.stop().await;
    for name in ["nowhere", "a"] {
        let api = borders.api(&tenant, APPLY);
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&forged)).await.unwrap();
    }
    harness.restart(&folder, None).await;
    borders.put(&vault, "WorkspaceTemplate", "victim", &module("three")).await;
    borders.when_in(&vault, APPLY, "victim", "changed", is("three")).await;
    // Who really would share it is refused, whatever its own status says.
    borders.put(&tenant, "WorkspaceTemplate", "same", &module("four")).await;
    borders.put(&tenant, APPLY, "same", &json!({"spec": {"templateRef": {"name": "same"}}})).await;
    let refused =
        |object: &Value| (condition(object, "Ready")["reason"] == reasons::BACKEND_IN_USE).then_some(());
    borders.when(APPLY, "same", "refused", refused).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_does_not_tell_what_exists() {
    let Some((_house, borders)) = begin("oracle").await else { return };
    borders.put(&borders.vault, "Secret", "there", &json!({"stringData": {"token": "hunter-two"}})).await;
    let mut told = Vec::new();
    for (name, key) in [("there", "token"), ("there", "other"), ("nowhere", "token")] {
        let config = format!("{name}-{key}");
        let spec = json!({"spec": {"credentials": [
            {"env": "TOKEN", "secretRef": {"name": name, "namespace": borders.vault, "key": key}},
        ]}});
        borders.put(&borders.tenant, "WorkspaceProviderConfig", &config, &spec).await;
        let said = borders.when("WorkspaceProviderConfig", &config, REFUSED, refusal).await;
        let (sentence, _) = said.split_once("; to allow it").unwrap();
        told.push(sentence.replace("nowhere", "there"));
    }
    for name in ["there", "nowhere"] {
        let spec = json!({"spec": {
            "templateRef": {"name": "own"}, "waitForSecrets": [{"name": name, "namespace": borders.vault}],
        }});
        borders.put(&borders.tenant, APPLY, name, &spec).await;
        let said = borders.when(APPLY, name, REFUSED, refusal).await;
        let (sentence, _) = said.split_once("; to allow it").unwrap();
        told.push(sentence.replace("nowhere", "there").replace(APPLY, "WorkspaceProviderConfig"));
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_and_owners_lend_no_rights() {
    let Some((_house, borders)) = begin("lent").await else { return };
    let vault = &borders.vault;
    // A note that says where outputs were written: what is there is not this workspace's.
    borders.put(vault, "Secret", "empty", &json!({})).await;
    borders.put(vault, "Secret", "full", &json!({"stringData": {"token": "hunter-two"}})).await;
    for secret in ["empty", "full"] {
        let note = format!("{vault}/{secret}");
        let body =
            json!({"metadata": {"annotations": {capt_api::names::annotations::CONNECTION_SECRET: note}}});
        borders.change(APPLY, "a", &body).await;
    }
    borders.delete(&borders.tenant, APPLY, "a").await;
    borders.gone(&borders.tenant, APPLY, "a").await;
    for secret in ["empty", "full"] {
        let found = borders.api(vault, "Secret").get_opt(secret).await.unwrap();
        assert!(found.is_some(), "{secret} is the vault's");
    }
    // An owner that was granted a group lends nothing to what claims to be its workspace.
    let machine = json!({"spec": {
        "workspaceTemplateRef": {"name": "own"}, "nodeGroupRef": {"name": "old"}, "instanceType": "small",
    }});
    borders.put(&borders.tenant, "CaptMachine", "m", &machine).await;
    borders.when("CaptMachine", "m", "ready", ready).await;
    let uid = borders
        .when("CaptMachine", "m", "its uid", |object| object["metadata"]["uid"].as_str().map(str::to_owned))
        .await;
    let claims = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachine", "name": "m", "uid": uid,
        "controller": true,
    });
    let child = json!({
        "metadata": {"name": "child", "ownerReferences": [claims]},
        "spec": {
            "templateRef": {"name": "own"},
            "variablesFrom": [{"secretRef": {"name": "full", "namespace": vault}, "map": {"token": "token"}}],
        },
    });
    borders.put(&borders.tenant, APPLY, "child", &child).await;
    let said = borders.when(APPLY, "child", REFUSED, refusal).await;
    assert!(said.contains("WorkspaceTemplateApply of namespace lent-tenant"), "{said}");
    assert_eq!(REFUSED, reasons::REFERENCE_NOT_GRANTED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_follows_every_reference() {
    let Some((mut harness, borders)) = begin("open").await else { return };
    harness.cross_namespace = CrossNamespace::Open;
    let folder = harness.folder.path().join("engine");
    harness.restart(&folder, None).await;
    borders.put(&borders.vault, "Secret", "keys", &json!({"stringData": {"token": "hunter-two"}})).await;
    let spec = json!({"spec": {
        "templateRef": {"name": "own", "namespace": borders.vault},
        "variablesFrom": [{"secretRef": {"name": "keys", "namespace": borders.vault}}],
    }});
    borders.put(&borders.tenant, APPLY, "b", &spec).await;
    borders.when(APPLY, "b", "ready", ready).await;
}
