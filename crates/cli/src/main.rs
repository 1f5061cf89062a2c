//! `capt`: the command line. Each command is a module of [`commands`]; nothing is decided here.

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod commands;
mod manifest;
mod tree;
mod validate;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::main()
}
