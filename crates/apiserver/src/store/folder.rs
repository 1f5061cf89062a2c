//! The folder of a store: private to its user, and to one process at a time.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process,
};

/// Why a store could not be opened. The database is as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file system refused.
    #[error("{attempt} {path}")]
    File {
        /// The attempted operation.
        attempt: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Other users can get at the folder, and there is something in it already.
    #[error(
        "other users have access to {path} (mode {mode:o}): make it private (chmod 700) or choose another folder"
    )]
    Exposed {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Another process, or another store of this one, has the folder open.
    #[error("{path} is in use by {}", holder_name(*.holder))]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The process that has it, if known.
        holder: Option<u32>,
    },
    /// The file is a database of something else.
    #[error("{path} is not a database of this program (application id {found:#x})")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The application id in it.
        found: i32,
    },
    /// The database was written by another version of this program.
    #[error("{path} has format {found}; this program reads format {supported}")]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i32,
        /// The format this program knows.
        supported: i32,
    },
    /// The database is there but not whole. It is left as it is, for repair or a backup.
    #[error("{path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The database could not be used, for a reason other than damage.
    #[error("{attempt} {path}")]
    Database {
        /// The attempted operation.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: rusqlite::Error,
    },
    /// The machine is out of threads.
    #[error("start the writer of the store")]
    Thread(#[source] io::Error),
}

fn holder_name(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// A folder that no other process can open as long as this lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Locked. The lock goes with the process, however that ends.
    lock: File,
}

impl Drop for Folder {
    /// Closing is not enough: a process being started by another thread holds a copy of every open file until it has
    /// become another program, and with it the lock.
    fn drop(&mut self) {
        // If it fails, closing is what is left.
        let _ = self.lock.unlock();
    }
}

impl Folder {
    pub(crate) fn claim(path: &Path) -> Result<Self, OpenError> {
        make_private(path)?;
        let lock = lock(path)?;
        Ok(Self { path: path.to_owned(), lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes the names in the folder last, as syncing a file makes its content last.
    pub(crate) fn sync(&self) -> Result<(), OpenError> {
        sync_folder(&self.path)
    }
}

/// An existing folder is made private only when it is empty, as `initdb` does it: more than that might be somebody
/// else's home.
fn make_private(path: &Path) -> Result<(), OpenError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => return sync_folder(path.parent().unwrap_or(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(source) => return Err(OpenError::File { attempt: "make folder", path: path.to_owned(), source }),
    }
    let failed = |source| OpenError::File { attempt: "look into folder", path: path.to_owned(), source };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    let (group, others) = (mode & 0o070, mode & 0o007);
    if group == 0 && others == 0 {
        return Ok(());
    }
    if fs::read_dir(path).map_err(failed)?.next().is_some() {
        return Err(OpenError::Exposed { path: path.to_owned(), mode });
    }
    fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(|source| OpenError::File {
        attempt: "make private",
        path: path.to_owned(),
        source,
    })
}

fn sync_folder(path: &Path) -> Result<(), OpenError> {
    // The parent of a relative name of one part.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|source| OpenError::File {
        attempt: "sync folder",
        path: path.to_owned(),
        source,
    })
}

/// Locks the folder's lock file and leaves the number of this process in it, for the message to the next one.
fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join("lock");
    let failed = |source| OpenError::File { attempt: "lock", path: path.clone(), source };
    // Not truncated: until it is locked, what is in it is another's.
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut content = String::new();
            // The message does without the number if it cannot be read.
            let _ = file.read_to_string(&mut content);
            return Err(OpenError::InUse { path: folder.to_owned(), holder: content.trim().parse().ok() });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", process::id()))
        .map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_lock_file_does_not_keep_the_folder() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let folder = Folder::claim(&path).unwrap();
        let copy = folder.lock.try_clone().unwrap();
        assert!(matches!(Folder::claim(&path), Err(OpenError::InUse { .. })));
        drop(folder);
        Folder::claim(&path).unwrap();
        drop(copy);
    }
}
