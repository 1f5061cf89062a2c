//! Finds `tofu` and `terraform`, and knows their versions.
//!
//! A version is asked for once per path and modification time in the life of the process, and only where it matters. It is the binary
//! that is asked, never a run: its module can print what it likes, and what is known holds for all workspaces. A binary that is garbage
//! or hangs gives a failure, kept for a while so that it is not run on every question.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    io::Read,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;

use crate::{
    failure::{Failure, Reason},
    inputs::{BinaryName, Choice},
    signal,
    version::{Constraint, Version},
};

/// Older ones are refused: 1.5 has everything the engine uses (`terraform_data` came in 1.4, `import` blocks in 1.5), and is the last
/// Terraform under an open licence, so the oldest one that people have a reason to keep.
pub(crate) const OLDEST: &str = "1.5.0";

/// Lifetime of a lookup in the folders of PATH, as long as the binary that was found still exists: every reconcile of every
/// workspace asks.
const LOOKED: Duration = Duration::from_secs(1);

/// Delay before a binary that could not report its version is asked again.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// A binary that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// `tofu` or `terraform`.
    pub name: String,
    /// Path of the binary.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
}

/// A binary that runs may be started with, though it may not have told its version yet.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub name: String,
    pub path: PathBuf,
    /// `None`: it was not asked.
    pub version: Option<String>,
}

impl Program {
    /// Returns true if the binary would satisfy the choice, were it of that version.
    pub fn would_do(&self, version: &str, choice: &Choice) -> bool {
        check(&self.path, version, choice).is_ok()
    }
}

/// The binary that a choice means on `$PATH`. Asks it for its version.
pub fn find(choice: &Choice) -> Result<Binary, Failure> {
    Binaries::new(None, Duration::from_secs(20)).find(choice)
}

/// Finds binaries, and caches their versions.
pub(crate) struct Binaries {
    path: OsString,
    timeout: Duration,
    found: Mutex<HashMap<FileNames, (Vec<PathBuf>, Instant)>>,
}

/// Names of a binary's file, in order of preference.
type FileNames = &'static [&'static str];

/// Cached answer of a binary; `None` before it was asked.
type Answer = Arc<Mutex<Option<Known>>>;

/// Of each path. Shared by all that ask: one may ask before an engine is there, while other things are made ready.
static ANSWERS: LazyLock<Mutex<HashMap<PathBuf, Answer>>> = LazyLock::new(Mutex::default);

struct Known {
    modified: SystemTime,
    version: Result<String, Failure>,
    asked: Instant,
}

impl Known {
    /// Returns true if the answer is of the binary that is at `path` now.
    fn is_of(&self, path: &Path) -> bool {
        self.modified == modified(path)
    }
}

impl Binaries {
    pub fn new(path: Option<OsString>, timeout: Duration) -> Self {
        let path = path.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        Self { path, timeout, found: Mutex::default() }
    }

    /// Search path for binaries.
    pub fn path(&self) -> &OsStr {
        &self.path
    }

    /// The first binary that will do. Where none does, the failure is that of the first that is there.
    pub fn find(&self, choice: &Choice) -> Result<Binary, Failure> {
        let names = names(choice);
        let mut first = None;
        for path in self.locate(names) {
            let version = self.version(&path);
            match version.and_then(|version| check(&path, &version, choice).map(|()| version)) {
                Ok(version) => return Ok(Binary { name: name(&path), path, version }),
                Err(failure) => first = first.or(Some(failure)),
            }
        }
        Err(first.unwrap_or_else(|| {
            Failure::new(
                Reason::BinaryNotFound,
                format!("{} is not installed: no such program on PATH", names.join(" or ")),
            )
        }))
    }

    /// The same to run. Where `any` version will do, a run refuses by itself what is too old: then what is the only choice is not
    /// asked, for that takes as long as half a run.
    pub fn find_to_run(&self, choice: &Choice, any: bool) -> Result<Program, Failure> {
        if any
            && let ([path], None) = (self.locate(names(choice)).as_slice(), &choice.constraint)
            && !answer(path)
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_ref()
                .is_some_and(|known| known.is_of(path))
        {
            return Ok(Program { name: name(path), path: path.clone(), version: None });
        }
        let Binary { name, path, version } = self.find(choice)?;
        Ok(Program { name, path, version: Some(version) })
    }

    /// Returns true if there is a binary for a choice, whatever its version.
    pub fn is_there(&self, choice: &Choice) -> bool {
        !self.locate(names(choice)).is_empty()
    }

    /// Paths of the programs of these names.
    fn locate(&self, names: FileNames) -> Vec<PathBuf> {
        let found = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let before = found().get(names).filter(|(_, looked)| looked.elapsed() < LOOKED).cloned();
        if let Some((paths, _)) = before.filter(|(paths, _)| paths.iter().all(|path| is_program(path))) {
            return paths;
        }
        let folders: Vec<PathBuf> =
            std::env::split_paths(&self.path).filter(|folder| folder.is_absolute()).collect();
        let of = |name| folders.iter().map(|folder| folder.join(name)).find(|path| is_program(path));
        let paths: Vec<PathBuf> = names.iter().filter_map(of).collect();
        // Who installs what was missing is not to wait.
        if !paths.is_empty() {
            found().insert(names, (paths.clone(), Instant::now()));
        }
        paths
    }

    fn version(&self, path: &Path) -> Result<String, Failure> {
        let (modified, answer) = (modified(path), answer(path));
        // Held while the question is asked: nobody asks twice.
        let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*answer
            && known.is_of(path)
            && (known.version.is_ok() || known.asked.elapsed() < LEFT_ALONE)
        {
            return known.version.clone();
        }
        let version = ask(path, self.timeout);
        *answer = Some(Known { modified, version: version.clone(), asked: Instant::now() });
        version
    }
}

/// Checks a binary of that version against the choice.
fn check(path: &Path, version: &str, choice: &Choice) -> Result<(), Failure> {
    let broken =
        || Failure::new(Reason::BinaryBroken, format!("{} says its version is {version:?}", path.display()));
    let parsed = version.parse::<Version>().map_err(|_| broken())?;
    let oldest = OLDEST.parse::<Version>().expect("a version");
    if parsed < oldest {
        let message = format!("{} is {version}; {OLDEST} or newer is needed", path.display());
        return Err(Failure::new(Reason::BinaryTooOld, message));
    }
    if let Some(text) = &choice.constraint {
        let constraint = text.parse::<Constraint>().map_err(|error| {
            Failure::new(Reason::BinaryNotFound, format!("version constraint {text:?}: {error}"))
        })?;
        if !constraint.matches(&parsed) {
            let message = format!("{} is {version}, which does not meet {text:?}", path.display());
            return Err(Failure::new(Reason::BinaryTooOld, message));
        }
    }
    Ok(())
}

fn answer(path: &Path) -> Answer {
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(answers.entry(path.to_owned()).or_default())
}

fn modified(path: &Path) -> SystemTime {
    path.metadata().and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn names(choice: &Choice) -> FileNames {
    match choice.name {
        BinaryName::Auto => &["tofu", "terraform"],
        BinaryName::Tofu => &["tofu"],
        BinaryName::Terraform => &["terraform"],
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn ask(path: &Path, timeout: Duration) -> Result<String, Failure> {
    let broken =
        |what: &str| Failure::new(Reason::BinaryBroken, format!("{} version: {what}", path.display()));
    let mut child = Command::new(path)
        .args(["version", "-json"])
        .env_clear()
        .envs([("CHECKPOINT_DISABLE", "1"), ("TF_CLI_CONFIG_FILE", "/dev/null"), ("HOME", "/nonexistent")])
        // It ends before its memory is worth collecting.
        .env("GOGC", "off")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| broken(&error.to_string()))?;
    let mut output = child.stdout.take().expect("piped");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = output.by_ref().take(1 << 16).read_to_end(&mut text);
        // The one who asked may have given up.
        let _ = sender.send(read.map(|_| text));
    });
    let answer = receiver.recv_timeout(timeout);
    signal::kill_group(child.id());
    let _ = child.wait();
    let text = match answer {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return Err(broken(&error.to_string())),
        Err(_) => return Err(broken(&format!("no answer within {} s", timeout.as_secs_f32()))),
    };
    let answer: Value = serde_json::from_slice(&text).map_err(|_| broken("the answer is no JSON"))?;
    let version =
        answer["terraform_version"].as_str().ok_or_else(|| broken("the answer names no version"))?;
    Ok(version.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn install(folder: &Path, name: &str) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn what_goes_is_missed_at_once_and_what_comes_first_is_found() {
        let lab = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| lab.path().join(name));
        let path = std::env::join_paths([Path::new("relative"), &first, &second]).unwrap();
        let binaries = Binaries::new(Some(path), Duration::from_secs(1));
        let choice = Choice::default();
        let locate = || binaries.locate(names(&choice));
        assert!(locate().is_empty() && !binaries.is_there(&choice));
        // Nothing is remembered of what was missing.
        let later = install(&second, "terraform");
        assert_eq!(locate(), std::slice::from_ref(&later));
        let other = install(&first, "terraform");
        fs::remove_file(&later).unwrap();
        assert_eq!(locate(), std::slice::from_ref(&other));
        fs::remove_file(&other).unwrap();
        assert!(locate().is_empty());
    }
}
