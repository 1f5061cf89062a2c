//! `capt state`: the kept copies of a workspace's state, and restoring one.

use std::io::{self, Write};

use capt_api::names::annotations;
use capt_terraform::inspect::Inspection;
use kube::ResourceExt;

use super::client::Target;
use super::logs::{id_of, the_workspace, unreadable};
use super::object::Accepts;
use super::workspace::annotate;
use super::{Outcome, block_on, completion, place};

/// List the kept copies of a workspace's state, or restore one.
///
/// A state that is missing, cut, altered or older than the last run left it stops all work on its workspace (reasons
/// StateLost and StateDamaged). The last good states are kept beside it, with checksums.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Copies(Copies),
    Restore(Restore),
}

/// List the good copies of a workspace's state, the newest first.
///
/// Reads the data folder, so it works where the controller runs.
///
/// Examples:
///   capt state copies network
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
struct Copies {
    #[command(flatten)]
    object: ObjectArg,
}

/// Restore a good copy of a workspace's state: the newest, or the one with a serial.
///
/// The next apply compares it with what is really there.
///
/// Examples:
///   capt state restore network
///   capt state restore captmachine/web-x7k2p-0 --serial 41
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
struct Restore {
    #[command(flatten)]
    object: ObjectArg,
    /// Restore the copy with this serial.
    #[arg(long, value_name = "N")]
    serial: Option<u64>,
}

#[derive(Debug, clap::Args)]
struct ObjectArg {
    #[arg(required = true, num_args = 1..=2, value_name = "OBJECT", help = Accepts::WORKSPACES.help, add = completion::objects(&Accepts::WORKSPACES))]
    object: Vec<String>,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    match &args.command {
        Command::Copies(copies) => list(&copies.object),
        Command::Restore(restore) => ask(&restore.object, restore.serial),
    }
}

fn list(args: &ObjectArg) -> io::Result<Outcome> {
    block_on(async {
        let object = Accepts::WORKSPACES.read_one(&args.object)?;
        let connection = args.target.connect().await?;
        let workspace = the_workspace(&connection, &object).await?;
        let name = workspace.name_any();
        let folder = connection.folder.as_deref();
        let inspection = folder.and_then(|folder| Inspection::to(&place::engine(folder)));
        let visited = inspection.map(|inspection| inspection.workspace(&id_of(&workspace))).transpose();
        let Some(visited) = visited.map_err(|error| unreadable(&error))?.flatten() else {
            return Err(io::Error::other(format!(
                "the states of {name} are where the controller runs: name its folder with --data-dir, or run capt state there"
            )));
        };
        let copies = visited.state_copies();
        let mut out = anstream::stdout().lock();
        if copies.is_empty() {
            writeln!(out, "no copy of the state of {name} is kept")?;
            return Ok(Outcome::Bad);
        }
        writeln!(out, "{:>8}  {:>9}  FILE", "SERIAL", "RESOURCES")?;
        for (serial, resources, file) in copies {
            writeln!(out, "{serial:>8}  {resources:>9}  {}", file.display())?;
        }
        Ok(Outcome::Good)
    })
}

fn ask(args: &ObjectArg, serial: Option<u64>) -> io::Result<Outcome> {
    block_on(async {
        let object = Accepts::WORKSPACES.read_one(&args.object)?;
        let connection = args.target.connect().await?;
        let name = the_workspace(&connection, &object).await?.name_any();
        let wanted = serial.map_or_else(|| "newest".to_owned(), |serial| serial.to_string());
        annotate(&connection, &name, annotations::RESTORE_STATE, &wanted).await?;
        anstream::println!("{name} restores its state ({wanted}); capt events {name} shows how it goes");
        Ok(Outcome::Good)
    })
}
