//! Makes an entry: fetches the module, reads its declarations, runs `init`.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicU64},
};

use serde::{Deserialize, Serialize};

use super::{
    BackendSettings, InitEntry, ModuleFiles, key,
    texts::{init_files, read_texts},
};
use crate::{
    beneath::{Dir, hash, read_optional, remove},
    binary::Program,
    blocking::in_place,
    environment::Environment,
    failure::{Failure, Reason},
    folders::Folders,
    inputs::{Backend, Inputs},
    module::{self, Module},
    order::WorkspaceId,
    private_files::{make_private, write_durable},
    process::{Process, ProcessFiles},
};

/// The largest list of modules or lock file.
pub(super) const LISTED: u64 = 16 << 20;

/// The commands that make an entry.
pub(crate) const STAGES: [&str; 3] = ["get", "init", "install"];

/// Makes entries.
pub(crate) struct Initializer {
    pub folders: Folders,
    pub environment: Environment,
    /// The program that guards processes.
    pub(super) guard: PathBuf,
    pub inits: AtomicU64,
    /// One `init` at a time in a plugin cache: Terraform's own does not bear two.
    pub(super) caches: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

/// `shape.json`.
#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
struct Manifest {
    root: PathBuf,
    fetched: bool,
    initialised: bool,
    plugins: bool,
    remote: bool,
}

impl Initializer {
    pub fn new(folders: Folders, environment: Environment, guard: PathBuf) -> Self {
        Self { folders, environment, guard, inits: AtomicU64::new(0), caches: Mutex::default() }
    }

    /// Makes an entry, or takes the one that is there. `state`: `init` looks into it for providers too.
    pub async fn make(
        &self,
        key: String,
        inputs: Inputs,
        files: Option<&ModuleFiles>,
        binary: Program,
        state: Option<Vec<u8>>,
    ) -> Result<Arc<InitEntry>, Failure> {
        let folder = self.folders.init_entry(&key);
        if let Some(manifest) = read_manifest(&folder)
            && holds(&folder.join("package"), files).is_ok_and(|holds| holds)
        {
            return self.entry(key, &manifest, &inputs, &binary).map(Arc::new);
        }
        super::work::check_names(&inputs)
            .map_err(|error| Failure::new(Reason::InvalidVariable, error.to_string()))?;
        clear_unfinished(&folder)
            .await
            .map_err(|error| Failure::io("clear an unfinished entry of the init cache", &error))?;
        let (root, fetched) = self.fetch(&folder, &inputs, files, &binary).await?;
        let (declared, texts) = read_texts(&inputs, &folder.join("package"), &root, &binary)?;
        let remote = inputs.keeps_state_elsewhere(declared.backend.as_ref());
        let backend = declared.backend.is_some() || inputs.backend != Backend::Local;
        let initialised =
            !declared.builtin_only || backend || !inputs.args.init.is_empty() || state.is_some();
        let manifest = Manifest {
            root,
            fetched,
            initialised,
            plugins: !declared.builtin_only || state.is_some(),
            remote,
        };
        if initialised {
            let files = init_files(&texts, &inputs, state);
            self.init(&folder, &manifest.root, &files, declared.calls_modules, &inputs, &binary).await?;
        }
        if initialised || fetched {
            let bytes = serde_json::to_vec(&manifest).expect("paths of the data folder are text");
            write_durable(&folder.join("shape.json"), &bytes)
                .map_err(|error| Failure::io("write an entry of the init cache", &error))?;
        }
        self.entry(key, &manifest, &inputs, &binary).map(Arc::new)
    }

    fn entry(
        &self,
        key: String,
        manifest: &Manifest,
        inputs: &Inputs,
        binary: &Program,
    ) -> Result<InitEntry, Failure> {
        let folder = self.folders.init_entry(&key);
        let package = folder.join("package");
        let (_, texts) = read_texts(inputs, &package, &manifest.root, binary)?;
        let data = manifest.initialised.then(|| folder.join("data"));
        let backend = match &data {
            Some(data) => BackendSettings::read(data)
                .map_err(|error| Failure::io("read which backend is set up", &error))?,
            None => None,
        };
        let lock = read_optional(&folder.join("lock.hcl"))
            .map_err(|error| Failure::io("read a lock file", &error))?;
        Ok(InitEntry {
            key,
            package: manifest.fetched.then_some(package),
            root: manifest.root.clone(),
            texts,
            data,
            lock,
            plugins: manifest.plugins,
            // What is set up counts, whatever could be understood of the texts that name it.
            remote: backend.as_ref().map_or(manifest.remote, |backend| !backend.is_own_file()),
            backend,
            peak: AtomicU64::new(0),
        })
    }
}

/// The name of a workspace's entry.
pub(crate) fn name(
    workspace: &WorkspaceId,
    inputs: &Inputs,
    files: Option<&ModuleFiles>,
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

fn read_manifest(folder: &Path) -> Option<Manifest> {
    serde_json::from_slice(&fs::read(folder.join("shape.json")).ok()?).ok()
}

/// Returns true if a copy of a module on this machine is of the files that were hashed: a user may have saved one of them in
/// between, and an entry stored under a hash must match it.
pub(crate) fn holds(package: &Path, files: Option<&ModuleFiles>) -> io::Result<bool> {
    let Some(files) = files else { return Ok(true) };
    in_place(|| Ok(hash(&Dir::open(package)?)? == files.hash))
}

/// Clears what an engine left that was killed while it manifest an entry, once its last process is gone.
async fn clear_unfinished(folder: &Path) -> io::Result<()> {
    for stage in STAGES {
        let files = ProcessFiles::new(folder, stage);
        if files.lives() {
            Process::find(files).ended().await;
        }
    }
    remove(folder)?;
    make_private(folder)
}
