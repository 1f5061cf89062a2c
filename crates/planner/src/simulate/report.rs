//! Results of a simulation, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::tell::{ByMoment, Moment, Summary};
use crate::reason::Count;

/// All that a simulation has shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Summary of the rollout.
    pub summary: Summary,
    /// Steps, moment by moment.
    pub moments: Vec<Moment>,
    /// All steps, in order.
    pub steps: Vec<SimulationStep>,
    /// State at the end.
    pub end: End,
    /// Promises that were broken; never any, unless the planner is wrong.
    pub violations: Vec<String>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulationStep {
    /// Seconds since the beginning.
    pub at: i64,
    /// Actor of the step: `deployment`, `set`, `machine` or `event`.
    pub who: &'static str,
    /// Action and reason, in words.
    pub what: String,
    /// Action and reason, as the plan has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<serde_json::Value>,
    /// Counts of machines right after the step.
    pub counts: Counts,
}

/// Machines of all sets at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// That exist and are not being deleted.
    pub live: i32,
    /// That are being deleted.
    pub terminating: i32,
    /// That are available.
    pub available: i32,
    /// The most that may exist.
    pub ceiling: i32,
    /// The fewest that the deployment keeps available.
    pub floor: i32,
}

/// State at the end of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// Seconds since the beginning.
    pub at: i64,
    /// Counts of machines.
    pub counts: Counts,
    /// True if the deployment still exists.
    pub exists: bool,
    /// Revision that is current.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Reason of the condition Progressing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progressing: Option<String>,
    /// True if the deployment is ready.
    pub ready: bool,
    /// Why nothing more was done.
    pub waits: Vec<String>,
    /// The most machines that existed at one moment, those being deleted included.
    pub most: i32,
    /// The fewest that were available at one moment.
    pub fewest_available: i32,
}

impl Counts {
    /// Returns true if there are more machines than a rollout may make.
    pub(super) fn is_above(&self) -> bool {
        self.live + self.terminating > self.ceiling
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { live, terminating, available, ceiling, floor } = self;
        let all = live + terminating;
        write!(f, "{all}/{ceiling}")?;
        write!(f, " ({terminating} going), {available} >= {floor}")
    }
}

impl Report {
    /// The report with one row for each moment.
    pub fn by_moment(&self) -> ByMoment<'_> {
        ByMoment(self)
    }
}

/// Every step, one a line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>7}  {:<24}  {:<10}  WHAT", "TIME", "MACHINES, AVAILABLE", "WHO")?;
        for step in &self.steps {
            let time = format!("{}s", step.at);
            writeln!(f, "{time:>7}  {:<24}  {:<10}  {}", step.counts.to_string(), step.who, step.what)?;
        }
        let End { at, counts, exists, revision, progressing, ready, waits, most, fewest_available } =
            &self.end;
        if *exists {
            write!(f, "after {at}s: ")?;
            if let Some(revision) = revision {
                write!(f, "revision {revision}, ")?;
            }
            write!(f, "{}, ", if *ready { "ready" } else { "not ready" })?;
            write!(
                f,
                "{} live, {} terminating, {} available",
                counts.live, counts.terminating, counts.available
            )?;
            match progressing {
                Some(reason) => writeln!(f, "; {reason}")?,
                None => writeln!(f)?,
            }
        } else {
            let left = counts.live + counts.terminating;
            let are = if left == 1 { "is" } else { "are" };
            writeln!(f, "after {at}s: deleted; {} {are} left", Count(left, "machine"))?;
        }
        for wait in waits {
            writeln!(f, "{wait}")?;
        }
        let were = if *fewest_available == 1 { "was" } else { "were" };
        let most = Count(*most, "machine");
        writeln!(f, "at most {most} existed, at least {fewest_available} {were} available")?;
        for violation in &self.violations {
            writeln!(f, "BROKEN PROMISE: {violation}")?;
        }
        Ok(())
    }
}
