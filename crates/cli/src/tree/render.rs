//! Renders the tree as lines of text.
//!
//! In a terminal, lines fit its width: names are shortened first, in the middle, then details are cut. Phase and age
//! are kept whole, and a cause is wrapped, never cut.
//!
//! ```text
//! ✓ cluster demo                  Provisioned   12s
//! ├─ ✓ network demo               Ready         12s   ap-northeast-1, vpc-0c7…
//! └─ ✗ control plane demo         Failed        11s   1.35
//!      ApplyFailed: no such role (aws_iam_role.control_plane, main.tf:41)
//! ```

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use textwrap::WordSplitter;
use textwrap::core::display_width;

use super::fold::{Folded, shows_cause};
use super::{Node, State};
use crate::commands::table::{age, plain_lines};

/// Columns between two cells.
const GAP: usize = 2;
/// Columns of a state's sign and the space behind it.
const SIGN: usize = 2;
/// Columns that details keep while names can be shortened.
const DETAIL: usize = 20;
/// Columns that names keep while details can be cut.
const TITLE: usize = 36;

/// Style of the lines.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The terminal shows more than ASCII.
    pub unicode: bool,
    /// Columns of the terminal, where there is one.
    pub width: Option<usize>,
    /// Each line names its namespace.
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

    fn signs(self) -> Symbols {
        if self.unicode {
            Symbols {
                branch: "├─ ",
                last: "└─ ",
                bar: "│  ",
                ready: "✓",
                working: "●",
                waiting: "…",
                approval: "?",
                failed: "✗",
                paused: "‖",
                more: "…",
            }
        } else {
            Symbols {
                branch: "|- ",
                last: "`- ",
                bar: "|  ",
                ready: "+",
                working: "*",
                waiting: ".",
                approval: "?",
                failed: "x",
                paused: "=",
                more: "...",
            }
        }
    }
}

struct Symbols {
    branch: &'static str,
    last: &'static str,
    bar: &'static str,
    ready: &'static str,
    working: &'static str,
    waiting: &'static str,
    approval: &'static str,
    failed: &'static str,
    paused: &'static str,
    more: &'static str,
}

impl Symbols {
    fn of(&self, state: State) -> (&'static str, Style) {
        match state {
            State::Ready => (self.ready, AnsiColor::Green.on_default()),
            State::Drifted => ("~", AnsiColor::Yellow.on_default()),
            State::Working | State::Deleting => (self.working, AnsiColor::Cyan.on_default()),
            State::Waiting => (self.waiting, AnsiColor::Yellow.on_default()),
            State::Approval => (self.approval, AnsiColor::Magenta.on_default()),
            State::Paused => (self.paused, AnsiColor::Yellow.on_default()),
            State::Blocked | State::Failed => (self.failed, AnsiColor::Red.on_default()),
        }
    }
}

/// A line before its columns are aligned.
struct Row {
    /// Branches in front of the sign.
    stem: String,
    state: State,
    /// Kind, with a count where the line stands for several objects.
    kind: String,
    name: String,
    phase: String,
    age: String,
    detail: String,
    /// Branches in front of the cause, and the cause.
    cause: Option<(String, String)>,
}

/// Widths of the columns.
struct Columns {
    title: usize,
    phase: usize,
    age: usize,
    detail: usize,
}

impl Columns {
    fn of(rows: &[Row], width: Option<usize>) -> Self {
        let widest = |cell: fn(&Row) -> usize| rows.iter().map(cell).max().unwrap_or(0);
        let title = widest(|row| display_width(&row.stem) + row.kind.len() + 1 + display_width(&row.name));
        let phase = widest(|row| display_width(&row.phase));
        let age = widest(|row| row.age.len());
        let detail = widest(|row| display_width(&row.detail));
        let Some(width) = width else { return Self { title, phase, age, detail } };
        let room = width.saturating_sub(SIGN + GAP + phase + GAP + age);
        let kept = GAP + detail.min(DETAIL);
        let title = title.min(room.saturating_sub(kept).max(TITLE));
        Self { title, phase, age, detail: room.saturating_sub(title + GAP) }
    }
}

/// The lines of a tree, with colours for those who show them.
pub fn lines(tree: &Folded, look: Look, now: Timestamp) -> Vec<String> {
    let signs = look.signs();
    let mut rows = Vec::new();
    for root in &tree.roots {
        collect(root, &signs, look, now, "", "", &mut rows);
    }
    let columns = Columns::of(&rows, look.width);
    let mut lines = Vec::new();
    for row in &rows {
        let (sign, style) = signs.of(row.state);
        let room = columns.title.saturating_sub(display_width(&row.stem));
        let title = padded(title(row, room, signs.more), room);
        let phase = padded(row.phase.clone(), columns.phase);
        let detail = cut(&row.detail, Some(columns.detail), signs.more);
        let detail = if columns.detail > signs.more.len() + 1 { detail } else { String::new() };
        let plain = format!("{title}  {phase}  {:>age$}  {detail}", row.age, age = columns.age);
        let room = look.width.map(|width| width.saturating_sub(display_width(&row.stem) + SIGN));
        lines.push(format!("{}{style}{sign}{style:#} {}", row.stem, cut(plain.trim_end(), room, signs.more)));
        if let Some((stem, cause)) = &row.cause {
            let (_, style) = signs.of(row.state.max(State::Waiting));
            let wrapped = wrap(cause, look.width, display_width(stem));
            lines.extend(wrapped.iter().map(|line| format!("{stem}{style}{line}{style:#}")));
        }
    }
    if tree.left_out > 0 {
        let note = format!("{} and {} more: name a cluster, or use -o wide", signs.more, tree.left_out);
        lines.push(cut(&note, look.width, signs.more));
    }
    lines
}

/// Lines that these trees take, without rendering all of them.
pub fn height(roots: &[Node], look: Look) -> usize {
    roots.iter().map(|root| height_at(root, look, 0)).sum()
}

fn height_at(node: &Node, look: Look, depth: usize) -> usize {
    let cause = if shows_cause(node) {
        let stem = cause_stem(node, &look.signs(), &"   ".repeat(depth));
        wrap(&cause_text(node, look), look.width, display_width(&stem)).len()
    } else {
        0
    };
    1 + cause + node.children.iter().map(|child| height_at(child, look, depth + 1)).sum::<usize>()
}

fn collect(
    node: &Node,
    signs: &Symbols,
    look: Look,
    now: Timestamp,
    own: &str,
    below: &str,
    rows: &mut Vec<Row>,
) {
    let mut kind = node.kind.word().to_owned();
    if node.count > 1 {
        kind = format!("{} {kind}s", thousands(node.count));
    }
    let space =
        if look.namespaces && own.is_empty() { format!("{}/", node.namespace) } else { String::new() };
    let cause = shows_cause(node).then(|| (cause_stem(node, signs, below), cause_text(node, look)));
    rows.push(Row {
        stem: own.to_owned(),
        state: shown(node),
        kind,
        name: printable(&format!("{space}{}", node.name), look),
        phase: printable(&node.phase, look),
        age: node.created.map_or_else(String::new, |created| age(created, now)),
        detail: printable(&node.detail, look),
        cause,
    });
    for (number, child) in node.children.iter().enumerate() {
        let last = number + 1 == node.children.len();
        let own = format!("{below}{}", if last { signs.last } else { signs.branch });
        let next = format!("{below}{}", if last { "   " } else { signs.bar });
        collect(child, signs, look, now, &own, &next, rows);
    }
}

fn cause_stem(node: &Node, signs: &Symbols, below: &str) -> String {
    format!("{below}{}  ", if node.children.is_empty() { "  " } else { signs.bar })
}

fn cause_text(node: &Node, look: Look) -> String {
    let Some(cause) = &node.cause else { return String::new() };
    let words = match cause.depth {
        // The reason is on the line above.
        0 if cause.reason == node.phase && !cause.message.is_empty() => cause.message.clone(),
        0 => cause.words(),
        _ => cause.to_string(),
    };
    let more = if node.count > 1 { format!(" (one of {})", thousands(node.count)) } else { String::new() };
    printable(&(words + &more), look)
}

/// State of a line, which stands for folded parts too.
fn shown(node: &Node) -> State {
    let hidden = node.cause.as_ref().filter(|cause| node.children.is_empty() && cause.depth > 0);
    hidden.map_or(node.state, |cause| cause.state.max(node.state))
}

/// Kind and name in so many columns. Of a long name the middle goes: siblings differ at the end, families at the start.
fn title(row: &Row, room: usize, more: &str) -> String {
    let left = room.saturating_sub(row.kind.len() + 1);
    if display_width(&row.name) <= left {
        return format!("{} {}", row.kind, row.name);
    }
    let kept = left.saturating_sub(more.chars().count());
    let letters: Vec<char> = row.name.chars().collect();
    let (head, tail) = (kept - kept / 2, kept / 2);
    let start: String = letters[..head.min(letters.len())].iter().collect();
    let end: String = letters[letters.len() - tail.min(letters.len())..].iter().collect();
    cut(&format!("{} {start}{more}{end}", row.kind), Some(room), more)
}

fn wrap(text: &str, width: Option<usize>, indent: usize) -> Vec<String> {
    let Some(width) = width else { return vec![text.to_owned()] };
    // A name that is broken at its hyphens cannot be copied.
    let options = textwrap::Options::new(width.saturating_sub(indent).max(1))
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

fn padded(text: String, width: usize) -> String {
    let pad = width.saturating_sub(display_width(&text));
    text + &" ".repeat(pad)
}

fn cut(text: &str, width: Option<usize>, more: &str) -> String {
    let Some(width) = width.filter(|width| display_width(text) > *width) else { return text.to_owned() };
    let room = width.saturating_sub(more.chars().count());
    let (mut kept, mut used) = (String::new(), 0);
    for letter in text.chars() {
        used += display_width(letter.encode_utf8(&mut [0; 4]));
        if used > room {
            break;
        }
        kept.push(letter);
    }
    kept.extend(more.chars().take(width));
    kept
}

/// Text as this terminal can show it.
fn printable(text: &str, look: Look) -> String {
    // Objects are written by others: nothing of theirs steers the terminal.
    let text = plain_lines(text);
    if look.unicode {
        return text;
    }
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '…' => plain.push_str("..."),
            '→' => plain.push_str("->"),
            '\u{2018}' | '\u{2019}' => plain.push('\''),
            '\u{201c}' | '\u{201d}' => plain.push('"'),
            letter if letter.is_ascii() => plain.push(letter),
            _ => plain.push('?'),
        }
    }
    plain
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
