//! `capt up` and `capt status` as people use them: the whole binary, with the real Terraform or OpenTofu.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking; a skip must not be silent"
)]

mod bad_input;
mod clusterctl;
mod confine;
mod faults;
mod plane;
mod restart;
mod simulate;
mod terminal;
mod walk;
mod watched;
mod workspaces_page;
