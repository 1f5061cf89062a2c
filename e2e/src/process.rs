//! One process in one fresh folder, both gone when the test is.
//!
//! The process is started by a small shell script, the guard, which holds the reading end of a pipe from the test:
//!
//! ```text
//! test process ==pipe==> guard (sh) --child--> command (in the folder, output in `log`)
//! ```
//!
//! Dropping a [`Process`] closes the pipe and waits for the guard; when the test process dies, the kernel closes the
//! pipe. Either way the guard kills the command and removes the folder, so there is one way to stop and it needs no
//! code of ours to run in the dying process. The guard makes the folder itself: there is no moment at which a folder
//! exists and nobody is going to remove it. It has its own process group, so that an interrupt from the terminal ends
//! the test and not the guard before it. Processes that the command starts are the command's own affair.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

const GUARD: &str = include_str!("guard.sh");

/// Why a process could not be started under guard.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// `sh` is missing or the machine is out of processes.
    #[error("start the guard of {name}")]
    Guard {
        name: String,
        #[source]
        source: io::Error,
    },
    /// The guard ended before it answered; its reason is on standard error or in the log.
    #[error("the guard of {name} ended early")]
    GuardEnded { name: String },
    /// The guard reads one argument per line.
    #[error("an argument of {name} is empty or has a line break: {argument:?}")]
    Argument { name: String, argument: OsString },
    /// A file for the command could not be written.
    #[error("write {path}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A fresh folder, readable by this user only, in which one command may be run.
#[derive(Debug)]
pub struct Folder {
    name: String,
    path: PathBuf,
    guard: Child,
    /// Open as long as the folder is to live; `None` only while dropping.
    orders: Option<ChildStdin>,
    answers: Option<BufReader<ChildStdout>>,
}

impl Folder {
    /// Makes a folder; `name` becomes part of its path, so it has only letters, digits and dashes.
    pub fn new(name: &str) -> Result<Self, ProcessError> {
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "capt-guard", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| ProcessError::Guard { name: name.to_owned(), source })?;
        let (orders, answers) = (guard.stdin.take(), guard.stdout.take().map(BufReader::new));
        let mut folder = Self { name: name.to_owned(), path: PathBuf::new(), guard, orders, answers };
        folder.path = PathBuf::from(folder.answer()?);
        Ok(folder)
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file of the folder and returns its path.
    pub fn write(&self, file: &str, contents: impl AsRef<[u8]>) -> Result<PathBuf, ProcessError> {
        let path = self.path.join(file);
        match fs::write(&path, contents) {
            Ok(()) => Ok(path),
            Err(source) => Err(ProcessError::File { path, source }),
        }
    }

    /// Starts a command with the folder as its working directory; its output goes to the file `log`.
    ///
    /// That the program exists is not checked here: if it does not, the process has ended with status 127.
    pub fn run(
        mut self,
        program: &Path,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<Process, ProcessError> {
        let mut order = Vec::new();
        for argument in
            [program.as_os_str().to_owned()].into_iter().chain(arguments.into_iter().map(Into::into))
        {
            let bytes = argument.as_bytes();
            if bytes.is_empty() || bytes.contains(&b'\n') {
                return Err(ProcessError::Argument { name: self.name.clone(), argument });
            }
            order.extend_from_slice(bytes);
            order.push(b'\n');
        }
        order.push(b'\n');
        self.order(&order)?;
        let pid = self.answer()?.parse().map_err(|_| self.guard_ended())?;
        Ok(Process { pid, folder: self })
    }

    fn order(&mut self, order: &[u8]) -> Result<(), ProcessError> {
        let sent = self.orders.as_mut().map(|orders| orders.write_all(order));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.guard_ended()) }
    }

    /// The guard's next line.
    fn answer(&mut self) -> Result<String, ProcessError> {
        let mut line = String::new();
        let read = self.answers.as_mut().map(|answers| answers.read_line(&mut line));
        match (read, line.strip_suffix('\n')) {
            (Some(Ok(_)), Some(answer)) => Ok(answer.to_owned()),
            _ => Err(self.guard_ended()),
        }
    }

    fn guard_ended(&self) -> ProcessError {
        ProcessError::GuardEnded { name: self.name.clone() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.orders.take());
        let stopped = self.guard.wait().is_ok_and(|status| status.success());
        if !stopped && !self.path.as_os_str().is_empty() {
            // Somebody killed the guard. What it left is still in its process group and its folder. Both steps are
            // best effort: a destructor has nobody to tell.
            let group = self.guard.id().to_string();
            let _ = Command::new("sh").args(["-c", "kill -9 -$0", &group]).stderr(Stdio::null()).status();
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A running command and its folder; dropping it kills the command and removes the folder.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    folder: Folder,
}

impl Process {
    /// What its folder is named after.
    pub fn name(&self) -> &str {
        &self.folder.name
    }

    /// The process id of the command.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The folder it runs in.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The exit status if the command has ended by itself, as a shell gives it: 127 not found, 128 + n signal n.
    pub fn exit_status(&self) -> Option<i32> {
        // The file is empty for a moment between its creation and the write of the number.
        fs::read_to_string(self.folder.path.join("exit")).ok()?.trim().parse().ok()
    }

    /// The last `lines` lines of what the command printed, for error messages.
    pub fn log_tail(&self, lines: usize) -> String {
        let path = self.folder.path.join("log");
        let log = fs::read(&path).map_or_else(
            |error| format!("(cannot read {}: {error})", path.display()),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        );
        let skipped = log.lines().count().saturating_sub(lines);
        let mut tail = String::new();
        for line in log.lines().skip(skipped) {
            writeln!(tail, "    {line}").expect("writing to a string cannot fail");
        }
        format!("last lines of the log of {}:\n{tail}", self.folder.name)
    }
}

#[cfg(test)]
pub(crate) mod tests;
