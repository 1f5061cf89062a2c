//! A simulation as it is told to people: a summary, and one row for each moment at which something happened.

use std::fmt;

use capt_api::conditions::types;
use serde::Serialize;

use super::report::{Counts, End, Report, SimulationStep};
use super::times::in_words;
use super::world::World;
use crate::reason::Count;
use crate::{conditions, revision};

/// Summary of a rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// True if it ends as the deployment says, with no machine of another revision left.
    pub finished: bool,
    /// Seconds until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finishes_after: Option<i64>,
    /// True if it stopped at `until` with more to come.
    pub stopped: bool,
    /// Machines that were created.
    pub created: i32,
    /// Machines that were deleted.
    pub deleted: i32,
    /// The most machines that existed at one moment, those being deleted included.
    pub peak: i32,
    /// The fewest that were available at one moment.
    pub low: i32,
}

/// Everything that happened at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// Seconds since the beginning.
    pub at: i64,
    /// The same as people write it.
    pub time: String,
    /// Counts of machines after it.
    pub counts: Counts,
    /// The sets after it.
    pub sets: Vec<SetSize>,
    /// Steps, in few words.
    pub what: Vec<String>,
}

/// Size of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetSize {
    /// Its name.
    pub name: String,
    /// Its revision.
    pub revision: i64,
    /// Machines that it is told to have.
    pub replicas: i32,
    /// Machines that exist and are not being deleted.
    pub live: i32,
    /// Machines that are being deleted.
    pub terminating: i32,
    /// Machines that are available.
    pub available: i32,
}

impl World {
    /// Tells the steps of now as one moment.
    pub(super) fn tell_moment(&mut self) {
        let at = self.seconds();
        let first = self.steps.partition_point(|step| step.at < at);
        if first == self.steps.len() {
            return;
        }
        self.moments.pop_if(|moment| moment.at == at);
        let sizes = self.sets.iter().map(|set| {
            let group = self.of_set(&set.metadata);
            SetSize {
                name: set.metadata.name.clone().unwrap_or_default(),
                revision: revision::of(set),
                replicas: set.spec.replicas,
                live: group.live,
                terminating: group.terminating,
                available: group.available,
            }
        });
        self.moments.push(Moment {
            at,
            time: in_words(at),
            counts: self.counts(),
            sets: sizes.collect(),
            what: phrases(&self.steps[first..]),
        });
    }

    /// `until`: the second at which it was stopped with more to come.
    pub(super) fn into_report(self, until: Option<i64>) -> Report {
        let counts = self.counts();
        let status = self.deployment.status.clone().unwrap_or_default();
        let condition = |kind| conditions::find(&status.conditions, kind);
        let end = End {
            at: until.unwrap_or_else(|| self.seconds()),
            counts,
            exists: self.exists,
            revision: status.current_revision,
            progressing: condition(types::PROGRESSING).map(|condition| condition.reason.clone()),
            ready: condition(types::READY).is_some_and(|condition| condition.status == "True"),
            waits: if self.exists {
                self.waits.iter().map(ToString::to_string).collect()
            } else {
                Vec::new()
            },
            most: self.checks.most.max(counts.live + counts.terminating),
            fewest_available: self.checks.fewest_available.unwrap_or(counts.available).min(counts.available),
        };
        let old = self.sets.iter().filter(|set| Some(revision::of(set)) != end.revision);
        let old: i32 =
            old.map(|set| self.of_set(&set.metadata)).map(|group| group.live + group.terminating).sum();
        let left = counts.live + counts.terminating;
        let rolled_out = end.ready && old == 0 && counts.terminating == 0;
        let finished = if self.exists { rolled_out } else { left == 0 };
        let summary = Summary {
            finished,
            finishes_after: finished.then(|| self.steps.last().map_or(0, |step| step.at)),
            stopped: until.is_some() && !finished,
            created: self.checks.created,
            deleted: self.checks.deleted,
            peak: end.most,
            low: end.fewest_available,
        };
        Report { summary, moments: self.moments, steps: self.steps, end, violations: self.checks.violations }
    }
}

/// Machines that the same thing happened to, or sizes of one set.
enum Phrase {
    Said(String),
    Machines { verb: String, set: String, first: String, count: usize, why: Option<String> },
    Scaled { set: String, from: i64, to: i64, why: String },
}

/// The steps of one moment in few words: what happened to several machines of a set is said once.
fn phrases(steps: &[SimulationStep]) -> Vec<String> {
    let mut all: Vec<Phrase> = Vec::new();
    for step in steps {
        let new = phrase(step);
        let told = all.iter_mut().any(|old| match (old, &new) {
            (
                Phrase::Machines { verb, set, count, .. },
                Phrase::Machines { verb: new_verb, set: new_set, .. },
            ) if verb == new_verb && set == new_set => {
                *count += 1;
                true
            }
            (
                Phrase::Scaled { set, to, why, .. },
                Phrase::Scaled { set: new_set, to: new_to, why: new_why, .. },
            ) if set == new_set => {
                *to = *new_to;
                why.clone_from(new_why);
                true
            }
            _ => false,
        });
        if !told {
            all.push(new);
        }
    }
    all.iter().map(ToString::to_string).collect()
}

fn phrase(step: &SimulationStep) -> Phrase {
    let (head, why) = step.what.split_once(": ").unwrap_or((&step.what, ""));
    let of_set = |machine: &str| machine.rsplit_once('-').map_or(machine, |(set, _)| set).to_owned();
    match (step.who, &step.action) {
        ("set", _) => {
            let Some((verb, machine)) = head.split_once(' ') else { return Phrase::Said(head.to_owned()) };
            let reason = step.action.as_ref().and_then(|action| action["reason"]["reason"].as_str());
            // That a set has too few or too many is what it was scaled for.
            let plain = matches!(reason, Some("Missing" | "TooMany"));
            Phrase::Machines {
                verb: verb.to_owned(),
                set: of_set(machine),
                first: machine.to_owned(),
                count: 1,
                why: (!plain).then(|| why.to_owned()),
            }
        }
        ("machine", _) => {
            let (machine, verb) = head.split_once(' ').unwrap_or((head, ""));
            Phrase::Machines {
                verb: format!("{verb}:"),
                set: of_set(machine),
                first: machine.to_owned(),
                count: 1,
                why: None,
            }
        }
        ("deployment", Some(action)) => match action["change"]["replicas"].as_array().map(Vec::as_slice) {
            Some([from, to]) => Phrase::Scaled {
                set: action["name"].as_str().unwrap_or_default().to_owned(),
                from: from.as_i64().unwrap_or_default(),
                to: to.as_i64().unwrap_or_default(),
                why: why.to_owned(),
            },
            _ => Phrase::Said(format!("{head} ({why})")),
        },
        _ => Phrase::Said(step.what.clone()),
    }
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(words) => f.write_str(words),
            Self::Machines { verb, set, first, count, why } => {
                match (count, verb.strip_suffix(':')) {
                    (1, Some(became)) => write!(f, "{first} {became}")?,
                    (1, None) => write!(f, "{verb} {first}")?,
                    (_, Some(became)) => write!(f, "{count} of {set}: {became}")?,
                    (_, None) => write!(f, "{verb} {count} of {set}")?,
                }
                why.iter().try_for_each(|why| write!(f, " ({why})"))
            }
            Self::Scaled { set, from, to, why } => write!(f, "scaled {set} {from}->{to} ({why})"),
        }
    }
}

/// A report with its summary first and one row for each moment.
pub struct ByMoment<'a>(pub &'a Report);

/// Start of the column WHAT.
const WHAT: usize = 39;

impl ByMoment<'_> {
    /// Its lines, and the column at which each goes on where it is too long for one.
    pub fn lines(&self) -> Vec<(String, usize)> {
        let Report { summary, moments, end, violations, .. } = self.0;
        let mut head = String::new();
        summarize(summary, end, &mut head).expect("a string takes all");
        let mut lines: Vec<_> = head.lines().map(|line| (line.to_owned(), 2)).collect();
        if !moments.is_empty() {
            lines.push((String::new(), 0));
            lines.push((format!("{:>8}  {:<15}  {:<10}  WHAT", "TIME", "MACHINES", "AVAILABLE"), WHAT));
        }
        for Moment { time, counts, what, .. } in moments {
            let Counts { live, terminating, available, ceiling, floor } = counts;
            let going = if *terminating > 0 { format!(" ({terminating} going)") } else { String::new() };
            let machines = format!("{}/{ceiling}{going}", live + terminating);
            let available = format!("{available} >= {floor}");
            let what = what.join(", ");
            lines.push((format!("{time:>8}  {machines:<15}  {available:<10}  {what}"), WHAT));
        }
        if moments.iter().any(|moment| moment.counts.is_above()) {
            lines.extend([(String::new(), 0), (ABOVE.to_owned(), 0)]);
        }
        lines.extend(violations.iter().map(|violation| (format!("BROKEN PROMISE: {violation}"), 2)));
        lines
    }
}

impl fmt::Display for ByMoment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|(line, _)| writeln!(f, "{line}"))
    }
}

/// Why there may be more machines than the ceiling, where there are.
const ABOVE: &str = "Above the ceiling: machines that are being destroyed (going) count, but a machine that failed, or that somebody \
                     deleted, is replaced at once, and a smaller size applies at once.";

fn summarize(summary: &Summary, end: &End, f: &mut impl fmt::Write) -> fmt::Result {
    let Summary { finished: _, finishes_after, stopped, created, deleted, peak, low } = summary;
    let after = in_words(end.at);
    match finishes_after {
        Some(0) if *created + *deleted == 0 => write!(f, "nothing to do")?,
        Some(seconds) => write!(f, "finishes in {}", in_words(*seconds))?,
        None if *stopped => write!(f, "not finished: stopped after {after} (until)")?,
        None => write!(f, "does not finish: nothing more happens after {after}")?,
    }
    let many = |number: i32| Count(number, "machine");
    writeln!(
        f,
        ": {} created, {deleted} deleted; peak {peak} (at most {}), low {low} available (at least {})",
        many(*created),
        end.counts.ceiling,
        end.counts.floor
    )?;
    if !end.exists {
        let left = end.counts.live + end.counts.terminating;
        return writeln!(f, "the deployment is deleted; {} left", many(left));
    }
    let revision = end.revision.map(|revision| format!("revision {revision}, ")).unwrap_or_default();
    let ready = if end.ready { "ready" } else { "not ready" };
    let Counts { live, terminating, available, .. } = end.counts;
    write!(
        f,
        "at the end: {revision}{ready}, {live} live, {terminating} terminating, {available} available"
    )?;
    end.progressing.iter().try_for_each(|reason| write!(f, "; {reason}"))?;
    writeln!(f)?;
    end.waits.iter().try_for_each(|wait| writeln!(f, "{wait}"))
}
