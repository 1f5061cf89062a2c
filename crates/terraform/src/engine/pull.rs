//! Small commands beside a run: fetching a state that is kept elsewhere, and taking in again what a killed run made.

use std::{ffi::OsString, fs, time::Duration};

use tokio::time::timeout;

use super::{
    job::{Halt, Job},
    prepare::Ground,
    settle,
};
use crate::{
    failure::{self, Class, Failure, Reason, Step},
    folders::{make_private, remove, write_durable},
    process::{Ended, Files, Process, Start},
    state::State,
};

/// The stage of imports beside a run.
const IMPORT: &str = "import-beside";
/// How long a backend may take.
const PATIENCE: Duration = Duration::from_secs(120);

impl Job {
    /// Fetches the state; first hands in what could not be written there.
    pub async fn pull(&self, ground: &Ground) {
        // What is not taken now is handed in before the next run.
        let _ = self.push(ground).await;
        if let Some(Said { ended: Ended::Code(0), output, .. }) =
            self.beside(ground, "pull", &["state".into(), "pull".into()]).await
            && State::read(&output).is_ok()
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

    /// Pushes the state that has to be handed in, if there is one.
    async fn push(&self, ground: &Ground) -> Result<(), Failure> {
        let pending = self.folder.pending();
        if !pending.exists() {
            return Ok(());
        }
        let said =
            self.beside(ground, "push", &["state".into(), "push".into(), pending.clone().into()]).await;
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
            if saved.resources.iter().any(|resource| resource.address == address) {
                continue;
            }
            let mut args: Vec<OsString> =
                ["import", "-no-color", "-input=false"].map(OsString::from).to_vec();
            if !ground.remote {
                let mut state = OsString::from("-state=");
                state.push(self.folder.state());
                args.extend([state, "-backup=-".into()]);
            }
            args.extend([OsString::from(&address), OsString::from(&id)]);
            let failure = match self.beside(ground, IMPORT, &args).await {
                Some(Said { ended: Ended::Code(0), .. }) => continue,
                Some(said) => said.failure(Step::Import).redacted(&ground.redactor()),
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
        let data = shape.data.clone().unwrap_or_else(|| self.folder.0.join("data"));
        make_private(&self.folder.run(&self.id)).ok()?;
        let environment = &self.inner.shapes.workshop().environment;
        let start = Start {
            program: binary.path.clone(),
            args: args.to_vec(),
            folder: ground.start.clone(),
            env: environment.of(inputs, &data, false).ok()?,
            sandbox: environment.sandbox(&self.folder.0, inputs),
            reserve: 0,
        };
        let files = Files::new(self.folder.run(&self.id), name);
        let mut process = Process::start(start, files.clone()).ok()?;
        let ended = timeout(PATIENCE, process.ended()).await;
        if ended.is_err() {
            process.kill();
        }
        let said = Said {
            ended: ended.unwrap_or(Ended::Unknown),
            output: fs::read(files.output()).unwrap_or_default(),
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
