//! Findings, human-readable and as JSON.

use std::fmt;

use capt_planner::Count;
use serde::Serialize;

use capt_yaml::{Node, Position};

/// All that was found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub findings: Vec<Finding>,
    pub summary: Summary,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It cannot work.
    #[default]
    Error,
    /// It is probably not what was meant.
    Warning,
}

/// One problem.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Severity.
    pub severity: Severity,
    #[serde(flatten)]
    pub place: Place,
    /// The object it is about, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// The field, as Kubernetes writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Message, as an API server words it where it would report it.
    pub message: String,
    /// Suggested fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Finding {
    pub fn new(file: &str, position: Option<Position>, message: String) -> Self {
        let place = Place { file: file.to_owned(), position };
        Self { severity: Severity::Error, place, object: None, path: None, message, help: None }
    }

    /// The same as a warning.
    pub fn warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// The same with what to write instead.
    pub fn helped(self, help: Option<String>) -> Self {
        Self { help, ..self }
    }
}

/// A file, and where in it.
#[derive(Debug, Serialize)]
pub struct Place {
    pub file: String,
    #[serde(flatten)]
    pub position: Option<Position>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(position) => write!(f, "{}:{position}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// Identifies an object among those of one run.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize)]
pub struct ObjectName {
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

/// Bytes of a name that is worth repeating; the longest valid one has 253.
const LONGEST: usize = 1024;

impl ObjectName {
    /// The name of an object that has one.
    pub fn of(object: &Node) -> Option<Self> {
        let metadata = object.get("metadata")?;
        // Every finding of the object has the name with it; one that is far too long is among them, and shown there.
        let short = |text: &&str| text.len() <= LONGEST;
        let text = |key| metadata.get(key).and_then(Node::as_str).filter(short).map(str::to_owned);
        Some(Self {
            kind: object.get("kind")?.as_str()?.to_owned(),
            namespace: text("namespace"),
            name: text("name").or_else(|| text("generateName"))?,
        })
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// Totals of a validation.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub files: usize,
    /// Objects of CAPT's kinds.
    pub checked: usize,
    /// Objects of other kinds.
    pub skipped: usize,
    pub errors: usize,
    pub warnings: usize,
    /// True if some rules could not be checked because of other mistakes.
    pub partial: bool,
}

impl Report {
    pub(super) fn finish(mut self) -> Self {
        let warnings = self.findings.iter().filter(|finding| finding.severity == Severity::Warning).count();
        self.summary.errors = self.findings.len() - warnings;
        self.summary.warnings = warnings;
        self
    }

    /// Returns true if there are no errors; warnings do not count.
    pub fn is_good(&self) -> bool {
        self.summary.errors == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errors {
            0 => f.write_str("ok")?,
            errors => f.write_str(&Count(errors, "error").to_string())?,
        }
        if self.warnings > 0 {
            write!(f, ", {}", Count(self.warnings, "warning"))?;
        }
        write!(f, ": {} checked in {}", Count(self.checked, "object"), Count(self.files, "file"))?;
        if self.skipped > 0 {
            write!(f, ", {} of other kinds left alone", self.skipped)?;
        }
        if self.partial {
            f.write_str("; more may show once these are fixed")?;
        }
        Ok(())
    }
}
