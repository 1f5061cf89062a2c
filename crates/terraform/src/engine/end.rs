//! The end of a run: the state in order and kept, the record written, the view told.

use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    backend_wait::Moment,
    job::{Halt, Job, Verdict},
    origin,
    prepare::RunContext,
    state_recovery,
    table::Why,
};
use crate::{
    beneath::{Dir, remove},
    blocking::blocking,
    failure::{Failure, Reason},
    folders::WorkspaceFolder,
    init_cache::work,
    inputs::{Inputs, Revision},
    log::Log,
    order::{Operation, RunId},
    private_files::{make_private, write_private},
    record::{Record, Seal, Stage},
    secrets,
    state::State,
    view::{Finished, Outcome, Plan, Selected, View},
};

const STAGES: [Stage; 6] =
    [Stage::Plan, Stage::Look, Stage::Apply, Stage::ApplyPlan, Stage::Destroy, Stage::Import];

impl Job {
    pub async fn end(self, context: Option<RunContext>, ended: Result<Verdict, Halt>) {
        let mut verdict = match ended {
            Ok(verdict) => verdict,
            Err(Halt::Stopping) => return self.leave(),
            Err(Halt::Failed(failure)) => Verdict::of(Outcome::Failed(failure)),
            Err(Halt::Stopped(why)) => Verdict::of(stopped(why)),
        };
        let mut context = match context {
            Some(context) => context,
            None => match self.record_at_hand().await {
                Some(context) => context,
                None => return self.tell(verdict, None, None, None),
            },
        };
        // The journal of another run is for whoever goes on with that.
        if context.record.current.as_ref().is_some_and(|journal| journal.id != self.id) {
            return self.tell(verdict, None, None, None);
        }
        let ran = context.record.current.is_some();
        if !ran && self.was_removed(&context.record).await {
            return self.tell_of_removed(verdict);
        }
        let state = match self.settled(&mut context, &mut verdict, ran).await {
            Ok(state) => state,
            Err(Halt::Stopping) => return self.leave(),
            Err(Halt::Stopped(why)) => return self.tell(Verdict::of(stopped(why)), None, None, None),
            // Whatever else went wrong, this has to be seen to first.
            Err(Halt::Failed(failure)) => {
                let unread = !failure.reason.is_damage() && failure.reason != Reason::StateUnreadable;
                verdict.outcome = Outcome::Failed(failure);
                // The disk is full, or failed: what the run left may still be there.
                if ran && unread {
                    return self.end_unwritten(&context, verdict).await;
                }
                None
            }
        };
        if ran {
            context.record.hold(state.as_ref(), Timestamp::now());
            self.seal(&mut context, state.as_ref()).await;
            self.doubt(&mut context, &verdict).await;
        }
        self.conclude(&mut context, &mut verdict, state.as_ref());
        if self.operation.changes() && ran {
            match self.keep(&mut context.record, None, Moment::End).await {
                Ok(()) => {}
                // It is only here, which is less than was asked for.
                Err(Halt::Failed(failure)) => verdict.outcome = Outcome::Failed(failure),
                Err(Halt::Stopped(why)) => verdict.outcome = stopped(why),
                // Not kept yet: the next engine finds the run as it is now, and keeps its end.
                Err(Halt::Stopping) => return self.leave(),
            }
        }
        let finished = self.finished(&context, &verdict);
        context.record.last = Some(finished.clone());
        context.record.current = None;
        self.write_end(&context.record, ran).await;
        let trouble = damage(&verdict.outcome);
        self.tell(verdict, Some(finished), Some(&context.record), state);
        if let Some(trouble) = trouble {
            self.inner.update(&self.workspace, |view| view.trouble = Some(trouble));
        }
    }

    /// Notes the state that the run leaves behind, and keeps a copy of it.
    async fn seal(&self, context: &mut RunContext, state: Option<&State>) {
        let (Some(state), false) = (state.cloned(), context.remote) else { return };
        let folder = self.folder.clone();
        let seal = blocking(move || {
            let bytes = fs::read(folder.state()).ok()?;
            Some(Seal::of(&state, &bytes))
        });
        context.record.state = seal.await.or(context.record.state.take());
    }

    /// Notes where the run left no state that tells of what it did. That outlives this process: else the next one would take what is here for
    /// all there is.
    async fn doubt(&self, context: &mut RunContext, verdict: &Verdict) {
        let changes = context.record.current.as_ref().is_some_and(|journal| journal.stage.changes());
        if !changes {
            return;
        }
        let Some(failure) = damage(&verdict.outcome) else {
            context.record.doubt = None;
            return;
        };
        let folder = self.folder.clone();
        context.record.doubt =
            Some(Box::new(blocking(move || state_recovery::doubt(&folder, &failure)).await));
    }

    async fn record_at_hand(&self) -> Option<RunContext> {
        let folder = self.folder.clone();
        let record = blocking(move || Record::read(&folder)).await.ok()?;
        let journal_free = record.unwrap_or_else(|| Record::new(self.workspace.clone()));
        Some(RunContext::bare(journal_free))
    }

    /// The end of a run whose state could not be taken in: its record and its files stay as they are, and whoever comes next,
    /// a run or an engine, finds all that it told in them.
    async fn end_unwritten(&self, context: &RunContext, mut verdict: Verdict) {
        match self.keep(&mut context.record.clone(), context.report.dump.as_deref(), Moment::End).await {
            Ok(()) | Err(Halt::Failed(_)) => {}
            Err(Halt::Stopped(why)) => verdict.outcome = stopped(why),
            Err(Halt::Stopping) => return self.leave(),
        }
        self.tell(verdict, None, None, None);
    }

    /// The state after the run. Where the run used another place for it, a copy is fetched.
    async fn settled(
        &self,
        context: &mut RunContext,
        verdict: &mut Verdict,
        ran: bool,
    ) -> Result<Option<State>, Halt> {
        if ran {
            self.refound(context, verdict).await?;
        }
        let (folder, journal, report) =
            (self.folder.clone(), context.record.current.clone(), std::mem::take(&mut context.report));
        let (report, settled) = blocking(move || {
            let settled = match &journal {
                Some(journal) => state_recovery::after(&folder, journal, &report),
                None => state_recovery::read(&folder),
            };

            (report, settled)
        })
        .await;
        context.report = report;
        let changes = context.record.current.as_ref().is_some_and(|journal| journal.stage.changes());
        let mut state = match settled {
            Ok(state) => state,
            Err(failure) => {
                // What the run told is all that is known of what it made.
                if changes && failure.reason.is_damage() {
                    let folder = self.folder.clone();
                    let here = blocking(move || state_recovery::read(&folder)).await.ok().flatten();
                    context.record.unsaved.extend(context.report.unsaved(here.as_ref()));
                }
                return Err(failure.into());
            }
        };
        if ran && context.remote && self.operation.changes() {
            self.fetch(context, verdict).await;
            let folder = self.folder.clone();
            state = blocking(move || state_recovery::read(&folder)).await?;
        }
        if ran
            && verdict.outcome == Outcome::Done
            && let Err(shared) = self.ended_alone(context, state.as_ref()).await
        {
            verdict.outcome = Outcome::Failed(shared);
        }
        if changes {
            context.record.unsaved.extend(context.report.unsaved(state.as_ref()));
        }
        if ran {
            // What the run made may be secret too.
            let known = state.as_mut().map(|state| Arc::new(std::mem::take(&mut state.secrets)));
            let known = known.unwrap_or_default();
            let redactor = context.redactor_with(Arc::clone(&known)).await;
            if let Some(state) = &mut state {
                state.secrets = Arc::unwrap_or_clone(known);
            }
            if let Outcome::Failed(failure) = &mut verdict.outcome {
                *failure = failure.clone().redacted(&redactor);
            }
            for warning in &mut verdict.warnings {
                *warning = redactor.clean(warning).into_owned();
            }
            let log = Log::open(self.log(), self.inner.options.log_bytes);
            blocking(move || log.redact_again(&redactor)).await;
        }
        Ok(state)
    }

    /// Updates the record by the outcome.
    fn conclude(&self, context: &mut RunContext, verdict: &mut Verdict, state: Option<&State>) {
        let revision = context.revision.clone();
        let record = &mut context.record;
        let blank = origin::is_blank(&self.folder, record, state);
        let done = verdict.outcome == Outcome::Done;
        if done && matches!(self.operation, Operation::Apply | Operation::ApplyPlan(_)) {
            record.masked.clear();
        }
        record.masked.extend(context.inputs.iter().flat_map(|inputs| masked(inputs, state)));
        record.end(!done && context.report.is_refused(), state);
        match &self.operation {
            Operation::Apply | Operation::ApplyPlan(_) if done => {
                record.applied = revision;
                record.planned = None;
                record.looked = None;
                let _ = remove(&self.folder.drift());
                // Where the plan had nothing to do, no stage recorded them.
                if let Some(inputs) = &context.inputs {
                    // The owner's code vouches for all that it has brought in order; lent code for what it began itself.
                    if !inputs.lent || blank {
                        record.made_by.clone_from(&inputs.origin);
                    }
                    record.inputs = Some(inputs.clone());
                    record.code.clone_from(&context.code);
                    record.touched = true;
                    record.remote = context.remote;
                    // One that was adopted has noted it when it began.
                    if context.backend.is_some() {
                        record.backend.clone_from(&context.backend);
                    }
                }
            }
            Operation::Destroy if done && (context.remote || state.is_none_or(State::is_empty)) => {
                let (last, seen) = (record.last.take(), record.seen.take());
                *record = Record { last, seen, ..Record::new(self.workspace.clone()) };
            }
            Operation::Destroy if done => {
                let left = state.map_or(0, |state| state.resources.len());
                let message = format!("the destroy ended well and left resources in the state: {left}");
                verdict.outcome = Outcome::Failed(Failure::new(Reason::DestroyFailed, message));
            }
            _ => {}
        }
    }

    /// The revision that this run tells something about.
    fn tried(&self, known: Option<&Revision>) -> Option<Revision> {
        let superseded = *self.stop.borrow() == Some(Why::Superseded);
        known.or(self.aim.as_ref()).filter(|_| !superseded).cloned()
    }

    fn finished(&self, context: &RunContext, verdict: &Verdict) -> Finished {
        Finished {
            id: self.id.clone(),
            operation: self.operation.clone(),
            revision: self.tried(context.revision.as_ref()),
            started: self.started,
            ended: Timestamp::now(),
            outcome: verdict.outcome.clone(),
            plan: verdict.plan.clone(),
            drift: verdict.drift.clone(),
            warnings: verdict.warnings.clone(),
            undeclared: verdict.undeclared.clone(),
        }
    }

    async fn write_end(&self, record: &Record, ran: bool) {
        let (record, folder, run) = (record.clone(), self.folder.clone(), self.folder.run(&self.id));
        let stages = STAGES.map(|stage| self.files(stage));
        let (kept, outcome) =
            (self.inner.options.runs_kept, record.last.as_ref().map(|last| last.outcome.clone()));
        let (log_bytes, scratch) = (self.inner.options.log_bytes, self.scratch());
        let destroyed = self.operation == Operation::Destroy && record.is_blank();
        blocking(move || {
            // Where this fails (a full disk) the files stay, and the next engine reads the end from them again.
            if make_private(&run)
                .and_then(|()| folder.make())
                .and_then(|()| record.write_end(&folder))
                .is_err()
            {
                return;
            }
            // For people who look at an older run than the last. Without it they see its log all the same.
            let _ = record
                .last
                .as_ref()
                .and_then(|last| serde_json::to_vec(last).ok())
                .map(|end| write_private(&run.join(crate::folders::END), &end));
            if let Some(Outcome::Failed(failure)) = outcome
                && !ran
            {
                let redactor = crate::redact::Redactor::default();
                Log::open(run.join("log"), log_bytes).text(&failure.message, &redactor);
            }
            if ran {
                stages.iter().for_each(crate::process::ProcessFiles::clear);
                let _ = remove(&run.join("stopped"));
            }
            // Not before the record says so: who reads the end again from these would find that nothing tells of it.
            if destroyed {
                work::take_out(&folder);
                for path in [folder.plan(), folder.drift(), folder.copies()] {
                    let _ = remove(&path);
                }
            }
            state_recovery::keep_copy(&folder, &record);
            // What the run left there is for nobody else.
            let _ = Dir::open(&scratch).and_then(|scratch| scratch.clear());
            prune(&folder, kept);
        })
        .await;
    }

    /// Tells how the workspace stands now, and makes room for the next run.
    pub fn tell(
        &self,
        verdict: Verdict,
        finished: Option<Finished>,
        record: Option<&Record>,
        state: Option<State>,
    ) {
        let finished = finished.unwrap_or_else(|| Finished {
            id: self.id.clone(),
            operation: self.operation.clone(),
            revision: self.tried(None),
            started: self.started,
            ended: Timestamp::now(),
            outcome: verdict.outcome,
            plan: verdict.plan,
            drift: verdict.drift,
            warnings: verdict.warnings,
            undeclared: verdict.undeclared,
        });
        let took = Duration::try_from(finished.ended.duration_since(finished.started)).unwrap_or_default();
        let mut table = self.inner.table();
        table.count(self.operation.as_str(), &finished.outcome, took);
        let entry = table.entry(&self.workspace);
        match record {
            Some(record) => entry.view = view(record, state),
            None => entry.view.run = None,
        }
        entry.view.last = Some(finished);
        entry.run = None;
        entry.claims = None;
        table.under_way -= 1;
        self.inner.pump(&mut table);
        drop(table);
        self.inner.changed(&self.workspace);
    }

    /// Leaves everything to the next engine.
    fn leave(&self) {
        self.inner.table().under_way -= 1;
    }
}

/// Returns the damage that keeps every further run from starting.
pub(super) fn damage(outcome: &Outcome) -> Option<Failure> {
    match outcome {
        Outcome::Failed(failure) if failure.reason.is_damage() => Some(failure.clone()),
        _ => None,
    }
}

fn stopped(why: Why) -> Outcome {
    match why {
        Why::Cancelled | Why::Superseded => Outcome::Cancelled,
        Why::TimedOut => Outcome::TimedOut,
        Why::Full => Outcome::Failed(Failure::new(
            Reason::DiskFull,
            "the disk is full: the run was interrupted while there was space to write down what it had made",
        )),
        Why::Fenced(who) => Outcome::Failed(Failure::new(
            Reason::StateLocked,
            format!("somebody else owns the workspace: {who}"),
        )),
    }
}

/// Outputs of a state that hold a secret of inputs.
fn masked(inputs: &Inputs, state: Option<&State>) -> BTreeSet<String> {
    let open = state.into_iter().flat_map(|state| &state.outputs).filter(|(_, output)| !output.sensitive);
    secrets::held(inputs, open.map(|(name, output)| (name.as_str(), &output.value)))
}

/// Builds the view of a record and a state.
pub(super) fn view(record: &Record, state: Option<State>) -> View {
    let claim = record.claim_on(state.as_ref());
    let mut state = state.unwrap_or_default();
    // The inputs are looked at again: a record of an older version lists none, and a state may have come from elsewhere.
    let mut held = record.inputs.as_ref().map(|inputs| masked(inputs, Some(&state))).unwrap_or_default();
    held.extend(record.masked.iter().cloned());
    held.retain(|name| state.outputs.get(name).is_some_and(|output| !output.sensitive));
    for name in &held {
        state.outputs.entry(name.clone()).and_modify(|output| output.sensitive = true);
    }
    let applicable = record
        .planned
        .as_ref()
        .filter(|planned| planned.plan.serial == state.serial && planned.lineage == state.lineage);
    View {
        run: None,
        last: record.last.clone(),
        applied: record.applied.clone(),
        touched: record.touched || !state.resources.is_empty(),
        begun: record.touched && record.inputs.is_some(),
        plan: applicable
            .map(|planned| Plan { origin: planned.inputs.origin.clone(), ..planned.plan.clone() }),
        origin: record.made_by.clone(),
        resources: state.resources.len(),
        serial: state.serial,
        claim,
        outputs: state.outputs.into(),
        backend: record.backend.clone(),
        selected: match record.inputs.as_ref().map(|inputs| &inputs.workspace) {
            None => Selected::Unknown,
            Some(None) => Selected::Default,
            Some(Some(name)) => Selected::Named(name.clone()),
        },
        trouble: None,
        masked: held.into_iter().collect(),
    }
}

/// Removes the oldest runs.
fn prune(folder: &WorkspaceFolder, kept: usize) {
    let mut runs: Vec<RunId> = fs::read_dir(folder.runs())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(RunId)
        .collect();
    runs.sort();
    for old in runs.iter().take(runs.len().saturating_sub(kept.max(1))) {
        let _ = remove(&folder.run(old));
    }
}
