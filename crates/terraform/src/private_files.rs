//! Files that only their owner may read, written whole or durably, and what an error of theirs means.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

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

/// Returns true if an error says that something is not as it was left, or cannot be read any more; and not that there is too little of
/// something, which passes.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    const PASSES: [i32; 4] = [
        rustix::io::Errno::MFILE.raw_os_error(),
        rustix::io::Errno::NFILE.raw_os_error(),
        rustix::io::Errno::NOMEM.raw_os_error(),
        rustix::io::Errno::AGAIN.raw_os_error(),
    ];
    let passes = matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::Interrupted
            | io::ErrorKind::OutOfMemory
    );
    !passes && !error.raw_os_error().is_some_and(|code| PASSES.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_does_not_pass() {
        use rustix::io::Errno;
        let rows = [
            (Errno::IO, true),
            (Errno::ACCESS, true),
            (Errno::PERM, true),
            (Errno::ISDIR, true),
            (Errno::NOTDIR, true),
            (Errno::LOOP, true),
            (Errno::NOSPC, false),
            (Errno::DQUOT, false),
            (Errno::MFILE, false),
            (Errno::NFILE, false),
            (Errno::NOMEM, false),
            (Errno::INTR, false),
        ];
        for (errno, expected) in rows {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            assert_eq!(is_damage(&error), expected, "{errno:?}");
        }
        assert!(is_damage(&io::Error::new(io::ErrorKind::InvalidData, "its checksum is wrong")));
    }
}
