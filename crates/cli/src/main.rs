//! `capt`: the command line. Each command is a module of [`commands`]; nothing is decided here.

mod commands;
mod manifest;
mod tree;
mod validate;

use std::process::ExitCode;

/// An API server parses and drops many small things; glibc's allocator takes a tenth more time for all that CAPT does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First, and before anything is read: every run of Terraform begins with it.
    capt_terraform::guard::dispatch().unwrap_or_else(commands::main)
}
