//! CAPT beside the core of Cluster API: its own manager with its webhooks, a real kube-apiserver, real Terraform and the
//! manifests of `examples`.
//!
//! The workload cluster is the kube-apiserver itself: the control plane's module returns its kubeconfig. So core
//! reaches it, and what only a kubelet does (a Node for each machine) is all that the test has to play.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent, and a long test says where it is")]

mod class;
#[allow(dead_code, reason = "the workspaces' tests use the rest of it")]
#[path = "../workspaces/fixture.rs"]
mod fixture;
mod live_core;
mod plain;
mod workers;

use capt_e2e::{ClusterApiCore, KubeApiserver, Peers};
use live_core::LiveCore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_api_core_agrees() {
    if !capt_e2e::runs_on("kube-apiserver") || !capt_e2e::has_terraform() {
        return;
    }
    let needed = [KubeApiserver::NEEDS, ClusterApiCore::NEEDS].concat();
    let Some(peers) = Peers::find_or_skip(&needed) else { return };
    let core = LiveCore::open(&peers).await;
    // Both at once: core looks at each object once in a second at most, so most of the time is spent waiting.
    tokio::join!(plain::a_cluster_lives_and_goes(&core), class::a_class_makes_a_cluster(&core));
}
