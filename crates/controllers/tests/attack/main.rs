//! Attacks on the controllers by a tenant: somebody who may write CAPT's objects in one namespace, and nothing in others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent")]

mod answers;
mod borders;
#[allow(dead_code, reason = "the clusters' tests use the rest of it")]
#[path = "../clusters/cluster_fixture.rs"]
mod cluster_fixture;
mod clusters;
mod credentials;
#[allow(dead_code, reason = "the workspaces' tests use the rest of it")]
#[path = "../workspaces/fixture.rs"]
mod fixture;
mod forged;
mod given;
mod holds;
mod kept;
mod lease;
mod namespaces;
mod probes;
mod references;
mod successor;
mod surface;
mod tokens;

/// Tests run where Terraform or OpenTofu is.
fn can_run() -> bool {
    capt_e2e::runs_on("embedded") && capt_e2e::has_terraform()
}
