//! Space that a process is sure of: its stream grows into blocks that are set aside for it, while the disk is full for all else.
//!
//! When a state can be written nowhere any more, Terraform and OpenTofu print the whole of it to their stream. So with the
//! stream nothing is lost.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

use rustix::{
    fs::{FallocateFlags, fallocate, fstatvfs},
    io::Errno,
};

/// Amount of output that a process may still produce.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemainingOutput {
    /// The size of its state.
    pub state: u64,
    /// Steps that it has not done yet.
    pub steps: u32,
}

impl RemainingOutput {
    /// Space to reserve beyond `least`: more than most objects take, in lines and in the state.
    pub fn ample(self, least: u64) -> u64 {
        least + 2 * self.state + (4 << 10) * u64::from(self.steps)
    }

    /// With less than this it may not come to the end of its last line, which has the state.
    fn scarce(self) -> u64 {
        (64 << 10) + self.state + (2 << 10) * u64::from(self.steps)
    }
}

/// Sets space aside behind the end of a file. A file system that cannot do so must at least have it.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let end = file.metadata()?.len();
    match fallocate(file, FallocateFlags::KEEP_SIZE, end, bytes) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let disk = fstatvfs(file)?;
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            if free >= bytes { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives back what a file does not use.
pub(crate) fn release(path: &Path) {
    // Cutting a file where it ends drops what is behind that. Best effort: it goes with the file, too.
    if let Ok(file) = OpenOptions::new().write(true).open(path)
        && let Ok(metadata) = file.metadata()
    {
        let _ = file.set_len(metadata.len());
    }
}

/// Keeps space set aside for a file that grows.
pub(crate) struct OutputReserve {
    file: Option<File>,
    until: u64,
}

impl OutputReserve {
    /// Of a file that has so much set aside already.
    pub fn of(path: &Path, bytes: u64) -> Self {
        Self { file: OpenOptions::new().write(true).open(path).ok(), until: bytes }
    }

    /// Sets more aside where less than three quarters are left. False where there is no more, and what is left is scarce.
    pub fn keep(&mut self, least: u64, rest: RemainingOutput) -> bool {
        let Some(file) = &self.file else { return true };
        let Ok(size) = file.metadata().map(|metadata| metadata.len()) else { return true };
        let (left, ample) = (self.until.saturating_sub(size), rest.ample(least));
        if left >= ample / 4 * 3 {
            return true;
        }
        if reserve(file, ample).is_ok() {
            self.until = size + ample;
            return true;
        }
        left >= rest.scarce()
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::MetadataExt};

    use super::*;

    #[test]
    fn what_is_set_aside_is_real_and_given_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stream");
        let mut file = File::create(&path).expect("create");
        file.write_all(b"begun").expect("write");
        reserve(&file, 1 << 20).expect("reserved");
        let blocks = |path: &Path| std::fs::metadata(path).expect("there").blocks() * 512;
        assert!(blocks(&path) >= 1 << 20, "real blocks");
        assert_eq!(std::fs::read(&path).expect("read"), b"begun", "no longer than before");
        release(&path);
        assert!(blocks(&path) < 1 << 16);
        assert_eq!(std::fs::read(&path).expect("read"), b"begun");
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stream");
        let file = File::create(&path).expect("create");
        reserve(&file, 1 << 60).expect_err("no disk has that");
        let rest = RemainingOutput { state: 100 << 10, steps: 10 };
        assert!(!OutputReserve::of(&path, 100 << 10).keep(1 << 60, rest), "not even the state has space");
        assert!(OutputReserve::of(&path, 200 << 10).keep(1 << 60, rest), "it will do");
        let mut ahead = OutputReserve::of(&path, 0);
        assert!(ahead.keep(4096, rest) && ahead.keep(4096, rest));
    }
}
