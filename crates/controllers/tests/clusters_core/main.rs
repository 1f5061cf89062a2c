//! CAPT's own controller for `Cluster`, and its CRD beside that of Cluster API: on the embedded API and, where it is
//! built, on a real kube-apiserver.
//!
//! The parts of these Clusters are of kinds that CAPT does not know, and the test plays their provider: what is shown
//! here holds for any provider that fulfils the contract.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent, and a long test says where it is")]

mod access;
mod beside;
#[allow(dead_code, reason = "the workspaces' tests use the rest of it")]
#[path = "../workspaces/fixture.rs"]
mod fixture;
mod life;
mod provider;
mod upstream;

use std::sync::Arc;

use fixture::{Fixture, Harness};

/// Each scenario is a test of its own on the embedded API; on kube-apiserver they share one.
macro_rules! scenarios {
    ($($room:ident: $($name:ident),+;)+) => {
        mod embedded {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    if !capt_e2e::runs_on("embedded") {
                        return;
                    }
                    let harness = std::sync::Arc::new(super::Harness::embedded().await);
                    super::provider::install(&harness.client).await;
                    super::$room::$name(&super::Fixture::new(harness, stringify!($name)).await).await;
                }
            )+)+
        }

        /// All scenarios, one after the other.
        async fn all(harness: &Arc<Harness>) {
            $($(
                eprintln!("{}", stringify!($name));
                $room::$name(&Fixture::new(Arc::clone(harness), stringify!($name)).await).await;
            )+)+
        }
    };
}

scenarios! {
    life: a_cluster_lives_and_goes, old_manifests_are_taken, paused_means_paused, a_failure_is_told_and_passes, machines_go_first,
        what_is_anothers_stays, parts_come_late, what_is_not_served_is_refused;
    beside: kinds_of_core_are_listed_and_take_nothing, a_kind_of_core_that_is_anothers_stays;
    access: secrets_are_kept, what_is_wrong_writes_nothing, a_token_is_made_and_renewed;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_kube_apiserver_agrees() {
    if !capt_e2e::runs_on("kube-apiserver") {
        return;
    }
    let Some(peers) = capt_e2e::Peers::find_or_skip(capt_e2e::KubeApiserver::NEEDS) else { return };
    let server = capt_e2e::KubeApiserver::start(&peers).await.unwrap();
    let harness = Arc::new(Harness::real(server).await);
    provider::install(&harness.client).await;
    Box::pin(all(&harness)).await;
}
