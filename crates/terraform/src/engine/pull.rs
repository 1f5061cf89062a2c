//! Small commands beside a run: fetching a state that is kept elsewhere, and handing one in.

use std::{ffi::OsString, fs, path::Path, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    alone::ELSEWHERE,
    job::{Halt, Job, Verdict},
    prepare::RunContext,
    state_recovery,
    taken::IMPORT,
};
use crate::{
    beneath::{read_optional, remove},
    blocking::blocking,
    failure::{self, Class, Failure, Reason, Step},
    order::Operation,
    private_files::{make_private, write_durable},
    process::{Ended, Process, ProcessFiles, Start},
    record::Damage,
    state::State,
    view::Outcome,
};

/// Path of a state that is handed in, below the guest's folder.
const PENDING: &str = "state/pending.tfstate";
/// Time limit of a backend.
const PATIENCE: Duration = Duration::from_secs(120);
/// Delays before a backend that did not return the state of a run that ended well is asked again.
const AGAIN: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10)];

impl Job {
    /// Fetches the state that a run left. One that ended well is not done before its state was read: its outputs would be missing, and
    /// nothing here would tell of what it made.
    pub async fn fetch(&self, context: &RunContext, verdict: &mut Verdict) {
        let mut fetched = self.pull(context).await;
        if verdict.outcome != Outcome::Done {
            // What is not known now is found before the next run.
            return;
        }
        for delay in AGAIN {
            if fetched.is_ok() || self.inner.stopping() {
                break;
            }
            sleep(delay).await;
            fetched = self.pull(context).await;
        }
        if let Err(failure) = fetched {
            let message = format!("the run ended well, and its state could not be read: {}", failure.message);
            verdict.outcome = Outcome::Failed(Failure { class: Class::Transient, message, ..failure });
        }
    }

    /// Fetches the state; first hands in what could not be written there.
    pub async fn pull(&self, context: &RunContext) -> Result<(), Failure> {
        // What is not taken now is handed in before the next run.
        let _ = self.push(context).await;
        let output = self.state_in_backend(context).await?;
        match read(&output)? {
            Some(_) => write_durable(&self.folder.state(), &output)
                .map_err(|error| Failure::io("keep a copy of the state", &error)),
            None if context.report.changed == 0 || self.operation == Operation::Destroy => Ok(()),
            None => {
                let message = format!(
                    "the backend holds no state; objects that the run made, changed or destroyed: {}",
                    context.report.changed
                );
                Err(Failure::new(Reason::ApplyFailed, message))
            }
        }
    }

    /// Hands in what the run before could not write to its backend: without it this one would make it all again. What the
    /// backend refuses stays for a person to look at.
    pub async fn hand_in(&self, context: &RunContext) -> Result<Vec<String>, Halt> {
        let pending = self.folder.pending();
        if !context.remote || !pending.exists() {
            return Ok(Vec::new());
        }
        match self.push(context).await {
            Ok(()) => {
                // Where it does not answer, it is asked again at once.
                let _ = self.pull(context).await;
                Ok(Vec::new())
            }
            Err(failure) if failure.reason != Reason::ApplyFailed => Err(failure.into()),
            Err(failure) => {
                let kept = pending.with_file_name("errored.tfstate");
                fs::rename(&pending, &kept).map_err(|error| Failure::io("keep a state", &error))?;
                let (kept, why) = (kept.display(), failure.message);
                Ok(vec![format!("the backend refuses the state of the run before, kept in {kept}: {why}")])
            }
        }
    }

    /// Finds in the backend what the last run left there: a state that is gone, or another one, is not taken for an empty one. Nor is a
    /// backend that does not answer: the next moment it may, and be empty.
    pub async fn find(&self, context: &mut RunContext) -> Result<(), Halt> {
        if context.blank && context.remote && context.inputs.as_ref().is_some_and(|inputs| inputs.lent) {
            self.nothing_there(context).await?;
            context.anew = true;
            return Ok(());
        }
        if (self.expects_state || context.removed) && !context.record.touched {
            return Ok(self.expected(context).await?);
        }
        let folder = self.folder.clone();
        if !context.remote {
            if self.inner.has_siblings(&self.workspace) {
                let here = blocking(move || state_recovery::read(&folder)).await?;
                self.alone(here.as_ref(), "its state is also").await?;
            }
            return Ok(());
        }
        let known = blocking(move || state_recovery::known(&folder)).await?;
        let known = known.filter(|(copy, _)| !copy.is_empty());
        context.anew = known.is_none();
        if context.anew && self.inner.is_alone(&self.workspace) {
            return Ok(());
        }
        let output = self.state_in_backend(context).await.map_err(|failure| {
            let message = format!("the state could not be looked for in its backend: {}", failure.message);
            Failure { class: Class::Transient, message, ..failure }
        })?;
        let found = state_recovery::sound(&output).filter(|found| !is_nothing(found));
        // What a destroy leaves is a state as well, and holds nothing.
        context.anew &= found.as_ref().is_none_or(State::is_empty);
        self.alone(found.as_ref(), ELSEWHERE).await?;
        if context.anew {
            self.begins_alone(found.as_ref())?;
        }
        let Some((copy, known)) = known else { return Ok(()) };
        match known.check(found.as_ref().map(|state| (state, output.as_slice()))) {
            Ok(()) => Ok(()),
            // Another program may write the same differently.
            Err(Damage::Altered) if found.is_some_and(|found| found.same_objects(&copy)) => Ok(()),
            Err(damage) => Err(damage.in_backend(&self.folder.state()).into()),
        }
    }

    /// Finds nothing in the backend that lent code begins with: whoever can write there names what is destroyed, and providers that are
    /// started.
    async fn nothing_there(&self, context: &RunContext) -> Result<(), Failure> {
        let output = self.state_in_backend(context).await?;
        let empty = state_recovery::sound(&output).is_some_and(|state| state.is_empty());
        if empty || output.trim_ascii().is_empty() {
            return Ok(());
        }
        let message = "its backend holds a state already, of which nobody knows who made it, and a template that another namespace lends \
                       does not work on it: use a template of its own namespace, or another place in the backend";
        Err(Failure::new(Reason::StateNotTrusted, message))
    }

    /// The state as it is now, wherever it is kept.
    pub async fn state_now(&self, context: &RunContext) -> Result<State, Failure> {
        let state = if context.remote {
            read(&self.state_in_backend(context).await?)?
        } else {
            let folder = self.folder.clone();
            blocking(move || state_recovery::read(&folder)).await?
        };
        Ok(state.unwrap_or_default())
    }

    /// The state as the backend gives it.
    async fn state_in_backend(&self, context: &RunContext) -> Result<Vec<u8>, Failure> {
        let Some(said) = self.beside(context, "find", &["state".into(), "pull".into()]).await else {
            return Err(Failure::killed("the state could not be looked for in its backend".to_owned()));
        };
        if said.ended != Ended::Code(0) {
            return Err(said.failure(Step::Plan).redacted(&context.redactor().await));
        }
        Ok(said.output)
    }

    /// Finds in the backend what something else has applied; else it would be built a second time.
    async fn expected(&self, context: &RunContext) -> Result<(), Failure> {
        let selected = context.inputs.as_ref().and_then(|inputs| inputs.workspace.as_deref());
        let lost = |what: &str| {
            let message = format!(
                "something else has applied this, and {what}, in Terraform workspace {}; nothing is built or destroyed until its state is \
                 there, or is given with `capt import-state`",
                selected.unwrap_or("default")
            );
            Failure::new(Reason::StateLost, message)
        };
        if !context.remote {
            return Err(lost("its module names no backend that could hold a state of it"));
        }
        match state_recovery::sound(&self.state_in_backend(context).await?) {
            Some(state) if !state.is_empty() => self.alone(Some(&state), ELSEWHERE).await,
            _ => Err(lost("its backend holds no state of it")),
        }
    }

    /// Pushes the state that has to be handed in, if there is one.
    async fn push(&self, context: &RunContext) -> Result<(), Failure> {
        let pending = self.folder.pending();
        if !pending.exists() {
            return Ok(());
        }
        // The command cannot read what is ours.
        let given = self.folder.guest().join(PENDING);
        let lent = read_optional(&pending).and_then(|bytes| {
            self.folder.open_guest()?.write(Path::new(PENDING), &bytes.unwrap_or_default())
        });
        lent.map_err(|error| Failure::io("hand in a state", &error))?;
        let said = self.beside(context, "push", &["state".into(), "push".into(), given.into()]).await;
        match said {
            Some(CommandOutput { ended: Ended::Code(0), .. }) => {
                remove(&pending).map_err(|error| Failure::io("remove a state that was handed in", &error))
            }
            Some(said) => Err(said.failure(Step::Apply)),
            None => Err(Failure::killed("the state could not be handed in".to_owned())),
        }
    }

    /// Waits for a command of an engine that was killed.
    pub async fn await_beside(&self) -> Result<(), Halt> {
        let files = ProcessFiles::new(self.folder.run(&self.id), IMPORT);
        if !files.lives() {
            return Ok(());
        }
        let (mut process, mut stopping) = (Process::find(files), self.inner.stopping.subscribe());
        tokio::select! {
            _ = process.ended() => Ok(()),
            _ = stopping.wait_for(|stopping| *stopping) => Err(Halt::Stopping),
        }
    }

    /// Runs a command, and returns its end and output.
    pub async fn beside(
        &self,
        context: &RunContext,
        name: &'static str,
        args: &[OsString],
    ) -> Option<CommandOutput> {
        let (entry, binary, inputs) =
            (context.init_entry.as_ref()?, context.binary.as_ref()?, context.inputs.as_ref()?);
        let (data, scratch) = (self.data(entry), self.scratch());
        make_private(&self.folder.run(&self.id)).ok()?;
        make_private(&scratch).ok()?;
        let environment = &self.inner.init_cache.initializer().environment;
        let start = Start {
            guard: self.inner.options.guard.clone(),
            fence: self.fence(context, false),
            program: binary.path.clone(),
            args: args.to_vec(),
            folder: context.start.clone(),
            env: environment.of_run(inputs, &data, &scratch, false).ok()?,
            sandbox: self.confinement(entry, inputs).ok()?,
            reserve: 0,
        };
        let files = ProcessFiles::new(self.folder.run(&self.id), name);
        let mut process = Process::start(start, files.clone()).ok()?;
        let ended = timeout(PATIENCE, process.ended()).await;
        if ended.is_err() {
            process.kill();
            process.ended().await;
        }
        let said = CommandOutput {
            ended: ended.unwrap_or(Ended::Unknown),
            // Cut, a longer one is no state.
            output: files.printed(state_recovery::LARGEST),
            errors: files.last_words(),
        };
        files.clear();
        Some(said)
    }
}

/// Parses a backend's answer; `None` if it holds nothing.
fn read(output: &[u8]) -> Result<Option<State>, Failure> {
    if output.trim_ascii().is_empty() {
        return Ok(None);
    }
    let unreadable =
        || Failure::new(Reason::StateUnreadable, "what the backend holds is no state that can be read");
    let found = state_recovery::sound(output).ok_or_else(unreadable)?;
    Ok(Some(found).filter(|found| !is_nothing(found)))
}

/// Returns true for what Terraform prints of a backend without a state.
fn is_nothing(found: &State) -> bool {
    found.lineage.is_empty() && found.is_empty()
}

/// End and output of a command.
pub(super) struct CommandOutput {
    pub ended: Ended,
    pub output: Vec<u8>,
    pub errors: String,
}

impl CommandOutput {
    pub fn failure(&self, step: Step) -> Failure {
        let code = match self.ended {
            // A shell says so of one that a signal ended.
            Ended::Code(code) => Some(code).filter(|code| *code < 128),
            Ended::Unknown => None,
        };
        failure::classify(step, &[], code, &self.errors)
    }
}
