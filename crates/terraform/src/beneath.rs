//! Files below a folder that a run can write, touched only through a handle of that folder.
//!
//! Paths are walked part by part, and no link is followed, whatever a run put in their way meanwhile. Only regular files of our own
//! are read, and only up to a size: a FIFO blocks nobody, and an endless file ends. A file is written under another name and put in
//! place, so that a link (hard or soft) that stands there is replaced and not written through.

mod copy;
mod real;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    ops::ControlFlow,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path},
};

use rustix::{
    fs::{self, AtFlags, Dir as Listing, FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};

pub(crate) use copy::{copy_tree, hash};
pub(crate) use real::open_real;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opening a FIFO for reading waits for a writer, without this.
const FILE: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);
/// As many entries of a folder are held in memory at a time.
const BATCH: usize = 1024;
/// The name under which a file is written before it is put in place.
const TEMPORARY: &str = ".capt-new";

/// A handle of a folder.
#[derive(Debug)]
pub(crate) struct Dir(OwnedFd);

/// Tells one version of a file from the next.
pub(crate) type Stamp = (i64, i64, u64, u64);

impl Dir {
    /// Opens a folder at a place that is ours: only its last part can be a run's.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(fs::open(path, FOLDER, Mode::empty())?))
    }

    /// Makes a folder (0700) at a place that is ours, and opens it.
    pub fn make(path: &Path) -> io::Result<Self> {
        match open_or_unlock(fs::CWD, path.as_os_str()).map(Self) {
            Err(Errno::NOENT) => {
                crate::private_files::make_private(path)?;
                Self::open(path)
            }
            opened => Ok(opened?),
        }
    }

    /// Opens a folder below.
    pub fn below(&self, path: &Path) -> io::Result<Self> {
        let mut at = self.again()?;
        for part in parts(path)? {
            at = Self(fs::openat(&at.0, part, FOLDER, Mode::empty()).map_err(named(path))?);
        }
        Ok(at)
    }

    /// Opens a folder below that is a run's, also where the run has taken its own right to it.
    fn own_below(&self, path: &Path) -> io::Result<Self> {
        let mut at = self.again()?;
        for part in parts(path)? {
            at = Self(open_or_unlock(&at.0, part).map_err(named(path))?);
        }
        Ok(at)
    }

    /// Opens a folder below, and makes it where it is missing. What is no folder and stands in its way is removed.
    pub fn make_below(&self, path: &Path) -> io::Result<Self> {
        let mut at = self.again()?;
        for part in parts(path)? {
            let opened = match open_or_unlock(&at.0, part) {
                Ok(opened) => opened,
                Err(error) => {
                    if matches!(error, Errno::NOTDIR | Errno::LOOP) {
                        fs::unlinkat(&at.0, part, AtFlags::empty())?;
                    }
                    fs::mkdirat(&at.0, part, Mode::RWXU)?;
                    open_or_unlock(&at.0, part)?
                }
            };
            at = Self(opened);
        }
        Ok(at)
    }

    /// Reads a file of at most so many bytes; `None` where there is none. One that a run has closed (`chmod`) is opened again.
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((file, stat)) = self.file(path, most)? else { return Ok(None) };
        let mut bytes = Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or(0) + 1);
        // It may still grow.
        file.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(too_large(path, most)) } else { Ok(Some(bytes)) }
    }

    /// Reads a regular file, whosever it is. Links are followed as far as they stay below this folder, where the kernel can tell.
    pub fn read_within(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let flags = FILE.difference(OFlags::NOFOLLOW);
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = match fs::openat2(&self.0, path, flags, Mode::empty(), inside) {
            Err(Errno::NOSYS | Errno::PERM) => {
                let found = self.any_file(path, most)?;
                found.map(|(file, _)| file).ok_or(io::ErrorKind::NotFound)?
            }
            opened => File::from(opened?),
        };
        check_regular(path, &fs::fstat(&file)?, most)?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Opens a regular file of our own, with no other name, of at most so many bytes.
    fn file(&self, path: &Path, most: u64) -> io::Result<Option<(File, Stat)>> {
        let opened = match self.own_parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => {
                let (folder, name) = found?;
                unlock_file(&folder, name, path)?;
                regular(&folder, name, path, most)?
            }
        };
        if opened.as_ref().is_some_and(|(_, stat)| !is_own_file(stat)) {
            return Err(foreign(path));
        }
        Ok(opened)
    }

    /// Opens a regular file of at most so many bytes.
    fn any_file(&self, path: &Path, most: u64) -> io::Result<Option<(File, Stat)>> {
        let (folder, name) = match self.parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        regular(&folder, name, path, most)
    }

    /// Returns the size and last change of a file. Follows no link.
    pub fn stamp(&self, path: &Path) -> Option<Stamp> {
        let (folder, name) = self.own_parent(path).ok()?;
        let stat = fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(stamp(&stat))
    }

    /// Writes a file (0600), and the folders above it. Whatever stood there is replaced.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.put(path, Mode::RUSR | Mode::WUSR, |file| file.write_all(bytes))
    }

    fn put(&self, path: &Path, mode: Mode, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | FILE;
        let file = match fs::openat(&folder.0, TEMPORARY, flags, mode) {
            Err(Errno::EXIST) => {
                folder.remove(Path::new(TEMPORARY))?;
                fs::openat(&folder.0, TEMPORARY, flags, mode)
            }
            opened => opened,
        };
        let mut file = File::from(file?);
        // A default ACL of the folder may have taken rights that the mode gives.
        fs::fchmod(&file, mode)?;
        let put = fill(&mut file).and_then(|()| folder.replace(name));
        put.inspect_err(|_| {
            // On a full disk half a file is in the way of others.
            let _ = fs::unlinkat(&folder.0, TEMPORARY, AtFlags::empty());
        })
    }

    fn replace(&self, name: &OsStr) -> io::Result<()> {
        match fs::renameat(&self.0, TEMPORARY, &self.0, name) {
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                self.remove(Path::new(name))?;
                Ok(fs::renameat(&self.0, TEMPORARY, &self.0, name)?)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Makes a link. Only who runs in the folder will ever follow it.
    pub fn link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        folder.remove(Path::new(name))?;
        Ok(fs::symlinkat(target, &folder.0, name)?)
    }

    /// Removes a file, a link or a folder with all that is in it. What is missing is gone already.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        parts(path)?;
        let (folder, name) = match self.own_parent(path) {
            // What is behind a link is not below this folder.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                return if path.file_name().is_some() { Ok(()) } else { Err(error) };
            }
            found => found?,
        };
        remove_at(&folder, name)
    }

    /// Removes all that is in the folder. A tree of any depth takes no more memory or handles than a flat one: folders further down are
    /// moved up first.
    pub fn clear(&self) -> io::Result<()> {
        unlock(&self.0)?;
        let mut moved = 0_u64;
        loop {
            let names = self.names(BATCH)?;
            if names.is_empty() {
                return Ok(());
            }
            for name in names {
                match fs::unlinkat(&self.0, &name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(Errno::ISDIR | Errno::PERM) => self.flatten(&name, &mut moved)?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Removes a folder in this one; what folders it has come up into this one.
    fn flatten(&self, name: &OsStr, moved: &mut u64) -> io::Result<()> {
        let inside = Self(open_or_unlock(&self.0, name)?);
        loop {
            let names = inside.names(BATCH)?;
            if names.is_empty() {
                return Ok(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?);
            }
            for below in names {
                match fs::unlinkat(&inside.0, &below, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(Errno::ISDIR | Errno::PERM) => {
                        // Moving a folder writes into it (`..`).
                        drop(open_or_unlock(&inside.0, &below)?);
                        self.move_up(&inside, &below, moved)?;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Moves a folder up into this one, under a name that is free: whoever made the tree may have taken any. (An empty folder of that
    /// name is replaced; it was to be removed as well.)
    fn move_up(&self, inside: &Self, below: &OsStr, moved: &mut u64) -> io::Result<()> {
        loop {
            *moved += 1;
            match fs::renameat(&inside.0, below, &self.0, format!(".capt-gone-{moved}")) {
                Err(Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => {}
                renamed => return Ok(renamed?),
            }
        }
    }

    /// Removes what has such a name. However many there are, one is held in memory at a time.
    pub fn remove_where(&self, doomed: impl Fn(&OsStr) -> bool) -> io::Result<()> {
        // Who removes while it lists may miss one.
        loop {
            let mut removed = false;
            self.each_name(|name| {
                if doomed(name) {
                    self.remove(Path::new(name))?;
                    removed = true;
                }
                Ok(ControlFlow::Continue(()))
            })?;
            if !removed {
                return Ok(());
            }
        }
    }

    /// At most so many names of what is in the folder.
    pub fn names(&self, most: usize) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.each_name(|name| {
            names.push(name.to_owned());
            Ok(if names.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(names)
    }

    fn each_name(&self, mut each: impl FnMut(&OsStr) -> io::Result<ControlFlow<()>>) -> io::Result<()> {
        for entry in Listing::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && each(OsStr::from_bytes(name))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn again(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// The folder that has the last part of a path, and that part.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let name = path.file_name().ok_or_else(|| refused(path, "names no file"))?;
        Ok((self.below(path.parent().unwrap_or(Path::new("")))?.0, name))
    }

    /// The same, where all of it is a run's.
    fn own_parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let name = path.file_name().ok_or_else(|| refused(path, "names no file"))?;
        Ok((self.own_below(path.parent().unwrap_or(Path::new("")))?.0, name))
    }

    /// The same, with the folders made.
    fn place<'a>(&self, path: &'a Path) -> io::Result<(Self, &'a OsStr)> {
        let name = path.file_name().ok_or_else(|| refused(path, "names no file"))?;
        Ok((self.make_below(path.parent().unwrap_or(Path::new("")))?, name))
    }
}

/// Opens a file of ours, at a place that is ours, for reading. A run can reach no such file, but can take its owner's right to it.
pub(crate) fn open_own(path: &Path) -> io::Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let closed = fs::open(path, OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH, Mode::empty())?;
            if !is_own_file(&fs::fstat(&closed)?) {
                return Err(error);
            }
            change_mode(&closed, Mode::RUSR | Mode::WUSR)?;
            File::open(path)
        }
        opened => opened,
    }
}

/// Removes a file, a link or a folder with all that is in it, at a place that is ours. What is missing is gone already.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    remove_at(fs::CWD, path.as_os_str())
}

fn remove_at(folder: impl AsFd, name: &OsStr) -> io::Result<()> {
    match fs::unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {
            let inside = open_or_unlock(&folder, name)?;
            Dir(inside).clear()?;
            Ok(fs::unlinkat(&folder, name, AtFlags::REMOVEDIR)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens a regular file of at most so many bytes; `path` is for messages.
fn regular(folder: &OwnedFd, name: &OsStr, path: &Path, most: u64) -> io::Result<Option<(File, Stat)>> {
    let file = match fs::openat(folder, name, FILE, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(refused(path, "is a link")),
        // A socket.
        Err(Errno::NXIO) => return Err(refused(path, "is no regular file")),
        opened => opened?,
    };
    let stat = fs::fstat(&file)?;
    check_regular(path, &stat, most)?;
    Ok(Some((File::from(file), stat)))
}

/// Opens a folder that a run may have locked itself out of.
fn open_or_unlock(folder: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    match fs::openat(&folder, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let closed = fs::openat(&folder, name, FOLDER | OFlags::PATH, Mode::empty())?;
            change_mode(&closed, Mode::RWXU)?;
            fs::openat(&folder, name, FOLDER, Mode::empty())
        }
        opened => {
            let opened = opened?;
            unlock(&opened)?;
            Ok(opened)
        }
    }
}

/// Lets the owner of a file read it, where a run has taken that right. What is no file of ours stays closed, and is refused.
fn unlock_file(folder: &OwnedFd, name: &OsStr, path: &Path) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
    let closed = match fs::openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let stat = fs::fstat(&closed)?;
    if stat.st_mode & 0o400 != 0 || FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Ok(());
    }
    check_regular(path, &stat, u64::MAX)?;
    if !is_own_file(&stat) {
        return Err(foreign(path));
    }
    Ok(change_mode(&closed, Mode::RUSR | Mode::WUSR)?)
}

/// A regular file of our own, with no other name.
fn is_own_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_nlink == 1
}

fn foreign(path: &Path) -> io::Error {
    refused(path, "belongs to somebody else, or has another name")
}

/// Changes a mode by a handle that may have no rights: by its name, a link that a run puts there meanwhile would be followed.
fn change_mode(handle: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    let changed = fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), mode);
    // Without /proc; a file that is closed is not a file that is missing.
    changed.map_err(|error| if error == Errno::NOENT { Errno::ACCESS } else { error })
}

/// Makes a folder one that its owner can read and change.
fn unlock(folder: impl AsFd) -> Result<(), Errno> {
    if fs::fstat(&folder)?.st_mode & 0o700 != 0o700 {
        fs::fchmod(&folder, Mode::RWXU)?;
    }
    // What CAPT makes there would be closed from the beginning. Most file systems have none, or know of none.
    let _ = fs::fremovexattr(&folder, "system.posix_acl_default");
    Ok(())
}

fn parts(path: &Path) -> io::Result<Vec<&OsStr>> {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(refused(path, "leads out of its folder")),
        })
        .collect()
}

fn check_regular(path: &Path, stat: &Stat, most: u64) -> io::Result<()> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refused(path, "is no regular file"));
    }
    if u64::try_from(stat.st_size).is_ok_and(|size| size > most) {
        return Err(too_large(path, most));
    }
    Ok(())
}

fn stamp(stat: &Stat) -> Stamp {
    let (seconds, nanoseconds, size) = (stat.st_mtime, stat.st_mtime_nsec, stat.st_size);
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    (seconds, i64::try_from(nanoseconds).unwrap_or(0), unsigned(size), stat.st_ino)
}

fn named(path: &Path) -> impl Fn(Errno) -> io::Error {
    move |error| match error {
        Errno::LOOP | Errno::NOTDIR => refused(path, "has a link or a file where a folder should be"),
        error => error.into(),
    }
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} {why}", path.display()))
}

fn too_large(path: &Path, most: u64) -> io::Error {
    refused(path, &format!("is larger than {} MiB", most >> 20))
}

/// Reads a file that may be missing.
pub(crate) fn read_optional(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match open_own(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
pub(crate) mod tests;
