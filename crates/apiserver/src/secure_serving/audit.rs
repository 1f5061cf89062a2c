//! The audit log: a line of JSON for each request, and one more when a watch begins.
//!
//! Never a body, never a query (selectors and tokens live there). Logging waits for nothing: a thread writes, the
//! queue to it is bounded, and lines that find it full are counted as lost. The file is its owner's alone; when it
//! is full it becomes `<name>.1`, that `<name>.2`, and the oldest goes.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use serde::Serialize;
use tokio::sync::oneshot;

use crate::authn::files;

/// A burst of this many requests finds room while the disk is slow; a line is a few hundred bytes.
const QUEUE: usize = 4096;
/// Lines are written together up to this size.
const BATCH: usize = 64 << 10;
/// The longest value of a field that a client chooses; longer ones are cut.
const LONGEST: usize = 1024;

/// Why there is no audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be opened.
    #[error("open the audit log {}", .0.display())]
    Open(PathBuf, #[source] io::Error),
    /// The thread cannot be started.
    #[error("start the thread that writes the audit log")]
    Thread(#[source] io::Error),
}

/// Rotation of the log files.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Size at which a file is put aside.
    pub bytes: u64,
    /// Files kept beside the one written to.
    pub files: u32,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { bytes: 32 << 20, files: 4 }
    }
}

/// A line of the log.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line<'a> {
    pub time: String,
    pub stage: Stage,
    pub user: &'a str,
    /// The user who impersonates `user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonator: Option<&'a str>,
    pub source: String,
    pub verb: &'a str,
    pub method: &'a str,
    pub path: &'a str,
    pub code: u16,
    pub latency_ms: f64,
    pub bytes: u64,
    pub user_agent: &'a str,
}

/// As the stages of Kubernetes' audit events.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum Stage {
    ResponseStarted,
    ResponseComplete,
}

enum Message {
    Line(Vec<u8>),
    Flush(oneshot::Sender<()>),
}

/// A log that is written in the background. Clones write to the same file.
#[derive(Clone, Debug)]
pub struct AuditLog {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl AuditLog {
    /// Appends to the file at `path`.
    pub fn open(path: &Path, rotation: Rotation) -> Result<Self, AuditError> {
        let open = |error| AuditError::Open(path.to_owned(), error);
        let file = files::append(path).map_err(open)?;
        let size = file.metadata().map_err(open)?.len();
        let lost = Arc::new(AtomicU64::new(0));
        let (queue, messages) = sync_channel(QUEUE);
        let writer = Writer { path: path.to_owned(), file, size, rotation, lost: lost.clone() };
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(&messages))
            .map_err(AuditError::Thread)?;
        Ok(Self { queue, lost })
    }

    /// Lines that were never written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Waits until everything logged so far is in the file.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let queue = self.queue.clone();
        // The queue may be full, and waiting for room in it blocks.
        let asked = tokio::task::spawn_blocking(move || queue.send(Message::Flush(done)));
        if matches!(asked.await, Ok(Ok(()))) {
            // An error means that the writer is gone, and nothing is left to be written.
            let _ = flushed.await;
        }
    }

    pub(super) fn log(&self, line: &Line<'_>) {
        let queued = serde_json::to_vec(line).is_ok_and(|mut text| {
            text.push(b'\n');
            self.queue.try_send(Message::Line(text)).is_ok()
        });
        if !queued {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

/// At most [`LONGEST`] bytes of `text`.
pub(super) fn shortened(text: &str) -> &str {
    let end = (0..=LONGEST.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

struct Writer {
    path: PathBuf,
    file: File,
    size: u64,
    rotation: Rotation,
    lost: Arc<AtomicU64>,
}

impl Writer {
    /// Writes until the last sender is gone.
    fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            let (mut text, mut lines, mut flushes) = (Vec::new(), 0, Vec::new());
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Line(line) => {
                        lines += 1;
                        text.extend(line);
                    }
                    Message::Flush(done) => flushes.push(done),
                }
                next = (text.len() < BATCH).then(|| messages.try_recv().ok()).flatten();
            }
            if self.write(&text).is_err() {
                self.lost.fetch_add(lines, Relaxed);
            }
            for done in flushes {
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let more = text.len() as u64;
        if self.size > 0 && self.size + more > self.rotation.bytes {
            self.rotate()?;
        }
        self.file.write_all(text)?;
        self.size += more;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.rotation.files).rev() {
            rename_if_there(&self.numbered(number), &self.numbered(number + 1))?;
        }
        if self.rotation.files == 0 {
            fs::remove_file(&self.path)?;
        } else {
            rename_if_there(&self.path, &self.numbered(1))?;
        }
        self.file = files::append(&self.path)?;
        self.size = 0;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str) -> Line<'_> {
        Line {
            time: "2025-01-01T00:00:00Z".to_owned(),
            stage: Stage::ResponseComplete,
            user: "ann",
            impersonator: None,
            source: "127.0.0.1".to_owned(),
            verb: "get",
            method: "GET",
            path,
            code: 200,
            latency_ms: 0.5,
            bytes: 7,
            user_agent: "test",
        }
    }

    #[tokio::test]
    async fn keeps_so_many_files_of_so_many_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let length = serde_json::to_vec(&line("/0")).unwrap().len() as u64 + 1;
        let log = AuditLog::open(&path, Rotation { bytes: 2 * length, files: 2 }).unwrap();
        for number in 0..7 {
            log.log(&line(&format!("/{number}")));
            // One by one, so that each is a batch.
            log.flush().await;
        }
        let paths = |name: &str| {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            text.lines()
                .map(|line| {
                    serde_json::from_str::<serde_json::Value>(line).unwrap()["path"]
                        .as_str()
                        .unwrap()
                        .to_owned()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(paths("audit.log"), ["/6"]);
        assert_eq!(paths("audit.log.1"), ["/4", "/5"]);
        assert_eq!(paths("audit.log.2"), ["/2", "/3"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        assert_eq!(log.lost(), 0);
    }

    #[test]
    fn a_full_queue_loses_lines_and_says_so() {
        let (queue, _messages) = sync_channel(1);
        let log = AuditLog { queue, lost: Arc::default() };
        log.log(&line("/1"));
        log.log(&line("/2"));
        assert_eq!(log.lost(), 1);
    }
}
