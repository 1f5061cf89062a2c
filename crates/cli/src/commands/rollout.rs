//! `capt rollout`: what a deployment of machines does when it changes.

mod live;

use std::io::{self, Write};
use std::path::PathBuf;

use capt_planner::simulate::{Report, Scenario, run as simulate};
use capt_yaml::documents;
use serde_json::Value;

use super::Outcome;
use crate::manifest::{Origin, Source};

/// Look at, and try out, rollouts of machines.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    History(live::History),
    Pause(live::Pause),
    Restart(live::Restart),
    Resume(live::Resume),
    Simulate(SimulateArgs),
    Status(live::Status),
    Undo(live::Undo),
}

/// Run a rollout on an imagined clock, with the decisions that the controllers would take.
///
/// Takes a CaptMachineDeployment, the CaptMachineSets and CaptMachines that exist, and a RolloutSimulation that says
/// how machines behave and what happens when. Prints each step with its time and reason, the machines of at most so many,
/// and the available ones of at least so many. Nothing outside is read or changed.
///
/// Examples:
///   capt rollout simulate -f examples/rollouts/rolling-update.yaml
///   kubectl get captmachinedeployment/web captmachineset captmachine -o yaml >now.yaml
///   capt rollout simulate -f now.yaml -f timeline.yaml -o json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
struct SimulateArgs {
    /// Files, or folders with *.yaml, *.yml and *.json files; - is standard input.
    #[arg(short, long = "filename", value_name = "FILE|DIR", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
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
        Command::Simulate(args) => run_simulation(args),
        Command::Status(args) => live::status(args),
        Command::Undo(args) => live::undo(args),
    }
}

fn run_simulation(args: &SimulateArgs) -> io::Result<Outcome> {
    let mut all = Vec::new();
    for path in &args.files {
        for source in Origin::from_argument(path, false).read() {
            let source = source.map_err(|(name, error)| io::Error::other(format!("{name} {error}")))?;
            all.extend(read(&source)?);
        }
    }
    let report = Scenario::from_documents(all).and_then(simulate).map_err(io::Error::other)?;
    print(&report, args.output)?;
    Ok(if report.violations.is_empty() { Outcome::Good } else { Outcome::Bad })
}

fn read(source: &Source) -> io::Result<Vec<Value>> {
    let Source { name, text } = source;
    let value = |document: Result<capt_yaml::Document, capt_yaml::YamlError>| match document {
        Ok(document) => Ok(document.root.to_json()),
        Err(error) => Err(io::Error::other(format!("{name}:{}: {error}", error.at))),
    };
    documents(text).into_iter().map(value).collect()
}

fn print(report: &Report, format: Format) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    match format {
        Format::Text => write!(out, "{report}"),
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)
        }
    }
}
