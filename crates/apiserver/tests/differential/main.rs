//! Field management against a real kube-apiserver: the same random writes go to both, and every answer is compared.
//!
//! `APPLY_STEPS` sets the number of writes for each kind, `APPLY_SEED` the first seed. Skipped without peers.

#![expect(clippy::unwrap_used, reason = "helpers of a test; what fails is the test")]
#![recursion_limit = "256"]

mod fixtures;
mod generate;
mod kinds;
mod model;
mod real;
mod run;
mod step;

use capt_e2e::{KubeApiserver, Peers};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agrees_with_kube_apiserver() {
    let Some(peers) = Peers::find_or_skip(KubeApiserver::NEEDS) else { return };
    let server = KubeApiserver::start(&peers).await.unwrap();
    let real = real::Real::new(server.client());
    let (steps, seed) = (number("APPLY_STEPS", 150), number("APPLY_SEED", 1));
    let only = std::env::var("APPLY_ONLY").ok();
    let mut failed = Vec::new();
    for subject in kinds::all(&real).await {
        if only.as_ref().is_some_and(|only| *only != subject.kind.name()) {
            continue;
        }
        let report = run::compare(&real, &subject, steps, seed).await;
        println!("{}: {report}", subject.kind.name());
        failed.extend(report.differences);
    }
    assert!(failed.is_empty(), "{} differences:\n{}", failed.len(), failed.join("\n\n=====\n"));
}
