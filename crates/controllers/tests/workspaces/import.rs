//! States of others: held, found, taken over before anything is built.

use std::io::Write;
use std::process::Command;

use capt_api::names::annotations;
use capt_controllers::workspace::state_secrets;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixture::{Fixture, SOON, condition, truth};

/// Lets Terraform build the fixture's module, as something else than CAPT; gives the state.
fn built_elsewhere(fixture: &Fixture, name: &str, backend: &str, workspace: Option<&str>) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.tf"), backend.to_owned() + &fixture.module()).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(program());
        command.args(args).current_dir(folder.path());
        if let Some(workspace) = workspace.filter(|_| args[0] != "init") {
            command.env("TF_WORKSPACE", workspace);
        }
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    };
    run(&["init", "-input=false"]);
    run(&["apply", "-auto-approve", "-input=false", "-var", &format!("name={name}")]);
    run(&["state", "pull"])
}

pub fn program() -> &'static str {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tofu = std::env::split_paths(&path).any(|folder| folder.join("tofu").is_file());
    if tofu { "tofu" } else { "terraform" }
}

/// Makes an instance look as the Go version left it: applied, and no record of it anywhere.
async fn left_by_another(fixture: &Fixture, name: &str, template: &str, variables: &serde_json::Value) {
    fixture.apply(name, template, json!({"variables": variables, "paused": true})).await;
    fixture.when(name, "paused", |object| truth(object, "Paused") == "True").await;
    let status = json!({"status": {"applied": true, "lastAppliedTime": "2025-01-01T00:00:00Z"}});
    fixture.applies().patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    fixture.apply(name, template, json!({"variables": variables})).await;
}

/// A Secret as Terraform's `kubernetes` backend writes it.
fn of_kubernetes_backend(name: &str, state: &[u8]) -> Secret {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(state).unwrap();
    Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([("tfstate".to_owned(), ByteString(packed.finish().unwrap()))].into()),
        ..Secret::default()
    }
}

pub async fn what_something_else_applied_is_held(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    left_by_another(fixture, "a", "thing", &json!({"name": "old"})).await;
    let held = fixture.reason("a", "StateLost").await;
    assert_eq!(truth(&held, "Stalled"), "True");
    assert!(condition(&held, "Ready").1.contains("capt import-state"), "{held:?}");
    assert!(fixture.traces().is_empty(), "{:?}", fixture.traces());
    // The state comes, without any further word: it goes on by itself, and builds nothing.
    let state = built_elsewhere(fixture, "old", "", None);
    state_secrets::write_import(&fixture.client, &fixture.namespace, "capt-import-a", state).await.unwrap();
    fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created old 1"]);
}

pub async fn a_state_waits_for_its_workspace(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let state = built_elsewhere(fixture, "old", "", None);
    state_secrets::write_import(&fixture.client, &fixture.namespace, "capt-import-a", state).await.unwrap();
    fixture.apply("a", "thing", json!({"variables": {"name": "old"}})).await;
    fixture.ready("a").await;
    fixture.event("a", "TookOverState").await;
    assert_eq!(fixture.traces(), ["created old 1"], "what exists is not created again");
    assert!(fixture.secrets().get_opt("capt-import-a").await.unwrap().is_none(), "no copy is left behind");
}

pub async fn a_manifest_names_the_state_to_import(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let import = json!({"variables": {"name": "old"}, "importState": {"name": "tfstate-a-x"}});
    fixture.apply("a", "thing", import.clone()).await;
    let waits = fixture.reason("a", "WaitingForSecrets").await;
    assert!(condition(&waits, "Ready").1.contains("tfstate-a-x"), "{waits:?}");
    let none = of_kubernetes_backend("tfstate-a-x", b"{}");
    fixture.secrets().create(&PostParams::default(), &none).await.unwrap();
    let refused = fixture.reason("a", "SecretError").await;
    assert!(condition(&refused, "Ready").1.contains("holds no Terraform state"), "{refused:?}");
    assert!(fixture.traces().is_empty(), "nothing is built before the state is there");

    let state = built_elsewhere(fixture, "old", "", None);
    let whole = of_kubernetes_backend("tfstate-a-x", &state);
    fixture.secrets().replace("tfstate-a-x", &PostParams::default(), &whole).await.unwrap();
    fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created old 1"]);
    assert!(fixture.secrets().get_opt("tfstate-a-x").await.unwrap().is_some(), "it is its author's");
    // Later it is not read any more.
    fixture.secrets().delete("tfstate-a-x", &DeleteParams::default()).await.unwrap();
    let mut changed = import;
    changed["variables"]["size"] = json!(2);
    fixture.apply("a", "thing", changed).await;
    fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created old 1", "destroyed old 1", "created old 2"]);
}

pub async fn a_state_that_does_not_fit_is_not_destroyed(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let state = built_elsewhere(fixture, "old", "", None);
    fixture.secrets().create(&PostParams::default(), &of_kubernetes_backend("old", &state)).await.unwrap();
    // The module would replace what is there.
    let other = json!({"variables": {"name": "old", "size": 2}, "importState": {"name": "old"}});
    fixture.apply("a", "thing", other).await;
    let held = fixture.reason("a", "PlanTooDestructive").await;
    assert!(condition(&held, "Ready").1.contains("was there before the first apply"), "{held:?}");
    assert_eq!(fixture.traces(), ["created old 1"]);
    let plan = held.status.unwrap().plan.unwrap().id.unwrap();
    fixture.annotate("a", annotations::APPROVE, &plan).await;
    fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created old 1", "destroyed old 1", "created old 2"]);
    // From then on it is its own.
    fixture.apply("a", "thing", json!({"variables": {"name": "old", "size": 3}})).await;
    let replaced = async || fixture.traces().iter().any(|line| line == "created old 3").then_some(());
    capt_e2e::until("it is replaced", SOON, replaced).await.unwrap();
}

pub async fn one_state_has_one_instance(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let state = built_elsewhere(fixture, "old", "", None);
    fixture.secrets().create(&PostParams::default(), &of_kubernetes_backend("old", &state)).await.unwrap();
    let import = json!({"variables": {"name": "old"}, "importState": {"name": "old"}, "retainWorkspaceOnDelete": true});
    fixture.apply("a", "thing", import.clone()).await;
    fixture.ready("a").await;
    fixture.apply("b", "thing", import).await;
    let held = fixture.reason("b", "StateRefused").await;
    let told = condition(&held, "Ready").1;
    assert!(told.contains("infrastructure of WorkspaceTemplateApply a, "), "{told}");
    assert!(told.contains("retainWorkspaceOnDelete"), "{told}");
    // It is given up, though the finalizer of somebody else keeps the object.
    let finalizers = |names: &[String]| json!({"metadata": {"finalizers": names}});
    let mut names = fixture.get("a").await.finalizers().to_vec();
    names.push("example.com/hold".to_owned());
    let merge = |body| Patch::Merge(body);
    fixture.applies().patch("a", &PatchParams::default(), &merge(finalizers(&names))).await.unwrap();
    fixture.delete("a").await;
    fixture.when("a", "let go", |object| object.finalizers().len() == 1).await;
    fixture.ready("b").await;
    fixture.applies().patch("a", &PatchParams::default(), &merge(finalizers(&[]))).await.unwrap();
    fixture.gone("a").await;
    assert_eq!(fixture.traces(), ["created old 1"], "it has changed hands, and nothing else");
    // An annotation that names nothing holds the object, whatever is applied.
    let asked = |name: Option<&str>| json!({"metadata": {"annotations": {annotations::IMPORT_STATE: name}}});
    fixture.applies().patch("b", &PatchParams::default(), &merge(asked(Some("x/y")))).await.unwrap();
    let held = fixture.reason("b", "Invalid").await;
    assert!(condition(&held, "Ready").1.contains("is not the name of a Secret"), "{held:?}");
    fixture.applies().patch("b", &PatchParams::default(), &merge(asked(None))).await.unwrap();
    fixture.ready("b").await;
}

pub async fn a_fixed_backend_serves_many(fixture: &Fixture) {
    let states = fixture.trace.with_extension("states");
    let backend = format!(
        "terraform {{\n  backend \"local\" {{\n    workspace_dir = \"{}\"\n  }}\n}}\n",
        states.display()
    );
    let config = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceProviderConfig",
        "metadata": {"name": "shared"}, "spec": {"configuration": backend},
    });
    let configs: kube::Api<capt_api::workspace::WorkspaceProviderConfig> =
        kube::Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let force = PatchParams::apply("user").force();
    configs.patch("shared", &force, &Patch::Apply(&config)).await.unwrap();
    let template = json!({"module": fixture.module(), "providerConfigRef": {"name": "shared"}});
    fixture.put_template("thing", template).await;
    // Each has a state of its own, where the provider of Crossplane has it.
    for name in ["a-apply", "b"] {
        fixture.apply(name, "thing", json!({"variables": {"name": name}})).await;
        fixture.ready(name).await;
    }
    assert_eq!(fixture.traces(), ["created a-apply 1", "created b 1"]);
    for name in ["a", "b"] {
        assert!(states.join(name).join("terraform.tfstate").exists(), "{name}");
    }
    // What that provider has built is found, and what it has not is held.
    built_elsewhere(fixture, "old", &backend, Some("old"));
    left_by_another(fixture, "old", "thing", &json!({"name": "old"})).await;
    fixture.ready("old").await;
    left_by_another(fixture, "lost", "thing", &json!({"name": "lost"})).await;
    let held = fixture.reason("lost", "StateLost").await;
    assert!(condition(&held, "Ready").1.contains("capt import-state"), "{held:?}");
    fixture.apply("lost", "thing", json!({"variables": {"name": "lost", "size": 3}})).await;
    fixture.when("lost", "held", |object| condition(object, "Ready").0 == "StateLost").await;
    let retry = annotations::RETRY;
    fixture.annotate("lost", retry, "now").await;
    let again = |object: &capt_api::workspace::WorkspaceTemplateApply| {
        !object.annotations().contains_key(retry) && condition(object, "Ready").0 == "StateLost"
    };
    fixture.when("lost", "held again", again).await;
    assert_eq!(fixture.traces(), ["created a-apply 1", "created b 1", "created old 1"]);
    // Another object that would select the same is refused: its name ends as the first one's workspace is called.
    let status = json!({"status": {"workspaceName": "b"}});
    fixture.apply("c", "thing", json!({"variables": {"name": "c"}, "paused": true})).await;
    fixture.when("c", "paused", |object| truth(object, "Paused") == "True").await;
    fixture.applies().patch_status("c", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    fixture.apply("c", "thing", json!({"variables": {"name": "c"}})).await;
    fixture.reason("c", "BackendInUse").await;
    fixture.delete("a-apply").await;
    fixture.gone("a-apply").await;
    assert_eq!(fixture.traces().last().unwrap(), "destroyed a-apply 1");
    assert_eq!(fixture.traces().len(), 4, "the others stand: {:?}", fixture.traces());
}
