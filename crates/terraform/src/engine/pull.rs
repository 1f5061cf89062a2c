//! Small commands beside a run: fetching a state that is kept elsewhere, and taking in again what a killed run made.

use std::{ffi::OsString, fs, path::Path, time::Duration};

use tokio::time::timeout;

use super::{
    blocking,
    job::{Halt, Job},
    prepare::Ground,
    settle,
};
use crate::{
    failure::{self, Class, Failure, Reason, Step},
    folders::{guest, make_private, read_optional, remove, write_durable},
    process::{Ended, Files, Process, Start},
    record::Damage,
};

/// The stage of imports beside a run.
const IMPORT: &str = "import-beside";
/// Where a state lies that is handed in, below the guest's folder.
const PENDING: &str = "state/pending.tfstate";
/// How long a backend may take.
const PATIENCE: Duration = Duration::from_secs(120);

impl Job {
    /// Fetches the state; first hands in what could not be written there.
    pub async fn pull(&self, ground: &Ground) {
        // What is not taken now is handed in before the next run.
        let _ = self.push(ground).await;
        if let Some(Said { ended: Ended::Code(0), output, .. }) =
            self.beside(ground, "pull", &["state".into(), "pull".into()]).await
            && settle::sound(&output).is_some()
        {
            let _ = write_durable(&self.folder.state(), &output);
        }
    }

    /// Hands in what the run before could not write to its backend: without it this one would make it all again. What the
    /// backend refuses stays for a person to look at.
    pub async fn hand_in(&self, ground: &Ground) -> Result<Vec<String>, Halt> {
        let pending = self.folder.pending();
        if !ground.remote || !pending.exists() {
            return Ok(Vec::new());
        }
        match self.push(ground).await {
            Ok(()) => {
                self.pull(ground).await;
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

    /// Finds in the backend what the last run left there: a state that is gone, or another one, is not taken for an empty one. Where the
    /// backend does not answer, the run will tell why.
    pub async fn find(&self, ground: &Ground) -> Result<(), Halt> {
        if ground.blank && ground.remote && ground.inputs.as_ref().is_some_and(|inputs| inputs.lent) {
            return Ok(self.nothing_there(ground).await?);
        }
        if (self.expects_state || ground.removed) && !ground.record.touched {
            return Ok(self.expected(ground).await?);
        }
        if !ground.remote {
            return Ok(());
        }
        let lent = ground.inputs.as_ref().is_some_and(|inputs| inputs.lent);
        let folder = self.folder.clone();
        let known = blocking(move || settle::known(&folder)).await?;
        let Some(known) = known.filter(|known| known.resources > 0) else { return Ok(()) };
        let output = match self.state_in_backend(ground).await {
            Ok(output) => output,
            // A backend that answers the run and not the question keeps something back.
            Err(failure) if lent => return Err(failure.into()),
            Err(_) => return Ok(()),
        };
        let found = settle::sound(&output);
        let found = found.as_ref().map(|state| (state, output.as_slice()));
        match known.check(found) {
            // Another program may write it differently.
            Ok(()) | Err(Damage::Altered) => Ok(()),
            Err(damage) => Err(damage.in_backend(&self.folder.state()).into()),
        }
    }

    /// Finds nothing in the backend that lent code begins with: whoever can write there names what is destroyed, and providers that are
    /// started.
    async fn nothing_there(&self, ground: &Ground) -> Result<(), Failure> {
        let output = self.state_in_backend(ground).await?;
        let empty = settle::sound(&output).is_some_and(|state| state.is_empty());
        if empty || output.trim_ascii().is_empty() {
            return Ok(());
        }
        let message = "its backend holds a state already, of which nobody knows who made it, and a template that another namespace lends \
                       does not work on it: use a template of its own namespace, or another place in the backend";
        Err(Failure::new(Reason::StateNotTrusted, message))
    }

    /// The state as the backend gives it.
    async fn state_in_backend(&self, ground: &Ground) -> Result<Vec<u8>, Failure> {
        let Some(said) = self.beside(ground, "find", &["state".into(), "pull".into()]).await else {
            return Err(Failure::killed("the state could not be looked for in its backend".to_owned()));
        };
        if said.ended != Ended::Code(0) {
            return Err(said.failure(Step::Plan).redacted(&ground.redactor().await));
        }
        Ok(said.output)
    }

    /// Finds in the backend what something else has applied; else it would be built a second time.
    async fn expected(&self, ground: &Ground) -> Result<(), Failure> {
        let selected = ground.inputs.as_ref().and_then(|inputs| inputs.workspace.as_deref());
        let lost = |what: &str| {
            let message = format!(
                "something else has applied this, and {what}, in Terraform workspace {}; nothing is built or destroyed until its state is \
                 there, or is given with `capt import-state`",
                selected.unwrap_or("default")
            );
            Failure::new(Reason::StateLost, message)
        };
        if !ground.remote {
            return Err(lost("its module names no backend that could hold a state of it"));
        }
        match settle::sound(&self.state_in_backend(ground).await?) {
            Some(state) if !state.is_empty() => Ok(()),
            _ => Err(lost("its backend holds no state of it")),
        }
    }

    /// Pushes the state that has to be handed in, if there is one.
    async fn push(&self, ground: &Ground) -> Result<(), Failure> {
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
        let said = self.beside(ground, "push", &["state".into(), "push".into(), given.into()]).await;
        match said {
            Some(Said { ended: Ended::Code(0), .. }) => {
                remove(&pending).map_err(|error| Failure::io("remove a state that was handed in", &error))
            }
            Some(said) => Err(said.failure(Step::Apply)),
            None => Err(Failure::killed("the state could not be handed in".to_owned())),
        }
    }

    /// Takes in what a killed run had made and not written to its state yet, under the ids that its stream told. OpenTofu writes
    /// its state every 20 seconds only. What cannot be taken in is told as a warning; where that may pass, no run goes on without it.
    pub async fn take_in(&self, ground: &mut Ground) -> Result<Vec<String>, Halt> {
        let saved = settle::read(&self.folder)?.unwrap_or_default();
        let mut lost = Vec::new();
        while let Some((address, id)) = ground.record.unsaved.pop_first() {
            // One that begins with a dash would be an argument: the stream is the module's to fill.
            if address.starts_with('-') || saved.resources.iter().any(|resource| resource.address == address)
            {
                continue;
            }
            let mut args: Vec<OsString> =
                ["import", "-no-color", "-input=false"].map(OsString::from).to_vec();
            if !ground.remote {
                let mut state = OsString::from("-state=");
                state.push(self.folder.guest().join(guest::STATE));
                args.extend([state, "-backup=-".into()]);
            }
            args.extend([OsString::from(&address), OsString::from(&id)]);
            let failure = match self.beside(ground, IMPORT, &args).await {
                Some(Said { ended: Ended::Code(0), .. }) => {
                    settle::collect(&self.folder, &ground.start, ground.remote, None, 0)?;
                    continue;
                }
                Some(said) => said.failure(Step::Import).redacted(&ground.redactor().await),
                None => Failure::killed(format!("{address} could not be taken into the state")),
            };
            if failure.class == Class::Transient && failure.reason != Reason::ImportFailed {
                ground.record.unsaved.insert(address, id);
                return Err(failure.into());
            }
            lost.push(format!(
                "{address} (id {id}) was made by a run that was killed, and could not be taken into the state: {}",
                failure.message
            ));
        }
        Ok(lost)
    }

    /// Waits for a command of an engine that was killed.
    pub async fn await_beside(&self) -> Result<(), Halt> {
        let files = Files::new(self.folder.run(&self.id), IMPORT);
        if !files.lives() {
            return Ok(());
        }
        let (mut process, mut stopping) = (Process::find(files), self.inner.stopping.subscribe());
        tokio::select! {
            _ = process.ended() => Ok(()),
            _ = stopping.wait_for(|stopping| *stopping) => Err(Halt::Stopping),
        }
    }

    /// How a command ends, and what it prints.
    async fn beside(&self, ground: &Ground, name: &'static str, args: &[OsString]) -> Option<Said> {
        let (shape, binary, inputs) =
            (ground.shape.as_ref()?, ground.binary.as_ref()?, ground.inputs.as_ref()?);
        let (data, scratch) = (self.data(shape), self.scratch());
        make_private(&self.folder.run(&self.id)).ok()?;
        make_private(&scratch).ok()?;
        let environment = &self.inner.shapes.workshop().environment;
        let start = Start {
            guard: self.inner.options.guard.clone(),
            fence: self.fence(ground, false),
            program: binary.path.clone(),
            args: args.to_vec(),
            folder: ground.start.clone(),
            env: environment.of_run(inputs, &data, &scratch, false).ok()?,
            sandbox: self.confinement(shape, inputs),
            reserve: 0,
        };
        let files = Files::new(self.folder.run(&self.id), name);
        let mut process = Process::start(start, files.clone()).ok()?;
        let ended = timeout(PATIENCE, process.ended()).await;
        if ended.is_err() {
            process.kill();
            process.ended().await;
        }
        let said = Said {
            ended: ended.unwrap_or(Ended::Unknown),
            // Cut, a longer one is no state.
            output: files.printed(settle::LARGEST),
            errors: files.last_words(),
        };
        files.clear();
        Some(said)
    }
}

/// How a command ended, and what it printed.
struct Said {
    ended: Ended,
    output: Vec<u8>,
    errors: String,
}

impl Said {
    fn failure(&self, step: Step) -> Failure {
        let code = match self.ended {
            // A shell says so of one that a signal ended.
            Ended::Code(code) => Some(code).filter(|code| *code < 128),
            Ended::Unknown => None,
        };
        failure::classify(step, &[], code, &self.errors)
    }
}
