//! What a stream adds up to, line by line.

use serde::{Deserialize, Serialize};

use super::{Action, Change, Diagnostic, Line, OutputLine, Severity, Stage, Summary};

/// More errors or warnings than these are counted and not kept: a broken module of thousands of objects repeats one
/// error for each.
const KEPT: usize = 100;

/// How many objects a plan will touch, or an apply touched. A replacement is one added and one destroyed, as in
/// Terraform's own summary.
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
        let Summary { stage: _, add, change, destroy, import, forget } = *summary;
        *self = Self { add, change, destroy, import, forget: forget.unwrap_or(self.forget) };
    }
}

/// How far an apply is.
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
    /// What the plan will do. Right during the plan too, and for a saved plan, which prints no summary when applied.
    pub plan: Counts,
    /// What was done: also where a run failed and printed no summary.
    pub applied: Counts,
    /// What the plan will do, object by object; without those it leaves alone.
    pub changes: Vec<Change>,
    /// What changed outside of Terraform.
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
    /// Who speaks: `("terraform", "1.11.4")`.
    pub binary: Option<(String, String)>,
    running: Vec<String>,
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
            Line::Drift(change) => self.drift.push(change.clone()),
            Line::Summary(summary) => self.sum_up(summary),
            Line::Outputs(outputs) => {
                let changes = |output: &&OutputLine| !matches!(output.action, None | Some(Action::NoOp));
                let changed = u32::try_from(outputs.values().filter(changes).count()).unwrap_or(u32::MAX);
                // After an apply the same kind of line carries values and no actions.
                self.changed_outputs = self.changed_outputs.max(changed);
            }
            Line::Start { address, .. } => self.running.push(address.clone()),
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

    /// How far the apply is.
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
        self.changes.push(change.clone());
    }

    fn sum_up(&mut self, summary: &Summary) {
        match summary.stage {
            Stage::Plan => {
                self.plan.agree_with(summary);
                self.planned = true;
            }
            Stage::Apply | Stage::Destroy => {
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
            self.running.remove(at);
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
            kept.push(diagnostic.clone());
        } else if diagnostic.severity == Severity::Error {
            self.more_errors = self.more_errors.saturating_add(1);
        }
    }
}
