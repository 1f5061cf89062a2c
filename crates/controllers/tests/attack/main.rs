//! Attacks on the controllers by a tenant: somebody who may write CAPT's objects in one namespace, and nothing in others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent")]

mod answers;
mod borders;
mod clusters;
mod credentials;
mod forged;
mod given;
mod holds;
mod kept;
mod probes;
mod references;
#[allow(dead_code, reason = "the workspaces' tests use the rest of it")]
#[path = "../workspaces/stage.rs"]
mod stage;
mod surface;
mod tokens;
#[allow(dead_code, reason = "the clusters' tests use the rest of it")]
#[path = "../clusters/town.rs"]
mod town;

/// Tests run where Terraform or OpenTofu is.
fn can_run() -> bool {
    capt_e2e::runs_on("embedded") && capt_e2e::has_terraform()
}
