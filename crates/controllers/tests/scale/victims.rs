//! A machine is deleted only as it was when it was chosen.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use capt_api::machine::CaptMachine;
use capt_api::names::annotations;
use capt_controllers::Options;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::fixture::Fixture;

async fn annotate(client: &Client, machine: &str, notes: Value) {
    let body = json!({"metadata": {"annotations": notes}});
    let api: Api<CaptMachine> = Api::namespaced(client.clone(), "default");
    api.patch(machine, &PatchParams::default(), &Patch::Merge(&body)).await.unwrap();
}

async fn machines(client: &Client) -> BTreeSet<String> {
    let api: Api<CaptMachine> = Api::namespaced(client.clone(), "default");
    api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

/// The machine that was chosen first, and the one that carries the mark since.
#[derive(Clone, Debug)]
struct Moved {
    chosen: String,
    marked: String,
}

/// A client whose first delete of a machine finds that the mark has moved to another one.
fn moves_the_mark(client: &Client) -> (Client, Arc<OnceLock<Moved>>) {
    let (inner, moved) = (client.clone(), Arc::new(OnceLock::new()));
    let told = moved.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (inner, moved) = (inner.clone(), moved.clone());
        async move {
            let path = request.uri().path();
            if request.method() == http::Method::DELETE
                && let Some((_, chosen)) = path.split_once("/captmachines/")
                && moved.get().is_none()
            {
                let all = machines(&inner).await;
                let marked = all.iter().rfind(|name| *name != chosen).unwrap().clone();
                let of = Moved { chosen: chosen.to_owned(), marked };
                moved.set(of.clone()).unwrap();
                annotate(&inner, &of.marked, json!({annotations::DELETE_MACHINE: ""})).await;
                for other in all.iter().filter(|name| **name != of.marked) {
                    annotate(&inner, other, json!({annotations::DELETE_MACHINE: null})).await;
                }
                // Last: who has seen this has seen the rest. It may have been chosen without its mark, which a cache shows later.
                annotate(&inner, &of.chosen, json!({"example.com/seen": "all"})).await;
            }
            inner.send(request).await
        }
    });
    (Client::new(service, "default"), told)
}

pub async fn a_mark_that_moves(client: Client) {
    let (moving, moved) = moves_the_mark(&client);
    let fixture = Fixture::on(moving, &Options::default()).await;
    fixture.deploy(3, "small").await;
    fixture.rolled_out().await;
    let three = machines(&client).await;
    annotate(&client, three.first().unwrap(), json!({annotations::DELETE_MACHINE: ""})).await;
    fixture.scale(2).await;
    let two = capt_e2e::until("two are left", Duration::from_secs(120), async || {
        let left = machines(&client).await;
        (left.len() == 2).then_some(left)
    });
    let (two, moved) = (two.await.unwrap(), moved.get().unwrap());
    assert!(
        two.contains(&moved.chosen) && !two.contains(&moved.marked),
        "{moved:?}: {two:?} of {three:?} are left"
    );
}
