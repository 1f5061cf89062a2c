//! The state of a workspace whose backend keeps it elsewhere: a copy, for its outputs and the count of its resources.

use std::{ffi::OsString, fs, time::Duration};

use tokio::time::timeout;

use super::{job::Job, prepare::Ground};
use crate::{
    folders::{remove, write_durable},
    process::{Ended, Files, Process, Start},
    state::State,
};

/// How long a backend may take.
const PATIENCE: Duration = Duration::from_secs(120);

impl Job {
    /// Fetches the state; first hands in what Terraform could not write there.
    pub async fn pull(&self, ground: &Ground) {
        let errored = ground.start.join("errored.tfstate");
        if errored.exists()
            && self.state_command(ground, "push", &["push".into(), errored.clone().into()]).await.is_some()
        {
            let _ = remove(&errored);
        }
        if let Some(bytes) = self.state_command(ground, "pull", &["pull".into()]).await
            && State::read(&bytes).is_ok()
        {
            let _ = write_durable(&self.folder.state(), &bytes);
        }
    }

    /// What `state …` prints, if it succeeds.
    async fn state_command(&self, ground: &Ground, name: &'static str, args: &[OsString]) -> Option<Vec<u8>> {
        let (shape, binary, inputs) =
            (ground.shape.as_ref()?, ground.binary.as_ref()?, ground.inputs.as_ref()?);
        let environment = &self.inner.shapes.workshop().environment;
        let start = Start {
            program: binary.path.clone(),
            args: [OsString::from("state")].iter().chain(args).cloned().collect(),
            folder: ground.start.clone(),
            env: environment.of(inputs, shape.data.as_ref()?, false).ok()?,
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
        output.filter(|_| ended == Ok(Ended::Code(0)))
    }
}
