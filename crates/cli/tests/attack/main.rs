//! Attacks on the whole program.
//!
//! Each runs in a short form, and in the form that was reported with `CAPT_ATTACK=long`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking; a skip must not be silent"
)]

#[path = "../up/plane.rs"]
#[expect(dead_code, reason = "the tests of capt up use the rest")]
mod plane;
#[path = "../commands/world.rs"]
#[expect(dead_code, reason = "the tests of commands use the rest")]
mod world;

mod audited;
mod damaged_store;
mod full_disk;
mod kills;
mod odd_machines;
mod skewed_clocks;
mod two_controllers;
mod up_kills;
mod validate;

/// The short form's number, or that of the long one.
fn sized(short: usize, long: usize) -> usize {
    if std::env::var("CAPT_ATTACK").is_ok_and(|form| form == "long") { long } else { short }
}
