//! Leases that were deleted, belong to another cluster, or cannot count on: whose write counts, and who waits for whom.

use std::time::Duration;

use capt_controllers::runtime::lease::{Candidate, Held, LASTS};
use capt_controllers::workspace::state_secrets::SecretStateBackend;
use capt_terraform::order::WorkspaceId;
use capt_terraform::state_backend::{Kept, Running, StateBackend as _, StateBackendError};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

const LEASE: &str = "capt-controller";

async fn begin() -> (capt_apiserver::Server, Client) {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    (server, client)
}

/// A controller that holds the Lease; whoever held it before is gone.
async fn controller(client: &Client, holder: &str) -> (Held, SecretStateBackend) {
    let held = Candidate::new("default", LEASE, holder, LASTS).take(client, |_| true).await.unwrap();
    let state_backend = SecretStateBackend::new(client.clone(), held.fence(), true, "kube-system");
    let state_backend = state_backend.claimed(held.claim());
    (held, state_backend)
}

async fn delete_lease(client: &Client) {
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    leases.delete(LEASE, &DeleteParams::default()).await.unwrap();
}

/// What is kept of a workspace, with a run that is under way where one is named.
fn kept(name: &str, run: Option<&str>) -> Kept {
    let running = run.map(|run| Running { run: run.to_owned(), ends_within: Duration::from_secs(100) });
    let record = format!(r#"{{"workspace":"default/{name}","touched":true}}"#).into_bytes();
    Kept { record, state: b"{}".to_vec(), running, ..Kept::default() }
}

fn is_fenced(result: &Result<(), StateBackendError>) -> bool {
    matches!(result, Err(StateBackendError::Fenced(_)))
}

#[tokio::test]
async fn a_lease_that_was_deleted_begins_no_term_twice() {
    let (_server, client) = begin().await;
    let [run, rest, new] = ["run", "rest", "new"].map(|name| WorkspaceId::new(format!("default/{name}")));
    let (first, old) = controller(&client, "first").await;
    old.keep(&run, kept("run", Some("theirs"))).await.unwrap();
    old.keep(&rest, kept("rest", None)).await.unwrap();
    delete_lease(&client).await;
    let (second, young) = controller(&client, "second").await;
    assert_eq!(second.fence(), first.fence(), "it counts anew: that is the attack");
    // The run of the other one is waited for.
    let running = young.load(&run).await.unwrap().unwrap().running.unwrap();
    assert!(running.ends_within > Duration::from_secs(90), "{running:?}");
    // What is written now is not written over by whoever had the Lease, whichever number it has.
    young.load(&rest).await.unwrap().unwrap();
    young.keep(&rest, kept("rest", None)).await.unwrap();
    young.keep(&new, kept("new", None)).await.unwrap();
    for workspace in [&rest, &new] {
        assert!(is_fenced(&old.keep(workspace, kept("rest", Some("late"))).await), "{workspace}");
        assert!(is_fenced(&old.remove(workspace).await), "{workspace}");
    }
    // Nor by what hands in for it; its own run is handed in.
    let hands_in = SecretStateBackend::new(client.clone(), first.fence(), true, "kube-system");
    let hands_in = hands_in.former("first".to_owned());
    assert!(is_fenced(&hands_in.keep(&new, kept("new", None)).await));
    hands_in.keep(&run, kept("run", None)).await.unwrap();
    // What was handed in since is read first.
    let late = young.keep(&run, kept("run", Some("ours"))).await;
    assert!(matches!(late, Err(StateBackendError::Unsettled(_))), "{late:?}");
    assert_eq!(young.load(&run).await.unwrap().unwrap().running, None);
    young.keep(&run, kept("run", Some("ours"))).await.unwrap();
    young.remove(&run).await.unwrap();
}

#[tokio::test]
async fn states_that_were_moved_are_gone_on_with() {
    let (_server, client) = begin().await;
    let moved = WorkspaceId::new("default/moved");
    // Of an earlier version, which names no holder, and of this one.
    for former in [None, Some("elsewhere")] {
        let theirs = SecretStateBackend::new(client.clone(), 7, true, "kube-system");
        let theirs = match former {
            Some(holder) => theirs.former(holder.to_owned()),
            None => theirs,
        };
        theirs.keep(&moved, kept("moved", None)).await.unwrap();
        let (held, ours) = controller(&client, "here").await;
        assert_eq!(held.fence(), 1);
        ours.load(&moved).await.unwrap().unwrap();
        ours.keep(&moved, kept("moved", Some("ours"))).await.unwrap();
        // The one that had it wakes up.
        assert!(is_fenced(&theirs.keep(&moved, kept("moved", None)).await), "{former:?}");
        ours.remove(&moved).await.unwrap();
        delete_lease(&client).await;
    }
}

#[tokio::test]
async fn a_lease_that_cannot_count_on_is_taken() {
    let (_server, client) = begin().await;
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let workspace = WorkspaceId::new("default/w");
    let (_, old) = controller(&client, "first").await;
    old.keep(&workspace, kept("w", None)).await.unwrap();
    let forged = json!({"spec": {"leaseTransitions": i32::MAX}});
    leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(&forged)).await.unwrap();
    for holder in ["second", "third"] {
        let (_, young) = controller(&client, holder).await;
        young.load(&workspace).await.unwrap().unwrap();
        young.keep(&workspace, kept("w", None)).await.unwrap();
        assert!(is_fenced(&old.keep(&workspace, kept("w", None)).await), "{holder}");
    }
}
