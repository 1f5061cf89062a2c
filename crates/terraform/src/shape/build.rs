//! Making a shape: fetch, look, `init`.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use super::{Shape, content, is_plain, key, local_folder};
use crate::{
    binary::{OLDEST, Program},
    environment::Environment,
    failure::{self, Failure, Reason},
    folders::{Folders, copy_tree, make_private, read_optional, remove, write_durable, write_private},
    inputs::{Backend, Inputs},
    module::{self, Configuration, Declared, Module},
    order::WorkspaceId,
    process::{Ended, Files, Process, Start},
    stream::{self, Tally},
};

/// How long fetching and initialising may take: a provider of 700 MB over a slow line.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Lets a binary that was not asked for its version refuse to run where it is too old.
const OLDEST_FILE: &str = "capt_version.tf";

/// Makes shapes.
pub(crate) struct Workshop {
    pub folders: Folders,
    pub environment: Environment,
    pub inits: AtomicU64,
    /// One `init` at a time in a plugin cache: Terraform's own does not bear two.
    caches: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

/// `shape.json`.
#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
struct Made {
    root: PathBuf,
    fetched: bool,
    initialised: bool,
    plugins: bool,
    remote: bool,
}

impl Workshop {
    pub fn new(folders: Folders, environment: Environment) -> Self {
        Self { folders, environment, inits: AtomicU64::new(0), caches: Mutex::default() }
    }

    /// Makes a shape, or takes the one that is there. `state`: `init` looks into it for providers too.
    pub async fn make(
        &self,
        key: String,
        inputs: Inputs,
        binary: Program,
        state: Option<Vec<u8>>,
    ) -> Result<Arc<Shape>, Failure> {
        let folder = self.folders.shape(&key);
        if let Some(made) = read_made(&folder) {
            return self.shape(key, &made, &inputs, &binary).map(Arc::new);
        }
        settle(&folder).await.map_err(|error| Failure::io("clear an unfinished shape", &error))?;
        let (root, fetched) = self.fetch(&folder, &inputs, &binary).await?;
        let (declared, texts) = look(&inputs, &folder.join("package").join(&root), &binary)?;
        let remote = declared.backend.is_some() || inputs.backend != Backend::Local;
        let initialised = !declared.builtin_only || remote || !inputs.args.init.is_empty() || state.is_some();
        let made =
            Made { root, fetched, initialised, plugins: !declared.builtin_only || state.is_some(), remote };
        if initialised {
            let files = init_files(&texts, &inputs, state);
            self.init(&folder, &made.root, &files, &inputs, &binary).await?;
        }
        if initialised || fetched {
            let bytes = serde_json::to_vec(&made).expect("paths of the data folder are text");
            write_durable(&folder.join("shape.json"), &bytes)
                .map_err(|error| Failure::io("write a shape", &error))?;
        }
        self.shape(key, &made, &inputs, &binary).map(Arc::new)
    }

    fn shape(&self, key: String, made: &Made, inputs: &Inputs, binary: &Program) -> Result<Shape, Failure> {
        let folder = self.folders.shape(&key);
        let package = folder.join("package");
        let (_, texts) = look(inputs, &package.join(&made.root), binary)?;
        let lock = read_optional(&folder.join("lock.hcl"))
            .map_err(|error| Failure::io("read a lock file", &error))?;
        Ok(Shape {
            key,
            package: made.fetched.then_some(package),
            root: made.root.clone(),
            texts,
            data: made.initialised.then(|| folder.join("data")),
            lock,
            plugins: made.plugins,
            remote: made.remote,
            peak: AtomicU64::new(0),
        })
    }

    /// Brings the module into `package`, and says where in it the root is, and whether there is a package at all.
    async fn fetch(
        &self,
        folder: &Path,
        inputs: &Inputs,
        binary: &Program,
    ) -> Result<(PathBuf, bool), Failure> {
        let Module::Source { source, entrypoint, .. } = &inputs.module else {
            return Ok((PathBuf::new(), false));
        };
        let package = folder.join("package");
        let below = if let Some((from, below)) = local_folder(&inputs.module) {
            copy_tree(&from, &package).map_err(|error| not_found(&inputs.module, &error))?;
            below
        } else {
            self.download(folder, inputs, binary).await?
        };
        let root = match entrypoint {
            Some(entrypoint) => below.join(entrypoint.trim_start_matches("./").trim_matches('/')),
            None => below,
        };
        let inside = root.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !inside || !package.join(&root).is_dir() {
            let message = format!("{source} has no folder {}", root.display());
            return Err(Failure::new(Reason::ModuleNotFound, message));
        }
        Ok((root, true))
    }

    /// Lets the binary fetch a module, as it does for any module call: registries, git, archives, with their versions.
    async fn download(&self, folder: &Path, inputs: &Inputs, binary: &Program) -> Result<PathBuf, Failure> {
        let Module::Source { source, version, .. } = &inputs.module else { return Ok(PathBuf::new()) };
        let scratch = folder.join("fetch");
        let io = |error: io::Error| Failure::io("fetch a module", &error);
        make_private(&scratch).map_err(io)?;
        let mut call = serde_json::json!({"module": {"fetched": {"source": source}}});
        if let Some(version) = version {
            call["module"]["fetched"]["version"] = Value::from(version.as_str());
        }
        write_private(&scratch.join("main.tf.json"), call.to_string().as_bytes()).map_err(io)?;
        let args = ["get", "-no-color"].map(OsString::from).to_vec();
        self.step(
            Step { stage: "get", folder, start: &scratch, data: &scratch.join("data"), args },
            inputs,
            binary,
        )
        .await?;
        let listed = fs::read(scratch.join("data/modules/modules.json")).map_err(io)?;
        let listed: Value = serde_json::from_slice(&listed).map_err(|error| io(error.into()))?;
        let root =
            listed["Modules"].as_array().into_iter().flatten().find(|module| module["Key"] == "fetched");
        let root = root.and_then(|module| module["Dir"].as_str()).map(PathBuf::from).unwrap_or_default();
        let package = scratch.join("data/modules/fetched");
        let below = root.strip_prefix(&package).map(Path::to_path_buf).unwrap_or_default();
        copy_tree(&package, &folder.join("package")).map_err(io)?;
        remove(&scratch).map_err(io)?;
        Ok(below)
    }

    /// Runs `init` in the package, where the texts are rendered as they will be in each workspace.
    async fn init(
        &self,
        folder: &Path,
        root: &Path,
        files: &[(String, Vec<u8>)],
        inputs: &Inputs,
        binary: &Program,
    ) -> Result<(), Failure> {
        let io = |error: io::Error| Failure::io("render a module for init", &error);
        // A package is copied into each workspace: what `init` needs beside it must not end up there.
        let start = folder.join("init");
        if folder.join("package").exists() {
            copy_tree(&folder.join("package"), &start).map_err(io)?;
        }
        let root = start.join(root);
        make_private(&root).map_err(io)?;
        for (name, bytes) in files {
            if let Some(parent) = root.join(name).parent() {
                make_private(parent).map_err(io)?;
            }
            write_private(&root.join(name), bytes).map_err(io)?;
        }
        let mut args: Vec<OsString> = ["init", "-input=false", "-no-color"].map(OsString::from).to_vec();
        if binary.version.as_deref().is_some_and(speaks_json) {
            args.push("-json".into());
        }
        args.extend(inputs.args.init.iter().map(OsString::from));
        let data = folder.join("data");
        make_private(&data).map_err(io)?;
        let cache = self.cache(inputs);
        let turn = cache.lock().await;
        self.inits.fetch_add(1, Ordering::Relaxed);
        self.step(Step { stage: "init", folder, start: &root, data: &data, args }, inputs, binary).await?;
        drop(turn);
        if let Some(lock) = read_optional(&root.join(".terraform.lock.hcl")).map_err(io)? {
            write_private(
                &folder.join("lock.hcl"),
                without_hashes(&String::from_utf8_lossy(&lock)).as_bytes(),
            )
            .map_err(io)?;
        }
        remove(&start).map_err(io)
    }

    fn cache(&self, inputs: &Inputs) -> Arc<tokio::sync::Mutex<()>> {
        let plugins = &inputs.plugins;
        let path = plugins
            .mirror
            .clone()
            .or_else(|| plugins.cache.clone())
            .unwrap_or_else(|| self.folders.plugins());
        self.caches.lock().unwrap_or_else(PoisonError::into_inner).entry(path).or_default().clone()
    }

    /// Runs one command to its end.
    async fn step(&self, step: Step<'_>, inputs: &Inputs, binary: &Program) -> Result<(), Failure> {
        let files = Files::new(step.folder, step.stage);
        let io = |error: io::Error| Failure::io("start the binary", &error);
        let start = Start {
            program: binary.path.clone(),
            args: step.args,
            folder: step.start.to_owned(),
            env: self.environment.of(inputs, step.data, false).map_err(io)?,
            sandbox: self.environment.sandbox(step.folder, inputs),
            reserve: 0,
        };
        let mut process = Process::start(start, files.clone()).map_err(io)?;
        let ended = timeout(PATIENCE, process.ended()).await;
        if ended.is_err() {
            process.kill();
        }
        let output = fs::read(files.output()).unwrap_or_default();
        let mut tally = Tally::new();
        let mut words = files.last_words();
        for line in String::from_utf8_lossy(&output).lines() {
            tally.push(&stream::parse(line));
            if !line.starts_with('{') {
                words.push_str(line);
                words.push('\n');
            }
        }
        files.clear();
        match ended {
            Ok(Ended::Code(0)) => Ok(()),
            Ok(Ended::Code(code)) => {
                let redactor = crate::secrets::redactor(inputs, &[]);
                Err(failure::classify(failure::Step::Init, &tally.errors, Some(code), &words)
                    .redacted(&redactor))
            }
            Ok(Ended::Unknown) => Err(Failure::killed(format!("{} was killed", step.stage))),
            Err(_) => {
                let message = format!("{} took longer than {} s", step.stage, PATIENCE.as_secs());
                Err(Failure::new(Reason::Timeout, message))
            }
        }
    }
}

/// The name of a workspace's shape.
pub(crate) fn name(workspace: &WorkspaceId, inputs: &Inputs, binary: &Program) -> Result<String, Failure> {
    let content = content(&inputs.module).map_err(|error| not_found(&inputs.module, &error))?;
    let own_backend = match (&inputs.backend, &inputs.module) {
        (Backend::Hcl(_), _) => true,
        (Backend::Local, Module::Inline { text, format }) => {
            text.contains("backend")
                && module::declared(text, *format).is_ok_and(|declared| declared.backend.is_some())
        }
        // A fetched module may name a backend: not known before it is fetched.
        (Backend::Local, Module::Source { .. }) => false,
    };
    Ok(key(inputs, binary, content.as_deref(), own_backend.then_some(workspace)))
}

struct Step<'a> {
    stage: &'static str,
    /// The folder of the shape.
    folder: &'a Path,
    start: &'a Path,
    data: &'a Path,
    args: Vec<OsString>,
}

fn read_made(folder: &Path) -> Option<Made> {
    serde_json::from_slice(&fs::read(folder.join("shape.json")).ok()?).ok()
}

/// Clears what an engine left that was killed while it made a shape, once its last process is gone.
async fn settle(folder: &Path) -> io::Result<()> {
    for stage in ["get", "init"] {
        let files = Files::new(folder, stage);
        if files.lives() {
            Process::find(files).ended().await;
        }
    }
    remove(folder)?;
    make_private(folder)
}

/// What module and configuration declare together, and the files that are rendered into the root of the module. A text that is
/// not understood promises nothing, and Terraform says what is wrong with it.
fn look(
    inputs: &Inputs,
    root: &Path,
    binary: &Program,
) -> Result<(Declared, Vec<(String, String)>), Failure> {
    let mut texts = Vec::new();
    let mut declared = match &inputs.module {
        Module::Inline { text, format } => {
            texts.push((format.file_name().to_owned(), text.clone()));
            module::declared(text, *format)
        }
        Module::Source { .. } => module::declared_in_folder(root, binary.name == "tofu"),
    }
    .unwrap_or_default();
    let backend_block = declared.backend.is_some();
    if let Some(configuration) = &inputs.configuration {
        let fitted = module::with_configuration(&declared, configuration);
        texts.push((Configuration::FILE.to_owned(), fitted.text));
        texts.extend(fitted.overrides.map(|text| (Configuration::OVERRIDE_FILE.to_owned(), text)));
        declared = fitted.declared;
    }
    if let Backend::Hcl(text) = &inputs.backend {
        let block = if text.trim_start().starts_with("terraform") {
            text.clone()
        } else {
            format!("terraform {{\n{text}\n}}\n")
        };
        let name = if backend_block { "capt_backend_override.tf" } else { "capt_backend.tf" };
        texts.push((name.to_owned(), block));
    }
    if is_plain(inputs) {
        let oldest = format!("terraform {{\n  required_version = \">= {OLDEST}\"\n}}\n");
        texts.push((OLDEST_FILE.to_owned(), oldest));
    }
    if let Some(problem) = &declared.refused {
        let failure = Failure::new(Reason::InvalidModule, problem.message.clone());
        return Err(Failure { file: problem.file.clone(), line: problem.line, ..failure });
    }
    Ok((declared, texts))
}

/// What `init` finds in the module's root: what a run finds there too, and the state where it matters.
fn init_files(texts: &[(String, String)], inputs: &Inputs, state: Option<Vec<u8>>) -> Vec<(String, Vec<u8>)> {
    let texts = texts.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes()));
    let files = inputs.files.iter().map(|(name, bytes)| (name.clone(), bytes.clone()));
    texts.chain(files).chain(state.map(|bytes| ("terraform.tfstate".to_owned(), bytes))).collect()
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

fn not_found(module: &Module, error: &io::Error) -> Failure {
    let Module::Source { source, .. } = module else { return Failure::io("read the module", error) };
    Failure::new(Reason::ModuleNotFound, format!("{source}: {error}"))
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
