//! Kept plans, and the drift that was found, as Terraform shows them to people.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    os::unix::process::CommandExt,
    panic::resume_unwind,
    path::PathBuf,
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use serde::Deserialize;

use super::WorkspaceOnDisk;
use crate::{
    beneath::remove,
    binary::Binaries,
    environment::{Environment, Use},
    executor::{LARGEST, PlanFormat, ShowError},
    failure::Failure,
    folders::{Folders, guest},
    guard::{
        Fence, GUARD, Spec,
        term::{self, Moment},
        veiled,
    },
    inputs::{Inputs, Roots},
    private_files::make_private,
    record::Planned,
    secrets,
    settings::Settings,
};

/// Time limit of a binary to report its version.
const VERSION: Duration = Duration::from_secs(20);

/// Grace of a binary that shows a plan when its time is up: it has nothing to save.
const GRACE: Duration = Duration::from_secs(2);

impl From<Failure> for ShowError {
    fn from(failure: Failure) -> Self {
        Self::Binary(failure.message)
    }
}

/// The part of `shape.json` that says where the root module is.
#[derive(Default, Deserialize)]
struct RootModule {
    root: PathBuf,
    initialised: bool,
}

impl WorkspaceOnDisk {
    /// Shows the kept plan with the binary. Terraform hides what it knows to be sensitive; secrets of the inputs and of the state
    /// are redacted in addition. It starts the module's plugins, so it is guarded and confined as a run is.
    pub fn show_plan(&self, format: &PlanFormat) -> Result<String, ShowError> {
        let Planned { inputs, .. } = self.record.planned.as_ref().ok_or(ShowError::NoPlan)?;
        self.show(format, inputs, self.folder.plan())
    }

    /// Shows the drift of the last check with the binary: the changes, and what an apply would do about them. As guarded as
    /// [`Self::show_plan`].
    pub fn show_drift(&self, format: &PlanFormat) -> Result<String, ShowError> {
        let inputs = self.drift().and(self.record.looked.as_ref()).ok_or(ShowError::NoPlan)?;
        self.show(format, inputs, self.folder.drift())
    }

    /// What of the host inputs may name, as the engine has it that was started last.
    fn roots(&self) -> Roots {
        let settings = Settings::read(&self.folders.settings());
        let (allowed, mut never) =
            settings.map(|known| (known.allow_paths, known.refuse_paths)).unwrap_or_default();
        never.push(self.folders.root().to_owned());
        Roots { allowed, never }
    }

    fn show(&self, format: &PlanFormat, inputs: &Inputs, plan: PathBuf) -> Result<String, ShowError> {
        let binaries = Binaries::new(None, VERSION);
        let binary = binaries.find(&inputs.binary)?;
        let entry = self.record.init_entry.as_ref().map(|key| self.folders.init_entry(key));
        let made: RootModule = entry
            .as_ref()
            .and_then(|shape| serde_json::from_slice(&fs::read(shape.join("shape.json")).ok()?).ok())
            .unwrap_or_default();
        let data = match entry {
            Some(entry) if made.initialised => entry.join("data"),
            _ => self.folder.guest().join(guest::DATA),
        };
        let started = |source| ShowError::Start { program: binary.path.clone(), source };
        let scratch = Scratch::new(&self.folders).map_err(started)?;
        // Without what lets a run reach the cloud: nothing is asked there.
        let without = Inputs { env: BTreeMap::new(), files: BTreeMap::new(), ..inputs.clone() };
        let environment =
            Environment::new(self.folders.clone(), binaries.path().to_owned(), true, self.roots());
        let folder = self.folder.guest();
        let rules = environment.sandbox(&[&scratch.0], &[&folder, &data, &plan], &without, Use::default())?;
        let spec = Spec {
            exit: scratch.beside(EXIT),
            fence: Some(scratch.fence(format.limit).map_err(started)?),
            rules: rules.map(|rules| rules.around(&binary.path)),
            program: binary.path.clone(),
            args: ["show".into()]
                .into_iter()
                .chain((!format.colours).then(|| "-no-color".into()))
                .chain([plan.into_os_string()])
                .collect(),
            ..Spec::default()
        };
        let env = environment.of(&without, &data, &scratch.0, false)?;
        let mut command = Command::new(&self.guard);
        command
            .arg0("capt")
            .arg(GUARD)
            .args(spec.arguments())
            .current_dir(folder.join(guest::WORK).join(&made.root))
            .env_clear()
            .envs(veiled(env))
            .stdin(Stdio::null());
        let output = bounded(&mut command, LARGEST).map_err(started)?;
        let Some(output) = output else { return Err(ShowError::TooLarge { program: binary.path }) };
        if scratch.beside(STOPPED).exists() {
            return Err(ShowError::TooLong { program: binary.path, limit: format.limit });
        }
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

/// Runs a command to its end, with what it printed; `None` where that is more than so many bytes.
fn bounded(command: &mut Command, most: u64) -> io::Result<Option<Output>> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let piped = "both were just asked for";
    let (out, err) = (child.stdout.take().expect(piped), child.stderr.take().expect(piped));
    let errors = thread::spawn(move || up_to(err, most));
    let stdout = up_to(out, most);
    let stderr = errors.join().unwrap_or_else(|panic| resume_unwind(panic));
    let status = child.wait()?;
    Ok(stdout?.zip(stderr?).map(|(stdout, stderr)| Output { status, stdout, stderr }))
}

/// Reads a pipe to its end, or closes it where that is further away: who goes on writing then is ended by the system.
fn up_to(pipe: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    pipe.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Extensions of the files of the guard.
const EXIT: &str = "exit";
const TERM: &str = "term";
const STOPPED: &str = "stopped";

/// A scratch folder of one look alone: what runs leave in theirs is nothing for the program of whoever looks.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folders: &Folders) -> io::Result<Self> {
        let folder = folders.scratch(&format!("show {}", std::process::id()));
        remove(&folder)?;
        make_private(&folder)?;
        Ok(Self(folder))
    }

    /// A file of the guard: beside the folder, since the program can write what is in it.
    fn beside(&self, extension: &str) -> PathBuf {
        self.0.with_extension(extension)
    }

    /// Has the guard end the program when its time is up.
    fn fence(&self, limit: Duration) -> io::Result<Fence> {
        let (term, stopped) = (self.beside(TERM), self.beside(STOPPED));
        term::write_once(&term, Moment::now().after(limit))?;
        Ok(Fence { term, grace: GRACE, stopped, why: "its time is up".to_owned(), hand_in: None })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: who takes the number of this process next removes it.
        let _ = remove(&self.0);
        for extension in [EXIT, TERM, STOPPED] {
            let _ = remove(&self.beside(extension));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Option<Output> {
        bounded(Command::new("sh").args(["-c", script]), 1 << 20).expect("started")
    }

    #[test]
    fn no_more_is_read_than_anybody_reads() {
        let output = run("echo out; echo err >&2; exit 3").expect("little");
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(3));
        for endless in ["yes", "yes >&2", "yes & yes >&2"] {
            assert!(run(endless).is_none(), "{endless}");
        }
    }
}
