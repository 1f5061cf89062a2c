//! What was found, for people and for programs.

use std::fmt;

use serde::Serialize;

use capt_yaml::{Node, Position};

/// All that was found.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub findings: Vec<Finding>,
    pub summary: Summary,
}

/// One problem.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    #[serde(flatten)]
    pub place: Place,
    /// The object it is about, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// The field, as Kubernetes writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What is wrong, in the words of an API server where it would say it.
    pub message: String,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Finding {
    pub fn new(file: &str, position: Option<Position>, message: String) -> Self {
        let place = Place { file: file.to_owned(), position };
        Self { place, object: None, path: None, message, help: None }
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

impl ObjectName {
    /// The name of an object that has one.
    pub fn of(object: &Node) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |key| metadata.get(key).and_then(Node::as_str).map(str::to_owned);
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

/// How much was looked at.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub files: usize,
    /// Objects of CAPT's kinds.
    pub checked: usize,
    /// Objects of other kinds.
    pub skipped: usize,
    pub errors: usize,
    /// Whether some rules could not be checked because of what is wrong already.
    pub partial: bool,
}

impl Report {
    pub(super) fn finish(mut self) -> Self {
        self.summary.errors = self.findings.len();
        self
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errors {
            0 => f.write_str("ok")?,
            1 => f.write_str("1 error")?,
            errors => write!(f, "{errors} errors")?,
        }
        write!(f, ": {} checked in {}", count(self.checked, "object"), count(self.files, "file"))?;
        if self.skipped > 0 {
            write!(f, ", {} of other kinds left alone", self.skipped)?;
        }
        if self.partial {
            f.write_str("; more may show once these are fixed")?;
        }
        Ok(())
    }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
