//! Totals of a stream, line by line.

use serde::{Deserialize, Serialize};

use super::{Action, Change, Diagnostic, Line, Severity, Summary, SummaryKind};

/// More errors or warnings than these are counted and not kept: a broken module of thousands of objects repeats one
/// error for each.
const KEPT: usize = 100;
/// A run can print what it likes: more bytes of changes and drift are counted and not kept, nor longer texts of a diagnostic, nor more
/// objects that are worked on at a time.
const KEPT_BYTES: usize = 16 << 20;
const LONGEST_TEXT: usize = 64 << 10;
const RUNNING: usize = 1000;

/// Number of objects that a plan will touch, or an apply touched. A replacement is one added and one destroyed, as in Terraform's
/// own summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Made.
    pub add: u32,
    /// Changed in place.
    pub change: u32,
    /// Destroyed.
    pub destroy: u32,
    /// Taken into the state.
    pub import: u32,
    /// Dropped from the state, and living on.
    pub forget: u32,
}

impl Counts {
    /// Counts one action.
    pub fn count(&mut self, action: Action) {
        match action {
            Action::Create => self.add += 1,
            Action::Update => self.change += 1,
            Action::Delete => self.destroy += 1,
            Action::Replace => {
                self.add += 1;
                self.destroy += 1;
            }
            Action::Import => self.import += 1,
            Action::Forget => self.forget += 1,
            Action::NoOp | Action::Read | Action::Move | Action::Ephemeral | Action::Unknown => {}
        }
    }

    /// Steps an apply reports one by one. (Imports and forgets happen without a word.)
    pub fn steps(&self) -> u32 {
        self.add.saturating_add(self.change).saturating_add(self.destroy)
    }

    fn agree_with(&mut self, summary: &Summary) {
        let Summary { kind: _, add, change, destroy, import, forget } = *summary;
        *self = Self { add, change, destroy, import, forget: forget.unwrap_or(self.forget) };
    }
}

/// Progress of an apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Steps done. A replacement is two steps.
    pub done: u32,
    /// Steps planned.
    pub total: u32,
    /// The object worked on: of several, the one that started last.
    pub current: Option<String>,
}

/// All that is worth knowing of a stream so far. Push every line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Planned counts. Right during the plan too, and for a saved plan, which prints no summary when applied.
    pub plan: Counts,
    /// Counts of what was done: also if a run failed and printed no summary.
    pub applied: Counts,
    /// Planned changes, object by object, without objects that stay as they are.
    pub changes: Vec<Change>,
    /// Changes made outside of Terraform.
    pub drift: Vec<Change>,
    /// Outputs the plan would change.
    pub changed_outputs: u32,
    /// The plan printed its summary. No success by itself: a plan that fails late prints one too.
    pub planned: bool,
    /// The apply or destroy was done to its end: it printed its summary.
    pub finished: bool,
    /// The first errors, each once.
    pub errors: Vec<Diagnostic>,
    /// The first warnings, each once.
    pub warnings: Vec<Diagnostic>,
    /// Errors beyond those kept.
    pub more_errors: u32,
    /// Program that writes the stream: `("terraform", "1.11.4")`.
    pub binary: Option<(String, String)>,
    running: Vec<String>,
    kept_bytes: usize,
}

impl Tally {
    /// A tally of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one line in.
    pub fn push(&mut self, line: &Line) {
        match line {
            Line::Version { binary, version } => self.binary = Some((binary.clone(), version.clone())),
            Line::PlannedChange(change) => self.plan_change(change),
            Line::Drift(change) => {
                if self.has_room(bytes_of(change)) {
                    self.drift.push(change.clone());
                }
            }
            Line::Summary(summary) => self.sum_up(summary),
            // After an apply the same kind of line carries values and no actions.
            Line::Outputs { changed } => self.changed_outputs = self.changed_outputs.max(*changed),
            Line::Start { address, .. } => {
                if self.running.len() < RUNNING && self.has_room(address.len()) {
                    self.running.push(address.clone());
                }
            }
            Line::Complete { address, action, .. } => {
                self.end(address);
                self.applied.count(*action);
            }
            Line::Errored { address, .. } => self.end(address),
            Line::Diagnostic(diagnostic) => self.diagnose(diagnostic),
            Line::Progress { .. } | Line::Provisioned { .. } | Line::Other { .. } => {}
        }
    }

    /// True where applying the plan would do something. Moves, forgets and outputs are something, though Terraform's summary
    /// counts none of them.
    pub fn has_changes(&self) -> bool {
        self.changed_outputs > 0 || self.changes.iter().any(|change| change.action != Action::Read)
    }

    /// Progress of the apply.
    pub fn progress(&self) -> Progress {
        let done = self.applied.steps();
        Progress { done, total: self.plan.steps().max(done), current: self.running.last().cloned() }
    }

    fn plan_change(&mut self, change: &Change) {
        if change.action == Action::NoOp {
            return;
        }
        self.plan.count(change.action);
        if change.imported && change.action != Action::Import {
            self.plan.import += 1;
        }
        // The first one stays in any case: it says that there are changes.
        if self.has_room(bytes_of(change)) || self.changes.is_empty() {
            self.changes.push(change.clone());
        }
    }

    /// Returns true if something of that length is kept.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        self.kept_bytes <= KEPT_BYTES
    }

    fn sum_up(&mut self, summary: &Summary) {
        match summary.kind {
            SummaryKind::Plan => {
                self.plan.agree_with(summary);
                self.planned = true;
            }
            SummaryKind::Apply | SummaryKind::Destroy => {
                self.applied.agree_with(summary);
                // What was forgotten is counted by OpenTofu alone; a finished apply did what was planned.
                self.applied.forget = summary.forget.unwrap_or(self.plan.forget);
                self.finished = true;
                self.running.clear();
            }
        }
    }

    /// One start ends: a replacement starts twice under one address.
    fn end(&mut self, address: &str) {
        if let Some(at) = self.running.iter().position(|running| running == address) {
            self.kept_bytes -= self.running.remove(at).len();
        }
    }

    fn diagnose(&mut self, diagnostic: &Diagnostic) {
        let kept = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if kept.contains(diagnostic) {
            return;
        }
        if kept.len() < KEPT {
            kept.push(shortened(diagnostic));
        } else if diagnostic.severity == Severity::Error {
            self.more_errors = self.more_errors.saturating_add(1);
        }
    }
}

fn bytes_of(change: &Change) -> usize {
    let Change { address, reason, previous, .. } = change;
    let texts = [Some(address), reason.as_ref(), previous.as_ref()].into_iter().flatten();
    texts.map(String::len).sum::<usize>() + size_of::<Change>()
}

fn shortened(diagnostic: &Diagnostic) -> Diagnostic {
    let mut short = diagnostic.clone();
    let Diagnostic { severity: _, summary, detail, address, file, line: _, snippet, variable } = &mut short;
    for text in
        [Some(summary), Some(detail), address.as_mut(), file.as_mut(), snippet.as_mut(), variable.as_mut()]
            .into_iter()
            .flatten()
            .filter(|text| text.len() > LONGEST_TEXT)
    {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_the_rest_is_counted() {
        let change = |number: u32| Change {
            address: format!("{number}-{}", "a".repeat(10_000)),
            action: Action::Create,
            reason: None,
            previous: None,
            imported: false,
        };
        let mut tally = Tally::new();
        for number in 0..10_000 {
            tally.push(&Line::PlannedChange(change(number)));
            tally.push(&Line::Drift(change(number)));
            tally.push(&Line::Start { address: change(number).address, action: Action::Create, id: None });
        }
        assert!(tally.changes.len() + tally.drift.len() + tally.running.len() < 2000);
        assert_eq!(tally.plan.add, 10_000);
        let mut endless = Diagnostic {
            severity: Severity::Error,
            summary: "é".repeat(LONGEST_TEXT),
            detail: String::new(),
            address: None,
            file: None,
            line: None,
            snippet: Some("x".repeat(LONGEST_TEXT + 1)),
            variable: None,
        };
        endless.detail.clone_from(&endless.summary);
        tally.push(&Line::Diagnostic(endless));
        let kept = &tally.errors[0];
        assert!(kept.summary.len() + kept.detail.len() <= 2 * LONGEST_TEXT, "{}", kept.summary.len());
        assert_eq!(kept.snippet.as_ref().map(String::len), Some(LONGEST_TEXT));
    }
}
