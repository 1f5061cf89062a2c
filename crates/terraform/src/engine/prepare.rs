//! Preparation of a run: everything it needs before its process can start, and the record of its intent.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    backend_wait::Moment,
    inner::Inner,
    job::{Halt, Job},
    origin, state_recovery,
    stream_recovery::StreamReport,
};
use crate::{
    beneath::Dir,
    binary::Program,
    blocking::blocking,
    failure::{Class, Failure, Reason},
    hash::sha256,
    init_cache::{self, BackendSettings, InitEntry, ModuleFiles, StateSummary, holds, work},
    inputs::{Inputs, Revision},
    order::{Operation, PlanId},
    private_files::make_private,
    record::{Code, Journal, Planned, Record, Stage},
    redact::Redactor,
    sandbox, secrets,
    state::State,
    view::{Phase, Plan},
};

/// Context of a run: its record, inputs, binary and findings.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent findings, and no states of one thing"
)]
pub(super) struct RunContext {
    pub record: Record,
    pub inputs: Option<Inputs>,
    pub revision: Option<Revision>,
    pub binary: Option<Program>,
    pub init_entry: Option<Arc<InitEntry>>,
    pub start: PathBuf,
    pub remote: bool,
    /// The hash of the place that a backend keeps the state in.
    pub backend: Option<String>,
    /// The files of a module on this machine.
    pub code: Option<Code>,
    pub nothing_to_destroy: bool,
    /// The record was removed: a backend should hold the state.
    pub removed: bool,
    /// Nothing was there when the run began.
    pub blank: bool,
    /// As far as could be seen, its backend held nothing when the run began.
    pub anew: bool,
    /// Events that the last process reported.
    pub report: StreamReport,
    estimate: u64,
    /// Secrets of the state as it was.
    secrets: Arc<Vec<String>>,
}

impl RunContext {
    pub fn bare(record: Record) -> Self {
        Self {
            record,
            inputs: None,
            revision: None,
            binary: None,
            init_entry: None,
            start: PathBuf::new(),
            remote: false,
            backend: None,
            code: None,
            nothing_to_destroy: false,
            removed: false,
            blank: false,
            anew: false,
            report: StreamReport::default(),
            estimate: 0,
            secrets: Arc::default(),
        }
    }

    /// Of a run that was adopted.
    pub fn of_journal(record: Record, journal: &Journal) -> Self {
        let inputs = journal.inputs.clone().or_else(|| record.inputs.clone());
        Self {
            inputs,
            code: journal.code.clone(),
            revision: Some(journal.revision.clone()),
            start: journal.start.clone(),
            remote: journal.remote,
            estimate: journal.estimate,
            ..Self::bare(record)
        }
    }

    /// Keeps a plan that was just made.
    pub fn planned(&mut self, plan: Plan, lineage: String, file: String) {
        if let Some(inputs) = self.inputs.clone() {
            self.record.planned = Some(Planned { plan, inputs, lineage, file });
        }
    }

    pub fn estimate(&self) -> u64 {
        self.init_entry.as_ref().map_or(self.estimate, |entry| entry.estimate())
    }

    /// Takes out what the inputs and the state of before hold.
    pub async fn redactor(&self) -> Redactor {
        self.redactor_with(Arc::clone(&self.secrets)).await
    }

    /// The same with secrets of another state. These can be many, so nobody else waits while it is made.
    pub async fn redactor_with(&self, of_state: Arc<Vec<String>>) -> Redactor {
        let inputs = self.inputs.clone();
        blocking(move || match &inputs {
            Some(inputs) => secrets::redactor(inputs, &of_state),
            None => Redactor::new(of_state.iter().cloned()),
        })
        .await
    }
}

impl Job {
    pub async fn prepare(&self) -> Result<RunContext, Halt> {
        let (record, removed) = self.record().await?;
        let (folder, own) = (self.folder.clone(), self.id.clone());
        let (record, mut state) = blocking(move || {
            let record = state_recovery::catch_up(&folder, record, &own)?;
            let state = if record.remote {
                state_recovery::read(&folder)?
            } else {
                state_recovery::checked(&folder, &record)?
            };
            Ok::<_, Failure>((record, state))
        })
        .await?;
        let mut context = RunContext { removed, ..RunContext::bare(record) };
        if self.operation == Operation::Destroy
            && !self.expects_state
            && !context.removed
            && !context.record.remote
            && context.record.unsaved.is_empty()
            && state.as_ref().is_none_or(State::is_empty)
        {
            context.nothing_to_destroy = true;
            return Ok(context);
        }
        let inputs = self.choose(&context.record)?;
        context.blank = origin::is_blank(&self.folder, &context.record, state.as_ref());
        if origin::check(&context.record, context.blank, self.given.as_ref(), &inputs)? {
            let (folder, record, by) = (self.folder.clone(), context.record, inputs.origin.clone());
            context.record = blocking(move || origin::start_over(&folder, record, by.as_deref()))
                .await
                .map_err(|error| Failure::io("clear the workspace's folder", &error))?;
            state = None;
        }
        let (inner, chosen) = (self.inner.clone(), inputs.clone());
        // An import tells nothing of itself.
        let tells = !matches!(self.operation, Operation::Import { .. });
        let plain = tells && state.as_ref().is_none_or(State::builtin_only) && init_cache::is_plain(&inputs);
        let last = self.code_of_last_apply(&context.record);
        let is_about_last = matches!(self.operation, Operation::Destroy | Operation::Refresh);
        let (binary, files, revision) = blocking(move || {
            inner.admit_inputs(&chosen)?;
            let binary = inner.binaries.find_to_run(&chosen.binary, plain);
            let binary = binary.map_err(until_another_is_installed)?;
            let files = match last {
                Some(last) => Some(last.find(&inner, &chosen)?),
                // No new inputs are to come that would be a reason to try again.
                None if is_about_last => inner.files_of(&chosen).map_err(until_it_is_there)?,
                None => inner.files_of(&chosen)?,
            };
            let revision =
                Revision::of(&chosen, &binary.name, files.as_ref().map(|files| files.hash.as_str()));
            Ok::<_, Failure>((binary, files, revision))
        })
        .await?;
        if let Operation::ApplyPlan(id) = &self.operation {
            self.fresh(&context.record, id, state.as_ref()).await?;
        }
        let content = files.as_ref().map(|files| files.hash.clone());
        let entry = self.entry(&inputs, files, &binary, state.as_ref()).await?;
        context.code = content.map(|content| Code { init_entry: Some(entry.key.clone()), content });
        context.backend = self.claim(&inputs, &entry)?;
        let (folder, rendered, of) = (self.folder.clone(), inputs.clone(), entry.clone());
        context.start = blocking(move || {
            folder.make().map_err(|error| Failure::io("make the workspace's folder", &error))?;
            work::render(&of, &rendered, &folder).map_err(|error| match error {
                work::RenderError::FileName(_) => Failure::new(Reason::InvalidVariable, error.to_string()),
                work::RenderError::Write(error) => Failure::io("write the working folder", &error),
            })
        })
        .await?;
        let mut known = state.map(|state| state.secrets).unwrap_or_default();
        // What is there was made from these, and may be told of while it is changed.
        known.extend(context.record.inputs.iter().flat_map(secrets::values));
        context.secrets = Arc::new(known);
        context.remote = entry.remote;
        (context.inputs, context.binary, context.init_entry, context.revision) =
            (Some(inputs), Some(binary), Some(entry), Some(revision));
        Ok(context)
    }

    /// Takes the place of the state for this workspace alone. Here all is known that names a backend: what was fetched, what overrides it,
    /// what `init` was given.
    fn claim(&self, inputs: &Inputs, entry: &InitEntry) -> Result<Option<String>, Failure> {
        let backend = entry.backend.as_ref().filter(|_| entry.remote);
        let shut_in = self.inner.options.sandbox && sandbox::available();
        if shut_in && backend.is_some_and(BackendSettings::is_file_of_host) {
            let message = "its backend \"local\" keeps the state in a file that no run can write: leave the backend out, and CAPT keeps \
                           the state, or use a backend that is no file";
            return Err(Failure::new(Reason::PathNotAllowed, message));
        }
        let place = backend.map(|backend| backend.place(inputs));
        let claimed = self.inner.table().claim(&self.workspace, place.clone());
        let Err(user) = claimed else { return Ok(place) };
        let shown = Inner::shown(&self.workspace, &user);
        let message = format!(
            "its backend keeps the state of {shown}: they would share one state; give each a key of its own, with ${{WORKSPACE_NAME}}"
        );
        Err(Failure::new(Reason::BackendInUse, message))
    }

    /// Checks that the binary satisfies the choice: asks it, unless its version is known.
    pub async fn ask(&self, context: &RunContext) -> Result<(), Failure> {
        let Some(inputs) = &context.inputs else { return Ok(()) };
        let (inner, choice) = (self.inner.clone(), inputs.binary.clone());
        blocking(move || inner.binaries.find(&choice)).await.map(drop).map_err(until_another_is_installed)
    }

    /// Waits for the entry, which many may wait for.
    async fn entry(
        &self,
        inputs: &Inputs,
        files: Option<ModuleFiles>,
        binary: &Program,
        state: Option<&State>,
    ) -> Result<Arc<InitEntry>, Halt> {
        let held = match state.filter(|state| !state.builtin_only()) {
            Some(state) => Some(StateSummary {
                providers: state.providers.clone(),
                bytes: std::fs::read(self.folder.state())
                    .map_err(|error| Failure::io("read the state", &error))?,
            }),
            None => None,
        };
        let (mut stop, mut stopping) = (self.stop.clone(), self.inner.stopping.subscribe());
        let entry = self.inner.init_cache.get(&self.workspace, inputs, files, binary, held.as_ref());
        tokio::pin!(entry);
        // Most are there already; only a wait is worth telling.
        let quick = tokio::time::sleep(Duration::from_millis(50));
        tokio::select! {
            biased;
            entry = &mut entry => return Ok(entry?),
            () = quick => {}
        }
        let _aside = self.inner.aside();
        self.inner.update(&self.workspace, |view| {
            if let Some(run) = view.run.as_mut() {
                run.phase = Phase::Initialising;
            }
        });
        tokio::select! {
            biased;
            entry = &mut entry => Ok(entry?),
            _ = stop.wait_for(Option::is_some) => self.not_stopped().and(Err(Halt::Stopping)),
            _ = stopping.wait_for(|stopping| *stopping) => Err(Halt::Stopping),
        }
    }

    /// The files of a module on this machine that the last apply was of, for a run that is about what that made. The folder may
    /// hold other code by now: providers that are set up for another account would find nothing there, and forget what is.
    fn code_of_last_apply(&self, record: &Record) -> Option<Applied> {
        if !matches!(self.operation, Operation::Destroy | Operation::Refresh) {
            return None;
        }
        let Code { init_entry, content } = record.code.clone()?;
        let copy = init_entry.map(|entry| self.inner.folders.init_entry(&entry).join("package"));
        Some(Applied { copy, content })
    }

    /// The inputs of a run. What is there to be destroyed or looked at was made from those of the last apply; only what lets a
    /// run reach the cloud may be newer, if it was meant for that code.
    fn choose(&self, record: &Record) -> Result<Inputs, Failure> {
        let unknown = || {
            let text = "no inputs of the last apply are kept, and the object gives none now: bring back what it refers to";
            Failure::new(Reason::InvalidModule, text.to_owned())
        };
        let base = match &self.operation {
            Operation::Plan | Operation::Apply | Operation::Import { .. } => {
                return self.given.clone().or_else(|| record.inputs.clone()).ok_or_else(unknown);
            }
            Operation::ApplyPlan(_) => {
                let of = |planned: &&Planned| {
                    let origin = planned.inputs.origin.as_deref();
                    self.given.as_ref().is_none_or(|given| given.may_apply(origin))
                };
                record.planned.as_ref().filter(of).map(|planned| planned.inputs.clone()).ok_or_else(stale)?
            }
            Operation::Destroy | Operation::Refresh => {
                record.inputs.clone().or_else(|| self.given.clone()).ok_or_else(unknown)?
            }
        };
        Ok(match self.given.clone() {
            Some(given) => {
                let mut inputs = base;
                if given.lend_to(&inputs) {
                    (inputs.env, inputs.files) = (given.env, given.files);
                }
                (inputs.binary, inputs.plugins) = (given.binary, given.plugins);
                // Arguments that were applied before they were refused: the object's can be mended, the kept ones cannot.
                if inputs.check_arguments().is_err() {
                    inputs.args = given.args;
                }
                inputs
            }
            None => base,
        })
    }

    /// Refuses a plan that is not the one that was approved, or that was made for something else.
    async fn fresh(&self, record: &Record, id: &PlanId, state: Option<&State>) -> Result<(), Failure> {
        let planned = record.planned.clone().ok_or_else(stale)?;
        let (serial, lineage) = state.map_or((0, ""), |state| (state.serial, &state.lineage));
        if planned.plan.id != *id || planned.plan.serial != serial || planned.lineage != lineage {
            return Err(stale());
        }
        if let Some(given) = &self.given {
            let (inner, given) = (self.inner.clone(), given.clone());
            let revision = blocking(move || inner.revision(&given)).await?;
            if revision != planned.plan.revision {
                return Err(stale());
            }
        }
        let path = self.folder.plan();
        let file = blocking(move || std::fs::read(path).map(|bytes| sha256([bytes.as_slice()]))).await;
        if file.ok() != Some(planned.file) {
            return Err(stale());
        }
        Ok(())
    }

    /// Writes down what is about to be done, with what a later destroy needs, before it is done.
    pub async fn intend(&self, context: &mut RunContext, stage: Stage) -> Result<(), Halt> {
        let (Some(inputs), Some(revision)) = (&context.inputs, &context.revision) else {
            return Err(Failure::new(Reason::InvalidModule, "nothing was prepared".to_owned()).into());
        };
        let estimate = context.estimate();
        let before = context.record.clone();
        let record = &mut context.record;
        let changes = stage.changes();
        if changes {
            if record.applied.as_ref() != Some(revision) || stage == Stage::Destroy {
                record.applied = None;
            }
            if context.blank || record.made_by != inputs.origin {
                // Whoever begins with nothing vouches for all of it; with what others left, for nothing yet.
                record.made_by = inputs.origin.clone().filter(|_| context.blank);
            }
            if stage == Stage::Apply {
                record.begin();
            }
            record.inputs = Some(inputs.clone());
            record.touched = true;
            record.code.clone_from(&context.code);
            record.remote = context.remote;
            record.backend.clone_from(&context.backend);
        }
        record.init_entry = context.init_entry.as_ref().map(|entry| entry.key.clone());
        record.current = Some(Journal {
            id: self.id.clone(),
            operation: self.operation.clone(),
            revision: revision.clone(),
            inputs: (!changes).then(|| inputs.clone()),
            code: context.code.clone(),
            stage,
            start: context.start.clone(),
            remote: context.remote,
            estimate,
            started: Timestamp::now(),
            timeout: self.timeout,
            max_destroy: self.max_destroy,
            shared: self.shared(),
        });
        let (written, folder, run) = (record.clone(), self.folder.clone(), self.folder.run(&self.id));
        let scratch = self.scratch();
        blocking(move || {
            make_private(&run)?;
            // What a run that was cut off left there is not for this one.
            Dir::make(&scratch)?.clear()?;
            state_recovery::lend(&folder, stage == Stage::ApplyPlan)?;
            written.write(&folder)
        })
        .await
        .map_err(|error| Failure::io("record the run", &error))?;
        if changes && let Err(halt) = self.keep(&mut context.record, None, Moment::Start).await {
            return Err(self.undo(context, before, halt));
        }
        self.inner.update(&self.workspace, |view| {
            view.touched |= changes;
            view.begun |= changes;
            view.applied.clone_from(&context.record.applied);
            if let Some(run) = view.run.as_mut() {
                run.revision = Some(revision.clone());
            }
        });
        Ok(())
    }

    /// Takes back what was intended, where it is not kept and so nothing is started.
    fn undo(&self, context: &mut RunContext, before: Record, halt: Halt) -> Halt {
        if !matches!(halt, Halt::Stopping) {
            context.record = Record { current: None, ..before };
            // What is kept is looked at again, where it may be damaged or another controller's.
            let looked_at = matches!(&halt, Halt::Failed(failure) if failure.reason == Reason::StateNotKept);
            self.inner.table().entry(&self.workspace).known &= looked_at;
        }
        halt
    }
}

/// The code of the last apply.
struct Applied {
    /// Path of the copy to restore.
    copy: Option<PathBuf>,
    content: String,
}

impl Applied {
    /// The files, in the copy or where they came from. Other code than was applied is no reason to go on: it may forget what is there.
    fn find(self, inner: &Inner, inputs: &Inputs) -> Result<ModuleFiles, Failure> {
        if let Some(folder) = self.copy {
            let copy = ModuleFiles { hash: self.content.clone(), folder };
            match holds(&copy.folder, Some(&copy)) {
                Ok(true) => return Ok(copy),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Failure::io("read the code of the last apply", &error)),
            }
        }
        let now = inner.files_of(inputs).map_err(until_it_is_there)?;
        now.filter(|now| now.hash == self.content).ok_or_else(|| {
            let message = "the module's folder holds other code than was applied, and no copy of that is left here: bring that code back; \
                           retainWorkspaceOnDelete leaves what it made as it is when the object goes";
            until_it_is_there(Failure::new(Reason::ModuleNotFound, message.to_owned()))
        })
    }
}

/// A binary that will not do may be replaced without a change of any input. Whoever asks for the revision hears of it until then.
pub(super) fn until_another_is_installed(failure: Failure) -> Failure {
    Failure { class: Class::Transient, ..failure }
}

/// A folder that is missing may come back without a change of any input.
fn until_it_is_there(failure: Failure) -> Failure {
    Failure { class: Class::Transient, ..failure }
}

fn stale() -> Failure {
    let message = "the approved plan is not the one that is kept, or was made for other inputs or another state; plan again";
    Failure::new(Reason::PlanStale, message.to_owned())
}
