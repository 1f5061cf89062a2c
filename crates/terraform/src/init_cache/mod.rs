//! Init cache: initialised folders that workspaces of one template share, so that `init` runs once.
//!
//! An entry is a module with its provider configuration, backend, binary and plugins. Where the module uses built-ins alone and
//! no other modules, nothing has to be initialised at all: such an entry is plain, and the same for each version of the binary.
//!
//! ```text
//! shapes/HASH/
//!   package/     the module as it was fetched; copied into each workspace
//!   data/        TF_DATA_DIR after `init`: modules and plugins; read by runs, written by none
//!   lock.hcl     the lock file without hashes
//!   shape.json   written last: the entry is whole
//! ```
//! `get` and `init` run no code of the module, and they alone fill entries and plugin cache; runs only read them, and only the entry of
//! their own. The lock file has no hashes because `init` has just verified the plugins; with them nearly every command would hash the
//! plugin again, which for the AWS provider is a third of the time of a plan.

mod build;
mod command;
mod fetch;
mod init;
mod key;
mod plugins;
mod texts;
pub(crate) mod work;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use serde::Deserialize;
use serde_json::Value;

pub(crate) use build::holds;
pub(crate) use build::{Initializer, STAGES};
pub(crate) use key::{ModuleFiles, is_plain, key, local_folder};

use crate::{
    beneath::Dir,
    binary::Program,
    failure::Failure,
    hash::sha256,
    inputs::{Inputs, is_own_file, place_of},
    module::BUILTIN,
    order::WorkspaceId,
};

/// Expected of a run without plugins, in bytes; measured 62 MB.
const WITHOUT_PLUGINS: u64 = 100 << 20;
/// Expected of a run with plugins that was never measured; the AWS provider needs 800 MB.
const WITH_PLUGINS: u64 = 1000 << 20;

/// Initialised folder that workspaces of one template share.
#[derive(Debug)]
pub(crate) struct InitEntry {
    pub key: String,
    /// The fetched module, where it is not inline.
    pub package: Option<PathBuf>,
    /// The root module below the package.
    pub root: PathBuf,
    /// Files that are rendered into the root.
    pub texts: Vec<(String, String)>,
    /// `TF_DATA_DIR`, where something was initialised.
    pub data: Option<PathBuf>,
    pub lock: Option<Vec<u8>>,
    /// Runs start plugins.
    pub plugins: bool,
    /// The state is not here but where the backend says.
    pub remote: bool,
    /// The backend that `init` has set up.
    pub backend: Option<BackendSettings>,
    /// The most memory a run of it had.
    pub peak: AtomicU64,
}

/// No run is expected to need more: what is measured, its module can make look as it likes, and others wait for it.
const MOST: u64 = 4 << 30;

impl InitEntry {
    /// The memory a run is expected to need.
    pub fn estimate(&self) -> u64 {
        match self.peak.load(Ordering::Relaxed) {
            0 if self.plugins => WITH_PLUGINS,
            0 => WITHOUT_PLUGINS,
            // A little more than what was seen: it was looked at now and then only.
            peak => peak + peak / 8,
        }
    }

    /// A provider is installed, or built in.
    fn has(&self, source: &str) -> bool {
        let lock = self.lock.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        source == BUILTIN || lock.contains(&format!("provider \"{source}\""))
    }

    /// Learns from a run.
    pub fn learn(&self, peak: u64) {
        self.peak.fetch_max(peak.min(MOST), Ordering::Relaxed);
    }
}

/// A backend as `init` has set it up, whoever named it: the module, files that override it, a configuration, arguments.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BackendSettings {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub config: BTreeMap<String, Value>,
}

impl BackendSettings {
    /// Reads it from the data of an `init`; nothing where no backend is set up.
    fn read(data: &Path) -> io::Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Data {
            #[serde(default)]
            backend: Option<BackendSettings>,
        }
        let bytes = Dir::open(data)?.read(Path::new("terraform.tfstate"), LARGEST_SETTINGS)?;
        let Some(bytes) = bytes else { return Ok(None) };
        let data: Data = serde_json::from_slice(&bytes)?;
        Ok(data.backend.filter(|backend| !backend.kind.is_empty()))
    }

    /// Returns true if it keeps the state in a file of the host.
    pub fn is_file_of_host(&self) -> bool {
        self.kind == "local" && !self.is_own_file()
    }

    /// Returns true if it keeps the state in the folder of the run.
    fn is_own_file(&self) -> bool {
        is_own_file(&self.kind, &self.config)
    }

    /// The hash of the place that it keeps the state of inputs in.
    pub fn place(&self, inputs: &Inputs) -> String {
        place_of(&self.kind, &self.config, inputs)
    }
}

/// The most that the settings of a backend may be.
const LARGEST_SETTINGS: u64 = 1 << 20;

/// Summary of a state.
pub(crate) struct StateSummary {
    pub providers: BTreeSet<String>,
    pub bytes: Vec<u8>,
}

type Building = Shared<BoxFuture<'static, Result<Arc<InitEntry>, Failure>>>;

/// All entries. Whoever asks for one that is being made waits for it.
pub(crate) struct InitCache {
    initializer: Arc<Initializer>,
    known: Mutex<HashMap<String, Building>>,
}

impl InitCache {
    pub fn new(initializer: Initializer) -> Self {
        Self { initializer: Arc::new(initializer), known: Mutex::default() }
    }

    pub fn initializer(&self) -> &Initializer {
        &self.initializer
    }

    /// The entry of a workspace. It is made in a task of its own, so that whoever waits can go away without harm to the others.
    ///
    /// `files`: those of a module on this machine; the entry is of just these, or there is none. `state`: what the workspace's
    /// state holds may need providers that its module does not name any more.
    pub async fn get(
        &self,
        workspace: &WorkspaceId,
        inputs: &Inputs,
        files: Option<ModuleFiles>,
        binary: &Program,
        state: Option<&StateSummary>,
    ) -> Result<Arc<InitEntry>, Failure> {
        let key = build::name(workspace, inputs, files.as_ref(), binary);
        let entry = self.made(key.clone(), inputs, files.clone(), binary, None).await?;
        let missing = |held: &&StateSummary| held.providers.iter().any(|source| !entry.has(source));
        let Some(held) = state.filter(missing) else { return Ok(entry) };
        let version = binary.version.as_deref().unwrap_or_default();
        let parts = [key.as_bytes(), version.as_bytes()];
        let parts = parts.into_iter().chain(held.providers.iter().map(String::as_bytes));
        self.made(sha256(parts)[..24].to_owned(), inputs, files, binary, Some(held.bytes.clone())).await
    }

    async fn made(
        &self,
        key: String,
        inputs: &Inputs,
        files: Option<ModuleFiles>,
        binary: &Program,
        state: Option<Vec<u8>>,
    ) -> Result<Arc<InitEntry>, Failure> {
        let building = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            // One that failed is tried again: what it lacked may be there now.
            if known.get(&key).and_then(Shared::peek).is_some_and(Result::is_err) {
                known.remove(&key);
            }
            known
                .entry(key.clone())
                .or_insert_with(|| self.begin(key, inputs.clone(), files, binary.clone(), state))
                .clone()
        };
        building.await
    }

    fn begin(
        &self,
        key: String,
        inputs: Inputs,
        files: Option<ModuleFiles>,
        binary: Program,
        state: Option<Vec<u8>>,
    ) -> Building {
        let initializer = self.initializer.clone();
        let task =
            tokio::spawn(async move { initializer.make(key, inputs, files.as_ref(), binary, state).await });
        async move {
            task.await.unwrap_or_else(|error| Err(Failure::killed(format!("initialise the module: {error}"))))
        }
        .boxed()
        .shared()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::{environment::Environment, failure::Class, folders::Folders, inputs::Roots, module::Module};

    /// Somebody saves a file between the hash and the copy: tried again, and nothing is kept under the hash.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_module_that_changes_while_it_is_read_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let module = folder.path().join("module");
        std::fs::create_dir(&module).unwrap();
        std::fs::write(module.join("main.tf"), "output \"x\" {\n  value = 1\n}\n").unwrap();
        let folders = Folders::make(&folder.path().join("data")).unwrap();
        let environment = Environment::new(folders.clone(), OsString::new(), false, Roots::default());
        let cache = InitCache::new(Initializer::new(folders, environment, PathBuf::new()));
        let source = module.display().to_string();
        let module = Module::Source { source, version: None, entrypoint: None };
        let inputs = Inputs { module, ..Inputs::inline("") };
        let binary = Program { name: "tofu".into(), path: "/bin/tofu".into(), version: None };
        let workspace = WorkspaceId::new("w");
        let now = ModuleFiles::of(std::fs::canonicalize(folder.path().join("module")).unwrap()).unwrap();
        let get = async |hash: &str| {
            let files = ModuleFiles { hash: hash.to_owned(), ..now.clone() };
            cache.get(&workspace, &inputs, Some(files), &binary, None).await
        };
        for _ in 0..2 {
            let failure = get("what it was").await.unwrap_err();
            assert_eq!(failure.class, Class::Transient, "{failure:?}");
            assert!(failure.message.contains("changed while it was read"), "{failure:?}");
        }
        assert!(get(&now.hash).await.is_ok());
    }

    /// Somebody leads the folder elsewhere between the hash and the copy.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_module_that_becomes_a_link_is_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| std::fs::canonicalize(folder.path()).unwrap().join(name);
        for name in ["module", "secret"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::write(path(name).join("main.tf"), "").unwrap();
        }
        let folders = Folders::make(&path("data")).unwrap();
        let environment = Environment::new(folders.clone(), OsString::new(), false, Roots::default());
        let shapes = InitCache::new(Initializer::new(folders, environment, PathBuf::new()));
        let source = path("module").display().to_string();
        let module = Module::Source { source, version: None, entrypoint: None };
        let inputs = Inputs { module, ..Inputs::inline("") };
        let binary = Program { name: "tofu".into(), path: "/bin/tofu".into(), version: None };
        let files = ModuleFiles::of(path("module")).unwrap();
        std::fs::rename(path("module"), path("before")).unwrap();
        std::os::unix::fs::symlink(path("secret"), path("module")).unwrap();
        let made = shapes.get(&WorkspaceId::new("w"), &inputs, Some(files), &binary, None).await;
        let failure = made.unwrap_err();
        assert!(failure.message.contains("is a link"), "{failure:?}");
    }
}
