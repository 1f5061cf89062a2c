//! Credentials that a tenant may use and not read.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use capt_controllers::workspace::state_secrets::{SecretStateBackend, write_import};
use capt_terraform::state_backend::StateBackend;
use flate2::read::GzDecoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::borders::{Borders, condition};
use crate::fixture::Harness;

const APPLY: &str = "WorkspaceTemplateApply";
const TOKEN: &str = "hunter-two-and-more";

/// A module of somebody who wants to know what is in its environment when it goes.
fn curious(notes: &std::path::Path) -> String {
    format!(
        r#"resource "terraform_data" "thing" {{
  provisioner "local-exec" {{
    when    = destroy
    command = "echo saw $TOKEN >> {}"
  }}
}}
"#,
        notes.display()
    )
}

/// A template and credentials of the vault, granted to the tenant; and a curious template of the tenant's own.
async fn begin(name: &str) -> Option<(Harness, Borders, PathBuf)> {
    if !crate::can_run() {
        return None;
    }
    let harness = Harness::embedded().await;
    let borders = Borders::new(&harness.client, name).await;
    let notes = harness.folder.path().join("notes");
    let vault = borders.vault.clone();
    borders.put(&vault, "Secret", "cloud", &json!({"stringData": {"token": TOKEN}})).await;
    let credentials = json!([{"env": "TOKEN", "secretRef": {"name": "cloud", "key": "token"}}]);
    let config = json!({"spec": {"credentials": credentials}});
    borders.put(&vault, "WorkspaceProviderConfig", "cloud", &config).await;
    let module = "resource \"terraform_data\" \"other\" {}\n";
    let spec = json!({"module": module, "providerConfigRef": {"name": "cloud"}});
    borders.put(&vault, "WorkspaceTemplate", "granted", &json!({"spec": {"template": {"spec": spec}}})).await;
    let own = json!({"spec": {"template": {"spec": {"module": curious(&notes)}}}});
    borders.put(&borders.tenant, "WorkspaceTemplate", "own", &own).await;
    Some((harness, borders, notes))
}

/// Builds an instance of the granted template, with the grants that it asks for.
async fn built_with_grants(borders: &Borders, name: &str) {
    let granted = json!({"spec": {"templateRef": {"name": "granted", "namespace": borders.vault}}});
    borders.put(&borders.tenant, APPLY, name, &granted).await;
    let mut grants = Vec::new();
    while let Some(grant) = borders.asked(APPLY, name, &grants).await {
        borders.grant(&grant).await;
        grants.push(grant);
    }
}

fn ready(object: &Value) -> Option<()> {
    (condition(object, "Ready")["status"] == "True").then_some(())
}

fn not_trusted(object: &Value) -> Option<()> {
    (condition(object, "Ready")["reason"] == "StateNotTrusted").then_some(())
}

async fn gone(borders: &Borders, name: &str) {
    borders.delete(&borders.tenant, APPLY, name).await;
    borders.gone(&borders.tenant, APPLY, name).await;
}

/// What was built from one template is never destroyed with the credentials of another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_do_not_meet_the_code_of_another_template() {
    let Some((_house, borders, notes)) = begin("meet").await else { return };
    built_with_grants(&borders, "granted").await;
    let own = json!({"spec": {"templateRef": {"name": "own"}, "retainWorkspaceOnDelete": true}});
    borders.put(&borders.tenant, APPLY, "a", &own).await;
    borders.when(APPLY, "a", "ready", ready).await;
    gone(&borders, "a").await;
    // The workspace is still there; under its name comes an instance of the other template.
    let template = json!({"name": "granted", "namespace": borders.vault});
    borders.put(&borders.tenant, APPLY, "a", &json!({"spec": {"templateRef": template}})).await;
    borders.when(APPLY, "a", "refused", not_trusted).await;
    // Nor is it destroyed by that one.
    borders.delete(&borders.tenant, APPLY, "a").await;
    let held =
        |object: &Value| (condition(object, "Deleting")["status"] == "True").then(|| not_trusted(object))?;
    borders.when(APPLY, "a", "held", held).await;
    assert!(!notes.exists());
    borders.change(APPLY, "a", &json!({"spec": {"retainWorkspaceOnDelete": true}})).await;
    borders.gone(&borders.tenant, APPLY, "a").await;
    borders.put(&borders.tenant, APPLY, "a", &json!({"spec": {"templateRef": {"name": "own"}}})).await;
    borders.when(APPLY, "a", "ready", ready).await;
    // Times in the API have seconds: a deletion in the same one could be the one before.
    let second = jiff::Timestamp::now().as_second();
    let later = async || (jiff::Timestamp::now().as_second() > second).then_some(());
    capt_e2e::until("the next second", crate::fixture::SOON, later).await.unwrap();
    gone(&borders, "a").await;
    assert_eq!(std::fs::read_to_string(&notes).unwrap().trim(), "saw");
    gone(&borders, "granted").await;
}

/// A state names what is destroyed, and providers that are started: one that a tenant gives meets no credentials that are only lent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_state_meets_no_lent_credentials() {
    let Some((_house, borders, _)) = begin("given-state").await else { return };
    built_with_grants(&borders, "granted").await;
    // One state would have one workspace.
    let state = |lineage: &str| {
        let state = json!({
            "version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": lineage, "outputs": {},
            "resources": [{
                "mode": "managed", "type": "spy_thing", "name": "a", "provider": "provider[\"evil.example/x/spy\"]",
                "instances": [{"schema_version": 0, "attributes": {"id": "1"}}],
            }],
        });
        state.to_string().into_bytes()
    };
    write_import(&borders.client, &borders.tenant, "capt-import-a", state("mine")).await.unwrap();
    let note = json!({capt_api::names::annotations::IMPORT_STATE: "capt-import-a"});
    for (name, template) in
        [("a", json!({"name": "granted", "namespace": borders.vault})), ("b", json!({"name": "own"}))]
    {
        let body =
            json!({"metadata": {"name": name, "annotations": note}, "spec": {"templateRef": template}});
        borders.put(&borders.tenant, APPLY, name, &body).await;
        if name == "a" {
            borders.when(APPLY, name, "refused", not_trusted).await;
            write_import(&borders.client, &borders.tenant, "capt-import-a", state("mine too")).await.unwrap();
        } else {
            // With code of one's own it is for Terraform to say that there is no such provider.
            let looked = |object: &Value| {
                let ready = condition(object, "Ready");
                let reasons = ["ProviderNotFound", "InitFailed", "Network"];
                (ready["status"] == "False" && reasons.iter().any(|reason| ready["reason"] == *reason))
                    .then_some(())
            };
            borders.when(APPLY, name, "looked for", looked).await;
        }
    }
}

/// Renewed credentials of the same template are used: those of the last apply may have expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_credentials_reach_a_destroy() {
    let Some((_house, borders, notes)) = begin("renewed").await else { return };
    let tenant = borders.tenant.clone();
    let credentials = json!([{"env": "TOKEN", "secretRef": {"name": "cloud", "key": "token"}}]);
    borders.put(&tenant, "Secret", "cloud", &json!({"stringData": {"token": "first"}})).await;
    borders
        .put(&tenant, "WorkspaceProviderConfig", "cloud", &json!({"spec": {"credentials": credentials}}))
        .await;
    let spec = json!({"module": curious(&notes), "providerConfigRef": {"name": "cloud"}});
    borders.put(&tenant, "WorkspaceTemplate", "own", &json!({"spec": {"template": {"spec": spec}}})).await;
    borders.put(&tenant, APPLY, "a", &json!({"spec": {"templateRef": {"name": "own"}}})).await;
    borders.when(APPLY, "a", "ready", ready).await;
    borders.put(&tenant, "Secret", "cloud", &json!({"stringData": {"token": "second"}})).await;
    gone(&borders, "a").await;
    assert_eq!(std::fs::read_to_string(&notes).unwrap().trim(), "saw second");
}

/// All that can be read in the Secrets of a namespace.
async fn readable(borders: &Borders, namespace: &str) -> String {
    let secrets: Api<Secret> = Api::namespaced(borders.client.clone(), namespace);
    let found = secrets.list(&ListParams::default()).await.unwrap();
    let data = found.into_iter().flat_map(|secret| secret.data.unwrap_or_default());
    data.map(|(_, ByteString(bytes))| unpacked(&bytes)).collect()
}

/// As text, with all that is packed in it, and packed in that.
fn unpacked(bytes: &[u8]) -> String {
    let mut all = String::from_utf8_lossy(bytes).into_owned();
    for at in 0..bytes.len() {
        let mut inner = Vec::new();
        if bytes[at..].starts_with(&[0x1f, 0x8b, 8]) {
            let _ = GzDecoder::new(&bytes[at..]).read_to_end(&mut inner);
            all.push_str(&unpacked(&inner));
        }
    }
    all
}

/// States in Secrets lie beside the instance, where the tenant reads them: without the credentials, which a controller that lost its
/// folder has again all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_inputs_are_sealed() {
    let Some((mut harness, borders, notes)) = begin("sealed").await else { return };
    let state_backend = |fence| {
        let state_backend = SecretStateBackend::new(harness.client.clone(), fence, true, &borders.vault);
        Some(Arc::new(state_backend) as Arc<dyn StateBackend>)
    };
    let [first, second, third] = [1, 2, 3].map(state_backend);
    harness.restart(&harness.folder.path().join("first"), first).await;
    built_with_grants(&borders, "granted").await;
    let spec = json!({"module": curious(&notes), "providerConfigRef": {"name": "cloud"}});
    let template = json!({"spec": {"template": {"spec": spec}}});
    for name in ["here", "there"] {
        borders.put(&borders.vault, "WorkspaceTemplate", name, &template).await;
        borders.put(&borders.vault, APPLY, name, &json!({"spec": {"templateRef": {"name": name}}})).await;
        borders.when_in(&borders.vault, APPLY, name, "ready", ready).await;
    }
    let readable = readable(&borders, &borders.tenant).await;
    assert!(readable.contains("terraform_data"), "the state is there");
    assert!(!readable.contains(TOKEN), "credentials beside the state");

    // The folder is lost, and everything the inputs were made from is gone.
    harness.restart(&harness.folder.path().join("second"), second).await;
    let secrets: Api<Secret> = Api::namespaced(borders.client.clone(), &borders.vault);
    borders.delete(&borders.vault, "Secret", "cloud").await;
    borders.delete(&borders.vault, APPLY, "here").await;
    borders.gone(&borders.vault, APPLY, "here").await;
    assert_eq!(std::fs::read_to_string(&notes).unwrap().trim(), format!("saw {TOKEN}"));

    // So is the key, and the Secret is back: what the object says now is what counts.
    borders.put(&borders.vault, "Secret", "cloud", &json!({"stringData": {"token": TOKEN}})).await;
    secrets.delete("capt-state-key", &kube::api::DeleteParams::default()).await.unwrap();
    harness.restart(&harness.folder.path().join("third"), third).await;
    borders.delete(&borders.vault, APPLY, "there").await;
    borders.gone(&borders.vault, APPLY, "there").await;
    assert_eq!(std::fs::read_to_string(&notes).unwrap().trim(), format!("saw {TOKEN}\nsaw {TOKEN}"));
    // Not where the template is only lent: anybody can have written the state.
    borders.delete(&borders.tenant, APPLY, "granted").await;
    borders.when(APPLY, "granted", "refused", not_trusted).await;
}
