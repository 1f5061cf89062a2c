//! What `plan`, `apply`, `destroy` and `init` print with `-json`: one JSON object a line.
//!
//! Nothing in a stream is ever an error here: a line of a kind not known yet, a line that is not JSON (a crash, a wrapper
//! script) and a line cut short become [`Line::Other`]. Terraform and OpenTofu differ in few words, and both are read.

mod tally;

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// What the plan will do to one object.
    PlannedChange(Change),
    /// What changed outside of Terraform, as the plan found it.
    Drift(Change),
    /// The counts at the end of a plan, an apply or a destroy.
    Summary(Summary),
    /// Outputs: what the plan will do to them, or their values after an apply.
    Outputs(BTreeMap<String, OutputLine>),
    /// Work on an object starts.
    Start {
        /// Its address.
        address: String,
        /// What is done to it.
        action: Action,
    },
    /// Work on an object goes on.
    Progress {
        /// Its address.
        address: String,
        /// What is done to it.
        action: Action,
        /// Seconds since its start.
        elapsed: u64,
    },
    /// Work on an object is done.
    Complete {
        /// Its address.
        address: String,
        /// What was done to it.
        action: Action,
        /// Seconds it took.
        elapsed: u64,
    },
    /// Work on an object failed; a diagnostic says why.
    Errored {
        /// Its address.
        address: String,
        /// What was attempted.
        action: Action,
        /// Seconds it took.
        elapsed: u64,
    },
    /// What a provisioner printed.
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

/// What is done to one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its address, with modules and index keys.
    pub address: String,
    /// What is done.
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

/// What can be done to an object.
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
    /// What they are counts of.
    pub stage: Stage,
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

/// What a [`Summary`] sums up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// What a plan will do.
    Plan,
    /// What an apply did.
    Apply,
    /// What a destroy did.
    Destroy,
}

/// An output in the stream. A sensitive one never has a value there: read it from the state.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputLine {
    /// Its value must not be shown.
    pub sensitive: bool,
    /// In a plan: what becomes of it.
    pub action: Option<Action>,
    /// After an apply: its value.
    pub value: Option<Value>,
}

/// How bad a [`Diagnostic`] is.
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
    /// How bad it is.
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
}

/// Reads one line.
pub fn parse(line: &str) -> Line {
    let line = line.trim_end_matches(['\r', '\n']);
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(line) else {
        return Line::Other { kind: String::new(), message: line.to_owned() };
    };
    let object = Value::Object(object);
    let kind = word(&object["type"]);
    known(kind, &object).unwrap_or_else(|| Line::Other {
        kind: kind.to_owned(),
        message: word(&object["@message"]).to_owned(),
    })
}

/// What a person would read of a line: its message, or the line itself where it is no JSON.
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
fn known(kind: &str, object: &Value) -> Option<Line> {
    let hook = &object["hook"];
    let address = || hook["resource"]["addr"].as_str().map(str::to_owned);
    let action = Action::parse(word(&hook["action"]));
    let elapsed = hook["elapsed_seconds"].as_f64().map_or(0, whole);
    Some(match kind {
        "version" => version(object)?,
        "planned_change" => Line::PlannedChange(change(&object["change"])?),
        "resource_drift" => Line::Drift(change(&object["change"])?),
        "change_summary" => Line::Summary(summary(&object["changes"])?),
        "outputs" => Line::Outputs(outputs(&object["outputs"])?),
        "apply_start" => Line::Start { address: address()?, action },
        "apply_progress" => Line::Progress { address: address()?, action, elapsed },
        "apply_complete" => Line::Complete { address: address()?, action, elapsed },
        "apply_errored" => Line::Errored { address: address()?, action, elapsed },
        "provision_progress" => {
            Line::Provisioned { address: address()?, output: hook["output"].as_str()?.to_owned() }
        }
        "diagnostic" => Line::Diagnostic(diagnostic(&object["diagnostic"])?),
        _ => return None,
    })
}

fn version(object: &Value) -> Option<Line> {
    ["terraform", "tofu"].into_iter().find_map(|binary| {
        let version = object[binary].as_str()?.to_owned();
        Some(Line::Version { binary: binary.to_owned(), version })
    })
}

fn change(value: &Value) -> Option<Change> {
    Some(Change {
        address: value["resource"]["addr"].as_str()?.to_owned(),
        action: Action::parse(value["action"].as_str()?),
        reason: value["reason"].as_str().map(str::to_owned),
        previous: value["previous_resource"]["addr"].as_str().map(str::to_owned),
        imported: value["importing"].is_object(),
    })
}

fn summary(value: &Value) -> Option<Summary> {
    let count = |name: &str| value[name].as_u64().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    Some(Summary {
        stage: match value["operation"].as_str()? {
            "plan" => Stage::Plan,
            "apply" => Stage::Apply,
            "destroy" => Stage::Destroy,
            _ => return None,
        },
        add: count("add")?,
        change: count("change")?,
        destroy: count("remove")?,
        import: count("import").unwrap_or(0),
        forget: count("forget"),
    })
}

fn outputs(value: &Value) -> Option<BTreeMap<String, OutputLine>> {
    let outputs = value.as_object()?.iter().map(|(name, output)| {
        let line = OutputLine {
            sensitive: output["sensitive"].as_bool().unwrap_or(false),
            action: output["action"].as_str().map(Action::parse),
            value: output.get("value").cloned(),
        };
        (name.clone(), line)
    });
    Some(outputs.collect())
}

/// A `diagnostic` object, which `validate -json` lists too.
pub(crate) fn diagnostic(value: &Value) -> Option<Diagnostic> {
    let range = &value["range"];
    Some(Diagnostic {
        severity: if value["severity"].as_str()? == "warning" { Severity::Warning } else { Severity::Error },
        summary: value["summary"].as_str()?.to_owned(),
        detail: word(&value["detail"]).to_owned(),
        address: value["address"].as_str().map(str::to_owned),
        file: range["filename"].as_str().map(str::to_owned),
        line: range["start"]["line"].as_u64().and_then(|line| u32::try_from(line).ok()),
        snippet: value["snippet"]["code"].as_str().map(str::to_owned),
    })
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
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
