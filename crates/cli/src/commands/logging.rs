//! Logs of programs that run for long: to standard error, for people or as JSON.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// A log of this size is history enough.
const LARGE: u64 = 16 * 1024 * 1024;

/// Starts logging to a file, for a program whose output is its own. Begins anew where it has become large.
pub fn to_file(path: &Path) -> io::Result<()> {
    let failed = |error| io::Error::other(format!("open the log {}: {error}", path.display()));
    let found = std::fs::metadata(path).ok();
    // To open a pipe is to wait for its other end.
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return Err(failed(io::Error::other("it is not a file")));
    }
    let large = found.is_some_and(|file| file.len() > LARGE);
    let file = OpenOptions::new().create(true).write(true).append(!large).truncate(large).open(path);
    let file = file.map_err(failed)?;
    let layer =
        tracing_subscriber::fmt::layer().with_writer(Mutex::new(file)).with_target(false).with_ansi(false);
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
    Targets::new().with_default(level).with_target("kube_runtime", level.min(LevelFilter::WARN))
}
