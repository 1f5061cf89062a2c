//! Secrets that states are kept in, written or damaged by a tenant: whom they concern, and whom they do not.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use capt_api::conditions::reasons;
use capt_api::names::annotations;
use capt_controllers::runtime::hex::hex;
use capt_controllers::workspace::state_secrets::SecretStateBackend;
use capt_terraform::order::WorkspaceId;
use capt_terraform::state_backend::StateBackend as _;
use flate2::{Compression, write::GzEncoder};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::borders::{Borders, condition};
use crate::fixture::Harness;

const APPLY: &str = "WorkspaceTemplateApply";
const MODULE: &str = "resource \"terraform_data\" \"other\" {}\n";

/// Controllers with states in Secrets; a template of the vault's, granted to the tenant with its credentials.
async fn begin(name: &str) -> Option<(Harness, Borders)> {
    if !crate::can_run() {
        return None;
    }
    let mut harness = Harness::embedded().await;
    let borders = Borders::new(&harness.client, name).await;
    let folder = harness.folder.path().join("first");
    restart(&mut harness, &folder, 1, &borders.vault).await;
    let (vault, tenant) = (&borders.vault, &borders.tenant);
    borders.put(vault, "Secret", "cloud", &json!({"stringData": {"token": "hunter-two-and-more"}})).await;
    let credentials = json!([{"env": "TOKEN", "secretRef": {"name": "cloud", "key": "token"}}]);
    let config = json!({"spec": {"credentials": credentials}});
    borders.put(vault, "WorkspaceProviderConfig", "cloud", &config).await;
    granted(&borders, MODULE).await;
    let group = "infrastructure.cluster.x-k8s.io";
    let grant = json!({"spec": {
        "from": [{"group": group, "kind": APPLY, "namespace": tenant}],
        "to": [
            {"group": group, "kind": "WorkspaceTemplate", "name": "granted"},
            {"group": group, "kind": "WorkspaceProviderConfig", "name": "cloud"},
        ],
    }});
    borders.put(vault, "ReferenceGrant", "granted", &grant).await;
    Some((harness, borders))
}

/// Starts the controllers again as in a cluster: with states in Secrets, and the key in a namespace.
async fn restart(harness: &mut Harness, folder: &Path, fence: u64, own: &str) {
    let state_backend = Arc::new(SecretStateBackend::new(harness.client.clone(), fence, true, own));
    harness.state_backend = Some(Arc::clone(&state_backend));
    harness.restart(folder, Some(state_backend)).await;
}

async fn granted(borders: &Borders, module: &str) {
    let spec = json!({"module": module, "providerConfigRef": {"name": "cloud"}});
    let template = json!({"spec": {"template": {"spec": spec}}});
    borders.put(&borders.vault, "WorkspaceTemplate", "granted", &template).await;
}

/// The Secret of a tenant who knows how they are written.
fn secret(instance: &str, record: &Value, state: &str, head: &Value) -> Secret {
    let record = record.to_string();
    let lengths = [record.len() as u64 | (1 << 63), 0].map(u64::to_le_bytes);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    for part in [lengths.as_flattened(), record.as_bytes(), state.as_bytes()] {
        gzip.write_all(part).unwrap();
    }
    let chunk = gzip.finish().unwrap();
    let mut all = json!({"generation": 1, "chunks": 1, "sha256": hex(&Sha256::digest(&chunk)), "fence": 0});
    all.as_object_mut().unwrap().extend(head.as_object().cloned().unwrap_or_default());
    let data = [("head", all.to_string().into_bytes()), ("chunk", chunk)];
    Secret {
        metadata: ObjectMeta { name: Some(format!("capt-state-{instance}")), ..ObjectMeta::default() },
        data: Some(data.map(|(key, bytes)| (key.to_owned(), ByteString(bytes))).into()),
        ..Secret::default()
    }
}

/// One that holds no state.
fn garbage(instance: &str) -> Secret {
    let mut secret = secret(instance, &json!({}), "", &json!({}));
    secret.data.as_mut().unwrap().insert("head".into(), ByteString(b"noise".to_vec()));
    secret
}

fn state() -> String {
    let instance = json!({"schema_version": 0, "attributes": {
        "id": "i-owner-prod", "input": null, "output": null, "triggers_replace": null,
    }});
    json!({
        "version": 4, "terraform_version": "1.5.0", "serial": 1, "lineage": "tenant-made", "outputs": {},
        "resources": [{
            "mode": "managed", "type": "terraform_data", "name": "prod", "instances": [instance],
            "provider": "provider[\"terraform.io/builtin/terraform\"]",
        }],
    })
    .to_string()
}

fn is(reason: &'static str) -> impl Fn(&Value) -> Option<()> {
    move |object| {
        let ready = condition(object, "Ready");
        (ready["status"] == "False" && ready["reason"] == reason).then_some(())
    }
}

fn ready(object: &Value) -> Option<()> {
    let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    (current && condition(object, "Ready")["status"] == "True").then_some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_secret_meets_no_lent_credentials() {
    let Some((mut harness, borders)) = begin("forged").await else { return };
    let tenant = borders.tenant.clone();
    let secrets: Api<Secret> = Api::namespaced(borders.client.clone(), &tenant);
    let template = json!({"spec": {"templateRef": {"name": "granted", "namespace": borders.vault}}});
    let unsaved = json!({"terraform_data.other": "i-owner-prod"});
    let rows = [
        ("remote", json!({"touched": true, "remote": true}), state()),
        ("untouched", json!({"touched": false, "remote": false}), state()),
        ("vouched", json!({"touched": false, "remote": false, "made_by": borders.vault}), state()),
        ("unsaved", json!({"touched": false, "remote": false, "unsaved": unsaved}), String::new()),
    ];
    for (name, mut record, state) in rows {
        record["workspace"] = format!("{tenant}/{name}").into();
        record["applied"] = Value::Null;
        let forged = secret(name, &record, &state, &json!({}));
        secrets.create(&PostParams::default(), &forged).await.unwrap();
        borders.put(&tenant, APPLY, name, &template).await;
        borders.when(APPLY, name, "refused", is("StateNotTrusted")).await;
    }
    // One that nobody forged is gone on with, also where the folder is lost.
    borders.put(&tenant, APPLY, "good", &template).await;
    borders.when(APPLY, "good", "ready", ready).await;
    let folder = harness.folder.path().join("second");
    restart(&mut harness, &folder, 2, &borders.vault).await;
    granted(&borders, &format!("{MODULE}output \"label\" {{ value = \"two\" }}\n")).await;
    let changed = |object: &Value| (object["status"]["outputs"]["label"] == "two").then_some(());
    borders.when(APPLY, "good", "changed", changed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_secret_holds_no_backend() {
    let Some((mut harness, borders)) = begin("held").await else { return };
    let (vault, tenant) = (borders.vault.clone(), borders.tenant.clone());
    let path = harness.folder.path().join("victim.tfstate");
    let module = format!(
        "terraform {{\n  backend \"local\" {{\n    path = \"{}\"\n  }}\n}}\n{MODULE}",
        path.display()
    );
    let template = json!({"spec": {"template": {"spec": {"module": module}}}});
    borders.put(&vault, "WorkspaceTemplate", "victim", &template).await;
    let victim = json!({"spec": {"templateRef": {"name": "victim"}}});
    borders.put(&vault, APPLY, "victim", &victim).await;
    let hash = |object: &Value| object["status"]["backendHash"].as_str().map(str::to_owned);
    let hash = borders.when_in(&vault, APPLY, "victim", "its backend", hash).await;
    borders.when_in(&vault, APPLY, "victim", "ready", ready).await;
    borders.delete(&vault, APPLY, "victim").await;
    borders.gone(&vault, APPLY, "victim").await;

    // Whoever knows the backend claims it before it is there.
    harness.stop().await;
    let secrets: Api<Secret> = Api::namespaced(borders.client.clone(), &tenant);
    let running = json!({"running": {"id": "theirs", "seconds": 1_u64 << 40}});
    for name in ["garbage", "built", "running"] {
        borders.put(&tenant, APPLY, name, &json!({"spec": {"templateRef": {"name": "nowhere"}}})).await;
        let record = json!({"workspace": format!("{tenant}/{name}"), "touched": true, "remote": false});
        let forged = match name {
            "garbage" => garbage(name),
            "built" => secret(name, &record, &state(), &json!({})),
            _ => secret(name, &record, &state(), &running),
        };
        secrets.create(&PostParams::default(), &forged).await.unwrap();
        let forged = json!({"status": {"backendHash": hash}});
        let api = borders.api(&tenant, APPLY);
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&forged)).await.unwrap();
    }
    borders.put(&vault, APPLY, "victim", &victim).await;
    let folder = harness.folder.path().join("second");
    restart(&mut harness, &folder, 2, &vault).await;
    let goes = |object: &Value| {
        assert_ne!(condition(object, "Ready")["reason"], reasons::BACKEND_IN_USE, "{object:#}");
        ready(object)
    };
    borders.when_in(&vault, APPLY, "victim", "ready", goes).await;
}

/// Puts what is in a Secret into the one that is there.
async fn replace(secrets: &Api<Secret>, secret: &Secret) {
    let there = secrets.get(&secret.name_any()).await.unwrap();
    let changed = Secret { data: secret.data.clone(), ..there };
    secrets.replace(&secret.name_any(), &PostParams::default(), &changed).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_secret_is_told_and_restored() {
    let Some((mut harness, borders)) = begin("damaged").await else { return };
    let (tenant, vault) = (borders.tenant.clone(), borders.vault.clone());
    let template = json!({"spec": {"template": {"spec": {"module": MODULE}}}});
    borders.put(&tenant, "WorkspaceTemplate", "own", &template).await;
    borders.put(&tenant, APPLY, "s", &json!({"spec": {"templateRef": {"name": "own"}}})).await;
    borders.when(APPLY, "s", "ready", ready).await;
    harness.stop().await;
    let secrets: Api<Secret> = Api::namespaced(borders.client.clone(), &tenant);
    let good = secrets.get("capt-state-s").await.unwrap();
    let mut flipped = good.clone();
    flipped.data.as_mut().unwrap().get_mut("chunk").unwrap().0[20] ^= 1;
    for (fence, damaged) in [(2, &flipped), (3, &garbage("s"))] {
        replace(&secrets, damaged).await;
        let folder = harness.folder.path().join(format!("lost-{fence}"));
        restart(&mut harness, &folder, fence, &vault).await;
        borders.when(APPLY, "s", "told", is("StateDamaged")).await;
        // It is back, and somebody says so.
        replace(&secrets, &good).await;
        let note = json!({"metadata": {"annotations": {"example.com/note": fence.to_string()}}});
        borders.change(APPLY, "s", &note).await;
        borders.when(APPLY, "s", "ready", ready).await;
        harness.stop().await;
    }
    // The folder is here, and good copies in it.
    for (fence, damaged) in [(4, &flipped), (5, &garbage("s"))] {
        replace(&secrets, damaged).await;
        let folder = harness.folder.path().join("first");
        restart(&mut harness, &folder, fence, &vault).await;
        borders.when(APPLY, "s", "told", is("StateDamaged")).await;
        let note = json!({"metadata": {"annotations": {annotations::RESTORE_STATE: "newest"}}});
        borders.change(APPLY, "s", &note).await;
        borders.when(APPLY, "s", "ready", ready).await;
        let kept = SecretStateBackend::new(borders.client.clone(), fence, true, &vault);
        let kept = kept.load(&WorkspaceId::new(format!("{tenant}/s"))).await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&kept.state).contains("terraform_data"));
        harness.stop().await;
    }
}

/// A controller is killed after it has removed the Secret of a workspace that it had destroyed, and before the finalizer; and the next one
/// has a folder from earlier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_was_noted_is_no_loss() {
    let Some((mut harness, borders)) = begin("noted").await else { return };
    let (tenant, vault) = (borders.tenant.clone(), borders.vault.clone());
    let template = json!({"spec": {"template": {"spec": {"module": MODULE}}}});
    borders.put(&tenant, "WorkspaceTemplate", "own", &template).await;
    let instance =
        json!({"metadata": {"finalizers": ["example.com/hold"]}, "spec": {"templateRef": {"name": "own"}}});
    for name in ["seen", "noted", "copied", "lost"] {
        let mut instance = instance.clone();
        instance["metadata"]["name"] = json!(name);
        borders.put(&tenant, APPLY, name, &instance).await;
        borders.when(APPLY, name, "ready", ready).await;
    }
    harness.stop().await;
    let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    let note = |uid: &Value| json!({"metadata": {"annotations": {annotations::DESTROYED: uid}}});
    let uid = async |name| {
        borders.when(APPLY, name, "a uid", |object| Some(object["metadata"]["uid"].clone())).await
    };

    // The one that destroys notes it first.
    let elsewhere = harness.folder.path().join("second");
    restart(&mut harness, &elsewhere, 2, &vault).await;
    borders.delete(&tenant, APPLY, "seen").await;
    let released = |object: &Value| (finalizers(object) == 1).then(|| object["metadata"].clone());
    let metadata = borders.when(APPLY, "seen", "released", released).await;
    assert_eq!(metadata["annotations"][annotations::DESTROYED], metadata["uid"], "{metadata:#}");
    harness.stop().await;

    // What a kill leaves; one note is of another object, of which the manifest was copied.
    let (noted, copied) = (uid("noted").await, uid("seen").await);
    for (name, uid) in [("noted", Some(noted)), ("copied", Some(copied)), ("lost", None)] {
        borders.delete(&tenant, APPLY, name).await;
        borders.delete(&tenant, "Secret", &format!("capt-state-{name}")).await;
        if let Some(uid) = uid {
            borders.change(APPLY, name, &note(&uid)).await;
        }
    }
    let first = harness.folder.path().join("first");
    restart(&mut harness, &first, 3, &vault).await;
    borders.when(APPLY, "noted", "released", released).await;
    for name in ["copied", "lost"] {
        borders.when(APPLY, name, "told", is("StateLost")).await;
        borders.when(APPLY, name, "held", |object| (finalizers(object) == 2).then_some(())).await;
    }
}

/// What is kept of an instance is looked for in the same places, whatever there is behind a reference that nobody granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_does_not_tell_which_templates_exist() {
    let Some((_house, borders)) = begin("oracle-state").await else { return };
    let (tenant, vault) = (borders.tenant.clone(), borders.vault.clone());
    borders
        .put(&vault, "WorkspaceProviderConfig", "here", &json!({"spec": {"backend": {"type": "Local"}}}))
        .await;
    let spec = json!({"module": MODULE, "providerConfigRef": {"name": "here"}});
    borders.put(&vault, "WorkspaceTemplate", "there", &json!({"spec": {"template": {"spec": spec}}})).await;
    let secrets: Api<Secret> = Api::namespaced(borders.client.clone(), &tenant);
    let mut told = Vec::new();
    for name in ["there", "nowhere"] {
        secrets.create(&PostParams::default(), &garbage(name)).await.unwrap();
        let instance = json!({"spec": {"templateRef": {"name": name, "namespace": vault}}});
        borders.put(&tenant, APPLY, name, &instance).await;
        let said = |object: &Value| {
            let conditions = object["status"]["conditions"].as_array()?.iter();
            let said = conditions.map(|c| {
                let message = c["message"].as_str().unwrap_or_default();
                // The grant has a name of its own.
                let message = message.split("; to allow it").next().unwrap_or_default();
                format!("{} {} {message}", c["type"], c["reason"])
            });
            Some(said.collect::<Vec<_>>().join("\n").replace("nowhere", "there"))
        };
        told.push(borders.when(APPLY, name, "told", said).await);
    }
    assert_eq!(told[0], told[1]);
}
