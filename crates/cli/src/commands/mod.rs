//! The commands, and what they share: arguments, exit codes, what happens when nobody reads the output.

pub mod audit;
pub mod client;
mod completion;
mod confine;
mod controller;
mod crds;
mod delete;
mod doctor;
mod duration;
mod events;
mod family;
mod hand_in;
mod help;
mod kubeconfig;
mod last_failed;
mod live;
mod logging;
mod logs;
mod man;
mod metrics;
mod migrate;
mod object;
mod pause;
mod place;
mod plan;
mod reference;
mod rollout;
mod scale;
mod server;
mod state;
mod status;
pub mod table;
mod tenants;
mod up;
mod validate;
mod version;
mod workspace;
mod wrap;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Builds clusters and machines from Kubernetes objects, with Terraform or OpenTofu.
#[derive(Debug, Parser)]
#[command(name = "capt", version = env!("CAPT_VERSION"), propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 success, 1 something is wrong with the input or the work, 2 wrong usage.\n\
        Environment: KUBECONFIG, CAPT_DATA_DIR (data folder), CAPT_LOG (error to trace), NO_COLOR.\n\
        Also usable as kubectl capt, where the program is on the PATH as kubectl-capt."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Approve(workspace::Approve),
    Cancel(workspace::Cancel),
    Completion(completion::Args),
    Controller(controller::Args),
    Crds(crds::Args),
    Delete(delete::Args),
    Doctor(doctor::Args),
    Events(events::Args),
    ImportState(workspace::ImportState),
    Kubeconfig(kubeconfig::Args),
    Logs(logs::Args),
    #[command(hide = true)]
    Man(man::Args),
    Migrate(migrate::Args),
    Pause(pause::Pause),
    Plan(plan::Args),
    #[command(hide = true)]
    Reference(reference::Args),
    Resume(pause::Resume),
    Retry(workspace::Retry),
    Rollout(rollout::Args),
    Scale(scale::Args),
    Server(server::Args),
    State(state::Args),
    Status(status::Args),
    Up(up::Args),
    Validate(validate::Args),
    Version(version::Args),
}

/// Name of the program as a plugin of kubectl, and when kubectl asks it for completions.
const PLUGIN: &str = "kubectl-capt";
const PLUGIN_COMPLETION: &str = "kubectl_complete-capt";

/// Does what the command line says.
pub fn main() -> ExitCode {
    if let Some(ended) = hand_in::dispatch() {
        return ended;
    }
    let called = std::env::args_os().next().unwrap_or_default();
    let called = Path::new(&called).file_name().unwrap_or_default().to_owned();
    if called == PLUGIN_COMPLETION {
        return complete_for_kubectl();
    }
    CompleteEnv::with_factory(Cli::command).var(completion::VARIABLE).complete();
    let mut command = help::command();
    if called == PLUGIN {
        command = command.bin_name("kubectl capt").display_name("kubectl-capt");
    }
    let matches = command.get_matches_from(help::arguments(std::env::args_os()));
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => run(cli),
        Err(error) => error.exit(),
    }
}

/// Prints completions in the format of kubectl plugins: one a line, and last a directive against other completions.
fn complete_for_kubectl() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let last = words.len().saturating_sub(1);
    let found = clap_complete::engine::complete(&mut Cli::command(), words, last, None).unwrap_or_default();
    let mut out = io::stdout().lock();
    for candidate in found {
        // Nobody reads any more: then nobody misses it.
        let _ = writeln!(out, "{}", candidate.get_value().to_string_lossy());
    }
    let _ = writeln!(out, ":4");
    ExitCode::SUCCESS
}

/// Outcome of a command that completed.
enum Outcome {
    /// All is well.
    Good,
    /// The command has said what is wrong.
    Bad,
}

/// The year 9900: certificates last beyond the time they are made at, and no time is beyond the year 9999.
const LAST: Duration = Duration::from_secs(250_246_627_200);

/// Refuses a clock that cannot be right: Leases, certificates and all that is written down need the time.
fn check_clock(now: SystemTime) -> io::Result<()> {
    let before = match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) if since < LAST => return Ok(()),
        Ok(_) => {
            return Err(io::Error::other("the clock of this machine is beyond the year 9900: set it"));
        }
        Err(before) => before,
    };
    let days = before.duration().as_secs() / (24 * 60 * 60);
    Err(io::Error::other(format!("the clock of this machine is {days} days before 1970: set it")))
}

/// Runs one command and turns its end into an exit code.
fn run(cli: Cli) -> ExitCode {
    let end = check_clock(SystemTime::now()).and_then(|()| command(cli.command));
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

fn command(command: Command) -> io::Result<Outcome> {
    match command {
        Command::Approve(args) => workspace::approve(&args),
        Command::Cancel(args) => workspace::cancel(&args),
        Command::Completion(args) => completion::run(&args),
        Command::Controller(args) => controller::run(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Delete(args) => delete::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Events(args) => events::run(&args),
        Command::ImportState(args) => workspace::import_state(&args),
        Command::Kubeconfig(args) => kubeconfig::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Pause(args) => pause::pause(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::Resume(args) => pause::resume(&args),
        Command::Retry(args) => workspace::retry(&args),
        Command::Rollout(args) => rollout::run(&args),
        Command::Scale(args) => scale::run(&args),
        Command::Server(args) => server::run(&args),
        Command::State(args) => state::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Version(args) => version::run(&args),
    }
}

/// Runs one piece of work that talks to an API.
fn block_on<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Waits until somebody wants this process to end.
async fn wait_for_a_signal() -> io::Result<()> {
    Signals::listen()?.next().await;
    Ok(())
}

/// Lets a write beyond the limit of file sizes (`ulimit -f`) fail, which otherwise ends the process. Programs that it starts are ended as
/// before.
fn refuse_writes_beyond_the_file_limit() -> io::Result<()> {
    // Once there was a listener, the signal ends nothing any more.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// Signals to this process. From the first moment that this listens no signal ends the process by itself.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_cannot_be_right_is_refused() {
        let epoch = SystemTime::UNIX_EPOCH;
        assert!(check_clock(epoch).is_ok());
        let error = check_clock(epoch - Duration::from_secs(3 * 86_400)).unwrap_err();
        assert_eq!(error.to_string(), "the clock of this machine is 3 days before 1970: set it");
        assert!(check_clock(epoch + LAST - Duration::from_secs(1)).is_ok());
        let error = check_clock(epoch + LAST).unwrap_err();
        assert_eq!(error.to_string(), "the clock of this machine is beyond the year 9900: set it");
    }
}
