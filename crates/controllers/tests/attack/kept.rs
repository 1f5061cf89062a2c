//! Secrets that states are kept in, written by a tenant, or named by one whose workspace it is not.

use std::io::Write as _;

use capt_api::workspace::BackendKind;
use capt_controllers::runtime::hex::hex;
use capt_controllers::workspace::state_secrets::{
    SecretStateBackend, read_import, remove_import, write_import,
};
use capt_terraform::order::WorkspaceId;
use capt_terraform::state_backend::{Kept, StateBackend as _, StateBackendError};
use flate2::{Compression, write::GzEncoder};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::json;
use sha2::{Digest as _, Sha256};

async fn begin() -> (capt_apiserver::Server, Client, Api<Secret>) {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    let secrets = Api::default_namespaced(client.clone());
    (server, client, secrets)
}

fn kept(workspace: &str) -> Kept {
    let record = format!(r#"{{"workspace":"{workspace}","touched":true}}"#).into_bytes();
    Kept { record, state: b"{}".to_vec(), ..Kept::default() }
}

/// The Secret of a tenant who knows how they are written: zeros, a thousand to one.
fn bomb(name: &str, mebibytes: usize) -> Secret {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&0_u64.to_le_bytes()).unwrap();
    let block = vec![0; 1024 * 1024];
    for _ in 0..mebibytes {
        gzip.write_all(&block).unwrap();
    }
    let chunk = gzip.finish().unwrap();
    let sum = hex(&Sha256::digest(&chunk));
    let head = format!(r#"{{"generation":1,"chunks":1,"sha256":"{sum}","fence":0}}"#).into_bytes();
    Secret {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some([("head".into(), ByteString(head)), ("chunk".into(), ByteString(chunk))].into()),
        ..Secret::default()
    }
}

fn damaged<T>(result: Result<T, StateBackendError>) -> String {
    match result {
        Err(StateBackendError::Damaged(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("taken"),
    }
}

#[tokio::test]
async fn a_bomb_stays_packed() {
    let (_server, client, secrets) = begin().await;
    let size = if std::env::var("CAPT_ATTACK").as_deref() == Ok("long") { 700 } else { 100 };
    secrets.create(&PostParams::default(), &bomb("capt-state-evil", size)).await.unwrap();
    let state_backend = SecretStateBackend::new(client.clone(), 1, true, "kube-system");
    let said = damaged(state_backend.load(&WorkspaceId::new("default/evil")).await);
    assert!(said.contains("capt-state-evil is damaged: its state has more than 64 MiB"), "{said}");
    let said = read_import(&client, "default", "capt-state-evil").await.unwrap_err();
    assert!(said.contains("more than 64 MiB"), "{said}");
}

#[tokio::test]
async fn a_kept_state_is_nobody_elses() {
    let (_server, client, secrets) = begin().await;
    let (prod, evil) = (WorkspaceId::new("default/prod"), WorkspaceId::new("default/evil"));
    // The first holder of a Lease has fence 0.
    for fence in [0, 1] {
        let state_backend = SecretStateBackend::new(client.clone(), fence, true, "kube-system");
        state_backend.keep(&prod, kept("default/prod")).await.unwrap();
        let said = read_import(&client, "default", "capt-state-prod").await.unwrap_err();
        assert!(said.contains("Secret capt-state-prod is what a workspace is kept in"), "{said}");
        assert!(state_backend.load(&prod).await.unwrap() == Some(kept("default/prod")));
    }
    // A record that says it was another's.
    let state_backend = SecretStateBackend::new(client.clone(), 1, true, "kube-system");
    state_backend.keep(&evil, kept("default/prod")).await.unwrap();
    let said = damaged(state_backend.load(&evil).await);
    assert!(said.contains("its record is that of another workspace"), "{said}");
    // A name that is a question to the API.
    let said = read_import(&client, "default", "?limit=5").await.unwrap_err();
    assert!(said.contains("\"?limit=5\" is not the name of a Secret"), "{said}");
    // One that was written to be taken over.
    write_import(&client, "default", "capt-import-a", b"{}".to_vec()).await.unwrap();
    assert_eq!(read_import(&client, "default", "capt-import-a").await.unwrap(), b"{}");
    remove_import(&client, "default", "a").await.unwrap();
    assert!(secrets.get_opt("capt-import-a").await.unwrap().is_none());
    assert!(secrets.get_opt("capt-state-prod").await.unwrap().is_some());
    // One of that name that somebody else keeps a state in.
    let foreign = json!({"metadata": {"name": "capt-import-b"}, "stringData": {"tfstate": "the only copy"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
    remove_import(&client, "default", "b").await.unwrap();
    assert!(secrets.get_opt("capt-import-b").await.unwrap().is_some(), "it stays");
}

#[tokio::test]
async fn what_is_kept_elsewhere_is_not_read_from_secrets() {
    let (_server, client, _) = begin().await;
    let evil = WorkspaceId::new("default/evil");
    SecretStateBackend::new(client.clone(), 1, true, "kube-system")
        .keep(&evil, kept("default/evil"))
        .await
        .unwrap();
    // What nobody has said, what the config says, and whether Secrets are what `Auto` means -> read.
    let rows = [
        (None, true, true),
        (Some(BackendKind::Auto), true, true),
        (Some(BackendKind::Kubernetes), false, true),
        // `--state local`.
        (Some(BackendKind::Auto), false, false),
        (Some(BackendKind::Local), true, false),
        (Some(BackendKind::Hcl), true, false),
        // Nobody says: it is where it was, and nothing is lost.
        (None, false, true),
    ];
    for (says, auto, read) in rows {
        let state_backend = SecretStateBackend::new(client.clone(), 1, auto, "kube-system");
        if let Some(backend) = says {
            state_backend.expect(&evil, backend);
        }
        assert_eq!(state_backend.load(&evil).await.unwrap().is_some(), read, "{says:?} {auto}");
    }
}
