//! What the end of a process means.

use std::fs;

use super::{
    blocking,
    follow::Followed,
    job::{Halt, Job, Verdict},
    prepare::{Ground, until_another_is_installed},
    settle,
};
use crate::{
    failure::{self, Failure},
    inputs::{Revision, sha256},
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
        ground: &mut Ground,
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
        self.get_to_know(ground, followed).await?;
        let redactor = ground.redactor();
        if !good {
            return Err(failure(stage, followed).redacted(&redactor).into());
        }
        let tally = &followed.tally;
        let mut verdict = Verdict {
            warnings: warnings(&tally.warnings, &redactor),
            drift: tally.drift.clone(),
            ..Verdict::of(Outcome::Done)
        };
        match stage {
            Stage::Plan => {
                let plan = self.take_plan(ground, tally).await?;
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
                verdict.drift.extend(tally.changes.iter().filter(wanted).cloned());
            }
            Stage::Apply | Stage::Destroy => verdict.plan = self.what_was_planned(ground, tally),
            Stage::ApplyPlan => {
                verdict.plan = ground.record.planned.as_ref().map(|planned| planned.plan.clone());
            }
            Stage::Import => {}
        }
        Ok(verdict)
    }

    /// Learns the version of a binary that was run unasked. One that did not tell it, or is too old, is the cause of whatever
    /// came of the run.
    async fn get_to_know(&self, ground: &Ground, followed: &Followed) -> Result<(), Failure> {
        let Some(binary) = ground.binary.as_ref().filter(|binary| binary.version.is_none()) else {
            return Ok(());
        };
        match (&followed.tally.binary, &ground.inputs) {
            (Some((_, version)), Some(inputs)) => {
                binary.learn(version, &inputs.binary).map_err(until_another_is_installed)
            }
            _ => self.ask(ground).await,
        }
    }

    /// Reads the plan that was just made, and keeps it with what it was made from.
    async fn take_plan(&self, ground: &mut Ground, tally: &Tally) -> Result<Plan, Failure> {
        let folder = self.folder.clone();
        let (state, file) = blocking(move || {
            let state = settle::read(&folder)?;
            let bytes = fs::read(folder.plan()).map_err(|error| Failure::io("read the plan", &error))?;
            Ok::<_, Failure>((state, sha256([bytes.as_slice()])))
        })
        .await?;
        let state = state.unwrap_or_default();
        let revision = ground.revision.clone().expect("whoever planned had inputs");
        let parts = [revision.as_str(), &state.lineage, &state.serial.to_string(), &file];
        let id = PlanId(sha256(parts.iter().map(|part| part.as_bytes()))[..16].to_owned());
        let plan = plan(id, revision, state.serial, tally);
        ground.planned(plan.clone(), state.lineage, file);
        Ok(plan)
    }

    /// The plan of an apply that planned by itself: it has no file, so nobody can approve it.
    fn what_was_planned(&self, ground: &Ground, tally: &Tally) -> Option<Plan> {
        let revision = ground.revision.clone()?;
        Some(plan(PlanId(self.id.as_str().to_owned()), revision, 0, tally))
    }
}

fn plan(id: PlanId, revision: Revision, serial: u64, tally: &Tally) -> Plan {
    let counts = tally.plan;
    Plan {
        id,
        revision,
        serial,
        add: counts.add,
        change: counts.change,
        destroy: counts.destroy,
        changes: tally.changes.clone(),
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
