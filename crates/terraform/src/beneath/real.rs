//! Opening paths that were found to have no links: one that was put into them since is not followed.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Component, Path},
};

use rustix::fs::{self, FileType, Mode, OFlags};

use super::{Dir, FOLDER, named, refused};

/// A handle that tells where something is. It gives no right to read it.
const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Dir {
    /// Opens a folder at an absolute path without links.
    pub fn real(path: &Path) -> io::Result<Self> {
        let place = open_real(path)?;
        Ok(Self(fs::openat(&place, ".", FOLDER, Mode::empty()).map_err(named(path))?))
    }
}

/// A handle of the place at an absolute path without links.
pub(crate) fn open_real(path: &Path) -> io::Result<OwnedFd> {
    let mut at = fs::open("/", FOLDER.union(PLACE), Mode::empty())?;
    for part in path.components() {
        at = match part {
            Component::RootDir => at,
            Component::Normal(name) => fs::openat(&at, name, PLACE, Mode::empty()).map_err(named(path))?,
            Component::CurDir | Component::ParentDir | Component::Prefix(_) => {
                return Err(refused(path, "is no plain path"));
            }
        };
    }
    // Such a handle can be of a link itself. One of a link within the path has nothing below it.
    if FileType::from_raw_mode(fs::fstat(&at)?.st_mode) == FileType::Symlink {
        return Err(refused(path, "is a link"));
    }
    Ok(at)
}
