//! Small commands beside a run: fetching a state that is kept elsewhere, and taking in again what a killed run made.

use std::{ffi::OsString, fs, time::Duration};

use tokio::time::timeout;

use super::{
    job::{Halt, Job},
    prepare::Ground,
    settle,
};
use crate::{
    folders::{make_private, remove, write_durable},
    process::{Ended, Files, Process, Start},
    state::State,
};

/// The stage of imports beside a run.
const IMPORT: &str = "import-beside";
/// How long a backend may take.
const PATIENCE: Duration = Duration::from_secs(120);

impl Job {
    /// Fetches the state; first hands in what Terraform could not write there.
    pub async fn pull(&self, ground: &Ground) {
        let errored = ground.start.join("errored.tfstate");
        if errored.exists() {
            let pushed =
                self.beside(ground, "push", &["state".into(), "push".into(), errored.clone().into()]).await;
            if matches!(pushed, Some((Ended::Code(0), _))) {
                let _ = remove(&errored);
            }
        }
        if let Some((Ended::Code(0), bytes)) =
            self.beside(ground, "pull", &["state".into(), "pull".into()]).await
            && State::read(&bytes).is_ok()
        {
            let _ = write_durable(&self.folder.state(), &bytes);
        }
    }

    /// Takes in what a killed run had made and not written to its state yet, under the ids that its stream told. OpenTofu writes
    /// its state every 20 seconds only. What cannot be taken in is told as a warning.
    pub async fn take_in(&self, ground: &mut Ground) -> Vec<String> {
        let saved = settle::read(&self.folder).ok().flatten().unwrap_or_default();
        let mut lost = Vec::new();
        for (address, id) in std::mem::take(&mut ground.record.unsaved) {
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
            match self.beside(ground, IMPORT, &args).await {
                Some((Ended::Code(0), _)) => {}
                Some((Ended::Code(code), _)) if code < 128 => lost.push(format!(
                    "{address} (id {id}) was made by a run that was killed, and could not be taken into the state"
                )),
                // Killed too, or never started: the next run tries again.
                _ => drop(ground.record.unsaved.insert(address, id)),
            }
        }
        lost
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
    async fn beside(
        &self,
        ground: &Ground,
        name: &'static str,
        args: &[OsString],
    ) -> Option<(Ended, Vec<u8>)> {
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
            sandbox: environment.sandbox(&[&self.folder.0], inputs),
        };
        let files = Files::new(self.folder.run(&self.id), name);
        let mut process = Process::start(start, files.clone()).ok()?;
        let ended = timeout(PATIENCE, process.ended()).await;
        if ended.is_err() {
            process.kill();
        }
        let output = fs::read(files.output()).ok();
        files.clear();
        Some((ended.unwrap_or(Ended::Unknown), output.unwrap_or_default()))
    }
}
