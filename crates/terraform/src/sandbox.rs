//! Shutting a run in with Landlock, where the kernel has it.
//!
//! A thread shuts itself in, starts the process and ends: what a thread may not, the processes that it starts may not
//! either. That needs no unsafe code between fork and exec, and no program in between.
//!
//! A run may read the system's folders and those of programs, its shape and the plugins; it may write its own workspace, scratch and the
//! plugin cache. It sees no other workspace, and not the home of whoever runs the engine.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus,
};

/// Folders of the system that programs read.
const SYSTEM: [&str; 14] = [
    "/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/proc", "/sys", "/run",
    "/var/run", "/snap",
];

/// The newest version whose meaning is known here; older kernels do what they can.
const VERSION: ABI = ABI::V5;

/// What a process may write and read, besides the system's folders.
#[derive(Debug)]
pub(crate) struct Rules {
    write: Vec<PathBuf>,
    read: Vec<PathBuf>,
}

impl Rules {
    /// For a program that finds others on `path`.
    pub fn new<'a>(
        write: impl Iterator<Item = &'a Path>,
        read: impl Iterator<Item = &'a Path>,
        path: &OsStr,
    ) -> Self {
        let read = SYSTEM.iter().map(PathBuf::from).chain(read.map(Path::to_path_buf));
        // What is relative would mean a folder of the engine's, and lets a run see that.
        let absolute = |path: &PathBuf| path.is_absolute();
        Self {
            write: write.map(Path::to_path_buf).filter(absolute).collect(),
            read: read.chain(std::env::split_paths(path)).filter(absolute).collect(),
        }
    }

    /// Does `start` where only these rules allow something. What it starts stays shut in. Where the kernel has no Landlock,
    /// nothing is shut in.
    pub fn around<T: Send>(
        mut self,
        program: &Path,
        start: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        // A link on PATH may lead to where nothing else may be read.
        self.read.extend(fs::canonicalize(program));
        let work = || match enter(&self.write, &self.read) {
            Ok(_) => start(),
            Err(error) => Err(io::Error::other(error)),
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("sandbox".to_owned()).spawn_scoped(scope, work)?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that shuts a run in died")))
        })
    }
}

/// Whether the kernel can shut a process in. Asks by trying, in a thread of its own that ends.
pub fn available() -> bool {
    std::thread::spawn(|| {
        matches!(enter(&[], &[]), Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced))
    })
    .join()
    .unwrap_or(false)
}

fn enter(write: &[PathBuf], read: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(VERSION))?.create()?;
    let devices: BitFlags<AccessFs> = AccessFs::from_read(VERSION) | AccessFs::WriteFile | AccessFs::IoctlDev;
    let grants = write
        .iter()
        .map(|path| (path.as_path(), AccessFs::from_all(VERSION)))
        .chain(read.iter().map(|path| (path.as_path(), AccessFs::from_read(VERSION))))
        .chain([(Path::new("/dev"), devices)]);
    for (path, access) in grants {
        // What is not there needs no grant.
        let Ok(opened) = PathFd::new(path) else { continue };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
        rules = rules.add_rule(PathBeneath::new(opened, access))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_relative_is_nobodys() {
        let path = std::env::join_paths([".", "bin", "/usr/bin"]).unwrap();
        let write = [Path::new("here"), Path::new("/work")];
        let rules = Rules::new(write.into_iter(), [Path::new("../there")].into_iter(), &path);
        assert_eq!(rules.write, [Path::new("/work")]);
        assert!(rules.read.iter().all(|path| path.is_absolute()), "{rules:?}");
        assert_eq!(rules.read.last().unwrap(), Path::new("/usr/bin"));
    }
}
