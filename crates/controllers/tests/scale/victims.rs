//! A machine is deleted only as it was when it was chosen.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capt_api::machine::CaptMachine;
use capt_api::names::annotations;
use capt_controllers::Options;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::plant::Plant;

async fn annotate(client: &Client, machine: &str, value: Value) {
    let body = json!({"metadata": {"annotations": {annotations::DELETE_MACHINE: value}}});
    let api: Api<CaptMachine> = Api::namespaced(client.clone(), "default");
    api.patch(machine, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
}

async fn machines(client: &Client) -> BTreeSet<String> {
    let api: Api<CaptMachine> = Api::namespaced(client.clone(), "default");
    api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

/// A client whose first delete of a machine finds that the mark has moved to another one.
fn moves_the_mark(client: &Client) -> Client {
    let (inner, moved) = (client.clone(), Arc::new(AtomicBool::new(false)));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (inner, moved) = (inner.clone(), moved.clone());
        async move {
            let path = request.uri().path();
            if request.method() == http::Method::DELETE
                && let Some((_, victim)) = path.split_once("/captmachines/")
                && !moved.swap(true, Ordering::SeqCst)
            {
                let all = machines(&inner).await;
                let another = all.iter().rfind(|name| *name != victim).unwrap();
                annotate(&inner, victim, json!(null)).await;
                annotate(&inner, another, json!("")).await;
            }
            inner.send(request).await
        }
    });
    Client::new(service, "default")
}

pub async fn a_mark_that_moves(client: Client) {
    let plant = Plant::on(moves_the_mark(&client), &Options::default()).await;
    plant.deploy(3, "small").await;
    plant.rolled_out().await;
    let three = machines(&client).await;
    let (first, last) = (three.first().unwrap(), three.last().unwrap());
    annotate(&client, first, json!("")).await;
    plant.scale(2).await;
    let two = capt_e2e::until("two are left", Duration::from_secs(120), async || {
        let left = machines(&client).await;
        (left.len() == 2).then_some(left)
    });
    let two = two.await.unwrap();
    assert!(two.contains(first) && !two.contains(last), "{two:?} of {three:?} are left");
}
