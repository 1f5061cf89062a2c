//! Networks and control planes from end to end: real Terraform, CAPT's own Cluster, the embedded API and, where it is
//! built, a real kube-apiserver.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent, and a long test says where it is")]

mod beside;
mod changes;
mod cluster_fixture;
mod ends;
#[allow(dead_code, reason = "the workspaces' tests use the rest of it")]
#[path = "../workspaces/fixture.rs"]
mod fixture;
mod inputs;
mod life;
mod rest;

use std::sync::Arc;

use fixture::{Fixture, Harness};

/// Each scenario is a test of its own on the embedded API; on kube-apiserver they share one.
macro_rules! scenarios {
    ($($room:ident: $($name:ident),+;)+) => {
        mod embedded {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    if !super::can_run("embedded") {
                        return;
                    }
                    let harness = super::cluster_fixture::open(super::Harness::embedded().await).await;
                    super::$room::$name(&super::Fixture::new(std::sync::Arc::new(harness), stringify!($name)).await).await;
                }
            )+)+
        }

        /// All scenarios, one after the other; or one, which `CAPT_SCENARIO` names.
        async fn all(harness: &Arc<Harness>) {
            let only = std::env::var("CAPT_SCENARIO").ok();
            $($(
                if only.as_deref().is_none_or(|only| only == stringify!($name)) {
                    eprintln!("{}", stringify!($name));
                    let fixture = Fixture::new(Arc::clone(harness), stringify!($name)).await;
                    $room::$name(&fixture).await;
                    fixture.leave().await;
                }
            )+)+
        }
    };
}

scenarios! {
    life: a_cluster_lives_and_goes, the_owner_comes_late, an_existing_vpc, names_that_differ, two_of_the_same_name,
        templates_that_meet_in_a_secret;
    changes: an_upgrade, a_network_fails_and_is_mended, a_control_plane_fails_and_is_mended, what_is_late_is_told,
        paused_in_the_middle, somebody_else_manages_it, what_is_moved_waits_for_runs;
    ends: deleted_before_anything, deleted_in_any_order, the_network_goes_last, a_retained_network;
    inputs: outputs_that_are_missing, a_template_elsewhere, a_secret_of_others, a_connection_secret_of_others,
        a_kubeconfig_that_is_none, names_that_are_taken, a_region_that_is_none;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_kube_apiserver_agrees() {
    if !can_run("kube-apiserver") {
        return;
    }
    let Some(peers) = capt_e2e::Peers::find_or_skip(capt_e2e::KubeApiserver::NEEDS) else { return };
    let server = capt_e2e::KubeApiserver::start(&peers).await.unwrap();
    all(&Arc::new(cluster_fixture::open(Harness::real(server).await).await)).await;
}

/// Tests run where Terraform or OpenTofu is.
fn can_run(api: &str) -> bool {
    capt_e2e::runs_on(api) && capt_e2e::has_terraform()
}
