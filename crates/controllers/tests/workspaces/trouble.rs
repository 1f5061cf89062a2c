//! Failures, mistakes, interruptions, secrets.

use capt_api::names::annotations;
use capt_api::workspace::WorkspaceTemplateApply;
use capt_e2e::until;
use capt_terraform::RunReader;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::fixture::{Fixture, SOON, condition, truth};

pub async fn a_failure_is_retried_and_fixed(fixture: &Fixture) {
    let flag = fixture.trace.with_extension("flag");
    let module = format!(
        r#"
resource "terraform_data" "first" {{
  provisioner "local-exec" {{
    command = "echo created first >> {trace}"
  }}
}}
resource "terraform_data" "second" {{
  depends_on = [terraform_data.first]
  provisioner "local-exec" {{
    command = "echo tried >> {trace}; test -e {flag}"
  }}
}}
"#,
        trace = fixture.trace.display(),
        flag = flag.display()
    );
    fixture.template("flaky", &module).await;
    fixture.apply("a", "flaky", json!({})).await;
    let failed = fixture.reason("a", "ApplyFailed").await;
    let status = failed.status.as_ref().unwrap();
    assert!(status.last_failure_message.as_ref().unwrap().contains("terraform_data.second"), "{status:?}");
    assert!(!status.applied && status.last_failed_revision.is_some());
    fixture.event("a", "ApplyFailed").await;
    // Counted where a restart finds it again.
    let often =
        |object: &WorkspaceTemplateApply| object.status.as_ref().unwrap().consecutive_failures >= Some(2);
    fixture.when("a", "failed twice", often).await;
    // It is tried again by itself, and what exists already is not made again.
    std::fs::write(&flag, "").unwrap();
    let ready = fixture.ready("a").await;
    let status = ready.status.unwrap();
    assert_eq!((status.last_failure_message, status.consecutive_failures), (None, None));
    let traces = fixture.traces();
    assert_eq!(traces.iter().filter(|line| *line == "created first").count(), 1, "{traces:?}");
    assert!(traces.iter().filter(|line| *line == "tried").count() >= 2, "{traces:?}");
}

/// A module whose creation takes as long as a file is there.
fn slow(fixture: &Fixture) -> (String, std::path::PathBuf) {
    let file = fixture.trace.with_extension("slow");
    std::fs::write(&file, "").unwrap();
    let module = format!(
        r#"
variable "name" {{ type = string }}
resource "terraform_data" "slow" {{
  input = var.name
  provisioner "local-exec" {{
    command = "echo started >> {trace}; while test -e {file}; do sleep 0.1; done"
  }}
}}
"#,
        trace = fixture.trace.display(),
        file = file.display()
    );
    (module, file)
}

pub async fn a_run_is_cancelled(fixture: &Fixture) {
    let (module, file) = slow(fixture);
    fixture.template("slow", &module).await;
    fixture.apply("a", "slow", json!({"variables": {"name": "a"}})).await;
    let started = until("it runs", SOON, async || (!fixture.traces().is_empty()).then_some(()));
    started.await.unwrap();
    fixture.annotate("a", annotations::CANCEL, "").await;
    let cancelled = fixture.reason("a", "Cancelled").await;
    assert_eq!(truth(&cancelled, "Stalled"), "True");
    let taken = until("the request is taken off", SOON, async || {
        (!fixture.get("a").await.metadata.annotations.unwrap_or_default().contains_key(annotations::CANCEL))
            .then_some(())
    });
    taken.await.unwrap();
    std::fs::remove_file(&file).unwrap();
    fixture.annotate("a", annotations::RETRY, "").await;
    let ready = fixture.ready("a").await;
    assert_eq!(truth(&ready, "Stalled"), "absent");
    assert!(!ready.metadata.annotations.unwrap_or_default().contains_key(annotations::RETRY));
}

pub async fn a_run_takes_too_long(fixture: &Fixture) {
    let (module, file) = slow(fixture);
    fixture.template("slow", &module).await;
    fixture.apply("a", "slow", json!({"variables": {"name": "a"}, "timeout": "1s"})).await;
    let failed = fixture.reason("a", "Timeout").await;
    assert!(condition(&failed, "Ready").1.contains("longer than its timeout"), "{:?}", failed.status);
    std::fs::remove_file(&file).unwrap();
    fixture.apply("a", "slow", json!({"variables": {"name": "a"}, "timeout": "10m"})).await;
    fixture.ready("a").await;
}

/// Each mistake, its reason, and a word of its message; nothing else is disturbed by any.
pub async fn mistakes_are_named(fixture: &Fixture) {
    let big = format!("# {}\n", "x".repeat(400_000));
    let rows: [(&str, serde_json::Value, serde_json::Value, &str, &str); 8] = [
        (
            "no-parse",
            json!({"module": "output \"x\" {\n  value = \n}\n"}),
            json!({}),
            "InvalidModule",
            "main.tf:2",
        ),
        (
            "bad-ref",
            json!({"module": "output \"x\" {\n  value = var.nothing\n}\n"}),
            json!({}),
            "InvalidModule",
            "main.tf:2",
        ),
        (
            "wrong-type",
            json!({"module": "variable \"n\" {\n  type = number\n}\n"}),
            json!({"variables": {"n": "many"}}),
            "InvalidVariable",
            "spec.variables.n: a number is required",
        ),
        (
            "missing",
            json!({"module": "variable \"n\" {\n  type = number\n}\n"}),
            json!({}),
            "MissingVariable",
            "spec.variables.n is not set, and the module has no default for it",
        ),
        (
            "no-source",
            json!({"module": {"source": "/nowhere/at/all"}}),
            json!({}),
            "PathNotAllowed",
            "--allow-path",
        ),
        ("wrong-module", json!({"module": {"sauce": "x"}}), json!({}), "Invalid", "HCL text"),
        (
            "odd-output",
            json!({"module": big + "output \"x\" { value = 1 }"}),
            json!({"variablesFrom": [{"workspaceRef": {"name": "fine"}, "map": {"a": "not-there"}}]}),
            "OutputNotFound",
            "not-there",
        ),
        (
            "old-binary",
            json!({"module": "output \"x\" { value = 1 }", "providerConfigRef": {"name": "ancient"}}),
            json!({}),
            "BinaryTooOld",
            "< 0.1",
        ),
    ];
    fixture.template("fine", &fixture.module()).await;
    fixture.apply("fine", "fine", json!({"variables": {"name": "fine"}})).await;
    let config = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceProviderConfig",
        "metadata": {"name": "ancient"}, "spec": {"binary": {"version": "< 0.1"}},
    });
    let configs: Api<capt_api::workspace::WorkspaceProviderConfig> =
        Api::namespaced(fixture.client.clone(), &fixture.namespace);
    configs.patch("ancient", &PatchParams::apply("user"), &Patch::Apply(&config)).await.unwrap();
    for (name, template, rest, ..) in &rows {
        fixture.put_template(name, template.clone()).await;
        fixture.apply(name, name, rest.clone()).await;
    }
    for (name, _, _, reason, word) in rows {
        let failed = fixture.reason(name, reason).await;
        let message = condition(&failed, "Ready").1;
        assert!(message.contains(word), "{name}: {message}");
    }
    fixture.ready("fine").await;
    assert_eq!(fixture.traces(), ["created fine 1"]);
    for name in ["no-parse", "no-source"] {
        fixture.delete(name).await;
        fixture.gone(name).await;
    }
}

pub async fn secrets_stay_secret(fixture: &Fixture) {
    let secret = json!({"metadata": {"name": "hush"}, "stringData": {"token": "hunter-two-22"}});
    fixture.secrets().create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let module = format!(
        "{}\nresource \"terraform_data\" \"loud\" {{\n  input = var.size\n  provisioner \"local-exec\" {{\n    command = \"echo says $LOUD; exit $CODE\"\n    environment = {{ LOUD = nonsensitive(var.token), CODE = var.size - 1 }}\n  }}\n}}\n",
        fixture.module()
    );
    fixture.template("loud", &module).await;
    let spec = |size: i32| {
        json!({
            "variables": {"name": "a", "size": size},
            "variablesFrom": [{"secretRef": {"name": "hush"}, "map": {"token": "token"}}],
            "writeConnectionSecretToRef": {"name": "out"},
        })
    };
    fixture.apply("a", "loud", spec(2)).await;
    let failed = fixture.reason("a", "ApplyFailed").await;
    fixture.event("a", "ApplyFailed").await;
    fixture.apply("a", "loud", spec(1)).await;
    let ready = fixture.ready("a").await;
    fixture.event("a", "WorkspaceReady").await;
    let events: Api<k8s_openapi::api::core::v1::Event> =
        Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let events = events.list(&kube::api::ListParams::default()).await.unwrap();
    let shown = [
        serde_json::to_string(&failed).unwrap(),
        serde_json::to_string(&ready).unwrap(),
        serde_json::to_string(&events.items).unwrap(),
        logs(fixture).await,
    ];
    for text in shown {
        assert!(!text.contains("hunter-two-22"), "{text}");
    }
    let out = fixture.secrets().get("out").await.unwrap();
    assert_eq!(out.data.unwrap()["password"].0, b"pw-a-hunter-two-22", "but the Secret has it");
}

/// Logs of all runs.
async fn logs(fixture: &Fixture) -> String {
    let id = capt_controllers::runtime::Name::new(fixture.namespace.as_str(), "a");
    let (executor, id) = (&fixture.harness.engine, capt_controllers::workspace::context::workspace_id(&id));
    let mut text = String::new();
    for run in executor.runs(&id).await.unwrap().unwrap() {
        text.push_str(&executor.read_log(&id, &run.id).read().await.unwrap());
    }
    assert!(text.contains("terraform_data.loud"), "these are the logs: {text}");
    text
}

pub async fn a_deletion_needs_no_template(fixture: &Fixture) {
    let secret = json!({"metadata": {"name": "hush"}, "stringData": {"token": "hunter-two-22"}});
    fixture.secrets().create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    // Outputs go to another namespace, where no garbage collector removes them with their owner.
    let elsewhere = fixture.another_namespace().await;
    let written = json!({"group": "", "kind": "Secret", "access": "Write"});
    fixture.grant(&elsewhere, "WorkspaceTemplateApply", written).await;
    let outputs: Api<Secret> = Api::namespaced(fixture.client.clone(), &elsewhere);
    let to = |name: &str| json!({"module": fixture.module(), "writeConnectionSecretToRef": {"name": name, "namespace": elsewhere}});
    fixture.put_template("thing", to("first")).await;
    let spec = json!({
        "variables": {"name": "a"}, "variablesFrom": [{"secretRef": {"name": "hush"}, "map": {"token": "token"}}],
    });
    fixture.apply("a", "thing", spec).await;
    fixture.ready("a").await;
    let is_there = async |name: &str| outputs.get_opt(name).await.unwrap().is_some();
    until("the outputs", SOON, async || is_there("first").await.then_some(())).await.unwrap();
    fixture.put_template("thing", to("out")).await;
    let moved = async || (is_there("out").await && !is_there("first").await).then_some(());
    until("the outputs in their new place", SOON, moved).await.unwrap();
    // By force: finalizers taken off by hand. Without any the object would be gone before that.
    let held =
        async || (!fixture.templates().get("thing").await.unwrap().finalizers().is_empty()).then_some(());
    until("the template is held", SOON, held).await.unwrap();
    fixture.templates().delete("thing", &DeleteParams::default()).await.unwrap();
    let bare = json!({"metadata": {"finalizers": null}});
    fixture.templates().patch("thing", &PatchParams::default(), &Patch::Merge(&bare)).await.unwrap();
    fixture.secrets().delete("hush", &DeleteParams::default()).await.unwrap();
    let missing =
        fixture.when("a", "missing", |object| condition(object, "Synced").0 == "WorkspaceTemplateNotFound");
    assert_eq!(truth(&missing.await, "Ready"), "True", "what is applied stays usable");
    fixture.delete("a").await;
    fixture.gone("a").await;
    assert_eq!(fixture.traces(), ["created a 1", "destroyed a 1"]);
    assert!(!is_there("out").await, "it was noted where they went");
}

pub async fn a_backend_has_one_workspace(fixture: &Fixture) {
    let state = fixture.trace.with_extension("tfstate");
    let backend =
        format!("terraform {{\n  backend \"local\" {{\n    path = \"{}\"\n  }}\n}}\n", state.display());
    fixture.template("thing", &(backend + &fixture.module())).await;
    fixture.apply("a", "thing", json!({"variables": {"name": "a"}})).await;
    fixture.ready("a").await;
    fixture.apply("b", "thing", json!({"variables": {"name": "b"}})).await;
    let refused = fixture.reason("b", "BackendInUse").await;
    assert_eq!(truth(&refused, "Stalled"), "True");
    assert!(condition(&refused, "Ready").1.contains("WorkspaceTemplateApply a:"), "{refused:?}");
    assert_eq!(fixture.traces(), ["created a 1"]);
    // Who has built on it gives way to nobody who only could: both would wait for each other.
    fixture.apply("c", "thing", json!({"variables": {"name": "c"}, "paused": true})).await;
    let place = fixture.get("a").await.status.unwrap().backend_hash;
    let claims = Patch::Merge(json!({"status": {"backendHash": place.unwrap()}}));
    fixture.applies().patch_status("c", &PatchParams::default(), &claims).await.unwrap();
    fixture.apply("a", "thing", json!({"variables": {"name": "a", "size": 2}})).await;
    let replaced = async || fixture.traces().iter().any(|line| line == "created a 2").then_some(());
    until("it is replaced", SOON, replaced).await.unwrap();
    fixture.apply("c", "thing", json!({"variables": {"name": "c"}, "paused": false})).await;
    fixture.delete("c").await;
    fixture.gone("c").await;
    // Nobody has it any more: it goes on by itself.
    fixture.delete("a").await;
    fixture.gone("a").await;
    fixture.ready("b").await;
    assert_eq!(fixture.traces()[1..], ["destroyed a 1", "created a 2", "destroyed a 2", "created b 1"]);
    fixture.delete("b").await;
    fixture.gone("b").await;
}

pub async fn a_secret_of_others_is_a_condition(fixture: &Fixture) {
    fixture.template("thing", &fixture.module()).await;
    let secret = |name: &str, more: serde_json::Value| {
        let mut body = json!({"metadata": {"name": name}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(body).unwrap()
    };
    // Somebody's data, and an empty one of a type that the API lets nobody change.
    let rows = [
        ("theirs", json!({"stringData": {"a": "b"}}), "Secret theirs was not made for this workspace"),
        ("frozen", json!({"immutable": true}), "the outputs are not written to Secret frozen: "),
    ];
    for (name, body, expected) in rows {
        fixture.secrets().create(&PostParams::default(), &secret(name, body)).await.unwrap();
        let spec = json!({"variables": {"name": name}, "writeConnectionSecretToRef": {"name": name}});
        fixture.apply(name, "thing", spec).await;
        let blocked =
            fixture.when(name, "blocked", |object| truth(object, "ConnectionSecretReady") == "False");
        let (reason, message) = condition(&blocked.await, "ConnectionSecretReady");
        assert_eq!(reason, "SecretError");
        assert!(message.starts_with(expected), "{message}");
        fixture.event_text(name, "SecretError", |text| text == message).await;
        fixture.secrets().delete(name, &DeleteParams::default()).await.unwrap();
        let mended = |object: &WorkspaceTemplateApply| truth(object, "ConnectionSecretReady") == "True";
        fixture.when(name, "written", mended).await;
        assert!(fixture.secrets().get(name).await.unwrap().data.unwrap().contains_key("password"));
    }
    // Nothing is said where nothing is asked for.
    fixture.apply("frozen", "thing", json!({"variables": {"name": "frozen"}})).await;
    fixture.when("frozen", "no more", |object| truth(object, "ConnectionSecretReady") == "absent").await;
}
