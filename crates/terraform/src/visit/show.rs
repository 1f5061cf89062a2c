//! Kept plans, and the drift that was found, as Terraform shows them to people.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde::Deserialize;

use super::Visited;
use crate::{
    binary::Binaries,
    environment::Environment,
    failure::Failure,
    folders::{Folders, guest, make_private, remove},
    guard::{GUARD, Spec, veiled},
    inputs::Inputs,
    record::Planned,
    secrets,
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
    /// state are taken out besides. It starts the module's plugins, so it is guarded and shut in as a run is, by the program
    /// `guard`.
    pub fn show_plan(&self, guard: &Path, colours: bool) -> Result<String, ShowError> {
        let Planned { inputs, .. } = self.record.planned.as_ref().ok_or(ShowError::NoPlan)?;
        self.show(guard, colours, inputs, self.folder.plan())
    }

    /// What the binary shows of the drift that the last look found: what changed, and what an apply would do about it. As guarded as
    /// [`Self::show_plan`].
    pub fn show_drift(&self, guard: &Path, colours: bool) -> Result<String, ShowError> {
        let inputs = self.drift().and(self.record.looked.as_ref()).ok_or(ShowError::NoPlan)?;
        self.show(guard, colours, inputs, self.folder.drift())
    }

    fn show(&self, guard: &Path, colours: bool, inputs: &Inputs, plan: PathBuf) -> Result<String, ShowError> {
        let binaries = Binaries::new(None, VERSION);
        let binary = binaries.find(&inputs.binary)?;
        let shape = self.record.shape.as_ref().map(|key| self.folders.shape(key));
        let made: Made = shape
            .as_ref()
            .and_then(|shape| serde_json::from_slice(&fs::read(shape.join("shape.json")).ok()?).ok())
            .unwrap_or_default();
        let data = match shape {
            Some(shape) if made.initialised => shape.join("data"),
            _ => self.folder.guest().join(guest::DATA),
        };
        let started = |source| ShowError::Start { program: binary.path.clone(), source };
        let scratch = Scratch::new(&self.folders).map_err(started)?;
        // Without what lets a run reach the cloud: nothing is asked there.
        let without = Inputs { env: BTreeMap::new(), files: BTreeMap::new(), ..inputs.clone() };
        let environment = Environment::new(self.folders.clone(), binaries.path().to_owned(), true);
        let folder = self.folder.guest();
        let rules = environment.sandbox(&[&scratch.0], &[&folder, &data, &plan], &without, false);
        let spec = Spec {
            exit: scratch.exit(),
            rules: rules.map(|rules| rules.around(&binary.path)),
            program: binary.path.clone(),
            args: ["show".into()]
                .into_iter()
                .chain((!colours).then(|| "-no-color".into()))
                .chain([plan.into_os_string()])
                .collect(),
            ..Spec::default()
        };
        let env = environment.of(&without, &data, &scratch.0, false).map_err(started)?;
        let output = Command::new(guard)
            .arg0("capt")
            .arg(GUARD)
            .args(spec.arguments())
            .current_dir(folder.join(guest::WORK).join(&made.root))
            .env_clear()
            .envs(veiled(env))
            .stdin(Stdio::null())
            .output()
            .map_err(started)?;
        let mut known = self.state().unwrap_or_default().secrets;
        // A plan also shows what was there before.
        known.extend(self.record.inputs.iter().flat_map(secrets::values));
        let redactor = secrets::redactor(inputs, &known);
        let clean = |bytes: &[u8]| redactor.clean_coloured(&String::from_utf8_lossy(bytes)).into_owned();
        if output.status.success() {
            return Ok(clean(&output.stdout));
        }
        Err(ShowError::Failed { program: binary.path, words: clean(&output.stderr).trim().to_owned() })
    }
}

/// A scratch folder of one look alone: what runs leave in theirs is nothing for the program of whoever looks.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folders: &Folders) -> io::Result<Self> {
        let folder = folders.scratch(&format!("show {}", std::process::id()));
        remove(&folder)?;
        make_private(&folder)?;
        Ok(Self(folder))
    }

    /// Where the guard writes how it ended: beside it, since the program can write what is in it.
    fn exit(&self) -> PathBuf {
        self.0.with_extension("exit")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: who takes the number of this process next removes it.
        let _ = remove(&self.0);
        let _ = remove(&self.exit());
    }
}
