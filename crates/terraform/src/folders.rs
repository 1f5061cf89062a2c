//! The data folder, and writing into it.
//!
//! ```text
//! FOLDER/                          0700
//!   lock                           held by the engine
//!   id                             names the folder, wherever it is
//!   engine.json                    what the engine was started with, for who looks at the folder
//!   plugins/ cli/                  downloaded plugins, CLI configurations; runs only read them
//!   scratch/HASH/                  HOME and TMPDIR of one workspace's runs; emptied before and after each
//!   shapes/HASH/                   one per distinct module with its providers; see `init_cache`
//!   failed/NAME-HASH/              log and end.json of the last failed run of a workspace that was forgotten
//!   workspaces/NAME-HASH/
//!     record.json                  inputs, plan, the run under way, the last run; written whole, durably
//!     rendered.json                what was rendered into `guest/work`
//!     state/terraform.tfstate      the state of record, taken in from `guest` after checks
//!     state/copies/                the last good states
//!     plan                         the kept plan
//!     drift                        the plan of the last look that found drift
//!     retained                     its object went, and what it built stayed
//!     runs/ID/                     log, end.json; while it runs also alive, STAGE.out, STAGE.err, STAGE.exit
//!     guest/                       all that a run can write, besides its scratch: touched through `beneath` only
//!       work/                      where runs start: the module, values, credential files
//!       state/terraform.tfstate    the state that the run works on
//!       plan                       the plan that it makes, or applies
//! ```

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::private_files::{make_private, write_durable, write_private};
use crate::{
    beneath::{Dir, read_optional, remove},
    guard::term::Term,
    hash::sha256,
    inputs::Inputs,
    order::{RunId, WorkspaceId},
};

/// Length of the id of a folder.
const ID: usize = 16;
/// Name of the file in a run's folder that says how the run ended.
pub(crate) const END: &str = "end.json";

/// Names below the guest's folder.
pub(crate) mod guest {
    pub const WORK: &str = "work";
    pub const STATE: &str = "state/terraform.tfstate";
    pub const PLAN: &str = "plan";
    pub const DATA: &str = "data";
}

/// Longest path of a scratch folder. The rest of a socket's 108 bytes holds the name of the scratch folder and that of the socket.
const LONGEST_SCRATCH: usize = 54;

/// The data folder.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    root: PathBuf,
}

impl Folders {
    /// Makes what every run shares.
    pub fn make(root: &Path) -> io::Result<Self> {
        make_private(root)?;
        let folders = Self { root: fs::canonicalize(root)? };
        for folder in ["plugins", "cli", "shapes", "failed", "workspaces"] {
            make_private(&folders.root.join(folder))?;
        }
        folders.make_scratch_root()?;
        Ok(folders)
    }

    /// A folder as it is.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Names the folder, whatever path or machine it is at: who finds no record in it of what it began knows that nothing was begun.
    pub fn id(&self) -> io::Result<String> {
        let path = self.root.join("id");
        if let Some(bytes) = read_optional(&path)?
            && let Ok(id) = String::from_utf8(bytes)
            && id.len() == ID
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Ok(id);
        }
        let now = jiff::Timestamp::now().as_nanosecond().to_string();
        let process = std::process::id().to_string();
        let root = self.root.as_os_str().as_encoded_bytes();
        let host = fs::read("/proc/sys/kernel/random/uuid").unwrap_or_default();
        let id = sha256([now.as_bytes(), b" ", process.as_bytes(), b" ", root, &host])[..ID].to_owned();
        write_durable(&path, id.as_bytes())?;
        Ok(id)
    }

    /// Settings that the engine was started with.
    pub fn settings(&self) -> PathBuf {
        self.root.join("engine.json")
    }

    /// Until when runs may go on.
    pub fn term(&self) -> PathBuf {
        Term::path(&self.root)
    }

    /// Parent of the scratch folders. Plugins put their sockets there, whose paths may have 108 bytes only: for a deep data folder
    /// they are below the system's temporary folder.
    fn scratch_root(&self) -> PathBuf {
        let own = self.root.join("scratch");
        if own.as_os_str().len() <= LONGEST_SCRATCH {
            return own;
        }
        let name = &sha256([self.root.as_os_str().as_encoded_bytes()])[..16];
        std::env::temp_dir().join(format!("capt-{name}"))
    }

    fn make_scratch_root(&self) -> io::Result<()> {
        let root = self.scratch_root();
        make_private(&root)?;
        // In a folder that others write, one of that name may have been there before.
        let found = fs::symlink_metadata(&root)?;
        let ours = found.is_dir()
            && found.uid() == rustix::process::geteuid().as_raw()
            && found.permissions().mode() & 0o777 == 0o700;
        let refused =
            || io::Error::new(io::ErrorKind::PermissionDenied, format!("{} is not ours", root.display()));
        if ours { Ok(()) } else { Err(refused()) }
    }

    /// HOME and TMPDIR of what runs under that name.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.scratch_root().join(&sha256([name.as_bytes()])[..16])
    }

    /// The plugin cache of inputs that name none. What is installed with tokens of registries is for those who have the tokens.
    pub fn plugins_of(&self, inputs: &Inputs) -> PathBuf {
        match inputs.registry_tokens_of() {
            Some(owner) => self.root.join("plugins-of").join(&sha256([owner.as_bytes()])[..16]),
            None => self.root.join("plugins"),
        }
    }

    pub fn cli(&self) -> PathBuf {
        self.root.join("cli")
    }

    pub fn init_cache(&self) -> PathBuf {
        self.root.join("shapes")
    }

    pub fn init_entry(&self, key: &str) -> PathBuf {
        self.init_cache().join(key)
    }

    /// Failed runs of workspaces that were forgotten.
    pub fn failed(&self) -> PathBuf {
        self.root.join("failed")
    }

    pub fn failed_of(&self, id: &WorkspaceId) -> PathBuf {
        self.failed().join(id.folder())
    }

    pub fn workspaces(&self) -> PathBuf {
        self.root.join("workspaces")
    }

    pub fn workspace(&self, id: &WorkspaceId) -> WorkspaceFolder {
        WorkspaceFolder(self.workspaces().join(id.folder()))
    }
}

/// The folder of one workspace.
#[derive(Clone, Debug)]
pub(crate) struct WorkspaceFolder(pub PathBuf);

impl WorkspaceFolder {
    pub fn make(&self) -> io::Result<()> {
        for folder in ["state", "runs"] {
            make_private(&self.0.join(folder))?;
        }
        remove(&self.forgotten())?;
        self.open_guest()?.make_below(Path::new("state")).map(drop)
    }

    /// Marks a workspace that was forgotten, so that nobody takes it for one whose folder is lost.
    pub fn forgotten(&self) -> PathBuf {
        self.0.join("forgotten")
    }

    /// Marks a workspace whose object went, and what it built stayed.
    pub fn retained(&self) -> PathBuf {
        self.0.join("retained")
    }

    /// Files of a workspace that were replaced by a kept copy of it.
    pub fn gone(&self) -> PathBuf {
        self.0.join("gone")
    }

    /// The record among it, where the workspace is kept no more.
    pub fn gone_record(&self) -> PathBuf {
        self.gone().join("record.json")
    }

    /// Removes all but the mark that it was forgotten.
    pub fn forget(&self, scratch: &Path) -> io::Result<()> {
        if !self.0.exists() {
            return Ok(());
        }
        write_private(&self.forgotten(), b"")?;
        remove(scratch)?;
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            if path != self.forgotten() {
                remove(&path)?;
            }
        }
        Ok(())
    }

    pub fn record(&self) -> PathBuf {
        self.0.join("record.json")
    }

    /// The state of record.
    pub fn state(&self) -> PathBuf {
        self.0.join("state/terraform.tfstate")
    }

    /// The last good states.
    pub fn copies(&self) -> PathBuf {
        self.0.join("state/copies")
    }

    /// A state that has to be handed to the backend yet.
    pub fn pending(&self) -> PathBuf {
        self.0.join("state/pending.tfstate")
    }

    pub fn drift(&self) -> PathBuf {
        self.0.join("drift")
    }

    pub fn plan(&self) -> PathBuf {
        self.0.join("plan")
    }

    /// List of the files rendered into `work`, so that they can be removed again.
    pub fn rendered(&self) -> PathBuf {
        self.0.join("rendered.json")
    }

    /// All that a run can write.
    pub fn guest(&self) -> PathBuf {
        self.0.join("guest")
    }

    /// A handle of it.
    pub fn open_guest(&self) -> io::Result<Dir> {
        Dir::make(&self.guest())
    }

    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    pub fn run(&self, id: &RunId) -> PathBuf {
        self.runs().join(id.as_str())
    }
}
