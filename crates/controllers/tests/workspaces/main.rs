//! Workspaces from end to end: real Terraform, the embedded API, and, where it is built, a real kube-apiserver.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent, and a long test says where it is")]

mod approval;
mod aws;
mod dependencies;
mod drift;
mod lifecycle;
mod many;
mod restart;
#[allow(dead_code, reason = "the machines' tests use the rest of it")]
mod stage;
mod trouble;

use std::sync::Arc;

use stage::{House, Stage};

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
                    let house = std::sync::Arc::new(super::House::embedded().await);
                    super::$room::$name(&super::Stage::new(house, stringify!($name)).await).await;
                }
            )+)+
        }

        /// All scenarios, one after the other.
        async fn all(house: &Arc<House>) {
            $($(
                eprintln!("{}", stringify!($name));
                $room::$name(&Stage::new(Arc::clone(house), stringify!($name)).await).await;
            )+)+
        }
    };
}

scenarios! {
    lifecycle: a_workspace_lives_and_goes, outputs_reach_status_and_secret, a_template_edit_reaches_its_instances,
        what_changes_nothing_starts_nothing, a_template_in_use_stays, a_retained_workspace_is_taken_up_again,
        text_is_substituted, paused_means_paused, a_state_is_taken_over;
    approval: a_plan_waits_for_a_person, too_much_destruction_waits_for_a_person;
    dependencies: a_chain_of_three, a_circle_is_named, secrets_are_awaited;
    drift: drift_is_reported, drift_is_corrected;
    trouble: a_failure_is_retried_and_fixed, a_run_is_cancelled, a_run_takes_too_long, mistakes_are_named,
        secrets_stay_secret, a_deletion_needs_no_template;
    many: fifty_at_once;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_kube_apiserver_agrees() {
    if !can_run("kube-apiserver") {
        return;
    }
    let Some(peers) = capt_e2e::Peers::find_or_skip(capt_e2e::KubeApiserver::NEEDS) else { return };
    let server = capt_e2e::KubeApiserver::start(&peers).await.unwrap();
    all(&Arc::new(House::real(server).await)).await;
}

/// Tests run where Terraform or OpenTofu is.
fn can_run(api: &str) -> bool {
    if !capt_e2e::runs_on(api) {
        return false;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .any(|folder| folder.join("terraform").is_file() || folder.join("tofu").is_file());
    assert!(found || !capt_e2e::required(), "neither tofu nor terraform is on PATH");
    if !found {
        eprintln!("skipped: neither tofu nor terraform is on PATH (make tools)");
    }
    found
}
