//! Maps the end of a process to an outcome.

use super::{
    follow::Followed,
    job::{Halt, Job, Verdict},
    prepare::RunContext,
    state_recovery,
};
use crate::{
    blocking::blocking,
    failure::{self, Failure, Reason},
    hash::sha256,
    inputs::Revision,
    order::{Operation, PlanId},
    process::Ended,
    record::Stage,
    redact::Redactor,
    stream::{Action, Change, Diagnostic, Tally},
    view::{Outcome, Plan},
};

/// As many warnings are kept: they go into statuses.
const WARNINGS: usize = 10;

impl Job {
    pub async fn judge(
        &self,
        context: &mut RunContext,
        stage: Stage,
        followed: &Followed,
    ) -> Result<Verdict, Halt> {
        let plans = matches!(stage, Stage::Plan | Stage::Look);
        let good = match followed.ended {
            Ended::Code(0) => true,
            // `-detailed-exitcode`: there are changes.
            Ended::Code(2) => plans,
            Ended::Code(_) | Ended::Unknown => false,
        };
        if let Some(why) = &followed.why
            // An apply that got to its end before the interrupt is done; a plan may only look so.
            && (plans || !good)
        {
            return Err(Halt::Stopped(why.clone()));
        }
        self.get_to_know(context, followed).await?;
        let redactor = context.redactor().await;
        if !good {
            let failure = failure(stage, followed).redacted(&redactor);
            // What it was about to do is told with what became of it.
            return match self.plan_of_failed(context, stage, followed, &redactor) {
                None => Err(failure.into()),
                plan => Ok(Verdict { plan, ..Verdict::of(Outcome::Failed(failure)) }),
            };
        }
        let tally = &followed.tally;
        if !summed_up(stage, tally) {
            return Err(no_summary(stage, followed).redacted(&redactor).into());
        }
        let mut verdict = Verdict {
            warnings: warnings(&tally.warnings, &redactor),
            undeclared: failure::inputs::undeclared(&tally.warnings),
            drift: cleaned(&tally.drift, &redactor),
            ..Verdict::of(Outcome::Done)
        };
        match stage {
            Stage::Plan => {
                let plan = self.take_plan(context, tally, &redactor).await?;
                let too_many = self.max_destroy.is_some_and(|most| plan.destroy > most);
                verdict.outcome = match self.operation {
                    Operation::Apply if followed.ended == Ended::Code(0) => Outcome::Done,
                    Operation::Apply if too_many => Outcome::Held,
                    _ => Outcome::Planned,
                };
                verdict.plan = Some(plan);
            }
            Stage::Look => {
                let known: Vec<String> = verdict.drift.iter().map(|change| change.address.clone()).collect();
                let wanted =
                    |change: &&Change| !known.contains(&change.address) && change.action != Action::Read;
                verdict
                    .drift
                    .extend(cleaned(&tally.changes, &redactor).into_iter().filter(|change| wanted(&change)));
                self.keep_drift(context, !verdict.drift.is_empty()).await;
            }
            Stage::Apply | Stage::Destroy => verdict.plan = self.what_was_planned(context, tally, &redactor),
            Stage::ApplyPlan => {
                verdict.plan = context.record.planned.as_ref().map(|planned| planned.plan.clone());
            }
            Stage::Import => {}
        }
        Ok(verdict)
    }

    /// Doubts a binary that was run unasked, where the run told no version or one that will not do: then the binary may be the cause of
    /// whatever came of the run. It is asked, since the module may have told that.
    async fn get_to_know(&self, context: &RunContext, followed: &Followed) -> Result<(), Failure> {
        let Some(binary) = context.binary.as_ref().filter(|binary| binary.version.is_none()) else {
            return Ok(());
        };
        match (&followed.tally.binary, &context.inputs) {
            (Some((_, version)), Some(inputs)) if binary.would_do(version, &inputs.binary) => Ok(()),
            _ => self.ask(context).await,
        }
    }

    /// Keeps the plan of a look that found drift. What was found counts without it.
    async fn keep_drift(&self, context: &mut RunContext, found: bool) {
        let folder = self.folder.clone();
        let kept = blocking(move || state_recovery::keep_drift(&folder, found)).await;
        context.record.looked = if kept.is_ok_and(|kept| kept) { context.inputs.clone() } else { None };
    }

    /// Reads the plan that was just made, and keeps it with what it was made from.
    async fn take_plan(
        &self,
        context: &mut RunContext,
        tally: &Tally,
        redactor: &Redactor,
    ) -> Result<Plan, Failure> {
        let folder = self.folder.clone();
        let (state, file) = blocking(move || {
            let state = state_recovery::read(&folder)?;
            let bytes = state_recovery::collect_plan(&folder)
                .map_err(|error| Failure::io("take in the plan", &error))?;
            Ok::<_, Failure>((state, sha256([bytes.as_slice()])))
        })
        .await?;
        let state = state.unwrap_or_default();
        let revision = context.revision.clone().expect("whoever planned had inputs");
        let origin = context.inputs.as_ref().and_then(|inputs| inputs.origin.clone());
        let serial = state.serial.to_string();
        let mut parts = vec![revision.as_str(), &state.lineage, &serial, &file];
        parts.extend(origin.as_deref());
        let id = PlanId(sha256(parts.iter().map(|part| part.as_bytes()))[..16].to_owned());
        let plan = Plan { origin, ..plan(id, revision, state.serial, tally, redactor) };
        context.planned(plan.clone(), state.lineage, file);
        Ok(plan)
    }

    /// The plan of an apply that failed on its way.
    fn plan_of_failed(
        &self,
        context: &RunContext,
        stage: Stage,
        followed: &Followed,
        redactor: &Redactor,
    ) -> Option<Plan> {
        match stage {
            Stage::Apply if followed.tally.planned => {
                self.what_was_planned(context, &followed.tally, redactor)
            }
            Stage::ApplyPlan => context.record.planned.as_ref().map(|planned| planned.plan.clone()),
            _ => None,
        }
    }

    /// The plan of an apply that planned by itself: it has no file, so nobody can approve it.
    fn what_was_planned(&self, context: &RunContext, tally: &Tally, redactor: &Redactor) -> Option<Plan> {
        let revision = context.revision.clone()?;
        Some(plan(PlanId(self.id.as_str().to_owned()), revision, 0, tally, redactor))
    }
}

/// Changes as they may be shown: keys of `for_each` are values.
fn cleaned(changes: &[Change], redactor: &Redactor) -> Vec<Change> {
    let clean = |text: &str| redactor.clean(text).into_owned();
    let clean = |change: &Change| Change {
        address: clean(&change.address),
        previous: change.previous.as_deref().map(clean),
        ..change.clone()
    };
    changes.iter().map(clean).collect()
}

fn plan(id: PlanId, revision: Revision, serial: u64, tally: &Tally, redactor: &Redactor) -> Plan {
    let counts = tally.plan;
    Plan {
        id,
        revision,
        origin: None,
        serial,
        add: counts.add,
        change: counts.change,
        destroy: counts.destroy,
        changes: cleaned(&tally.changes, redactor),
    }
}

fn failure(stage: Stage, followed: &Followed) -> Failure {
    let operation = match stage {
        Stage::Plan | Stage::Look => failure::Step::Plan,
        Stage::Apply | Stage::ApplyPlan => failure::Step::Apply,
        Stage::Import => failure::Step::Import,
        Stage::Destroy => failure::Step::Destroy,
    };
    let code = match followed.ended {
        Ended::Code(code) => Some(code),
        Ended::Unknown => None,
    };
    let killed = code.is_none_or(|code| code >= 128);
    if killed && followed.tally.errors.is_empty() {
        return Failure::killed(format!("{} was killed before it ended", stage.as_str()));
    }
    failure::classify(operation, &followed.tally.errors, code, &followed.words)
}

/// Returns true if a process reported a summary. An exit code alone is no success: a wrapper, or an argument that asks for help,
/// ends with 0 as well. An import prints no stream.
fn summed_up(stage: Stage, tally: &Tally) -> bool {
    match stage {
        Stage::Plan | Stage::Look => tally.planned,
        Stage::Apply | Stage::ApplyPlan | Stage::Destroy => tally.finished,
        Stage::Import => true,
    }
}

fn no_summary(stage: Stage, followed: &Followed) -> Failure {
    let said = failure::last_words(&followed.words);
    let said = if said.is_empty() { String::new() } else { format!("; its last words: {said}") };
    let message = format!(
        "{} ended with exit code 0 and printed no summary of what it did, so nothing is known to be done{said}",
        stage.as_str()
    );
    Failure::new(Reason::NoSummary, message)
}

fn warnings(diagnostics: &[Diagnostic], redactor: &Redactor) -> Vec<String> {
    let text = |diagnostic: &Diagnostic| {
        let place = match (&diagnostic.file, diagnostic.line) {
            (Some(file), Some(line)) => format!(" ({file}:{line})"),
            _ => String::new(),
        };
        redactor.clean(&format!("{}{place}", diagnostic.summary)).into_owned()
    };
    diagnostics.iter().take(WARNINGS).map(text).collect()
}
