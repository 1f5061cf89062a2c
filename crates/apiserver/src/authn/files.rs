//! Files that only their owner may read, and that are there whole or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

const OWNER_FILE: u32 = 0o600;
const OWNER_FOLDER: u32 = 0o700;
const OTHERS: u32 = 0o077;

/// Makes `folder` (and what is missing above it), or takes it away from others.
pub(super) fn private_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(OWNER_FOLDER).create(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(OWNER_FOLDER))
}

/// Takes `path` away from others.
pub(super) fn private_file(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(OWNER_FILE))
}

/// Replaces `path` by `content` in one step that survives a power cut.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut draft_name = name.to_owned();
    draft_name.push(format!(".{}.draft", std::process::id()));
    let draft = folder.join(draft_name);
    // Left by a process of the same id that was killed.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write_new(&draft, content).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // The first error tells more than a failure to tidy up after it.
        let _ = fs::remove_file(&draft);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_FILE).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Opens `path` to append to it, and makes it if it is not there.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(OWNER_FILE).open(path)
}

/// Reads `path`; `None` if it is not there. Refuses what is no file: to read a pipe is to wait for its other end.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is not a file")),
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some)
}

/// Reads `path`; `None` if it is not there. Refuses what others can read: its secret may be known.
pub(super) fn read_secret(path: &Path) -> io::Result<Option<String>> {
    let Some(content) = read(path)? else { return Ok(None) };
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "its mode is {mode:o}, so others may know its secret; remove it, or set its mode to 600 if nobody does"
            ),
        ));
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_written_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        private_folder(&inner).unwrap();
        let path = inner.join("secret");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_secret(&path).unwrap_err().to_string().contains("644"));

        replace(&path, b"new").unwrap();
        assert_eq!(read_secret(&path).unwrap().as_deref(), Some("new"));
        assert_eq!((mode(&inner), mode(&path)), (0o700, 0o600));
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "no draft is left");
        assert_eq!(read_secret(&inner.join("other")).unwrap(), None);
        assert!(read_secret(&inner).unwrap_err().to_string().contains("it is not a file"));
    }
}
