//! Logs of programs that run for long: to standard error, for people or as JSON.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// A log of this size is history enough.
const LARGE: u64 = 16 * 1024 * 1024;

/// A log that begins anew when it has become large; the one before stays beside it, with the extension `1`.
struct BoundedLog {
    path: PathBuf,
    file: File,
    size: u64,
}

impl BoundedLog {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size })
    }
}

impl Write for BoundedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size > LARGE {
            // Where that fails (a full disk, a folder that is gone) the log goes on as it is.
            let renamed = fs::rename(&self.path, self.path.with_added_extension("1"));
            if let Ok(next) = renamed.and_then(|()| Self::open(&self.path)) {
                *self = next;
            }
        }
        let written = self.file.write(bytes)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Starts logging to a file, for a program whose output is its own. Begins anew where it has become large.
pub fn to_file(path: &Path) -> io::Result<()> {
    let failed = |error| io::Error::other(format!("open the log {}: {error}", path.display()));
    let found = fs::metadata(path).ok();
    // To open a pipe is to wait for its other end.
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return Err(failed(io::Error::other("it is not a file")));
    }
    let log = BoundedLog::open(path).map_err(failed)?;
    let layer =
        tracing_subscriber::fmt::layer().with_writer(Mutex::new(log)).with_target(false).with_ansi(false);
    let _ = tracing_subscriber::registry().with(targets()).with(layer.compact()).try_init();
    Ok(())
}

/// Starts logging to standard error. `CAPT_LOG` (error, warn, info, debug, trace) decides how much.
pub fn start(json: bool) {
    let registry = tracing_subscriber::registry().with(targets());
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    // A second start in one process is a test's, and keeps the first.
    let _ = if json {
        registry.with(layer.json().flatten_event(true)).try_init()
    } else {
        let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        registry.with(layer.with_target(false).with_ansi(colours).compact()).try_init()
    };
}

fn targets() -> Targets {
    let level =
        std::env::var("CAPT_LOG").ok().and_then(|text| text.parse().ok()).unwrap_or(LevelFilter::INFO);
    // What kube notes about each reconcile would be on every line of ours, which says the same in its own fields.
    // What the protocols note of one connection is for any stranger to bring about.
    let protocols = ["h2", "hyper", "hyper_util", "rustls", "tokio_rustls"];
    let quiet = protocols
        .map(|protocol| (protocol, if level > LevelFilter::INFO { level } else { LevelFilter::OFF }));
    Targets::new()
        .with_default(level)
        .with_target("kube_runtime", level.min(LevelFilter::WARN))
        .with_targets(quiet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capt.log");
        let before = vec![b'x'; usize::try_from(LARGE).unwrap()];
        fs::write(&path, &before).unwrap();
        let mut log = BoundedLog::open(&path).unwrap();
        for line in ["last\n", "first\n", "second\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
        assert_eq!(fs::metadata(folder.path().join("capt.log.1")).unwrap().len(), LARGE + 5);
    }
}
