//! Output of `plan`, `apply`, `destroy` and `init` with `-json`: one JSON object a line.
//!
//! Nothing in a stream is ever an error here: a line of a kind not known yet, a line that is not JSON (a crash, a wrapper
//! script) and a line cut short become [`Line::Other`]. Terraform and OpenTofu differ in few words, and both are read.

mod raw;
mod tally;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use tally::{Counts, Progress, Tally};

/// One line of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The first line: who speaks.
    Version {
        /// `terraform` or `tofu`.
        binary: String,
        /// Its version.
        version: String,
    },
    /// Planned change of one object.
    PlannedChange(Change),
    /// Change made outside of Terraform, as the plan found it.
    Drift(Change),
    /// The counts at the end of a plan, an apply or a destroy.
    Summary(Summary),
    /// Outputs: of a plan. After an apply the same kind of line carries their values, which the state has as well.
    Outputs {
        /// As many would change.
        changed: u32,
    },
    /// Work on an object starts.
    Start {
        /// Its address.
        address: String,
        /// Action on it.
        action: Action,
        /// Its id, where it has one already.
        id: Option<String>,
    },
    /// Work on an object goes on.
    Progress {
        /// Its address.
        address: String,
        /// Action on it.
        action: Action,
        /// Seconds since its start.
        elapsed: u64,
    },
    /// Work on an object is done.
    Complete {
        /// Its address.
        address: String,
        /// Action on it.
        action: Action,
        /// Seconds it took.
        elapsed: u64,
        /// The id that its provider gave it.
        id: Option<String>,
    },
    /// Work on an object failed; a diagnostic says why.
    Errored {
        /// Its address.
        address: String,
        /// Attempted action.
        action: Action,
        /// Seconds it took.
        elapsed: u64,
    },
    /// Output of a provisioner.
    Provisioned {
        /// The object it runs for.
        address: String,
        /// Its words.
        output: String,
    },
    /// An error or a warning.
    Diagnostic(Diagnostic),
    /// Everything else.
    Other {
        /// Its `type`; empty where the line is no JSON object or has none.
        kind: String,
        /// Its message, or the line as it is.
        message: String,
    },
}

/// Change of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its address, with modules and index keys.
    pub address: String,
    /// Action on it.
    pub action: Action,
    /// Why, in Terraform's word (`cannot_update`, `tainted`, `delete_because_no_resource_config`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The address it had before it moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// It is also imported: an import that changes what it finds is an update, and an import.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

/// Action on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Nothing.
    NoOp,
    /// It is made.
    Create,
    /// It is changed in place.
    Update,
    /// It is destroyed.
    Delete,
    /// It is destroyed and made anew, in either order.
    Replace,
    /// A data source is read.
    Read,
    /// Only its address changes.
    Move,
    /// It exists, and is taken into the state.
    Import,
    /// It is dropped from the state, and lives on. (The streams call it `remove`.)
    Forget,
    /// An ephemeral object is opened, renewed or closed.
    Ephemeral,
    /// A word this version does not know.
    Unknown,
}

impl Action {
    fn parse(word: &str) -> Self {
        match word {
            "noop" | "no-op" => Self::NoOp,
            "create" => Self::Create,
            "update" => Self::Update,
            "delete" => Self::Delete,
            "replace" => Self::Replace,
            "read" => Self::Read,
            "move" => Self::Move,
            "import" => Self::Import,
            "remove" | "forget" => Self::Forget,
            "open" | "renew" | "close" => Self::Ephemeral,
            _ => Self::Unknown,
        }
    }
}

/// Counts as the binary prints them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Operation that the counts belong to.
    pub kind: SummaryKind,
    /// Made.
    pub add: u32,
    /// Changed.
    pub change: u32,
    /// Destroyed.
    pub destroy: u32,
    /// Imported.
    pub import: u32,
    /// Dropped from the state; only OpenTofu counts these.
    pub forget: Option<u32>,
}

/// Operation that a [`Summary`] belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryKind {
    /// A plan: changes to make.
    Plan,
    /// An apply: changes made.
    Apply,
    /// A destroy: objects destroyed.
    Destroy,
}

/// Severity of a [`Diagnostic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run fails.
    Error,
    /// The run goes on.
    Warning,
}

/// An error or a warning, as Terraform words it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// One line.
    pub summary: String,
    /// More of it; can be empty, can be long.
    pub detail: String,
    /// The object it is about.
    pub address: Option<String>,
    /// The file it is about, as the binary names it.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// The text there.
    pub snippet: Option<String>,
    /// The variable whose value is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

/// Reads one line. A run can print what it likes, so no more is made of it than is needed: a tree of all its values would take many
/// times its length.
pub fn parse(line: &str) -> Line {
    let line = line.trim_end_matches(['\r', '\n']);
    raw::Line::read(line).map_or_else(
        || Line::Other { kind: String::new(), message: line.to_owned() },
        |read| {
            let kind = read.kind.text();
            known(&kind, &read).unwrap_or_else(|| Line::Other { message: read.message.text(), kind })
        },
    )
}

/// Human-readable text of a line: its message, or the line itself if it is no JSON.
pub fn message(line: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(rename = "@message", borrow)]
        message: Cow<'a, str>,
    }
    match serde_json::from_str::<Message<'_>>(line) {
        Ok(Message { message }) => message,
        Err(_) => Cow::Borrowed(line),
    }
}

/// `None` for a kind that is not known, or one that lacks what it should have.
fn known(kind: &str, line: &raw::Line<'_>) -> Option<Line> {
    if kind.starts_with("apply_") || kind == "provision_progress" {
        return work(kind, line.hook.read()?);
    }
    Some(match kind {
        "version" => version(line)?,
        "planned_change" => Line::PlannedChange(change(line.change.read()?)?),
        "resource_drift" => Line::Drift(change(line.change.read()?)?),
        "change_summary" => Line::Summary(summary(line.changes.read()?)?),
        "outputs" => Line::Outputs { changed: line.outputs.read::<raw::OutputCount>()?.changed },
        "diagnostic" => Line::Diagnostic(diagnostic(line.diagnostic.read()?)?),
        _ => return None,
    })
}

fn work(kind: &str, hook: raw::Hook<'_>) -> Option<Line> {
    let address = hook.resource.read::<raw::Object<'_>>()?.addr.read()?;
    let action = Action::parse(&hook.action.text());
    let elapsed = hook.elapsed_seconds.read().map_or(0, whole);
    Some(match kind {
        "apply_start" => Line::Start { address, action, id: hook.id_value.read() },
        "apply_progress" => Line::Progress { address, action, elapsed },
        "apply_complete" => Line::Complete { address, action, elapsed, id: hook.id_value.read() },
        "apply_errored" => Line::Errored { address, action, elapsed },
        "provision_progress" => Line::Provisioned { address, output: hook.output.read()? },
        _ => return None,
    })
}

fn version(line: &raw::Line<'_>) -> Option<Line> {
    [("terraform", line.terraform), ("tofu", line.tofu)].into_iter().find_map(|(binary, version)| {
        Some(Line::Version { binary: binary.to_owned(), version: version.read()? })
    })
}

fn change(change: raw::Change<'_>) -> Option<Change> {
    let address = |object: raw::Field<'_>| object.read::<raw::Object<'_>>()?.addr.read();
    Some(Change {
        address: address(change.resource)?,
        action: Action::parse(&change.action.read::<String>()?),
        reason: change.reason.read(),
        previous: address(change.previous_resource),
        imported: change.importing.read::<raw::Nothing>().is_some(),
    })
}

fn summary(counts: raw::Counts<'_>) -> Option<Summary> {
    let count =
        |field: raw::Field<'_>| field.read().map(|count: u64| u32::try_from(count).unwrap_or(u32::MAX));
    Some(Summary {
        kind: match counts.operation.text().as_str() {
            "plan" => SummaryKind::Plan,
            "apply" => SummaryKind::Apply,
            "destroy" => SummaryKind::Destroy,
            _ => return None,
        },
        add: count(counts.add)?,
        change: count(counts.change)?,
        destroy: count(counts.remove)?,
        import: count(counts.import).unwrap_or(0),
        forget: count(counts.forget),
    })
}

fn diagnostic(said: raw::Diagnostic<'_>) -> Option<Diagnostic> {
    let range: raw::Range<'_> = said.range.read().unwrap_or_default();
    let start: raw::Position<'_> = range.start.read().unwrap_or_default();
    let snippet: raw::Snippet<'_> = said.snippet.read().unwrap_or_default();
    let severity: String = said.severity.read()?;
    Some(Diagnostic {
        severity: if severity == "warning" { Severity::Warning } else { Severity::Error },
        summary: said.summary.read()?,
        detail: said.detail.text(),
        address: said.address.read(),
        file: range.filename.read(),
        line: start.line.read(),
        variable: variable(snippet),
        snippet: snippet.code.read(),
    })
}

/// The variable that a snippet is about: the key of the value that is highlighted, the one that is declared there, or the only one whose
/// value is told.
fn variable(snippet: raw::Snippet<'_>) -> Option<String> {
    let code: String = snippet.code.read()?;
    let start: usize = snippet.highlight_start_offset.read().unwrap_or_default();
    let key = code
        .get(..start)
        .and_then(|before| before.trim_end().strip_suffix(':')?.trim_end().strip_suffix('"'));
    if let Some((_, key)) = key.and_then(|before| before.rsplit_once('"')) {
        return Some(key.to_owned());
    }
    if let Some((name, _)) = code.strip_prefix("variable \"").and_then(|rest| rest.split_once('"')) {
        return Some(name.to_owned());
    }
    let told: Vec<raw::Traversed<'_>> = snippet.values.read().unwrap_or_default();
    let names: std::collections::BTreeSet<String> = told
        .into_iter()
        .filter_map(|told| {
            Some(told.traversal.text().strip_prefix("var.")?.split(['.', '[']).next()?.to_owned())
        })
        .collect();
    if names.len() == 1 { names.into_iter().next() } else { None }
}

/// Seconds are whole in every stream seen; a fraction would be cut off, and nonsense is zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what is meant"
)]
fn whole(seconds: f64) -> u64 {
    seconds as u64
}
