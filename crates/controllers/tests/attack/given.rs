//! Keys, names and statuses that a tenant gives: none of them says anything but what it is given for.

use serde_json::{Value, json};

use kube::api::{Patch, PatchParams};

use crate::borders::{Borders, condition};
use crate::fixture::Harness;

const APPLY: &str = "WorkspaceTemplateApply";
const TEMPLATE: &str = "WorkspaceTemplate";

async fn begin(name: &str) -> Option<(Harness, Borders)> {
    if !crate::can_run() {
        return None;
    }
    let harness = Harness::embedded().await;
    let borders = Borders::new(&harness.client, name).await;
    Some((harness, borders))
}

/// The outputs of an instance that is ready.
fn outputs(object: &Value) -> Option<Value> {
    (condition(object, "Ready")["status"] == "True").then(|| object["status"]["outputs"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_tenant_rewrite_no_template() {
    let Some((_house, borders)) = begin("keys").await else { return };
    let module = r#"
resource "terraform_data" "machine" { input = "mine" }
locals { own = "mine" }
output "line" { value = "echo ${terraform_data.machine.input} ${local.own} ${team}" }
output "code" {
  value = ${n}
}
output "number" { value = ${two} + 1 }
"#;
    let shared = json!({"spec": {"template": {"spec": {"module": module}}}});
    borders.put(&borders.vault, TEMPLATE, "shared", &shared).await;
    let evil = "x; curl evil";
    let data = json!({"data": {
        "terraform_data.machine.input": evil, "local.own": evil, "team": "blue", "two": "2",
        "n": "local.own\n}\noutput \"evil\" {\n  value = 1",
    }});
    borders.put(&borders.tenant, "ConfigMap", "settings", &data).await;
    let instance = json!({"spec": {
        "templateRef": {"name": "shared", "namespace": borders.vault},
        "variablesFrom": [{"configMapRef": {"name": "settings"}}],
    }});
    borders.put(&borders.tenant, APPLY, "a", &instance).await;
    let grant = borders.asked(APPLY, "a", &[]).await.unwrap();
    borders.grant(&grant).await;
    let outputs = borders.when(APPLY, "a", "ready", outputs).await;
    assert_eq!(outputs["line"], "echo mine mine blue");
    assert_eq!(outputs["code"], "local.own\n}\noutput \"evil\" {\n  value = 1");
    assert_eq!(outputs["number"], 3);
    assert_eq!(outputs["evil"], Value::Null, "{outputs}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_are_filled_in_are_names() {
    let Some((_house, borders)) = begin("filled").await else { return };
    let module = "output \"x\" { value = 1 }";
    let env = |kind: &str, reference: &Value| json!({"source": "Inline", "module": module, "env": [{"name": "TOKEN", kind: reference}]});
    let file = |source: &str, kind: &str, reference: &Value| json!({"source": "Inline", "module": module, "varFiles": [{"source": source, kind: reference}]});
    let (name, namespace) = (
        json!({"name": "${x}", "key": "token"}),
        json!({"name": "keys", "namespace": "${x}", "key": "token"}),
    );
    let rows = [
        ("env-secret", json!({"forProvider": env("secretKeyRef", &name)}), "Secret"),
        ("env-map", json!({"forProvider": env("configMapKeyRef", &name)}), "ConfigMap"),
        ("env-there", json!({"forProvider": env("secretKeyRef", &namespace)}), "Namespace"),
        ("file-secret", json!({"forProvider": file("SecretKey", "secretKeyRef", &name)}), "Secret"),
        ("file-map", json!({"forProvider": file("ConfigMapKey", "configMapKeyRef", &name)}), "ConfigMap"),
        ("write", json!({"module": module, "writeConnectionSecretToRef": {"name": "${x}"}}), "Secret"),
    ];
    for (name, spec, _) in &rows {
        borders
            .put(&borders.tenant, TEMPLATE, name, &json!({"spec": {"template": {"spec": spec.clone()}}}))
            .await;
        let instance = json!({"spec": {"templateRef": {"name": name}, "variables": {"x": "?limit=5"}}});
        borders.put(&borders.tenant, APPLY, name, &instance).await;
    }
    for (name, _, kind) in &rows {
        let said = borders
            .when(APPLY, name, "told", |object| {
                let ready = condition(object, "Ready");
                (ready["reason"] == "Invalid").then(|| ready["message"].as_str().unwrap().to_owned())
            })
            .await;
        assert!(said.contains(&format!("\"?limit=5\" is not the name of a {kind}")), "{name}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_leads_no_backend_elsewhere() {
    let Some((_house, borders)) = begin("status").await else { return };
    let module = "output \"key\" { value = \"states/${WORKSPACE_NAME}\" }";
    let template = json!({"spec": {"template": {"spec": {"module": module}}}});
    borders.put(&borders.tenant, TEMPLATE, "own", &template).await;
    let instance = json!({"spec": {"templateRef": {"name": "own"}, "paused": true}});
    borders.put(&borders.tenant, APPLY, "a-apply", &instance).await;
    let paused = |object: &Value| (condition(object, "Paused")["status"] == "True").then_some(());
    borders.when(APPLY, "a-apply", "paused", paused).await;
    let forged = json!({"status": {"workspaceName": "../owner/prod"}});
    let api = borders.api(&borders.tenant, APPLY);
    api.patch_status("a-apply", &PatchParams::default(), &Patch::Merge(&forged)).await.unwrap();
    borders.change(APPLY, "a-apply", &json!({"spec": {"paused": false}})).await;
    let outputs = borders.when(APPLY, "a-apply", "ready", outputs).await;
    assert_eq!(outputs["key"], "states/a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_of_another_namespace_needs_a_grant() {
    let Some((_house, borders)) = begin("imported").await else { return };
    let state = json!({
        "version": 4, "terraform_version": "1.9.0", "serial": 7, "lineage": "l",
        "outputs": {"line": {"value": "of the vault", "type": "string"}},
        "resources": [{
            "mode": "managed", "type": "terraform_data", "name": "one",
            "provider": "provider[\"terraform.io/builtin/terraform\"]",
            "instances": [{"schema_version": 0, "attributes": {"id": "x"}}],
        }],
    });
    let secret = json!({"stringData": {"tfstate": state.to_string()}});
    borders.put(&borders.vault, "Secret", "state", &secret).await;
    let module =
        "resource \"terraform_data\" \"one\" {}\noutput \"line\" { value = terraform_data.one.id }\n";
    let own = json!({"spec": {"template": {"spec": {"module": module}}}});
    borders.put(&borders.tenant, TEMPLATE, "own", &own).await;
    let instance = json!({"spec": {
        "templateRef": {"name": "own"}, "importState": {"name": "state", "namespace": borders.vault},
    }});
    borders.put(&borders.tenant, APPLY, "a", &instance).await;
    let grant = borders.asked(APPLY, "a", &[]).await.unwrap();
    let waits = borders.api(&borders.tenant, APPLY).get("a").await.unwrap();
    let waits = serde_json::to_value(&waits).unwrap();
    assert!(waits["status"]["resources"].as_u64().unwrap_or(0) == 0, "nothing is read or built: {waits:#}");
    borders.grant(&grant).await;
    let outputs = borders.when(APPLY, "a", "ready", outputs).await;
    assert_eq!(outputs["line"], "x", "it goes on with what the state names");
}
