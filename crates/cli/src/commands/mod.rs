//! The commands, and what they share: arguments, exit codes, what happens when nobody reads the output.

mod crds;
mod rollout;
mod server;
mod validate;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds clusters and machines from Kubernetes objects, with Terraform or OpenTofu.
#[derive(Debug, Parser)]
#[command(name = "capt", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 success, 1 something is wrong with the input or the work, 2 wrong usage."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Crds(crds::Args),
    Rollout(rollout::Args),
    Server(server::Args),
    Validate(validate::Args),
}

/// How a command that did its work ended.
enum Outcome {
    /// All is well.
    Good,
    /// The command has said what is wrong.
    Bad,
}

/// Runs one command and turns its end into an exit code.
pub fn run(cli: Cli) -> ExitCode {
    let end = match cli.command {
        Command::Crds(args) => crds::run(&args),
        Command::Rollout(args) => rollout::run(&args),
        Command::Server(args) => server::run(&args),
        Command::Validate(args) => validate::run(&args),
    };
    match end {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::FAILURE,
        // The reader went away, as in `capt crds | head`: it has what it wanted.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("capt: {error}");
            ExitCode::FAILURE
        }
    }
}
