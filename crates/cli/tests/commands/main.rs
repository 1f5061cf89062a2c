//! Every command as a person uses it: the whole binary, on `capt server` and `capt controller`, with the real Terraform
//! or OpenTofu.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking; a skip must not be silent"
)]

mod asking;
mod clusters;
mod comfort;
mod connection;
mod doctor;
mod looking;
mod migrate;
mod objects;
mod world;
