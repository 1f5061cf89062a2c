//! Options of an engine.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use crate::{inputs::Roots, state_backend::StateBackend};

/// Options of an engine. [`Options::new`] has defaults for all but the folder.
#[derive(Clone)]
pub struct Options {
    /// The data folder. Made (0700) where it is missing; one engine at a time.
    pub folder: PathBuf,
    /// Processes at a time. Default: the cores, where throughput peaks.
    pub slots: usize,
    /// Memory that runs may use together, in bytes, by estimate. Default: four fifths of the machine's or the cgroup's.
    pub memory: Option<u64>,
    /// Search path for binaries, instead of `$PATH`.
    pub path: Option<OsString>,
    /// The durable place beside the folder.
    pub state_backend: Option<Arc<dyn StateBackend>>,
    /// Confines runs with Landlock, if the kernel has it.
    pub sandbox: bool,
    /// Folders of the host that inputs may name: local modules, plugin mirrors and caches lie below one of them. Default: none.
    pub allow_paths: Vec<PathBuf>,
    /// Folders that inputs may never name, whatever is allowed; the data folder is one of them.
    pub refuse_paths: Vec<PathBuf>,
    /// The program that guards runs: one that begins with [`dispatch`](crate::guard::dispatch). Default: this one.
    pub guard: PathBuf,
    /// The lease that runs go on under, where somebody else can take it over.
    pub lease: Option<Lease>,
    /// Time for an interrupted run to save its state, before it is interrupted again, and then killed.
    pub grace: Duration,
    /// Size of a run's log; of a longer one the last part is kept.
    pub log_bytes: u64,
    /// Space on the disk that is set aside for each run that changes something, at least: without it none is started.
    pub reserve_bytes: u64,
    /// Runs whose logs are kept, per workspace.
    pub runs_kept: usize,
    /// Time limit for a binary to report its version, on request or in the first line of a run.
    pub version_timeout: Duration,
}

/// The lease of an engine. Its holder renews the [`Term`](crate::guard::term::Term) of the data folder.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Duration of a term after its last renewal.
    pub lasts: Duration,
}

impl Options {
    /// Defaults, in that folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            slots: std::thread::available_parallelism().map_or(2, usize::from),
            memory: None,
            path: None,
            state_backend: None,
            sandbox: false,
            allow_paths: Vec::new(),
            refuse_paths: Vec::new(),
            lease: None,
            guard: crate::guard::THIS_PROGRAM.into(),
            grace: Duration::from_secs(60),
            log_bytes: 4 << 20,
            reserve_bytes: 1 << 20,
            runs_kept: 10,
            version_timeout: Duration::from_secs(20),
        }
    }

    /// Paths of the host that inputs may name.
    pub(crate) fn roots(&self) -> Roots {
        let never = self.refuse_paths.iter().chain([&self.folder]);
        Roots { allowed: self.allow_paths.clone(), never: never.cloned().collect() }
    }
}
