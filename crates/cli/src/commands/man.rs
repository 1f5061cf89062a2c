//! `capt man`: man pages, one for each command.

use std::io;
use std::path::PathBuf;

use super::Outcome;

/// Write man pages.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder; made if it is not there.
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    std::fs::create_dir_all(&args.output_dir)?;
    clap_mangen::generate_to(super::help::command().disable_help_subcommand(true), &args.output_dir)?;
    Ok(Outcome::Good)
}
