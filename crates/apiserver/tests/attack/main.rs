//! Attacks of clients on the API: requests that grow, answers nobody reads, connections without end.
//!
//! Memory is that of a server in a process of its own, in bytes; work is its processor time, at two sizes. Each attack
//! runs in a short form, and in the form that was reported with `CAPT_ATTACK=long`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod connections;
mod definitions;
mod held;
mod patches;
mod queries;
mod rights;
mod squares;
mod target;
mod work;

/// The short form's number, or that of the long one.
fn sized(short: usize, long: usize) -> usize {
    if std::env::var("CAPT_ATTACK").is_ok_and(|form| form == "long") { long } else { short }
}
