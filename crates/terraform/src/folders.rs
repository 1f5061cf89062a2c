//! The data folder, and writing into it.
//!
//! ```text
//! FOLDER/                          0700
//!   lock                           held by the engine
//!   home/ tmp/ plugins/ cli/       what every run shares: an empty home, scratch, downloaded plugins, CLI configurations
//!   shapes/HASH/                   one per distinct module with its providers; see the room `shape`
//!   workspaces/NAME-HASH/
//!     record.json                  inputs, plan, the run under way, the last run; written whole, durably
//!     state/terraform.tfstate
//!     plan                         the kept plan
//!     work/                        where runs start: the module, values, credential files
//!     runs/ID/                     log, end.json; while it runs also alive, STAGE.out, STAGE.err, STAGE.exit
//! ```

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::order::{RunId, WorkspaceId};

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
        for folder in ["home", "tmp", "plugins", "cli", "shapes", "workspaces"] {
            make_private(&folders.root.join(folder))?;
        }
        Ok(folders)
    }

    /// A folder as it is.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Scratch. Plugins put their sockets there, whose paths may have 108 bytes only: a deep data folder leaves it to the system.
    pub fn tmp(&self) -> PathBuf {
        let tmp = self.root.join("tmp");
        if tmp.as_os_str().len() > 70 { std::env::temp_dir() } else { tmp }
    }

    pub fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }

    pub fn cli(&self) -> PathBuf {
        self.root.join("cli")
    }

    pub fn shapes(&self) -> PathBuf {
        self.root.join("shapes")
    }

    pub fn shape(&self, key: &str) -> PathBuf {
        self.shapes().join(key)
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
        for folder in ["state", "work", "runs"] {
            make_private(&self.0.join(folder))?;
        }
        Ok(())
    }

    pub fn record(&self) -> PathBuf {
        self.0.join("record.json")
    }

    pub fn state(&self) -> PathBuf {
        self.0.join("state/terraform.tfstate")
    }

    /// A copy of the state that cannot be half written: Terraform writes the state in place.
    pub fn shadow(&self) -> PathBuf {
        self.0.join("state/shadow.tfstate")
    }

    /// A state that has to be handed to the backend yet.
    pub fn pending(&self) -> PathBuf {
        self.0.join("state/pending.tfstate")
    }

    pub fn plan(&self) -> PathBuf {
        self.0.join("plan")
    }

    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// What was rendered into `work`, so that it can be taken out again.
    pub fn rendered(&self) -> PathBuf {
        self.0.join("rendered.json")
    }

    pub fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    pub fn run(&self, id: &RunId) -> PathBuf {
        self.runs().join(id.as_str())
    }
}

/// Makes a folder (0700), and those above it.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file (0600) that can be made again.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_private(path)?.write_all(bytes)
}

/// A new, empty file (0600).
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Writes a file (0600) so that after a crash of the machine it is the old one or the new one, and once this returns the new one.
pub(crate) fn write_durable(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_whole(path, bytes)?;
    let folder = path.parent().expect("a file of the data folder has a folder");
    File::open(folder)?.sync_all()
}

/// Writes a file (0600) so that after a crash of the machine it is the old one or the new one. Where both will do this saves a wait
/// for the disk.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let written = create_private(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // On a full disk half a file is in the way of others.
        let _ = fs::remove_file(&temporary);
    })
}

/// Reads a file that may be missing.
pub(crate) fn read_optional(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file or folder that may be missing.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Copies a folder's files, without version control and what other runs left behind. Returns their relative paths.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> io::Result<Vec<PathBuf>> {
    fn walk(from: &Path, to: &Path, below: &Path, copied: &mut Vec<PathBuf>) -> io::Result<()> {
        make_private(&to.join(below))?;
        for entry in fs::read_dir(from.join(below))? {
            let entry = entry?;
            let name = entry.file_name();
            if [".git", ".terraform", "terraform.tfstate", "terraform.tfstate.backup"]
                .iter()
                .any(|left| name == *left)
            {
                continue;
            }
            let path = below.join(&name);
            // Follows links: what they point to may not be there for the run.
            if fs::metadata(from.join(&path))?.is_dir() {
                walk(from, to, &path, copied)?;
            } else {
                fs::copy(from.join(&path), to.join(&path))?;
                copied.push(path);
            }
        }
        Ok(())
    }
    let mut copied = Vec::new();
    walk(from, to, Path::new(""), &mut copied)?;
    copied.sort();
    Ok(copied)
}
