//! Logs of programs that run for long: to standard error, for people or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging. `CAPT_LOG` (error, warn, info, debug, trace) decides how much.
pub fn start(json: bool) {
    let level =
        std::env::var("CAPT_LOG").ok().and_then(|text| text.parse().ok()).unwrap_or(LevelFilter::INFO);
    // What kube notes about each reconcile would be on every line of ours, which says the same in its own fields.
    let targets =
        Targets::new().with_default(level).with_target("kube_runtime", level.min(LevelFilter::WARN));
    let registry = tracing_subscriber::registry().with(targets);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // A second start in one process is a test's, and keeps the first.
    let _ = if json {
        registry.with(layer.json().flatten_event(true)).try_init()
    } else {
        let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        registry.with(layer.with_target(false).with_ansi(colours).compact()).try_init()
    };
}
