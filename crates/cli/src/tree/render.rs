//! Lines for people.
//!
//! ```text
//! ✓ cluster demo                  Provisioned   12s
//! ├─ ✓ network demo               Ready         12s   ap-northeast-1, vpc-0c7…
//! └─ ✗ control plane demo         Failed        11s   1.35
//!      ApplyFailed: no such role (aws_iam_role.control_plane, main.tf:41)
//! ```

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use super::fold::{Folded, shows_cause};
use super::{Node, State};
use crate::commands::table::age;

/// How lines look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
    /// Lines are cut at this width.
    pub width: Option<usize>,
    /// Whether each line names its namespace.
    pub namespaces: bool,
}

impl Look {
    /// As the environment says.
    pub fn of_environment() -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        // Nobody who sets a locale without UTF-8 wants to see three signs in place of one.
        let unicode = locale.is_empty() || locale.to_lowercase().replace('-', "").contains("utf8");
        Self { unicode, width: None, namespaces: false }
    }

    fn signs(self) -> Signs {
        if self.unicode {
            Signs {
                branch: "├─ ",
                last: "└─ ",
                bar: "│  ",
                ready: "✓",
                working: "●",
                waiting: "…",
                failed: "✗",
                paused: "‖",
                more: "…",
            }
        } else {
            Signs {
                branch: "|- ",
                last: "`- ",
                bar: "|  ",
                ready: "+",
                working: "*",
                waiting: ".",
                failed: "x",
                paused: "=",
                more: "...",
            }
        }
    }
}

struct Signs {
    branch: &'static str,
    last: &'static str,
    bar: &'static str,
    ready: &'static str,
    working: &'static str,
    waiting: &'static str,
    failed: &'static str,
    paused: &'static str,
    more: &'static str,
}

impl Signs {
    fn of(&self, state: State) -> (&'static str, Style) {
        match state {
            State::Ready => (self.ready, AnsiColor::Green.on_default()),
            State::Working | State::Deleting => (self.working, AnsiColor::Cyan.on_default()),
            State::Waiting => (self.waiting, AnsiColor::Yellow.on_default()),
            State::Paused => (self.paused, AnsiColor::Yellow.on_default()),
            State::Blocked | State::Failed => (self.failed, AnsiColor::Red.on_default()),
        }
    }
}

/// A line before its columns are aligned.
struct Row {
    /// What stands before the sign.
    stem: String,
    state: State,
    title: String,
    phase: String,
    age: String,
    detail: String,
    /// What stands before the cause, and the cause.
    cause: Option<(String, String)>,
}

/// The lines of a tree, with colours for those who show them.
pub fn lines(tree: &Folded, look: Look, now: Timestamp) -> Vec<String> {
    let signs = look.signs();
    let mut rows = Vec::new();
    for root in &tree.roots {
        collect(root, &signs, look, now, "", "", &mut rows);
    }
    let titles =
        rows.iter().map(|row| row.stem.chars().count() + row.title.chars().count()).max().unwrap_or(0);
    let phases = rows.iter().map(|row| row.phase.chars().count()).max().unwrap_or(0);
    let ages = rows.iter().map(|row| row.age.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for row in &rows {
        let (sign, style) = signs.of(row.state);
        let pad = titles - row.stem.chars().count();
        let plain = format!("{:pad$}  {:phases$}  {:>ages$}  {}", row.title, row.phase, row.age, row.detail);
        let plain = cut(
            plain.trim_end(),
            look.width.map(|width| width.saturating_sub(row.stem.chars().count() + 2)),
            signs.more,
        );
        lines.push(format!("{}{style}{sign}{style:#} {plain}", row.stem));
        if let Some((stem, cause)) = &row.cause {
            let (_, style) = signs.of(row.state.max(State::Waiting));
            let room = look.width.map(|width| width.saturating_sub(stem.chars().count()));
            lines.push(format!("{stem}{style}{}{style:#}", cut(cause, room, signs.more)));
        }
    }
    if tree.left_out > 0 {
        lines.push(format!("{} and {} more: name a cluster, or use -o wide", signs.more, tree.left_out));
    }
    lines
}

fn collect(
    node: &Node,
    signs: &Signs,
    look: Look,
    now: Timestamp,
    own: &str,
    below: &str,
    rows: &mut Vec<Row>,
) {
    let mut title = node.kind.word().to_owned();
    if node.count > 1 {
        title = format!("{} {title}s", thousands(node.count));
    }
    let space =
        if look.namespaces && own.is_empty() { format!("{}/", node.namespace) } else { String::new() };
    title = format!("{title} {space}{}", node.name);
    let inner = if node.children.is_empty() { "  " } else { signs.bar };
    let cause = node.cause.as_ref().filter(|_| shows_cause(node)).map(|cause| {
        let words = match cause.depth {
            // The word is on the line above.
            0 if cause.reason == node.phase && !cause.message.is_empty() => cause.message.clone(),
            0 => cause.words(),
            _ => cause.to_string(),
        };
        let more =
            if node.count > 1 { format!(" (one of {})", thousands(node.count)) } else { String::new() };
        (format!("{below}{inner}  "), words + &more)
    });
    rows.push(Row {
        stem: own.to_owned(),
        state: shown(node),
        title,
        phase: node.phase.clone(),
        age: node.created.map_or_else(String::new, |created| age(created, now)),
        detail: node.detail.clone(),
        cause,
    });
    for (number, child) in node.children.iter().enumerate() {
        let last = number + 1 == node.children.len();
        let own = format!("{below}{}", if last { signs.last } else { signs.branch });
        let next = format!("{below}{}", if last { "   " } else { signs.bar });
        collect(child, signs, look, now, &own, &next, rows);
    }
}

/// Where parts are folded away, the line stands for them too.
fn shown(node: &Node) -> State {
    let hidden = node.cause.as_ref().filter(|cause| node.children.is_empty() && cause.depth > 0);
    hidden.map_or(node.state, |cause| cause.state.max(node.state))
}

fn cut(text: &str, width: Option<usize>, more: &str) -> String {
    match width {
        Some(width) if text.chars().count() > width => {
            let kept: String = text.chars().take(width.saturating_sub(more.chars().count())).collect();
            kept + more
        }
        _ => text.to_owned(),
    }
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
