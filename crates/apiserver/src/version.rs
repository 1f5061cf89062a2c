//! The version of Kubernetes whose API this is; clients decide by it which requests they may use.

use serde_json::{Value, json};

/// The version of Kubernetes whose API is served.
pub const KUBERNETES: &str = "v1.36.0";

/// Operating system and architecture, by the names that Go and Kubernetes have for them.
#[must_use]
pub fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}/{architecture}")
}

/// The document at `/version`.
pub(crate) fn document() -> Value {
    let (major, minor) = major_minor();
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("{KUBERNETES}+capt-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": platform(),
    })
}

fn major_minor() -> (&'static str, &'static str) {
    let mut parts = KUBERNETES.trim_start_matches('v').split('.');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}
