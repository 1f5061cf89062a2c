//! One process of a run, which outlives the engine.
//!
//! Between it and the engine is its [guard]. A lock tells if it is alive: the guard's standard input is an empty
//! file that is locked before it starts, and the lock goes when the guard is gone. No pid can be mistaken for another one's. The
//! guard writes the exit code to a file, so that an engine that was not there still learns it.

pub(crate) mod reserve;

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::{
    process::{Child, Command},
    time::sleep,
};

use crate::signal::{self, PATIENCE};
use crate::{
    beneath::{open_own, read_optional},
    blocking::in_place,
    guard::{self, Fence, Spec},
    private_files::create_private,
    sandbox::Rules,
};

/// Interval of checks of a process that is not our child.
const LOOK: Duration = Duration::from_millis(25);

/// Between a kill and the next look.
const PAUSE: Duration = Duration::from_millis(1);

/// As much of standard error is read.
const WORDS: u64 = 8192;

/// Specification of a process to start.
pub(crate) struct Start {
    /// The program that guards it.
    pub guard: PathBuf,
    /// Fence that ends it when a lease's term is over.
    pub fence: Option<Fence>,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub folder: PathBuf,
    pub env: Vec<(OsString, OsString)>,
    /// Sandbox rules of the process.
    pub sandbox: Option<Rules>,
    /// Space that is set aside for its stream.
    pub reserve: u64,
}

/// Files of one process in the folder of its run.
#[derive(Clone, Debug)]
pub(crate) struct ProcessFiles {
    folder: PathBuf,
    stage: &'static str,
}

impl ProcessFiles {
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
        let written = read_optional(&self.exit()).ok()??;
        std::str::from_utf8(&written).ok()?.strip_suffix('\n')?.parse().ok()
    }

    /// Returns how the process ended, once nothing of it is left.
    pub fn ended(&self) -> Option<Ended> {
        // In this order: the code is there before the lock goes.
        let lives = self.lives();
        let ended = self.code().map_or(Ended::Unknown, Ended::Code);
        (!lives).then_some(ended)
    }

    /// True while its guard lives, and where nobody can tell: what is taken for dead is killed.
    pub fn lives(&self) -> bool {
        match open_own(&self.alive()) {
            Ok(file) => matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }

    /// The last words on standard error.
    pub fn last_words(&self) -> String {
        let mut bytes = Vec::new();
        // The end alone: a run can make the file as long as it likes.
        let read = File::open(self.errors()).and_then(|mut file| {
            let from = file.metadata()?.len().saturating_sub(WORDS);
            file.seek(SeekFrom::Start(from))?;
            file.take(WORDS).read_to_end(&mut bytes)
        });
        if read.is_err() {
            bytes.clear();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Output of the process, up to a size.
    pub fn printed(&self, most: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = File::open(self.output()).and_then(|file| file.take(most).read_to_end(&mut bytes));
        if read.is_err() {
            bytes.clear();
        }
        bytes
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

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With that code.
    Code(i32),
    /// Nobody knows: its guard was killed, and it with that.
    Unknown,
}

/// A process that was started, or found.
pub(crate) struct Process {
    child: Option<Child>,
    files: ProcessFiles,
    guard: Option<u32>,
}

impl Process {
    /// Starts one.
    pub fn start(start: Start, files: ProcessFiles) -> io::Result<Self> {
        let alive = alive_file(&files.alive())?;
        let output = create_private(&files.output())?;
        reserve::reserve(&output, start.reserve)?;
        let Start { guard, fence, program, args, folder, env, sandbox, .. } = start;
        let rules = sandbox.map(|rules| rules.around(&program));
        let spec = Spec { exit: files.exit(), rules, fence, guard: None, program, args };
        let mut command = Command::new(guard);
        command
            .arg0("capt")
            .arg(guard::GUARD)
            .args(spec.arguments())
            .current_dir(folder)
            .env_clear()
            .envs(guard::veiled(env))
            .env(signal::RUN_VARIABLE, files.mark())
            .stdin(Stdio::from(alive))
            .stdout(output)
            .stderr(create_private(&files.errors())?)
            .process_group(0);
        let child = command.spawn()?;
        let guard = child.id();
        Ok(Self { child: Some(child), files, guard })
    }

    /// Takes up one that another engine started, alive or not.
    pub fn find(files: ProcessFiles) -> Self {
        Self { child: None, files, guard: None }
    }

    /// Waits for its end, when nothing of it is left. Can be dropped and called again.
    pub async fn ended(&mut self) -> Ended {
        if let Some(child) = &mut self.child {
            let status = child.wait().await;
            if let Some(code) = self.files.code().or_else(|| status.ok()?.code()) {
                return Ended::Code(code);
            }
        }
        loop {
            if let Some(ended) = self.files.ended() {
                return ended;
            }
            sleep(LOOK).await;
        }
    }

    /// Interrupts the binary, not its plugins: they must live to finish what they do. False where it is not found (yet).
    pub fn interrupt(&mut self) -> bool {
        let Some(guard) = self.guard() else { return false };
        signal::children(guard).first().is_some_and(|binary| signal::interrupt(*binary))
    }

    /// Kills it; its guard kills what it left behind.
    pub fn kill(&mut self) {
        let guard = self.guard();
        for process in guard.map(signal::children).unwrap_or_default() {
            signal::kill(process);
        }
    }

    /// Kills what is left of one whose guard is of no use any more.
    pub fn reap(&self) {
        for process in self.all() {
            signal::kill(process);
        }
    }

    /// Kills what is left of one whose guard was killed, until nothing is: what was killed may take a moment to go, and must not meet
    /// the next run.
    pub async fn gone(&self) {
        let begin = Instant::now();
        while !self.all().is_empty() && begin.elapsed() < PATIENCE {
            self.reap();
            sleep(PAUSE).await;
        }
    }

    fn all(&self) -> Vec<u32> {
        in_place(|| signal::of_run(&self.files.mark()))
    }

    /// The most memory it had so far.
    pub fn peak_memory(&mut self) -> u64 {
        in_place(|| self.guard().map_or(0, signal::peak_memory))
    }

    fn guard(&mut self) -> Option<u32> {
        if self.guard.is_none() {
            self.guard = in_place(|| signal::guard_of(&self.files.mark(), &self.files.alive()));
        }
        self.guard
    }
}

/// An empty, locked file.
fn alive_file(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.try_lock().map_err(|error| io::Error::new(io::ErrorKind::WouldBlock, error.to_string()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_one_when_nobody_holds_the_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = ProcessFiles::new(folder.path(), "apply");
        let lock = alive_file(&files.alive()).expect("locked");
        fs::write(files.exit(), "0\n").expect("write");
        assert_eq!(files.ended(), None, "something of it is left");
        drop(lock);
        assert_eq!(files.ended(), Some(Ended::Code(0)));
        for unfinished in ["", "0"] {
            fs::write(files.exit(), unfinished).expect("write");
            assert_eq!(files.ended(), Some(Ended::Unknown));
        }
    }

    /// A process that was assumed dead is killed, and its result is read from its files.
    #[test]
    fn who_closes_its_files_ends_nobody() {
        crate::beneath::tests::without_capabilities(|| {
            let folder = tempfile::tempdir().expect("a folder");
            let files = ProcessFiles::new(folder.path(), "apply");
            let close = |path: &Path| {
                rustix::fs::chmod(path, rustix::fs::Mode::empty()).expect("closed");
            };
            let lock = alive_file(&files.alive()).expect("locked");
            close(&files.alive());
            assert!(files.lives());
            close(folder.path());
            assert!(files.lives(), "nobody can tell");
            rustix::fs::chmod(folder.path(), rustix::fs::Mode::RWXU).expect("opened");
            fs::write(files.exit(), "3\n").expect("write");
            close(&files.exit());
            drop(lock);
            assert_eq!(files.ended(), Some(Ended::Code(3)));
        });
    }
}
