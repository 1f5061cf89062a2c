//! Create, change, delete; and what must not start anything.

use capt_controllers::workspace::state_secrets;
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::fixture::{Fixture, SOON, condition, truth};

pub async fn a_workspace_lives_and_goes(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    fixture.apply("a-apply", "thing", json!({"variables": {"name": "a"}})).await;
    let ready = fixture.ready("a-apply").await;
    let status = ready.status.as_ref().unwrap();
    assert_eq!(fixture.traces(), ["created a 1"]);
    assert_eq!(status.workspace_name.as_deref(), Some("a"), "without its suffix");
    assert_eq!(status.resources, Some(1));
    assert!(status.applied && status.last_applied_time.is_some() && status.last_applied_revision.is_some());
    let revision = until("the template's revision", SOON, async || {
        fixture.templates().get("thing").await.unwrap().status?.revision
    });
    assert_eq!(status.template_revision, Some(revision.await.unwrap()));
    assert_eq!(ready.finalizers(), ["infrastructure.cluster.x-k8s.io/finalizer"]);
    fixture.event("a-apply", "CreatedWorkspace").await;
    fixture.event("a-apply", "WorkspaceReady").await;

    fixture.apply("a-apply", "thing", json!({"variables": {"name": "a", "size": 2}})).await;
    let changed = fixture.when("a-apply", "changed", |object| {
        truth(object, "Ready") == "True" && object.status.as_ref().unwrap().outputs["label"] == "a-2"
    });
    changed.await;
    assert_eq!(fixture.traces(), ["created a 1", "destroyed a 1", "created a 2"]);

    fixture.delete("a-apply").await;
    fixture.gone("a-apply").await;
    assert_eq!(fixture.traces().last().unwrap(), "destroyed a 2");
    fixture.event("a-apply", "DeletedWorkspace").await;
}

pub async fn outputs_reach_status_and_secret(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let spec = json!({"variables": {"name": "a"}, "writeConnectionSecretToRef": {"name": "out"}});
    fixture.apply("a", "thing", spec).await;
    let ready = fixture.ready("a").await;
    let outputs = &ready.status.as_ref().unwrap().outputs;
    assert_eq!(outputs.keys().collect::<Vec<_>>(), ["label"], "no sensitive one");
    let text = |secret: &k8s_openapi::api::core::v1::Secret, key: &str| {
        String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
    };
    let secret = fixture.secrets().get("out").await.unwrap();
    assert_eq!((text(&secret, "label"), text(&secret, "password")), ("a-1".into(), "pw-a-none".into()));
    assert_eq!(secret.owner_references()[0].name, "a");

    // Who deletes it gets it back, and no process is needed for that.
    let before = fixture.processes();
    fixture.secrets().delete("out", &DeleteParams::default()).await.unwrap();
    until("the Secret again", SOON, async || fixture.secrets().get_opt("out").await.unwrap()).await.unwrap();
    assert_eq!(fixture.processes(), before);
}

pub async fn a_template_edit_reaches_its_instances(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    for name in ["a", "b"] {
        fixture.apply(name, "thing", json!({"variables": {"name": name}})).await;
    }
    for name in ["a", "b"] {
        fixture.ready(name).await;
    }
    fixture.template("thing", &fixture.module().replace("default = 1", "default = 7")).await;
    for name in ["a", "b"] {
        let changed = fixture.when(name, "changed", |object| {
            truth(object, "Ready") == "True"
                && object.status.as_ref().unwrap().outputs["label"] == format!("{name}-7")
        });
        changed.await;
    }
    let mut traces = fixture.traces();
    traces.sort();
    assert_eq!(
        traces,
        ["created a 1", "created a 7", "created b 1", "created b 7", "destroyed a 1", "destroyed b 1"]
    );
}

pub async fn what_changes_nothing_starts_nothing(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    let ready = fixture.ready("a").await;
    let before = fixture.processes();
    let label = json!({"metadata": {"labels": {"team": "blue"}}});
    fixture.applies().patch("a", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    // A change of the spec that is none of Terraform's business; it is seen when the status has its generation.
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}, "timeout": "2h"})).await;
    let seen =
        fixture.when("a", "seen", |object| object.metadata.generation > ready.metadata.generation).await;
    assert_eq!(truth(&seen, "Ready"), "True");
    // Notes about a template are no content.
    let notes = json!({"spec": {"template": {"metadata": {"description": "for tests"}}}});
    fixture.templates().patch("thing", &PatchParams::default(), &Patch::Merge(&notes)).await.unwrap();
    let noted = until("the template is seen", SOON, async || {
        let template = fixture.templates().get("thing").await.unwrap();
        (template.status.as_ref()?.observed_generation == template.metadata.generation).then_some(())
    });
    noted.await.unwrap();
    assert_eq!(fixture.processes(), before);
    assert_eq!(fixture.traces(), ["created a 1"]);
}

pub async fn a_template_in_use_stays(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    fixture.ready("a").await;
    let held = until("the template is held", SOON, async || {
        let template = fixture.templates().get("thing").await.unwrap();
        (!template.finalizers().is_empty() && template.status.as_ref()?.used_by == Some(1)).then_some(())
    });
    held.await.unwrap();
    fixture.templates().delete("thing", &DeleteParams::default()).await.unwrap();
    let said = until("it says who uses it", SOON, async || {
        let status = fixture.templates().get("thing").await.unwrap().status?;
        let condition = status.conditions.into_iter().find(|condition| condition.type_ == "Deleting")?;
        Some((condition.reason, condition.message))
    });
    let (reason, message) = said.await.unwrap();
    assert_eq!(reason, "InUse");
    assert!(message.contains("used by WorkspaceTemplateApply a:"), "{message}");
    fixture.event("thing", "InUse").await;
    fixture.delete("a").await;
    fixture.gone("a").await;
    let gone = until("the template goes", SOON, async || {
        fixture.templates().get_opt("thing").await.unwrap().is_none().then_some(())
    });
    gone.await.unwrap();
    assert_eq!(fixture.traces(), ["created a 1", "destroyed a 1"]);
}

pub async fn a_retained_workspace_is_taken_up_again(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let spec = json!({"variables": {"name": "a"}, "retainWorkspaceOnDelete": true});
    fixture.apply("a", "thing", spec).await;
    fixture.ready("a").await;
    fixture.delete("a").await;
    fixture.gone("a").await;
    fixture.event("a", "RetainedWorkspace").await;
    assert_eq!(fixture.traces(), ["created a 1"], "nothing is destroyed");
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created a 1"], "nothing is created twice");

    // A template can say the same for all its instances.
    fixture.put_template("kept", json!({"module": fixture.module(), "deletionPolicy": "Orphan"})).await;
    fixture.apply("b", "kept", json!({"variables": {"name": "b"}})).await;
    fixture.ready("b").await;
    fixture.delete("b").await;
    fixture.gone("b").await;
    assert_eq!(fixture.traces(), ["created a 1", "created b 1"]);
}

pub async fn text_is_substituted(fixture: &Fixture) {
    let module = r#"
output "label" { value = "${team}-${WORKSPACE_NAME}-$${team}-${upper("x")}" }
"#;
    fixture.template("text", module).await;
    fixture.apply("a-apply", "text", json!({"variables": {"team": "b\"lue\n${1+1}", "unused": 1}})).await;
    let ready = fixture.ready("a-apply").await;
    assert_eq!(ready.status.as_ref().unwrap().outputs["label"], "b\"lue\n${1+1}-a-${team}-X");
    let (reason, message) = condition(&ready, "Synced");
    assert_eq!(reason, "UndeclaredVariables");
    assert!(
        message.starts_with("spec.variables.unused: the module declares no variable unused"),
        "{message}"
    );
    assert!(!message.contains("team"), "{message}");
    fixture.event_text("a-apply", "UndeclaredVariables", |text| text == message).await;
    // A key that nothing gives stays in the value, and is told.
    let module = "variable \"label\" {}\noutput \"label\" { value = var.label }";
    let spec = json!({"module": module, "variables": {"label": {"value": "${taem}-${team}"}}});
    fixture.put_template("slip", spec).await;
    fixture.apply("b", "slip", json!({"variables": {"team": "blue"}})).await;
    let slipped = fixture.ready("b").await;
    assert_eq!(slipped.status.as_ref().unwrap().outputs["label"], "${taem}-blue");
    let told = "variable label of WorkspaceTemplate slip: no value is given for ${taem} (did you mean ${team}?); passed as written";
    assert_eq!(condition(&slipped, "Synced"), ("UnknownKeys".to_owned(), told.to_owned()));
    fixture.event_text("b", "UnknownKeys", |text| text == told).await;
}

pub async fn paused_means_paused(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}, "paused": true})).await;
    fixture.reason("a", "Paused").await;
    assert!(fixture.traces().is_empty());
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    let ready = fixture.ready("a").await;
    assert_eq!(truth(&ready, "Paused"), "absent");
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}, "paused": true})).await;
    fixture.delete("a").await;
    let held = fixture.when("a", "held", |object| truth(object, "Deleting") == "True").await;
    assert!(condition(&held, "Deleting").1.contains("spec.paused"), "{:?}", held.status);
    assert_eq!(fixture.traces(), ["created a 1"]);
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    fixture.gone("a").await;
    assert_eq!(fixture.traces(), ["created a 1", "destroyed a 1"]);
}

pub async fn a_state_is_taken_over(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.tf"), fixture.module()).unwrap();
    let program = if which("tofu") { "tofu" } else { "terraform" };
    let applied = std::process::Command::new(program)
        .args(["apply", "-auto-approve", "-var", "name=old"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let state = std::fs::read(folder.path().join("terraform.tfstate")).unwrap();
    state_secrets::write_import(&fixture.client, &fixture.namespace, "capt-import-a", state).await.unwrap();

    fixture.apply("a", "thing", json!({"variables": {"name": "old"}, "paused": true})).await;
    fixture.annotate("a", capt_api::names::annotations::IMPORT_STATE, "capt-import-a").await;
    fixture.apply("a", "thing", json!({"variables": {"name": "old"}})).await;
    let ready = fixture.ready("a").await;
    assert_eq!(fixture.traces(), ["created old 1"], "what exists is not created again");
    assert!(!ready.annotations().contains_key(capt_api::names::annotations::IMPORT_STATE));
    assert!(
        fixture.secrets().get_opt("capt-import-a").await.unwrap().is_none(),
        "no copy of a state is left behind"
    );

    // A state that is refused, in a Secret that somebody else keeps it in: that one stays.
    let state = std::fs::read_to_string(folder.path().join("terraform.tfstate")).unwrap();
    let foreign = json!({"metadata": {"name": "tfstate-default-prod"}, "stringData": {"tfstate": state}});
    let foreign = serde_json::from_value(foreign).unwrap();
    fixture.secrets().create(&kube::api::PostParams::default(), &foreign).await.unwrap();
    fixture.annotate("a", capt_api::names::annotations::IMPORT_STATE, "tfstate-default-prod").await;
    fixture.event("a", "StateRefused").await;
    fixture.delete("a").await;
    fixture.gone("a").await;
    assert_eq!(fixture.traces(), ["created old 1", "destroyed old 1"]);
    assert!(fixture.secrets().get_opt("tfstate-default-prod").await.unwrap().is_some());
}

fn which(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
