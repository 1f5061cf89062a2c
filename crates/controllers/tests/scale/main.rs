//! Fleets that are large, fleets at rest, and writes that race with the controllers': real controllers with an executor that imagines its runs, on the embedded API
//! and, where it is built, on a real kube-apiserver.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent, and a long test says where it is")]

mod fake_executor;
#[allow(dead_code, reason = "the bench uses the rest of it")]
mod fixture;
mod huge;
mod rest;
mod victims;

/// A test of its own on each API.
macro_rules! on_both {
    ($($name:ident: $test:path;)+) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if capt_e2e::runs_on("embedded") {
                    let server = capt_apiserver::Server::in_memory().await.unwrap();
                    $test(server.client("default")).await;
                }
            })+
        }

        mod kube_apiserver {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if !capt_e2e::runs_on("kube-apiserver") {
                    return;
                }
                let Some(peers) = capt_e2e::Peers::find_or_skip(capt_e2e::KubeApiserver::NEEDS) else { return };
                let server = capt_e2e::KubeApiserver::start(&peers).await.unwrap();
                $test(server.client()).await;
            })+
        }
    };
}

on_both! {
    nothing_is_written_at_rest: crate::rest::nothing_is_written_at_rest;
    a_mark_that_moves: crate::victims::a_mark_that_moves;
    a_hundred_thousand: crate::huge::a_hundred_thousand;
}
