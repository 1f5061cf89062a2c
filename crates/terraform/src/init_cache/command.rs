//! Runs one command of an initialisation, guarded and confined.

use std::{ffi::OsString, path::Path, time::Duration};

use tokio::time::timeout;

use super::build::Initializer;
use crate::{
    beneath::{Dir, remove},
    binary::Program,
    environment::{CLI_VARIABLE, Use},
    failure::{self, Failure, Reason},
    inputs::Inputs,
    process::{Ended, Process, ProcessFiles, Start},
    stream::{self, Tally},
};

/// Time limit for fetching and initialising: a provider of 700 MB over a slow line.
const PATIENCE: Duration = Duration::from_secs(1800);

/// As much of what a command prints is looked at.
const PRINTED: u64 = 16 << 20;

/// The CLI configuration of an `init` with plugins of its own, in the folder of the entry.
pub(super) const STAGED_CLI: &str = "init.tfrc";

/// A command of an initialisation.
pub(super) struct InitCommand<'a> {
    pub stage: &'static str,
    /// The folder of the entry.
    pub folder: &'a Path,
    /// Folder that the command may write, besides its data.
    pub top: &'a Path,
    pub start: &'a Path,
    pub data: &'a Path,
    pub cache: Cache,
    /// It brings the module itself, which may lie on this machine.
    pub(super) fetches: bool,
    pub args: Vec<OsString>,
}

/// Access of a command to the plugin cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    Read,
    /// It has a folder of its own instead.
    Staged,
    Filled,
}

impl Initializer {
    /// Runs one command to its end.
    pub(super) async fn run(
        &self,
        step: InitCommand<'_>,
        inputs: &Inputs,
        binary: &Program,
    ) -> Result<(), Failure> {
        let files = ProcessFiles::new(step.folder, step.stage);
        let scratch = self.folders.scratch(&step.folder.to_string_lossy());
        Dir::make(&scratch)
            .and_then(|scratch| scratch.clear())
            .map_err(|error| Failure::io("clear the folder of init", &error))?;
        let (cli, staged) = (step.folder.join(STAGED_CLI), step.folder.join("plugins"));
        let write = [step.top, step.data, &scratch, &staged];
        let start = Start {
            guard: self.guard.clone(),
            fence: None,
            program: binary.path.clone(),
            args: step.args,
            folder: step.start.to_owned(),
            env: self
                .environment
                .of(inputs, step.data, &scratch, false)?
                .into_iter()
                .chain(git())
                .chain((step.cache == Cache::Staged).then_some((CLI_VARIABLE.into(), cli.into())))
                .collect(),
            sandbox: self.environment.sandbox(
                if step.cache == Cache::Staged { &write } else { &write[..3] },
                &[step.folder],
                inputs,
                Use { fetches: step.fetches, fills: step.cache == Cache::Filled },
            )?,
            reserve: 0,
        };
        let mut process =
            Process::start(start, files.clone()).map_err(|error| Failure::not_started(&error))?;
        let ended = timeout(PATIENCE, process.ended()).await;
        if ended.is_err() {
            process.kill();
            process.ended().await;
        }
        let output = files.printed(PRINTED);
        let mut tally = Tally::new();
        let mut words = files.last_words();
        for line in String::from_utf8_lossy(&output).lines() {
            tally.push(&stream::parse(line));
            if !line.starts_with('{') {
                words.push_str(line);
                words.push('\n');
            }
        }
        files.clear();
        let _ = remove(&scratch);
        match ended {
            Ok(Ended::Code(0)) => Ok(()),
            Ok(Ended::Code(code)) => {
                let redactor = crate::secrets::redactor(inputs, &[]);
                Err(failure::classify(failure::Step::Init, &tally.errors, Some(code), &words)
                    .redacted(&redactor))
            }
            Ok(Ended::Unknown) => Err(Failure::killed(format!("{} was killed", step.stage))),
            Err(_) => {
                let message = format!("{} took longer than {} s", step.stage, PATIENCE.as_secs());
                Err(Failure::new(Reason::Timeout, message))
            }
        }
    }
}

/// Keeps git from taking a folder of the module for a repository, whose configuration may name programs.
fn git() -> impl Iterator<Item = (OsString, OsString)> {
    let pairs = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
        ("GIT_CONFIG_VALUE_0", "explicit"),
    ];
    pairs.into_iter().map(|(name, value)| (name.into(), value.into()))
}
