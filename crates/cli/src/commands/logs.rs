//! `capt logs`: what runs of Terraform printed, from the data folder of the controller that ran them.

use std::io::{self, Write};
use std::time::Duration;

use capt_api::workspace::WorkspaceTemplateApply;
use capt_terraform::RunReader;
use capt_terraform::executor::{LogReader, Run, RunState};
use capt_terraform::inspect::Inspection;
use capt_terraform::order::WorkspaceId;
use capt_terraform::view::{Finished, Outcome as RunOutcome};
use jiff::Timestamp;
use kube::ResourceExt;

use super::client::{Connection, Target};
use super::family::{Member, family};
use super::object::{Accepts, Reference};
use super::{Outcome, block_on, completion, last_failed, place, table};

/// Interval of reads of a growing log.
const EVERY: Duration = Duration::from_millis(200);

/// Show what Terraform printed. Secrets are taken out.
///
/// The logs of the last runs of each workspace are in the data folder of the controller, so this works on its machine.
/// Without --run the run under way is shown, else the last.
///
/// Examples:
///   capt logs network
///   capt logs -f captmachine/web-x7k2p-0
///   capt logs network --run list
///   capt logs network --run 2          # the run before the last
///   capt logs captmachinedeployment/web --last-failed
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(required = true, num_args = 1..=2, value_name = "OBJECT", help = Accepts::WORKSPACES.help, add = completion::objects(&Accepts::WORKSPACES))]
    object: Vec<String>,
    /// Go on as the log grows, and with the next run, until interrupted or the workspace is gone.
    #[arg(short, long)]
    follow: bool,
    /// Run to show: 1 is the last, 2 the one before, or its name; list shows all runs.
    #[arg(long, value_name = "N|NAME|list", conflicts_with = "follow")]
    run: Option<String>,
    /// Show the last run that failed, also that of a machine which was replaced since.
    #[arg(long, conflicts_with_all = ["follow", "run"])]
    last_failed: bool,
    /// Keep the time at the start of each line.
    #[arg(long)]
    timestamps: bool,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    block_on(async {
        let object = Accepts::WORKSPACES.read_one(&args.object)?;
        let connection = args.target.connect().await?;
        if args.last_failed {
            let found = last_failed::find(&connection, &object).await?;
            let ended = table::plain(&ended(&found.run));
            writeln!(anstream::stdout(), "{}, {ended}:", found.name)?;
            show(found.reader.read_log(&found.workspace, &found.run.id), &found.run, args.timestamps).await?;
            return Ok(Outcome::Good);
        }
        let workspace = the_workspace(&connection, &object).await?;
        let id = id_of(&workspace);
        let Some(reader) = reader(&connection) else { return not_here(&connection, &workspace) };
        let Some(runs) = reader.runs(&id).await.map_err(|error| unreadable(&error))? else {
            return not_here(&connection, &workspace);
        };
        let run = match args.run.as_deref() {
            Some("list") => return list(&runs).map(|()| Outcome::Good),
            None if args.follow => {
                return follow(reader.as_ref(), &id, args.timestamps).await.map(|()| Outcome::Good);
            }
            Some(which) => Some(pick(&runs, which)?),
            None => runs.last(),
        };
        match run {
            Some(run) => show(reader.read_log(&id, &run.id), run, args.timestamps).await?,
            None => writeln!(anstream::stdout(), "{} has not run yet", workspace.name_any())?,
        }
        Ok(Outcome::Good)
    })
}

/// Human-readable end of a run.
pub fn ended(run: &Run) -> String {
    match &run.state {
        RunState::Ended(end) => {
            let age = table::age(end.ended, Timestamp::now());
            format!("run {}, {} {} {age} ago", run.id, end.operation.as_str(), outcome(&end.outcome))
        }
        RunState::UnderWay { .. } | RunState::Unknown => format!("run {}", run.id),
    }
}

/// The one workspace of an object.
pub async fn the_workspace(
    connection: &Connection,
    reference: &Reference,
) -> io::Result<WorkspaceTemplateApply> {
    let members = family(connection, reference).await?;
    let mut below: Vec<WorkspaceTemplateApply> = members.iter().filter_map(Member::workspace).collect();
    match below.len() {
        1 => Ok(below.remove(0)),
        0 => {
            Err(io::Error::other(format!("{reference} has no workspace yet\n  why: capt events {reference}")))
        }
        many => {
            let names: Vec<String> = below.iter().take(10).map(ResourceExt::name_any).collect();
            let more = if many > names.len() { ", …" } else { "" };
            let names = names.join(", ");
            let hint = "the last that failed: --last-failed";
            Err(io::Error::other(format!(
                "{reference} has {many} workspaces; name one: {names}{more}\n  {hint}"
            )))
        }
    }
}

/// Reads the runs of the data folder of this machine; none where no engine has worked there.
pub fn reader(connection: &Connection) -> Option<Box<dyn RunReader>> {
    let inspection = Inspection::to(&place::engine(connection.folder.as_deref()?))?;
    Some(Box::new(inspection))
}

/// The name that runs know a workspace by.
pub fn id_of(workspace: &WorkspaceTemplateApply) -> WorkspaceId {
    let namespace = workspace.namespace().unwrap_or_default();
    WorkspaceId::new(format!("{namespace}/{}", workspace.name_any()))
}

pub fn unreadable(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("read the workspace's record: {error}"))
}

/// Prints the status of a workspace whose logs are on another machine.
fn not_here(connection: &Connection, workspace: &WorkspaceTemplateApply) -> io::Result<Outcome> {
    let name = workspace.name_any();
    let status = workspace.status.clone().unwrap_or_default();
    let mut out = anstream::stdout().lock();
    if let Some(failure) = &status.last_failure_message {
        writeln!(out, "last failure of {name}: {}", table::plain(failure))?;
    }
    out.flush()?;
    let place = match &connection.folder {
        Some(folder) => format!("{} has no runs of {name}", folder.display()),
        None => format!("this machine has no runs of {name}: its data folder belongs to another API"),
    };
    Err(io::Error::other(format!(
        "{place}\n  logs are where the controller runs: name its folder with --data-dir, or run capt logs there (kubectl exec)"
    )))
}

fn pick<'a>(runs: &'a [Run], which: &str) -> io::Result<&'a Run> {
    let found = match which.parse::<usize>() {
        Ok(number) if number > 0 => runs.iter().rev().nth(number - 1),
        _ => runs.iter().find(|run| run.id.as_str() == which),
    };
    found.ok_or_else(|| {
        io::Error::other(format!("there is no run {which}; {} are kept\n  see them: --run list", runs.len()))
    })
}

fn list(runs: &[Run]) -> io::Result<()> {
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = runs
        .iter()
        .rev()
        .enumerate()
        .map(|(at, run)| {
            let (operation, result, started, took) = match &run.state {
                RunState::UnderWay { operation, since, lives } => {
                    let result = if *lives { "under way" } else { "interrupted" };
                    (operation.as_str(), result.to_owned(), table::age(*since, now), String::new())
                }
                RunState::Ended(end) => {
                    (end.operation.as_str(), outcome(&end.outcome), table::age(end.started, now), took(end))
                }
                RunState::Unknown => ("", "unknown".to_owned(), String::new(), String::new()),
            };
            vec![(at + 1).to_string(), run.id.to_string(), operation.to_owned(), result, started, took]
        })
        .collect();
    table::write(
        &mut anstream::stdout().lock(),
        &["RUN", "NAME", "OPERATION", "RESULT", "AGE", "TOOK"],
        &rows,
    )
}

fn outcome(outcome: &RunOutcome) -> String {
    match outcome {
        RunOutcome::Failed(failure) => failure.reason.as_str().to_owned(),
        RunOutcome::TimedOut => "timed out".to_owned(),
        other => other.as_str().to_owned(),
    }
}

fn took(end: &Finished) -> String {
    format!("{:.1}s", end.ended.duration_since(end.started).as_secs_f64().max(0.0))
}

async fn show(mut log: Box<dyn LogReader>, run: &Run, timestamps: bool) -> io::Result<()> {
    let text = log.read().await?;
    print(&text, timestamps)?;
    if text.is_empty() {
        let nothing = match &run.state {
            RunState::UnderWay { operation, .. } => format!("{} has printed nothing yet", operation.as_str()),
            RunState::Ended(end) => {
                format!("{} {}: it printed nothing", end.operation.as_str(), outcome(&end.outcome))
            }
            RunState::Unknown => "the run printed nothing".to_owned(),
        };
        writeln!(anstream::stdout(), "{}", table::plain(&nothing))?;
    }
    Ok(())
}

/// Follows run after run, until the workspace is gone.
async fn follow(reader: &dyn RunReader, id: &WorkspaceId, timestamps: bool) -> io::Result<()> {
    let mut after = None;
    loop {
        let Some(runs) = reader.runs(id).await.ok().flatten() else {
            return writeln!(anstream::stdout(), "{} is gone", id.as_str());
        };
        let next = match &after {
            None => runs.last(),
            Some(after) => runs.iter().find(|run| run.id > *after),
        };
        if let Some(run) = next {
            follow_one(reader, id, run, timestamps).await?;
            after = Some(run.id.clone());
            continue;
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn follow_one(reader: &dyn RunReader, id: &WorkspaceId, run: &Run, timestamps: bool) -> io::Result<()> {
    let mut log = reader.read_log(id, &run.id);
    loop {
        // In this order: what is written before the end is read after it.
        let runs = reader.runs(id).await.ok().flatten().unwrap_or_default();
        let newest = runs.last().is_some_and(|last| last.id == run.id);
        let now = runs.into_iter().find(|known| known.id == run.id);
        print(&log.read().await?, timestamps)?;
        match now.map(|run| run.state) {
            // It has a folder before anybody has written down that it begins.
            Some(RunState::Unknown) if newest => tokio::time::sleep(EVERY).await,
            Some(RunState::UnderWay { .. }) => tokio::time::sleep(EVERY).await,
            Some(RunState::Ended(end)) => {
                let dim = anstyle::Style::new().dimmed();
                let words = format!("{} {} in {}", end.operation.as_str(), outcome(&end.outcome), took(&end));
                let words = table::plain(&words);
                return writeln!(anstream::stdout(), "{dim}-- {words}{dim:#}");
            }
            Some(RunState::Unknown) | None => return Ok(()),
        }
    }
}

fn print(text: &str, timestamps: bool) -> io::Result<()> {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
    let mut out = anstream::stdout().lock();
    for line in text.lines() {
        let (stamp, words) = stamped(line);
        if timestamps && !stamp.is_empty() {
            write!(out, "{stamp} ")?;
        }
        if let Some(rest) = words.strip_prefix("Error:") {
            writeln!(out, "{red}Error:{red:#}{rest}")?;
        } else if let Some(rest) = words.strip_prefix("Warning:") {
            writeln!(out, "{yellow}Warning:{yellow:#}{rest}")?;
        } else {
            writeln!(out, "{words}")?;
        }
    }
    out.flush()
}

/// A line without the time in front of it, where there is one.
fn stamped(line: &str) -> (&str, &str) {
    match line.split_once(' ') {
        Some((stamp, rest)) if stamp.len() > 19 && stamp.parse::<Timestamp>().is_ok() => (stamp, rest),
        _ => ("", line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_taken_from_a_line_that_has_one() {
        let line = "2026-11-15T16:41:07.123456Z terraform_data.a: Creating...";
        assert_eq!(stamped(line), ("2026-11-15T16:41:07.123456Z", "terraform_data.a: Creating..."));
        for line in ["", "words alone", "  at main.tf:3", "2026 was a year"] {
            assert_eq!(stamped(line), ("", line));
        }
    }
}
