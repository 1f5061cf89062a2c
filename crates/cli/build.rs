//! Puts the commit into `capt --version` and `capt version`. Runs again when the commit changes, and never otherwise.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CAPT_COMMIT");
    // A package is built outside of the repository, and says where it comes from.
    let commit = std::env::var("CAPT_COMMIT").ok().or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let version = env!("CARGO_PKG_VERSION");
    match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => {
            println!("cargo::rustc-env=CAPT_VERSION={version} ({commit})");
            println!("cargo::rustc-env=CAPT_BUILD_COMMIT={commit}");
        }
        None => println!("cargo::rustc-env=CAPT_VERSION={version}"),
    }
    // The reflog grows with every commit and checkout. A file that is not there would count as changed each time.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
