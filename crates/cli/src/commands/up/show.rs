//! What `capt up` prints: a tree that lives in a terminal, lines elsewhere, JSON for programs.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anstyle::AnsiColor;
use jiff::Timestamp;
use serde::Serialize;

use super::super::status::summary;
use super::super::terminal::{Screen, size};
use crate::tree::fold::fit;
use crate::tree::render::{Look, lines};
use crate::tree::{Cause, Kind, Node, State};

/// What is worth telling.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Event<'a> {
    /// The API takes requests.
    Listening { url: String, kubeconfig: PathBuf },
    /// An object of the files was applied.
    Applied { kind: &'a str, namespace: &'a str, name: &'a str, result: &'a str },
    /// All of them were.
    AllApplied { objects: usize },
    /// All that was applied is ready.
    Ready { seconds: f64 },
    /// It will not be, or not in time.
    NotReady { why: &'a str, reasons: &'a [Cause] },
    /// The end waits for runs that have begun.
    Finishing { runs: usize },
    /// The end.
    Stopped { runs: usize, again: String },
}

/// Says how one object stands now.
#[derive(Serialize)]
struct Status<'a> {
    r#type: &'static str,
    kind: Kind,
    namespace: &'a str,
    name: &'a str,
    state: State,
    phase: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'a Cause>,
}

type Key = (Kind, String, String);

/// Prints what happens.
pub struct Show {
    json: bool,
    screen: Screen,
    look: Look,
    /// What was last said of each object.
    said: HashMap<Key, (State, String, String, Option<String>)>,
}

impl Show {
    pub fn new(json: bool) -> Self {
        Self { json, screen: Screen::new(), look: Look::of_environment(), said: HashMap::new() }
    }

    /// Whether there is a picture that is drawn again.
    pub fn is_live(&self) -> bool {
        self.screen.is_live() && !self.json
    }

    /// Tells one event.
    pub fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        if self.json {
            return print_json(event);
        }
        let bold = anstyle::Style::new().bold();
        let red = AnsiColor::Red.on_default().bold();
        let text = match event {
            Event::Listening { url, kubeconfig } => vec![
                format!("{bold}CAPT is up{bold:#}: a Kubernetes API on {url}"),
                format!("  export KUBECONFIG={}", kubeconfig.display()),
            ],
            Event::Applied { kind, name, result, .. } if !self.is_live() && *result != "unchanged" => {
                vec![format!("{result} {kind} {name}")]
            }
            Event::Applied { .. } | Event::AllApplied { objects: 0 } | Event::Ready { .. } => return Ok(()),
            Event::AllApplied { objects } => vec![format!("  {objects} objects applied")],
            Event::NotReady { why, reasons } => {
                let mut text = vec![format!("{red}not ready{red:#}: {why}")];
                text.extend(reasons.iter().map(|cause| format!("  {cause}")));
                text
            }
            Event::Finishing { runs } => {
                self.screen.keep();
                vec![format!(
                    "stopping: {} of Terraform end{} first; Ctrl-C again leaves {} running alone",
                    runs_of(*runs),
                    if *runs == 1 { "s" } else { "" },
                    if *runs == 1 { "it" } else { "them" }
                )]
            }
            Event::Stopped { runs, again } => {
                self.screen.keep();
                let left = if *runs > 0 {
                    format!(
                        "; {} of Terraform go{} on and will be taken up",
                        runs_of(*runs),
                        if *runs == 1 { "es" } else { "" }
                    )
                } else {
                    String::new()
                };
                vec![format!("stopped{left}. Nothing is lost: come back with {bold}{again}{bold:#}")]
            }
        };
        self.screen.say(&text)
    }

    /// Shows how everything stands.
    pub fn tree(&mut self, roots: &[Node]) -> io::Result<()> {
        if self.is_live() {
            let (width, rows) = size().unwrap_or((120, 40));
            let tree = fit(roots.to_vec(), rows.saturating_sub(5));
            let look = Look { width: Some(width), ..self.look };
            let mut drawn = lines(&tree, look, Timestamp::now());
            if drawn.is_empty() {
                drawn.push("nothing yet: kubectl apply -f FILE, or capt up -f FILE".to_owned());
            }
            return self.screen.draw(&drawn);
        }
        let mut news = Vec::new();
        for root in roots {
            root.walk(&mut |node| self.news(node, &mut news));
        }
        for node in news {
            if self.json {
                print_json(&Status {
                    r#type: "status",
                    kind: node.kind,
                    namespace: &node.namespace,
                    name: &node.name,
                    state: node.state,
                    phase: &node.phase,
                    detail: &node.detail,
                    cause: node.cause.as_ref(),
                })?;
            } else {
                print_line(node)?;
            }
        }
        Ok(())
    }

    fn news<'a>(&mut self, node: &'a Node, news: &mut Vec<&'a Node>) {
        // Nobody has looked at it yet: nothing to tell people.
        if node.phase == "Pending" && !self.json {
            return;
        }
        let key = (node.kind, node.namespace.clone(), node.name.clone());
        let own = node.cause.as_ref().filter(|cause| cause.depth == 0).map(Cause::words);
        // For people progress within a run is too much; for programs it is what they ask for.
        let detail = if self.json { node.detail.clone() } else { String::new() };
        let now = (node.state, node.phase.clone(), detail, own);
        if self.said.get(&key) != Some(&now) {
            self.said.insert(key, now);
            news.push(node);
        }
    }

    /// All is ready for the first time: the tree, and what to do next.
    pub fn ready(&mut self, roots: &[Node], took: Duration, demo: bool) -> io::Result<()> {
        if self.json {
            return print_json(&Event::Ready { seconds: took.as_secs_f64() });
        }
        let green = AnsiColor::Green.on_default().bold();
        let mut text = Vec::new();
        if !self.is_live() {
            text.push(String::new());
            text.extend(lines(&fit(roots.to_vec(), usize::MAX), self.look, Timestamp::now()));
        }
        text.push(format!(
            "{green}all is ready{green:#} after {:.1} s: {}",
            took.as_secs_f64(),
            summary(roots)
        ));
        if demo {
            text.extend(suggestions(&program()));
        }
        self.screen.say(&text)
    }
}

/// This program as it was called.
pub fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "capt".to_owned())
}

fn suggestions(program: &str) -> Vec<String> {
    // Who called it by a path has no `capt` to type.
    let alias = program.contains('/').then(|| format!("  alias capt={program}"));
    let head = ["", "Three things to try in another terminal, while this one runs capt up:"];
    let hints = [
        "  scale   capt scale cmd/demo-workers --replicas 5",
        "  roll    capt rollout restart demo-workers && capt status -w",
        "  break   kubectl patch cmd demo-workers --type merge -p '{\"spec\":{\"template\":{\"spec\":{\"instanceType\":\"none\"}}}}'",
        "  undo    capt status        # names the cause, then: capt rollout undo demo-workers",
        "",
    ];
    head.map(str::to_owned).into_iter().chain(alias).chain(hints.map(str::to_owned)).collect()
}

fn runs_of(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

fn print_json(event: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, event)?;
    writeln!(out)?;
    out.flush()
}

/// How one object stands, for people who read a log.
fn print_line(node: &Node) -> io::Result<()> {
    let time = Timestamp::now().strftime("%H:%M:%S");
    let title = format!("{} {}", node.kind.word(), node.name);
    let more = node.cause.as_ref().filter(|cause| cause.depth == 0 && !cause.message.is_empty());
    let more = more.map_or(node.detail.as_str(), |cause| cause.message.as_str());
    let text = format!("{time}  {title:44}  {:19}  {more}", node.phase);
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}", text.trim_end())?;
    out.flush()
}
