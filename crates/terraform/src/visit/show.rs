//! A kept plan as Terraform shows it to people.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use serde::Deserialize;

use super::Visited;
use crate::{
    binary::Binaries, environment::Environment, failure::Failure, inputs::Inputs, record::Planned, secrets,
};

/// How long a binary may take to say its version.
const VERSION: Duration = Duration::from_secs(20);

/// Why a plan is not shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// There is none.
    #[error("no plan is kept")]
    NoPlan,
    /// No binary can show it.
    #[error("{0}")]
    Binary(String),
    /// The binary could not be started.
    #[error("start {program}")]
    Start {
        /// The binary.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The binary failed.
    #[error("{program} show: {words}")]
    Failed {
        /// The binary.
        program: PathBuf,
        /// Its words, redacted.
        words: String,
    },
}

impl From<Failure> for ShowError {
    fn from(failure: Failure) -> Self {
        Self::Binary(failure.message)
    }
}

/// The part of `shape.json` that says where the root module is.
#[derive(Default, Deserialize)]
struct Made {
    root: PathBuf,
    initialised: bool,
}

impl Visited {
    /// What the binary shows of the kept plan. Terraform hides what it knows to be sensitive; secrets of the inputs and of the
    /// state are taken out besides.
    pub fn show_plan(&self, colours: bool) -> Result<String, ShowError> {
        let Planned { inputs, .. } = self.record.planned.as_ref().ok_or(ShowError::NoPlan)?;
        let binaries = Binaries::new(None, VERSION);
        let binary = binaries.find(&inputs.binary)?;
        let shape = self.record.shape.as_ref().map(|key| self.folders.shape(key));
        let made: Made = shape
            .as_ref()
            .and_then(|shape| serde_json::from_slice(&fs::read(shape.join("shape.json")).ok()?).ok())
            .unwrap_or_default();
        let data = match shape {
            Some(shape) if made.initialised => shape.join("data"),
            _ => self.folder.0.join("data"),
        };
        let started = |source| ShowError::Start { program: binary.path.clone(), source };
        let environment =
            environment(&self.folders, &binaries.path().to_owned(), inputs, &data).map_err(started)?;
        let output = Command::new(&binary.path)
            .arg("show")
            .args((!colours).then_some("-no-color"))
            .arg(self.folder.plan())
            .current_dir(self.folder.work().join(&made.root))
            .env_clear()
            .envs(environment)
            .stdin(Stdio::null())
            .output()
            .map_err(started)?;
        let state = self.state().unwrap_or_default();
        let redactor = secrets::redactor(inputs, &state.secrets);
        let clean = |bytes: &[u8]| redactor.clean(&String::from_utf8_lossy(bytes)).into_owned();
        if output.status.success() {
            return Ok(clean(&output.stdout));
        }
        Err(ShowError::Failed { program: binary.path, words: clean(&output.stderr).trim().to_owned() })
    }
}

/// The environment of the plan, without what lets a run reach the cloud: nothing is asked there.
fn environment(
    folders: &crate::folders::Folders,
    path: &OsString,
    inputs: &Inputs,
    data: &std::path::Path,
) -> io::Result<Vec<(OsString, OsString)>> {
    let without = Inputs { env: BTreeMap::new(), files: BTreeMap::new(), ..inputs.clone() };
    Environment::new(folders.clone(), path.clone(), false).of(&without, data, false)
}
