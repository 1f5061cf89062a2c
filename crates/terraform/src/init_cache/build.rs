//! Making a shape: fetch, look, `init`.

use std::{
    borrow::Cow,
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

use super::{Files, SetUp, Shape, is_plain, key, local_folder, plugins};
use crate::generated::{CALL, FETCHED};
use crate::{
    beneath::{Dir, copy_tree, hash, read_optional, remove},
    binary::{OLDEST, Program},
    blocking::in_place,
    environment::{CLI_VARIABLE, Environment, Use},
    failure::{self, Failure, Reason},
    folders::Folders,
    inputs::{Backend, Inputs},
    module::{self, Configuration, Declared, Module},
    order::WorkspaceId,
    private_files::{make_private, write_durable, write_private},
    process::{Ended, Files as ProcessFiles, Process, Start},
    stream::{self, Tally},
};

/// How long fetching and initialising may take: a provider of 700 MB over a slow line.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The largest list of modules or lock file.
const LISTED: u64 = 16 << 20;
/// As much of what a command prints is looked at.
const PRINTED: u64 = 16 << 20;

/// Lets a binary that was not asked for its version refuse to run where it is too old.
const OLDEST_FILE: &str = "capt_version.tf";

/// The commands that make a shape.
pub(crate) const STAGES: [&str; 3] = ["get", "init", "install"];

/// The CLI configuration of an `init` with plugins of its own, in the folder of the shape.
const STAGED_CLI: &str = "init.tfrc";

/// Makes shapes.
pub(crate) struct Initializer {
    pub folders: Folders,
    pub environment: Environment,
    /// The program that guards processes.
    guard: PathBuf,
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

/// `modules.json`: what was fetched. Code of a module may have written it.
#[derive(Deserialize)]
struct Listed<'a> {
    #[serde(rename = "Modules", borrow)]
    modules: Vec<ListedModule<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedModule<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    dir: Cow<'a, str>,
}

impl Initializer {
    pub fn new(folders: Folders, environment: Environment, guard: PathBuf) -> Self {
        Self { folders, environment, guard, inits: AtomicU64::new(0), caches: Mutex::default() }
    }

    /// Makes a shape, or takes the one that is there. `state`: `init` looks into it for providers too.
    pub async fn make(
        &self,
        key: String,
        inputs: Inputs,
        files: Option<&Files>,
        binary: Program,
        state: Option<Vec<u8>>,
    ) -> Result<Arc<Shape>, Failure> {
        let folder = self.folders.shape(&key);
        if let Some(made) = read_made(&folder)
            && holds(&folder.join("package"), files).is_ok_and(|holds| holds)
        {
            return self.shape(key, &made, &inputs, &binary).map(Arc::new);
        }
        super::work::check_names(&inputs)
            .map_err(|error| Failure::new(Reason::InvalidVariable, error.to_string()))?;
        settle(&folder).await.map_err(|error| Failure::io("clear an unfinished shape", &error))?;
        let (root, fetched) = self.fetch(&folder, &inputs, files, &binary).await?;
        let (declared, texts) = look(&inputs, &folder.join("package"), &root, &binary)?;
        let remote = inputs.keeps_state_elsewhere(declared.backend.as_ref());
        let backend = declared.backend.is_some() || inputs.backend != Backend::Local;
        let initialised =
            !declared.builtin_only || backend || !inputs.args.init.is_empty() || state.is_some();
        let made =
            Made { root, fetched, initialised, plugins: !declared.builtin_only || state.is_some(), remote };
        if initialised {
            let files = init_files(&texts, &inputs, state);
            self.init(&folder, &made.root, &files, declared.calls_modules, &inputs, &binary).await?;
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
        let (_, texts) = look(inputs, &package, &made.root, binary)?;
        let data = made.initialised.then(|| folder.join("data"));
        let backend = match &data {
            Some(data) => {
                SetUp::read(data).map_err(|error| Failure::io("read which backend is set up", &error))?
            }
            None => None,
        };
        let lock = read_optional(&folder.join("lock.hcl"))
            .map_err(|error| Failure::io("read a lock file", &error))?;
        Ok(Shape {
            key,
            package: made.fetched.then_some(package),
            root: made.root.clone(),
            texts,
            data,
            lock,
            plugins: made.plugins,
            // What is set up counts, whatever could be understood of the texts that name it.
            remote: backend.as_ref().map_or(made.remote, |backend| !backend.is_own_file()),
            backend,
            peak: AtomicU64::new(0),
        })
    }

    /// Brings the module into `package`, and says where in it the root is, and whether there is a package at all.
    async fn fetch(
        &self,
        folder: &Path,
        inputs: &Inputs,
        files: Option<&Files>,
        binary: &Program,
    ) -> Result<(PathBuf, bool), Failure> {
        let Module::Source { source, entrypoint, .. } = &inputs.module else {
            return Ok((PathBuf::new(), false));
        };
        let package = folder.join("package");
        let below = if let Some((from, below)) = local_folder(&inputs.module) {
            // Off the runtime's threads: it may be large, and its disk slow.
            let from = files.map_or(from, |files| files.folder.clone());
            let into = package.clone();
            let copied = tokio::task::spawn_blocking(move || copy(&Dir::real(&from)?, &into)).await;
            let copied = copied.unwrap_or_else(|error| Err(io::Error::other(error)));
            let whole = match copied {
                Ok(()) => holds(&package, files),
                // A file that was there a moment ago.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            };
            if !whole.map_err(|error| not_found(&inputs.module, &error))? {
                let changed = io::Error::other(format!("{source} changed while it was read"));
                return Err(Failure::io("copy the module", &changed));
            }
            below
        } else {
            self.download(folder, inputs, binary).await?
        };
        let root = match entrypoint {
            Some(entrypoint) => below.join(entrypoint.trim_start_matches("./").trim_matches('/')),
            None => below,
        };
        if Dir::open(&package).and_then(|package| package.below(&root)).is_err() {
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
        let mut call = serde_json::json!({"module": {FETCHED: {"source": source}}});
        if let Some(version) = version {
            call["module"][FETCHED]["version"] = Value::from(version.as_str());
        }
        write_private(&scratch.join(CALL), call.to_string().as_bytes()).map_err(io)?;
        let args = ["get", "-no-color"].map(OsString::from).to_vec();
        self.step(
            Step {
                stage: "get",
                folder,
                top: &scratch,
                start: &scratch,
                data: &scratch.join("data"),
                cache: Cache::Read,
                fetches: true,
                args,
            },
            inputs,
            binary,
        )
        .await
        .map_err(|failure| of_source(failure, source))?;
        let fetched = Dir::open(&scratch).map_err(io)?;
        let listed = fetched.read(Path::new("data/modules/modules.json"), LISTED).map_err(io)?;
        let listed = listed.unwrap_or_default();
        let Listed { modules } = serde_json::from_slice(&listed).map_err(|error| io(error.into()))?;
        let root = modules.iter().find(|module| module.key == FETCHED);
        let root = root.map(|module| PathBuf::from(&*module.dir)).unwrap_or_default();
        let package = scratch.join("data/modules").join(FETCHED);
        let below = root.strip_prefix(&package).map(Path::to_path_buf).unwrap_or_default();
        let package = fetched.below(&Path::new("data/modules").join(FETCHED)).map_err(io)?;
        copy(&package, &folder.join("package")).map_err(|error| not_found(&inputs.module, &error))?;
        remove(&scratch).map_err(io)?;
        Ok(below)
    }

    /// Runs `init` in the package, where the texts are rendered as they will be in each workspace.
    async fn init(
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
        let step = Step {
            stage: "init",
            folder,
            top: &start,
            start: &root,
            data: &data,
            cache,
            fetches: false,
            args,
        };
        let initialised = self.step(step, inputs, binary).await;
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

    /// Installs into the cache what a lock file names and the cache lacks, and has the shape use it.
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
            let step = Step {
                stage: "install",
                folder,
                top: &start,
                start: &start,
                data: &data,
                cache,
                fetches: false,
                args,
            };
            self.step(step, inputs, binary).await?;
            remove(&start).map_err(io)?;
        }
        drop(turn);
        plugins::link(&cache, &chosen, &folder.join("data")).map_err(io)
    }

    /// Fetches the modules that the root calls. That runs git, which can be made to run more: so it is done apart from `init`, where nothing
    /// can be written that others use.
    async fn get(
        &self,
        folder: &Path,
        top: &Path,
        root: &Path,
        inputs: &Inputs,
        binary: &Program,
    ) -> Result<(), Failure> {
        let update = inputs.args.init.iter().any(|arg| arg.trim_start_matches('-') == "upgrade");
        let args = ["get", "-no-color"].into_iter().chain(update.then_some("-update"));
        let (args, data) = (args.map(OsString::from).collect(), folder.join("data"));
        let step = Step {
            stage: "get",
            folder,
            top,
            start: root,
            data: &data,
            cache: Cache::Read,
            fetches: false,
            args,
        };
        self.step(step, inputs, binary).await.map_err(|failure| match failure.reason {
            Reason::InitFailed => Failure::new(Reason::ModuleNotFound, failure.message),
            _ => failure,
        })?;
        let cleared = Dir::open(&data).and_then(|data| data.remove(Path::new("providers")));
        cleared.map_err(|error| Failure::io("fetch modules", &error))
    }

    /// Turns at a cache.
    fn turns(&self, path: PathBuf) -> Arc<tokio::sync::Mutex<()>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner).entry(path).or_default().clone()
    }

    /// Runs one command to its end.
    async fn step(&self, step: Step<'_>, inputs: &Inputs, binary: &Program) -> Result<(), Failure> {
        let files = ProcessFiles::new(step.folder, step.stage);
        let scratch = self.folders.scratch(&step.folder.to_string_lossy());
        Dir::make(&scratch)
            .and_then(|scratch| scratch.clear())
            .map_err(|error| Failure::io("clear the folder of init", &error))?;
        let (cli, staged) = (step.folder.join(STAGED_CLI), step.folder.join("plugins"));
        let write = [step.top, step.data, &scratch, &staged];
        let start = Start {
            guard: self.guard.clone(),
            fence: None,
            program: binary.path.clone(),
            args: step.args,
            folder: step.start.to_owned(),
            env: self
                .environment
                .of(inputs, step.data, &scratch, false)?
                .into_iter()
                .chain(git())
                .chain((step.cache == Cache::Staged).then_some((CLI_VARIABLE.into(), cli.into())))
                .collect(),
            sandbox: self.environment.sandbox(
                if step.cache == Cache::Staged { &write } else { &write[..3] },
                &[step.folder],
                inputs,
                Use { fetches: step.fetches, fills: step.cache == Cache::Filled },
            )?,
            reserve: 0,
        };
        let mut process =
            Process::start(start, files.clone()).map_err(|error| Failure::not_started(&error))?;
        let ended = timeout(PATIENCE, process.ended()).await;
        if ended.is_err() {
            process.kill();
            process.ended().await;
        }
        let output = files.printed(PRINTED);
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
        let _ = remove(&scratch);
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

/// Keeps git from taking a folder of the module for a repository, whose configuration may name programs.
fn git() -> impl Iterator<Item = (OsString, OsString)> {
    let pairs = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
        ("GIT_CONFIG_VALUE_0", "explicit"),
    ];
    pairs.into_iter().map(|(name, value)| (name.into(), value.into()))
}

/// The name of a workspace's shape.
pub(crate) fn name(
    workspace: &WorkspaceId,
    inputs: &Inputs,
    files: Option<&Files>,
    binary: &Program,
) -> String {
    let own_backend = match (&inputs.backend, &inputs.module) {
        (Backend::Hcl(_), _) => true,
        (Backend::Local, Module::Inline { text, format }) => {
            text.contains("backend")
                && module::declared(text, *format).is_ok_and(|declared| declared.backend.is_some())
        }
        // A fetched module may name a backend: not known before it is fetched.
        (Backend::Local, Module::Source { .. }) => false,
    };
    let content = files.map(|files| files.hash.as_str());
    key(inputs, binary, content, own_backend.then_some(workspace), workspace.tenant())
}

struct Step<'a> {
    stage: &'static str,
    /// The folder of the shape.
    folder: &'a Path,
    /// What the command may write, besides its data.
    top: &'a Path,
    start: &'a Path,
    data: &'a Path,
    cache: Cache,
    /// It brings the module itself, which may lie on this machine.
    fetches: bool,
    args: Vec<OsString>,
}

/// What a command does to the plugin cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cache {
    Read,
    /// It has a folder of its own instead.
    Staged,
    Filled,
}

fn read_made(folder: &Path) -> Option<Made> {
    serde_json::from_slice(&fs::read(folder.join("shape.json")).ok()?).ok()
}

/// Whether a copy of a module on this machine is of the files that were hashed: somebody may have saved one of them in between, and what
/// is kept under a hash must be what it is the hash of.
pub(crate) fn holds(package: &Path, files: Option<&Files>) -> io::Result<bool> {
    let Some(files) = files else { return Ok(true) };
    in_place(|| Ok(hash(&Dir::open(package)?)? == files.hash))
}

/// Clears what an engine left that was killed while it made a shape, once its last process is gone.
async fn settle(folder: &Path) -> io::Result<()> {
    for stage in STAGES {
        let files = ProcessFiles::new(folder, stage);
        if files.lives() {
            Process::find(files).ended().await;
        }
    }
    remove(folder)?;
    make_private(folder)
}

fn copy(from: &Dir, to: &Path) -> io::Result<()> {
    in_place(|| copy_tree(from, &Dir::make(to)?).map(drop))
}

/// What module and configuration declare together, and the files that are rendered into the root of the module. A text that is
/// not understood promises nothing, and Terraform says what is wrong with it.
fn look(
    inputs: &Inputs,
    package: &Path,
    root: &Path,
    binary: &Program,
) -> Result<(Declared, Vec<(String, String)>), Failure> {
    let mut texts = Vec::new();
    let mut declared = match &inputs.module {
        Module::Inline { text, format } => {
            texts.push((format.file_name().to_owned(), text.clone()));
            let unknown = |_| Declared { refused: module::may_encrypt(text), ..unknown() };
            module::declared(text, *format).unwrap_or_else(unknown)
        }
        Module::Source { .. } => {
            module::declared_in_package(package, root, binary.name == "tofu").unwrap_or_else(|_| unknown())
        }
    };
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
        let name = if declared.backend.is_some() { "capt_backend_override.tf" } else { "capt_backend.tf" };
        texts.push((name.to_owned(), block));
    }
    let beside = inputs.configuration.iter().chain(match &inputs.backend {
        Backend::Hcl(text) => Some(text),
        Backend::Local => None,
    });
    for text in beside.filter(|text| module::read(text, module::Format::Hcl).is_err()) {
        declared.refused = declared.refused.take().or_else(|| module::may_encrypt(text));
    }
    if is_plain(inputs) {
        let oldest = format!("terraform {{\n  required_version = \">= {OLDEST}\"\n}}\n");
        texts.push((OLDEST_FILE.to_owned(), oldest));
    }
    if let Some(problem) = &declared.refused {
        return Err(Failure::new(Reason::InvalidModule, problem.to_string()));
    }
    Ok((declared, texts))
}

/// A module that is not understood: it may call others.
fn unknown() -> Declared {
    Declared { calls_modules: true, ..Declared::default() }
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

/// Names the source where a failure to fetch it does not, and no file that nobody wrote.
fn of_source(failure: Failure, source: &str) -> Failure {
    // Told without its folder (`//a`), which is not fetched by itself; a module within it is told by its name, in quotes.
    let told = failure.message.contains(source)
        || failure.message.starts_with("module ") && !failure.message.starts_with("module \"");
    if told {
        return failure;
    }
    let message = format!("module {source} cannot be fetched: {}", failure.message);
    failure.saying(&message)
}

fn not_found(module: &Module, error: &io::Error) -> Failure {
    let Module::Source { source, .. } = module else { return Failure::io("read the module", error) };
    Failure::new(Reason::ModuleNotFound, format!("{source}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_a_module_is_told_once() {
        for (message, expected) in [
            ("module git::x?ref=1 cannot be fetched: no", "module git::x?ref=1 cannot be fetched: no"),
            ("no versions", "module git::x//a?ref=1 cannot be fetched: no versions"),
            (
                "module \"vpc\" (m.tf:3) cannot be fetched: no",
                "module git::x//a?ref=1 cannot be fetched: module \"vpc\" (m.tf:3) cannot be fetched: no",
            ),
        ] {
            let failure = Failure::new(Reason::ModuleNotFound, message.to_owned());
            assert_eq!(of_source(failure, "git::x//a?ref=1").message, expected);
        }
    }

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
