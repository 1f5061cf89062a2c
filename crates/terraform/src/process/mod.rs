//! One process of a run, which outlives the engine.
//!
//! ```text
//! engine ── wrapper (sh; leader of its own group) ── terraform ── plugins
//! ```
//! Whether it lives is told by a lock: its standard input is an empty file that is locked before it starts, and the lock goes
//! when the last process that has it open is gone. No pid can be mistaken for another one's. The wrapper writes the exit code
//! to a file, so that an engine that was not there still learns it.

pub(crate) mod reserve;
pub(crate) mod signal;

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
    time::sleep,
};

use crate::{folders::create_private, sandbox::Rules};

/// Runs the rest, keeps its exit code where `$0` says, and has it itself.
const WRAPPER: &str = r#""$@"; code=$?; echo $code >"$0"; exit $code"#;

/// How often one that is not our child is looked at.
const LOOK: Duration = Duration::from_millis(25);

/// What to start.
pub(crate) struct Start {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub folder: PathBuf,
    pub env: Vec<(OsString, OsString)>,
    /// What shuts it in.
    pub sandbox: Option<Rules>,
    /// Space that is set aside for its stream.
    pub reserve: u64,
}

/// Files of one process in the folder of its run.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    stage: &'static str,
}

impl Files {
    pub fn new(folder: impl Into<PathBuf>, stage: &'static str) -> Self {
        Self { folder: folder.into(), stage }
    }

    fn file(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", self.stage))
    }

    pub fn output(&self) -> PathBuf {
        self.file("out")
    }

    pub fn errors(&self) -> PathBuf {
        self.file("err")
    }

    fn exit(&self) -> PathBuf {
        self.file("exit")
    }

    fn alive(&self) -> PathBuf {
        self.file("alive")
    }

    /// Why it was stopped, written before it is.
    pub fn stopped(&self) -> PathBuf {
        self.folder.join("stopped")
    }

    /// The mark in the environment of its processes.
    pub fn mark(&self) -> String {
        self.folder.display().to_string()
    }

    /// The exit code, once it is written whole.
    pub fn code(&self) -> Option<i32> {
        fs::read_to_string(self.exit()).ok()?.strip_suffix('\n')?.parse().ok()
    }

    /// True while any process of it lives.
    pub fn lives(&self) -> bool {
        match File::open(self.alive()) {
            Ok(file) => matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
            Err(_) => false,
        }
    }

    /// The last words on standard error.
    pub fn last_words(&self) -> String {
        let bytes = fs::read(self.errors()).unwrap_or_default();
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(8192)..]).into_owned()
    }

    /// Gives back the space that was set aside for its stream.
    pub fn release(&self) {
        reserve::release(&self.output());
    }

    /// Removes what can hold secrets, or is of no use any more.
    pub fn clear(&self) {
        for path in [self.output(), self.errors(), self.exit(), self.alive()] {
            // Best effort: the run's folder goes as a whole later.
            let _ = fs::remove_file(path);
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With that code.
    Code(i32),
    /// Nobody knows: it was killed, and its wrapper with it.
    Unknown,
}

/// A process that was started, or found.
pub(crate) struct Process {
    child: Option<Child>,
    files: Files,
    wrapper: Option<u32>,
}

impl Process {
    /// Starts one.
    pub fn start(start: Start, files: Files) -> io::Result<Self> {
        let alive = alive_file(&files.alive())?;
        let output = create_private(&files.output())?;
        reserve::reserve(&output, start.reserve)?;
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(WRAPPER)
            .arg(files.exit())
            .arg(&start.program)
            .args(&start.args)
            .current_dir(&start.folder)
            .env_clear()
            .envs(start.env)
            .env(signal::RUN_VARIABLE, files.mark())
            .stdin(Stdio::from(alive))
            .stdout(output)
            .stderr(create_private(&files.errors())?)
            .process_group(0);
        let child = match start.sandbox {
            None => command.spawn()?,
            Some(rules) => {
                let runtime = Handle::current();
                rules.around(&start.program, || {
                    let _within = runtime.enter();
                    command.spawn()
                })?
            }
        };
        let wrapper = child.id();
        Ok(Self { child: Some(child), files, wrapper })
    }

    /// Takes up one that another engine started, alive or not.
    pub fn find(files: Files) -> Self {
        Self { child: None, files, wrapper: None }
    }

    /// Waits for its end. Can be dropped and called again.
    pub async fn ended(&mut self) -> Ended {
        if let Some(child) = &mut self.child {
            let status = child.wait().await;
            if let Some(code) = self.files.code().or_else(|| status.ok()?.code()) {
                return Ended::Code(code);
            }
            // The wrapper was killed; what it wrapped may live on.
        }
        loop {
            // In this order: the code is there before the lock goes.
            let lives = self.files.lives();
            if let Some(code) = self.files.code() {
                return Ended::Code(code);
            }
            if !lives {
                return Ended::Unknown;
            }
            sleep(LOOK).await;
        }
    }

    /// Interrupts the binary, not its plugins: they must live to finish what they do. False where it is not found (yet).
    pub fn interrupt(&mut self) -> bool {
        let Some(wrapper) = self.wrapper() else { return false };
        signal::children(wrapper).first().is_some_and(|binary| signal::interrupt(*binary))
    }

    /// Kills it, and what it left behind.
    pub fn kill(&mut self) {
        if let Some(wrapper) = self.wrapper() {
            signal::kill_group(wrapper);
        }
        self.reap();
    }

    /// Kills what a killed one left behind.
    pub fn reap(&self) {
        for process in signal::of_run(&self.files.mark()) {
            signal::kill(process);
        }
    }

    /// The most memory it had so far.
    pub fn peak_memory(&mut self) -> u64 {
        self.wrapper().map_or(0, signal::peak_memory)
    }

    fn wrapper(&mut self) -> Option<u32> {
        if self.wrapper.is_none() {
            self.wrapper = signal::eldest(&signal::of_run(&self.files.mark()));
        }
        self.wrapper
    }
}

/// An empty, locked file.
fn alive_file(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.try_lock().map_err(|error| io::Error::new(io::ErrorKind::WouldBlock, error.to_string()))?;
    Ok(file)
}
