//! `capt rollout`: what a deployment of machines does when it changes.

mod live;
mod simulate;

use std::io;

use super::Outcome;

/// Look at, and try out, rollouts of machines.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    History(live::History),
    Pause(live::PauseRollout),
    Restart(live::Restart),
    Resume(live::ResumeRollout),
    Simulate(simulate::Simulate),
    Status(live::RolloutStatus),
    Undo(live::Undo),
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// One line for each step, for people.
    #[default]
    Text,
    /// One JSON document, for programs.
    Json,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    match &args.command {
        Command::History(args) => live::history(args),
        Command::Pause(args) => live::pause(args),
        Command::Restart(args) => live::restart(args),
        Command::Resume(args) => live::resume(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Status(args) => live::status(args),
        Command::Undo(args) => live::undo(args),
    }
}
