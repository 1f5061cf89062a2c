//! `capt status`: the tree of everything, and why something is not ready.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::client::Target;
use super::terminal::{Screen, size};
use super::{Outcome, wait_for_a_signal};
use crate::tree::fold::{Folded, fit};
use crate::tree::render::{Look, lines};
use crate::tree::source::{Follower, list};
use crate::tree::thing::{Kind, Thing};
use crate::tree::{Node, State, build};

/// Lines of a tree that nobody looks at in a terminal.
const PAGE: usize = 40;

/// Show clusters, machines and workspaces as a tree, and why something is not ready.
///
/// What is alike is one line where there is much of it. Below whatever is not ready stands the true cause: what the
/// deepest part that fails says.
///
/// Examples:
///   capt status
///   capt status demo -w
///   capt status -A -o wide
///   capt status demo -o json | jq '.. | .cause? // empty'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(
    after_help = "Exit codes: 0 shown, 1 no such cluster or no API. Use capt up --wait or kubectl wait to test for Ready."
)]
pub struct Args {
    /// Only this cluster.
    #[arg(value_name = "CLUSTER")]
    cluster: Option<String>,
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
    let connection = args.target.connect().await?;
    let (client, namespace) = (connection.client, connection.namespace);
    let namespace = (!args.all_namespaces).then_some(namespace);
    if args.watch {
        if args.output.is_some_and(|format| format != Format::Wide) {
            return Err(io::Error::other(
                "-w shows a tree: leave out -o json and -o yaml, or ask again and again",
            ));
        }
        return watch(args, Follower::start(&client, namespace.as_deref())).await;
    }
    let things = list(&client, namespace.as_deref()).await?;
    let things: Vec<(Kind, &Thing)> = things.iter().map(|(kind, thing)| (*kind, thing)).collect();
    let roots = of_cluster(args, build::build(&things), namespace.as_deref())?;
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

fn of_cluster(args: &Args, mut roots: Vec<Node>, namespace: Option<&str>) -> io::Result<Vec<Node>> {
    let Some(name) = &args.cluster else { return Ok(roots) };
    let known: Vec<String> =
        roots.iter().filter(|root| root.kind == Kind::Cluster).map(|root| root.name.clone()).collect();
    roots.retain(|root| root.kind == Kind::Cluster && root.name == *name);
    if roots.is_empty() {
        let place = namespace.map_or_else(|| "any namespace".to_owned(), |one| format!("namespace {one}"));
        let others = if known.is_empty() {
            "there is none".to_owned()
        } else {
            format!("there is {}", known.join(", "))
        };
        return Err(io::Error::other(format!("no cluster {name} in {place}: {others}")));
    }
    Ok(roots)
}

fn print(args: &Args, roots: Vec<Node>, namespace: Option<&str>) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    if roots.is_empty() {
        let place = namespace.map_or_else(String::new, |one| format!(" in namespace {one}"));
        return writeln!(out, "nothing{place}: apply something, or look at all with -A");
    }
    let rows = if io::stdout().is_terminal() {
        size().map_or(PAGE, |(_, rows)| rows.saturating_sub(3))
    } else {
        PAGE
    };
    let summary = summary(&roots);
    for line in draw(args, roots, rows, None) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{summary}")
}

fn draw(args: &Args, roots: Vec<Node>, rows: usize, width: Option<usize>) -> Vec<String> {
    let look = Look { width, namespaces: args.all_namespaces, ..Look::of_environment() };
    let tree =
        if args.output == Some(Format::Wide) { Folded { roots, left_out: 0 } } else { fit(roots, rows) };
    lines(&tree, look, Timestamp::now())
}

/// How much there is, and how much of it is not as it should be.
pub fn summary(roots: &[Node]) -> String {
    let (mut all, mut ready, mut failed) = (0_usize, 0_usize, 0_usize);
    for root in roots {
        root.walk(&mut |node| {
            all += node.count;
            ready += if node.state == State::Ready { node.count } else { 0 };
            failed += if node.state >= State::Blocked { node.count } else { 0 };
        });
    }
    let rest = all - ready - failed;
    let part = |count: usize, word: &str| if count > 0 { format!(", {count} {word}") } else { String::new() };
    let noun = if all == 1 { "object" } else { "objects" };
    format!("{all} {noun}: {ready} ready{}{}", part(rest, "under way"), part(failed, "in need of attention"))
}

async fn watch(args: &Args, mut follower: Follower) -> io::Result<Outcome> {
    let mut screen = Screen::new();
    let mut end = std::pin::pin!(wait_for_a_signal());
    loop {
        let roots = follower.with(build::build);
        // One that is not there yet may come.
        let roots = of_cluster(args, roots, None).unwrap_or_default();
        let summary = summary(&roots);
        let (width, rows) = size().unwrap_or((120, PAGE));
        let mut drawn = draw(args, roots, rows.saturating_sub(3), screen.is_live().then_some(width));
        drawn.push(summary);
        screen.draw(&drawn)?;
        tokio::select! {
            ended = &mut end => {
                ended?;
                return Ok(Outcome::Good);
            }
            () = follower.changed() => tokio::time::sleep(follower.pause()).await,
            // Ages go on though nothing happens.
            () = tokio::time::sleep(Duration::from_secs(1)), if screen.is_live() => {}
        }
    }
}
