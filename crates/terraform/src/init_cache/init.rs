//! Runs `init` in the module, and installs its plugins into the cache.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, atomic::Ordering},
};

use super::{
    build::{Initializer, LISTED},
    command::{Cache, InitCommand, STAGED_CLI},
    fetch::copy,
    plugins,
};
use crate::{
    beneath::{Dir, remove},
    binary::Program,
    environment::Environment,
    failure::{Failure, Reason},
    inputs::Inputs,
    private_files::{make_private, write_private},
};

impl Initializer {
    /// Runs `init` in the package, where the texts are rendered as they will be in each workspace.
    pub(super) async fn init(
        &self,
        folder: &Path,
        root: &Path,
        files: &[(String, Vec<u8>)],
        fetches: bool,
        inputs: &Inputs,
        binary: &Program,
    ) -> Result<(), Failure> {
        let io = |error: io::Error| Failure::io("render a module for init", &error);
        // A package is copied into each workspace: what `init` needs beside it must not end up there.
        let start = folder.join("init");
        if folder.join("package").exists() {
            copy(&Dir::open(&folder.join("package")).map_err(io)?, &start).map_err(io)?;
        }
        let place = Dir::make(&start).and_then(|start| start.make_below(root)).map_err(io)?;
        let root = start.join(root);
        for (name, bytes) in files {
            place.write(Path::new(name), bytes).map_err(io)?;
        }
        let data = folder.join("data");
        make_private(&data).map_err(io)?;
        let staged =
            if inputs.plugins.mirror.is_none() { Some(self.stage(folder, inputs).await?) } else { None };
        let fetched = if fetches { self.get(folder, &start, &root, inputs, binary).await } else { Ok(()) };
        let mut args: Vec<OsString> =
            ["init", "-input=false", "-no-color", "-get=false"].map(OsString::from).to_vec();
        if binary.version.as_deref().is_some_and(speaks_json) {
            args.push("-json".into());
        }
        args.extend(inputs.args.init.iter().map(OsString::from));
        self.inits.fetch_add(1, Ordering::Relaxed);
        let cache = if staged.is_some() { Cache::Staged } else { Cache::Read };
        let step = InitCommand {
            stage: "init",
            folder,
            top: &start,
            start: &root,
            data: &data,
            cache,
            fetches: false,
            args,
        };
        let initialised = self.run(step, inputs, binary).await;
        match (fetched, initialised) {
            // Of a module that is wrong `init` says where.
            (_, Err(failure)) if failure.reason == Reason::InvalidModule => return Err(failure),
            (fetched, initialised) => fetched.and(initialised)?,
        }
        let lock = place.read(Path::new(".terraform.lock.hcl"), LISTED).map_err(io)?;
        let lock = lock.map(|lock| without_hashes(&String::from_utf8_lossy(&lock)));
        if let Some(staged) = staged {
            self.install(folder, lock.as_deref().unwrap_or_default(), inputs, binary).await?;
            remove(&staged).map_err(io)?;
        }
        if let Some(lock) = lock {
            write_private(&folder.join("lock.hcl"), lock.as_bytes()).map_err(io)?;
        }
        remove(&start).map_err(io)
    }

    /// Makes the folder that an `init` of a module installs into, and the CLI configuration that names it.
    async fn stage(&self, folder: &Path, inputs: &Inputs) -> Result<PathBuf, Failure> {
        let io = |error: io::Error| Failure::io("look into the plugin cache", &error);
        let (cache, staged) = (self.environment.make_plugins_of(inputs)?, folder.join("plugins"));
        let text = Environment::cli_text(None, &staged);
        write_private(&folder.join(STAGED_CLI), text.map_err(io)?.as_bytes()).map_err(io)?;
        // Not while another one is being installed.
        let turns = self.turns(cache.clone());
        let _turn = turns.lock().await;
        plugins::stage(&cache, &staged).map_err(io)?;
        Ok(staged)
    }

    /// Installs into the cache what a lock file names and the cache lacks, and has the entry use it.
    async fn install(
        &self,
        folder: &Path,
        lock: &str,
        inputs: &Inputs,
        binary: &Program,
    ) -> Result<(), Failure> {
        let io = |error: io::Error| Failure::io("install plugins", &error);
        let forged = || Failure::new(Reason::InitFailed, "init wrote a lock file that names no providers");
        let (chosen, cache) =
            (plugins::chosen(lock).ok_or_else(forged)?, self.environment.plugins_of(inputs)?);
        let turns = self.turns(cache.clone());
        let turn = turns.lock().await;
        let missing = plugins::missing(&cache, &chosen);
        if !missing.is_empty() {
            let start = folder.join("install");
            make_private(&start).map_err(io)?;
            write_private(&start.join("main.tf.json"), plugins::module(&missing).to_string().as_bytes())
                .map_err(io)?;
            let args = ["init", "-input=false", "-no-color", "-backend=false"].map(OsString::from).to_vec();
            let (data, cache) = (start.join("data"), Cache::Filled);
            let step = InitCommand {
                stage: "install",
                folder,
                top: &start,
                start: &start,
                data: &data,
                cache,
                fetches: false,
                args,
            };
            self.run(step, inputs, binary).await?;
            remove(&start).map_err(io)?;
        }
        drop(turn);
        plugins::link(&cache, &chosen, &folder.join("data")).map_err(io)
    }

    /// Turns at a cache.
    fn turns(&self, path: PathBuf) -> Arc<tokio::sync::Mutex<()>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner).entry(path).or_default().clone()
    }
}

/// A lock file that names versions only.
fn without_hashes(lock: &str) -> String {
    let mut inside = false;
    let mut kept = String::with_capacity(lock.len());
    for line in lock.lines() {
        let trimmed = line.trim();
        inside = inside || (trimmed.starts_with("hashes") && trimmed.contains('['));
        if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
        inside = inside && !trimmed.ends_with(']');
    }
    kept
}

/// `init -json` came with 1.9.
fn speaks_json(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (1, 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_taken_out_of_lock_files() {
        let lock = "# c\nprovider \"r/h/aws\" {\n  version = \"5\"\n  hashes = [\n    \"h1:x=\",\n    \"zh:y\",\n  ]\n}\nprovider \"b\" {\n  hashes = [\"h1:z\"]\n  version = \"1\"\n}\n";
        assert_eq!(
            without_hashes(lock),
            "# c\nprovider \"r/h/aws\" {\n  version = \"5\"\n}\nprovider \"b\" {\n  version = \"1\"\n}\n"
        );
    }

    #[test]
    fn init_speaks_json_since_1_9() {
        assert!(speaks_json("1.9.0") && speaks_json("1.12.6") && speaks_json("2.0.0-alpha1"));
        assert!(!speaks_json("1.8.5") && !speaks_json("1.5.7"));
    }
}
