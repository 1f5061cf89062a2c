//! The guard alone, for tests and benches of this crate: `capt` is its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    capt_terraform::guard::dispatch().unwrap_or(ExitCode::FAILURE)
}
