//! The commands, and what they share: arguments, exit codes, what happens when nobody reads the output.

pub mod client;
mod controller;
mod crds;
mod logging;
mod metrics;
mod place;
mod rollout;
mod sandbox;
mod server;
mod status;
mod terminal;
mod up;
mod validate;
mod workspace;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

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
    Approve(workspace::Approve),
    Cancel(workspace::Cancel),
    Controller(controller::Args),
    Crds(crds::Args),
    ImportState(workspace::ImportState),
    Retry(workspace::Retry),
    Rollout(rollout::Args),
    #[command(hide = true)]
    Sandbox(sandbox::Args),
    Server(server::Args),
    Status(status::Args),
    Up(up::Args),
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
        Command::Approve(args) => workspace::approve(&args),
        Command::Cancel(args) => workspace::cancel(&args),
        Command::Controller(args) => controller::run(&args),
        Command::Crds(args) => crds::run(&args),
        Command::ImportState(args) => workspace::import_state(&args),
        Command::Retry(args) => workspace::retry(&args),
        Command::Rollout(args) => rollout::run(&args),
        Command::Sandbox(args) => return sandbox::run(&args),
        Command::Server(args) => server::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Up(args) => up::run(&args),
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

/// Runs one piece of work that talks to an API.
fn block_on<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Waits until somebody wants this process to end.
async fn wait_for_a_signal() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
