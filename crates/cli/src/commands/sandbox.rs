//! `capt sandbox`: shuts itself in, then becomes Terraform. For `capt controller` alone.

use std::ffi::OsString;
use std::process::ExitCode;

/// Run a program that sees only what it needs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As the engine gives them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub fn run(args: &Args) -> ExitCode {
    capt_terraform::sandbox::run(args.arguments.clone())
}
