//! The whole server beside the real kube-apiserver: the same random requests go to both over TLS, and every answer
//! is compared. Skipped without peers.
//!
//! `STREAM_REQUESTS` sets the number of requests, `STREAM_SEED` the first seed; a difference names the seed of its
//! episode, which `STREAM_SEED=n STREAM_REQUESTS=1` runs alone.

#![expect(clippy::unwrap_used, reason = "helpers of a test; what fails is the test")]
#![allow(
    clippy::assigning_clones,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::format_push_string,
    clippy::needless_for_each,
    clippy::needless_pass_by_value,
    clippy::print_stdout,
    clippy::too_many_lines,
    clippy::unused_self,
    reason = "a generator of requests is a table in code, and reads best as one"
)]
#![recursion_limit = "256"]

mod chance;
mod compare;
mod contents;
mod crds;
mod definitions;
mod deletes;
mod doubled;
mod episode;
mod follow;
mod kinds;
mod misfits;
mod pairs;
mod patches;
mod reads;
mod requests;
mod side;

use capt_e2e::{KubeApiserver, Peers};

use crate::episode::{Episode, Tally};
use crate::side::Sides;

/// Where the peers are there but nobody asked for them, a taste is enough.
const TASTE: u64 = 300;
const FULL: u64 = 4000;
/// After so many differences there is something to do.
const ENOUGH: usize = 8;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_server_agrees_with_kube_apiserver() {
    let Some(peers) = Peers::find_or_skip(KubeApiserver::NEEDS) else { return };
    let real = KubeApiserver::start(&peers).await.unwrap();
    let sides = Sides::start(&real).await;
    definitions::install(&sides).await;
    let wanted = number("STREAM_REQUESTS", if capt_e2e::required() { FULL } else { TASTE });
    let enough = usize::try_from(number("STREAM_ENOUGH", ENOUGH as u64)).unwrap();
    let mut seed = number("STREAM_SEED", 1);
    let mut tally = Tally::default();
    while tally.requests < wanted && tally.differences.len() < enough {
        Episode::new(&sides, seed).await.run(&mut tally).await;
        seed += 1;
    }
    println!("{tally}");
    let found = &tally.differences;
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n=====\n"));
}
