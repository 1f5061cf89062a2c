//! `capt server recover`: goes on with what can be read of a damaged store.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use capt_apiserver::StartError;
use capt_apiserver::store::{Lost, OpenError, Options, Recovery, Store};
use capt_planner::Count;
use capt_terraform::inspect::Inspection;

use super::super::client::in_words;
use super::super::{Outcome, place};

/// Maximum number of names printed, of lost objects or of objects that know resources.
const NAMED: usize = 20;

/// Recover a damaged store: show what can be read, keep the damaged files, continue with the last good commit.
///
/// A server does not start on a store that lacks anything of what it answered. This shows what is wrong, what can be
/// read and what would be lost, and asks. Nothing is changed before that; the damaged files are kept as copies in the
/// data folder, as damaged-TIME.
///
/// Examples:
///   capt server recover --data-dir ./capt-data
///   capt server recover --data-dir ./capt-data --yes
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Folder of the server [default: that of capt up].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    let folder = args.data_dir.clone().map_or_else(place::default_folder, Ok)?;
    if !folder.is_dir() {
        return Err(io::Error::other(format!("there is no folder {}", folder.display())));
    }
    let Some(recovery) = Recovery::inspect(&folder).map_err(in_words)? else {
        writeln!(
            anstream::stdout(),
            "the store in {} is sound: there is nothing to recover",
            folder.display()
        )?;
        return Ok(Outcome::Good);
    };
    let workspaces = workspaces(&folder);
    if recovery.is_missing() && workspaces.is_empty() && trace_of_answers(&folder).is_none() {
        return Err(io::Error::other(format!("{}, and nothing that needs one", recovery.damage())));
    }
    tell(&recovery, &workspaces)?;
    if !args.yes && !agreed()? {
        writeln!(anstream::stdout(), "nothing is changed")?;
        return Ok(Outcome::Bad);
    }
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let kept = recovery.apply(&time).map_err(in_words)?;
    if let Some(kept) = kept {
        writeln!(anstream::stdout(), "the damaged files are kept in {}", kept.display())?;
    }
    writeln!(anstream::stdout(), "the store is recovered: start the server or capt up as before")?;
    Ok(Outcome::Good)
}

fn tell(recovery: &Recovery, workspaces: &[String]) -> io::Result<()> {
    let mut out = anstream::stdout();
    writeln!(out, "{}", recovery.damage())?;
    writeln!(
        out,
        "can be read: {}, as of revision {}",
        Count(recovery.objects().len(), "object"),
        recovery.revision()
    )?;
    match recovery.answered() {
        _ if recovery.is_complete() => writeln!(out, "lost: nothing, all answered writes are there")?,
        Some(answered) if answered > recovery.revision() => writeln!(
            out,
            "lost: the changes of revisions {} to {answered}",
            recovery.revision().get().saturating_add(1)
        )?,
        Some(_) => writeln!(out, "lost: what is named here, and what cannot be read")?,
        None => writeln!(out, "lost: unknown, as the head record is missing or not whole")?,
    }
    named(&mut out, recovery.lost().iter().map(in_a_line))?;
    if !workspaces.is_empty() && !recovery.is_complete() {
        writeln!(
            out,
            "workspaces that built something; objects that are lost have to be applied again for them:"
        )?;
        named(&mut out, workspaces.iter().cloned())?;
    }
    Ok(())
}

fn named(out: &mut impl Write, lines: impl ExactSizeIterator<Item = String>) -> io::Result<()> {
    let more = lines.len().saturating_sub(NAMED);
    for line in lines.take(NAMED) {
        writeln!(out, "  {line}")?;
    }
    if more > 0 {
        writeln!(out, "  and {more} more")?;
    }
    Ok(())
}

fn in_a_line(lost: &Lost) -> String {
    let Lost { key, newest, deleted, kept } = lost;
    let was = if *deleted { "deleted" } else { "last written" };
    match kept {
        Some(kept) => format!("{key} was {was} at revision {newest}, and goes back to {kept}"),
        None => format!("{key} was {was} at revision {newest}, and is gone"),
    }
}

/// Asks; true for yes.
fn agreed() -> io::Result<bool> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(io::Error::other(
            "no terminal to confirm on: use --yes to continue with what can be read",
        ));
    }
    let mut out = anstream::stderr();
    write!(out, "Go on with what can be read? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Opens the store of a data folder. Where it is damaged, or gone from beside workspaces, says what to do.
pub fn open_store(folder: &Path) -> io::Result<Store> {
    let traces = ["store.db", "store.db-wal", "store.head"];
    if traces.iter().all(|name| folder.join(name).symlink_metadata().is_err()) {
        let workspaces = workspaces(folder);
        if let Some(first) = workspaces.first() {
            let more = match workspaces.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return Err(io::Error::other(format!(
                "the store is gone from {}, but workspaces there have built something, or may have: {first}{more}\n  \
                 put back a copy of store.db and store.head{}",
                folder.display(),
                advice(folder, "begins with an empty store")
            )));
        }
        if let Some(trace) = trace_of_answers(folder) {
            return Err(io::Error::other(format!(
                "the store is gone from {}, but the certificates of a server that had one are there ({trace})\n  \
                 put back a copy of store.db and store.head{}",
                folder.display(),
                advice(folder, "begins with an empty store")
            )));
        }
    }
    Store::open(folder, &Options::default()).map_err(|error| match error {
        OpenError::Damaged { .. } => io::Error::other(format!(
            "{}\n  put back a copy of the folder{}",
            in_words(StartError::Store(error)),
            advice(
                folder,
                "shows what can be read and would be lost, and continues with the last good commit"
            )
        )),
        error => in_words(StartError::Store(error)),
    })
}

/// Finds a file that a server makes for itself or its administrator once it has a store: where one is, it may have answered.
fn trace_of_answers(folder: &Path) -> Option<&'static str> {
    let traces = ["pki/ca.pem", "pki/server.pem", "pki/admin.pem", "pki/token"];
    traces.into_iter().find(|trace| folder.join(trace).is_file())
}

fn advice(folder: &Path, what: &str) -> String {
    format!(", or: capt server recover --data-dir {}\n  which {what}", folder.display())
}

/// Workspaces that have built something, or may have. Only these need objects.
fn workspaces(folder: &Path) -> Vec<String> {
    let Some(visit) = Inspection::to(&place::engine(folder)) else { return Vec::new() };
    let Ok((read, unreadable)) = visit.workspaces() else { return Vec::new() };
    let read = read.iter().map(|workspace| workspace.id().as_str().to_owned());
    read.chain(unreadable.iter().map(|folder| folder.display().to_string())).collect()
}
