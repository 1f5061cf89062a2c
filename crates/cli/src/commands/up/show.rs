//! Output of `capt up`: a live view in a terminal, lines elsewhere, JSON for programs.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anstyle::AnsiColor;
use capt_planner::Count;
use jiff::Timestamp;
use serde::Serialize;

use super::super::live::{self, LiveView, Wake, coloured, size};
use super::super::status::{brief, summary};
use super::super::table;
use crate::tree::fold::{Folded, fit};
use crate::tree::render::{Look, height, lines};
use crate::tree::{Cause, Kind, Node, State};

/// Events to print.
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

/// Lines that the tree keeps of a small terminal, however much there is to say.
const TREE: usize = 6;

/// Prints what happens.
pub struct Show {
    json: bool,
    /// True if the output is a terminal that a live view can be opened on.
    live: bool,
    view: Option<LiveView>,
    /// Text above and below the tree of the live view.
    above: Vec<String>,
    below: Vec<String>,
    roots: Vec<Node>,
    /// Line that says when all was ready for the first time; shown while it is still so.
    ready: Option<String>,
    look: Look,
    /// Last printed line of each object.
    said: HashMap<Key, (State, String, String, Option<String>)>,
}

impl Show {
    pub fn new(json: bool) -> Self {
        Self {
            json,
            live: !json && live::is_possible(),
            view: None,
            above: Vec::new(),
            below: Vec::new(),
            roots: Vec::new(),
            ready: None,
            look: Look::of_environment(),
            said: HashMap::new(),
        }
    }

    /// Waits until the view is to be drawn again; says whether a person quits. Never ends where there is no view.
    pub async fn wake(&mut self) -> Wake {
        live::wake(&mut self.view).await
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
            Event::Applied { kind, name, result, .. } if !self.live && *result != "unchanged" => {
                vec![format!("{result} {kind} {name}")]
            }
            Event::Applied { .. } | Event::AllApplied { objects: 0 } | Event::Ready { .. } => return Ok(()),
            Event::AllApplied { objects } => vec![format!("  {} applied", Count(*objects, "object"))],
            Event::NotReady { why, reasons } => {
                let mut text = vec![format!("{red}not ready{red:#}: {why}")];
                text.extend(reasons.iter().map(|cause| format!("  {cause}")));
                text
            }
            Event::Finishing { runs } => {
                self.close()?;
                vec![format!(
                    "stopping: {} of Terraform end{} first; Ctrl-C again leaves {} running alone",
                    Count(*runs, "run"),
                    if *runs == 1 { "s" } else { "" },
                    if *runs == 1 { "it" } else { "them" }
                )]
            }
            Event::Stopped { runs, again } => {
                self.close()?;
                let left = if *runs > 0 {
                    format!(
                        "; {} of Terraform go{} on and will be taken up",
                        Count(*runs, "run"),
                        if *runs == 1 { "es" } else { "" }
                    )
                } else {
                    String::new()
                };
                vec![format!("stopped{left}. Nothing is lost: come back with {bold}{again}{bold:#}")]
            }
        };
        let is_below = matches!(event, Event::NotReady { .. });
        self.say(text, is_below)
    }

    /// Prints text, or adds it to the live view.
    fn say(&mut self, text: Vec<String>, is_below: bool) -> io::Result<()> {
        if !self.live {
            return print_lines(&text);
        }
        if is_below { &mut self.below } else { &mut self.above }.extend(text);
        self.draw()
    }

    fn draw(&mut self) -> io::Result<()> {
        let mut view = match self.view.take() {
            Some(view) => view,
            None => LiveView::open()?,
        };
        let page = self.page(view.is_folded());
        let drawn = view.draw(&page, [&summary(&self.roots), &brief(&self.roots)]);
        self.view = Some(view);
        drawn
    }

    /// All that the live view shows, folded to fit the terminal where that is wanted.
    fn page(&self, folded: bool) -> Vec<String> {
        self.page_of(folded, size().unwrap_or((80, 24)))
    }

    fn page_of(&self, folded: bool, (width, rows): (usize, usize)) -> Vec<String> {
        let look = Look { width: Some(width), ..self.look };
        let roots = self.roots.clone();
        // Said once, and true as long as nothing else is: later changes are counted in the last line.
        let ready = self.ready.iter().filter(|line| line.ends_with(&summary(&roots)));
        let below: Vec<String> = ready.chain(&self.below).cloned().collect();
        let taken = live::height(&self.above, width) + live::height(&below, width) + 1;
        let tree = if folded {
            fit(roots, rows.saturating_sub(taken).max(TREE), |roots| height(roots, look))
        } else {
            Folded { roots, left_out: 0 }
        };
        let mut page = self.above.clone();
        page.extend(lines(&tree, look, Timestamp::now()));
        if self.roots.is_empty() {
            page.push("nothing yet: kubectl apply -f FILE, or capt up -f FILE".to_owned());
        }
        page.extend(below);
        page
    }

    /// Leaves the live view. Its page stays in the terminal, and whatever follows is printed below it.
    fn close(&mut self) -> io::Result<()> {
        if self.view.take().is_some() {
            print_lines(&self.page(true))?;
        }
        self.live = false;
        Ok(())
    }

    /// Shows how everything stands.
    pub fn tree(&mut self, roots: &[Node]) -> io::Result<()> {
        if self.live {
            self.roots = roots.to_vec();
            return self.draw();
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
        if !self.live {
            text.push(String::new());
            let tree = fit(roots.to_vec(), usize::MAX, |roots| height(roots, self.look));
            text.extend(lines(&tree, self.look, Timestamp::now()));
        }
        let ready =
            format!("{green}all is ready{green:#} after {:.1} s: {}", took.as_secs_f64(), summary(roots));
        if self.live {
            self.ready = Some(ready);
        } else {
            text.push(ready);
        }
        if demo {
            text.extend(suggestions(&program(), None));
        }
        self.say(text, true)
    }

    /// Says what to try next with a demo that has ended: first `again`, which starts it once more.
    pub fn next_steps(&self, again: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { print_lines(&suggestions(&program(), Some(again))) }
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        // Whoever ends this by an error has something to say that belongs below the page.
        let _ = self.close();
    }
}

/// This program as it was called.
pub fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "capt".to_owned())
}

fn suggestions(program: &str, again: Option<&str>) -> Vec<String> {
    // Who called it by a path has no `capt` to type.
    let alias = program.contains('/').then(|| format!("  alias capt={program}"));
    let head = match again {
        Some(again) => vec![
            String::new(),
            "Next, start it again:".to_owned(),
            format!("  {again}"),
            "Then try in another terminal:".to_owned(),
        ],
        None => vec![
            String::new(),
            "Three things to try in another terminal, while this one runs capt up:".to_owned(),
        ],
    };
    let hints = [
        "  scale   capt scale cmd/demo-workers --replicas 5",
        "  roll    capt rollout restart demo-workers && capt status -w",
        // In two lines, as a shell takes them, and no wider than the narrowest usual terminal.
        "  break   kubectl patch cmd demo-workers --type merge \\",
        "          -p '{\"spec\":{\"template\":{\"spec\":{\"instanceType\":\"none\"}}}}'",
        "  undo    capt status   # names the cause, then: capt rollout undo demo-workers",
        "",
    ];
    head.into_iter().chain(alias).chain(hints.map(str::to_owned)).collect()
}

fn print_lines(text: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in text {
        writeln!(out, "{}", coloured(line))?;
    }
    out.flush()
}

fn print_json(event: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, event)?;
    writeln!(out)?;
    out.flush()
}

/// Prints the state of one object as a log line.
fn print_line(node: &Node) -> io::Result<()> {
    let time = Timestamp::now().strftime("%H:%M:%S");
    let title = format!("{} {}", node.kind.word(), node.name);
    let more = node.cause.as_ref().filter(|cause| cause.depth == 0 && !cause.message.is_empty());
    let more = more.map_or(node.detail.as_str(), |cause| cause.message.as_str());
    let text = format!("{time}  {title:44}  {:19}  {more}", node.phase);
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}", table::plain(text.trim_end()))?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_that_has_ended_says_first_how_to_start_it_again() {
        let ended = suggestions("target/debug/capt", Some("target/debug/capt up --data-dir d"));
        assert_eq!(ended[1..3], ["Next, start it again:", "  target/debug/capt up --data-dir d"]);
        assert_eq!(ended[4], "  alias capt=target/debug/capt");
        let running = suggestions("capt", None);
        assert!(running[1].ends_with("while this one runs capt up:"), "{running:?}");
        assert_eq!(ended[5..], running[2..]);
    }

    /// One broken deployment beside much that is well, below what a demo says when it is ready.
    #[test]
    fn a_small_terminal_shows_what_is_broken_and_whole_words() {
        let node = |kind: Kind, name: &str, state: State, children: Vec<Node>| Node {
            kind,
            namespace: "default".into(),
            name: name.into(),
            state,
            phase: if state == State::Failed { "ApplyFailed".into() } else { "Ready".into() },
            detail: String::new(),
            created: None,
            cause: None,
            count: 1,
            children,
        };
        let well = |kind: Kind| node(kind, "demo", State::Ready, vec![]);
        let machine = |name: &str, state: State| node(Kind::CaptMachine, name, state, vec![]);
        let set = |name: &str, machines: Vec<Node>| {
            let worst = machines.iter().map(|machine| machine.state).max().unwrap_or(State::Ready);
            node(Kind::CaptMachineSet, name, worst, machines)
        };
        let mut broken = machine("web-b-0", State::Failed);
        let message =
            "Resource precondition failed: There is no instance type none. (main.tf:52); next attempt in 27s";
        broken.cause = Some(Cause {
            kind: Kind::WorkspaceTemplateApply,
            name: "web-b-0-machine".into(),
            state: State::Failed,
            reason: "ApplyFailed".into(),
            message: message.into(),
            depth: 0,
        });
        let cause = broken.cause.clone();
        let mut new = set("web-b", vec![broken]);
        new.cause.clone_from(&cause);
        let old = set("web-a", (0..3).map(|n| machine(&format!("web-a-{n}"), State::Ready)).collect());
        let mut web = node(Kind::CaptMachineDeployment, "web", State::Failed, vec![new, old]);
        web.cause.clone_from(&cause);
        let parts = vec![well(Kind::CAPTCluster), well(Kind::CAPTControlPlane), well(Kind::NodeGroup), web];
        let mut demo = node(Kind::Cluster, "demo", State::Failed, parts);
        demo.cause.clone_from(&cause);

        let mut show = Show::new(false);
        show.above = vec![
            "CAPT is up: a Kubernetes API on https://127.0.0.1:6443".into(),
            "  export KUBECONFIG=k".into(),
        ];
        show.above.push("  5 objects applied".into());
        show.below = suggestions("target/debug/capt", None);
        show.below.insert(
            0,
            "not ready: not all was ready within a minute, and some of it cannot become ready now".into(),
        );
        show.roots = vec![demo];
        let page = show.page_of(true, (80, 24));
        let text: Vec<String> =
            page.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        let all = text.join("\n");
        assert!(live::height(&page, 80) <= 23 && live::height(&page, 80) >= 22, "{all}");
        for part in ["cluster demo", "deployment web", "set web-b", "machine web-b-0", "(main.tf:52)"] {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(suggestions("capt", None).iter().all(|hint| hint.len() <= 80));
    }
}
