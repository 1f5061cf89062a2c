//! `capt status`: the tree of everything, and why something is not ready.

use std::io::{self, IsTerminal, Write};

use capt_planner::Count;
use jiff::Timestamp;
use serde::Serialize;

use super::client::Target;
use super::live::{self, LiveView, Wake, size};
use super::object::{self, Accepts, Reference};
use super::{Outcome, completion, wait_for_a_signal};
use crate::tree::fold::{Folded, fit};
use crate::tree::object_summary::{Kind, ObjectSummary};
use crate::tree::render::{Look, height, lines};
use crate::tree::source::{Follower, list};
use crate::tree::{Node, State, build};

/// Lines of a tree that nobody looks at in a terminal.
const PAGE: usize = 40;
/// Objects that are named where the one that is asked for is not there.
const NAMED: usize = 10;

/// Show clusters, machines and workspaces as a tree, with causes.
///
/// Large numbers of similar objects are folded into one line. Below each object that is not ready stands the root
/// cause: the message of the deepest part that fails.
///
/// Examples:
///   capt status
///   capt status demo -w
///   capt status cmd/demo-workers
///   capt status -A -o wide
///   capt status demo -o json | jq '.. | .cause? // empty'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(
    after_help = "Exit codes: 0 shown, 1 no such object or no API. Use capt up --wait or kubectl wait to test for Ready."
)]
pub struct Args {
    #[arg(num_args = 0..=2, value_name = "OBJECT", help = Accepts::TREE.help, add = completion::objects(&Accepts::TREE))]
    object: Vec<String>,
    #[command(flatten)]
    target: Target,
    /// Of all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Go on showing what changes.
    #[arg(short, long)]
    watch: bool,
    /// Another format; wide shows every object on a line of its own.
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Format {
    /// One JSON document.
    Json,
    /// The same as YAML.
    Yaml,
    /// Every object on a line of its own.
    Wide,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    // Several cores: each kind is read and understood beside the others.
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(show(args))
}

async fn show(args: &Args) -> io::Result<Outcome> {
    let named = !args.object.is_empty();
    let object = named.then(|| Accepts::TREE.read_one(&args.object)).transpose()?;
    let connection = args.target.connect().await?;
    let (client, namespace) = (connection.client, connection.namespace);
    let namespace = (!args.all_namespaces).then_some(namespace);
    if args.watch {
        if args.output.is_some_and(|format| format != Format::Wide) {
            return Err(io::Error::other(
                "-w shows a tree: leave out -o json and -o yaml, or ask again and again",
            ));
        }
        return watch(args, object.as_ref(), Follower::start(&client, namespace.as_deref())).await;
    }
    let things = list(&client, namespace.as_deref()).await?;
    let things: Vec<(Kind, &ObjectSummary)> = things.iter().map(|(kind, thing)| (*kind, thing)).collect();
    let roots = below(object.as_ref(), build::build(&things), namespace.as_deref())?;
    match args.output {
        Some(Format::Json) => {
            let mut out = io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, &Tree { items: &roots })?;
            writeln!(out)?;
        }
        Some(Format::Yaml) => {
            let text = serde_saphyr::to_string(&Tree { items: &roots }).map_err(io::Error::other)?;
            io::stdout().lock().write_all(text.as_bytes())?;
        }
        Some(Format::Wide) | None => print(args, roots, namespace.as_deref())?,
    }
    Ok(Outcome::Good)
}

/// The document of a program that reads it.
#[derive(Serialize)]
struct Tree<'a> {
    items: &'a [Node],
}

/// The trees below one object; all of them without one.
fn below(object: Option<&Reference>, roots: Vec<Node>, namespace: Option<&str>) -> io::Result<Vec<Node>> {
    let Some(Reference { kind, name }) = object else { return Ok(roots) };
    let (mut found, mut alike, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for root in &roots {
        root.walk(&mut |node| match (node.kind.as_str() == kind.name, node.name == *name) {
            (true, true) => found.push(node.clone()),
            (true, false) => alike.push(node.name.clone()),
            (false, true) => {
                others.push(format!("{}/{name}", object::ResourceKind::named(node.kind.as_str()).word()));
            }
            (false, false) => {}
        });
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let place = namespace.map_or_else(|| "any namespace".to_owned(), |one| format!("namespace {one}"));
    alike.truncate(NAMED);
    let there =
        if alike.is_empty() { "there is none".to_owned() } else { format!("there is {}", alike.join(", ")) };
    let hint =
        others.first().map(|other| format!("\n  did you mean capt status {other}?")).unwrap_or_default();
    Err(io::Error::other(format!("no {} {name} in {place}: {there}{hint}", kind.word())))
}

fn print(args: &Args, roots: Vec<Node>, namespace: Option<&str>) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    if roots.is_empty() {
        let place = namespace.map_or_else(String::new, |one| format!(" in namespace {one}"));
        return writeln!(out, "nothing{place}: apply something, or list all namespaces with -A");
    }
    let terminal = size().filter(|_| io::stdout().is_terminal());
    let rows = terminal.map_or(PAGE, |(_, rows)| rows.saturating_sub(3));
    let summary = summary(&roots);
    let width = terminal.map(|(width, _)| width);
    for line in draw(args, roots, Some(rows), width) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{summary}")
}

/// The tree, folded to so many rows where these are given.
fn draw(args: &Args, roots: Vec<Node>, rows: Option<usize>, width: Option<usize>) -> Vec<String> {
    let look = Look { width, namespaces: args.all_namespaces, ..Look::of_environment() };
    let tree = match rows.filter(|_| args.output != Some(Format::Wide)) {
        Some(rows) => fit(roots, rows, |roots| height(roots, look)),
        None => Folded { roots, left_out: 0 },
    };
    lines(&tree, look, Timestamp::now())
}

/// Number of objects, and of those that are not ready.
pub fn summary(roots: &[Node]) -> String {
    let (all, parts) = counts(roots);
    let parts = parts.iter().enumerate().filter(|(place, (count, _))| *place == 0 || *count > 0);
    let parts: Vec<String> = parts.map(|(_, (count, word))| format!("{count} {word}")).collect();
    format!("{}: {}", Count(all, "object"), parts.join(", "))
}

/// The same in fewer words, the worst first: so that it may be cut at its end.
pub fn brief(roots: &[Node]) -> String {
    let (_, parts) = counts(roots);
    let parts = parts.iter().rev().filter(|(count, _)| *count > 0);
    parts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

/// Counts of all objects, and of those in each state, the well ones first.
fn counts(roots: &[Node]) -> (usize, [(usize, &'static str); 5]) {
    let count = |is: fn(State) -> bool| {
        let mut count = 0_usize;
        for root in roots {
            root.walk(&mut |node| count += if is(node.state) { node.count } else { 0 });
        }
        count
    };
    let (all, ready) = (count(|_| true), count(|state| state == State::Ready));
    let drifted = count(|state| state == State::Drifted);
    let approval = count(|state| state == State::Approval);
    let failed = count(|state| state >= State::Blocked);
    let parts = [
        (ready, "ready"),
        (drifted, "drifted"),
        (all - ready - drifted - approval - failed, "under way"),
        (approval, "awaiting approval"),
        (failed, "in need of attention"),
    ];
    (all, parts)
}

async fn watch(args: &Args, object: Option<&Reference>, mut follower: Follower) -> io::Result<Outcome> {
    let mut end = std::pin::pin!(wait_for_a_signal());
    let mut view = if live::is_possible() { Some(LiveView::open()?) } else { None };
    let mut printed = Vec::new();
    loop {
        let roots = follower.with(build::build);
        // One that is not there yet may come.
        let roots = below(object, roots, None).unwrap_or_default();
        if let Some(view) = &mut view {
            let (width, rows) = size().unwrap_or((80, 24));
            let feet = [summary(&roots), brief(&roots)];
            let rows = view.is_folded().then_some(rows.saturating_sub(1));
            view.draw(&draw(args, roots, rows, Some(width)), feet.each_ref().map(String::as_str))?;
        } else {
            let summary = summary(&roots);
            let mut text = draw(args, roots, Some(PAGE), None);
            text.push(summary);
            if printed != text {
                let mut out = anstream::stdout().lock();
                writeln!(out, "{}", text.join("\n"))?;
                printed = text;
            }
        }
        tokio::select! {
            ended = &mut end => {
                ended?;
                break;
            }
            () = follower.changed() => tokio::time::sleep(follower.pause()).await,
            wake = live::wake(&mut view) => if wake == Wake::Quit {
                break;
            }
        }
    }
    // What was last seen stays.
    if view.take().is_some() {
        print(args, below(object, follower.with(build::build), None).unwrap_or_default(), None)?;
    }
    Ok(Outcome::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_as_it_should_be_is_counted() {
        let node = |state: State, count: usize, children: Vec<Node>| Node {
            kind: Kind::WorkspaceTemplateApply,
            namespace: "default".into(),
            name: "w".into(),
            state,
            phase: String::new(),
            detail: String::new(),
            created: None,
            cause: None,
            count,
            children,
        };
        let one = |state| vec![node(state, 1, Vec::new())];
        let rows = [
            (one(State::Ready), "1 object: 1 ready"),
            (one(State::Drifted), "1 object: 0 ready, 1 drifted"),
            (vec![node(State::Ready, 20, one(State::Drifted))], "21 objects: 20 ready, 1 drifted"),
            (vec![node(State::Ready, 1, one(State::Approval))], "2 objects: 1 ready, 1 awaiting approval"),
            (
                vec![node(State::Ready, 1, one(State::Working)), node(State::Drifted, 2, one(State::Failed))],
                "5 objects: 1 ready, 2 drifted, 1 under way, 1 in need of attention",
            ),
        ];
        for (roots, expected) in rows {
            assert_eq!(summary(&roots), expected);
        }
        let roots = [node(State::Ready, 1, one(State::Working)), node(State::Drifted, 2, one(State::Failed))];
        assert_eq!(brief(&roots), "1 in need of attention, 1 under way, 2 drifted, 1 ready");
    }
}
