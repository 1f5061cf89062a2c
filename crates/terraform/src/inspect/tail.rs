//! Reading a log while it grows.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Reads a log from its first line, and on as it grows. A log that was full has its first half in `log.1`.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    open: Option<(File, u64)>,
    at: u64,
    begun: bool,
}

impl Follow {
    /// Begins with the first line that is kept.
    pub fn new(log: PathBuf) -> Self {
        Self { path: log, open: None, at: 0, begun: false }
    }

    /// Reads what was added since the last call. A log that does not exist yet is empty.
    pub fn read(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        if !self.begun && self.path.exists() {
            self.begun = true;
            bytes = fs::read(older(&self.path)).unwrap_or_default();
        }
        // When it is full it is put aside, and another takes its place: the rest of the old one comes first.
        let replaced = match (&self.open, fs::metadata(&self.path)) {
            (Some((_, inode)), Ok(now)) => now.ino() != *inode,
            _ => false,
        };
        self.rest(&mut bytes)?;
        if replaced {
            self.open = None;
            self.at = 0;
            self.rest(&mut bytes)?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn rest(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        if self.open.is_none() {
            let Ok(file) = File::open(&self.path) else { return Ok(()) };
            let inode = file.metadata()?.ino();
            self.open = Some((file, inode));
        }
        let Some((file, _)) = &mut self.open else { return Ok(()) };
        // It is redacted once more at the end of its run, and may be shorter then; all of it has been read.
        self.at = self.at.min(file.metadata()?.len());
        file.seek(SeekFrom::Start(self.at))?;
        self.at += file.read_to_end(into)? as u64;
        Ok(())
    }
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("1")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_is_followed_through_its_turns() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut follow = Follow::new(path.clone());
        assert_eq!(follow.read().expect("read"), "", "not there yet");
        fs::write(older(&path), "zero\n").expect("write");
        let mut file = File::create(&path).expect("create");
        file.write_all(b"one\n").expect("write");
        assert_eq!(follow.read().expect("read"), "zero\none\n", "what was put aside comes first");
        file.write_all(b"two\n").expect("write");
        fs::rename(&path, older(&path)).expect("rename");
        fs::write(&path, "three\n").expect("write");
        assert_eq!(follow.read().expect("read"), "two\nthree\n");
        assert_eq!(follow.read().expect("read"), "");
        fs::write(&path, "3\n").expect("write");
        assert_eq!(follow.read().expect("read"), "", "shorter, and nothing new");
    }
}
