//! Copying a module's folder.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    os::unix::ffi::OsStringExt,
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode},
    io::Errno,
};

use super::{Dir, refused, too_large};

/// A file of a module: archives that it uploads lie beside it.
const FILE: u64 = 256 << 20;
/// All files of a module.
const TREE: u64 = 1 << 30;
const FILES: usize = 100_000;
const DEPTH: usize = 64;

/// Left out: version control, and what other runs left behind.
const LEFT_OUT: [&str; 5] = [".git", ".hg", ".terraform", "terraform.tfstate", "terraform.tfstate.backup"];

/// Something that was visited in a module's folder.
#[derive(Debug)]
pub(crate) enum Copied<'a> {
    /// A file with its mode.
    File(&'a mut File, Mode),
    /// A link that leads to another place of the module.
    Link(&'a Path),
}

/// Copies a module's folder. Returns the relative paths of its files. Links within the module stay links; one that leads out of it is
/// refused, since what it leads to is not the module's to give.
pub(crate) fn copy_tree(from: &Dir, to: &Dir) -> io::Result<Vec<PathBuf>> {
    let mut copied = Vec::new();
    visit(from, &mut |path, entry| {
        copied.push(path.to_owned());
        match entry {
            Copied::Link(target) => to.link(path, target),
            Copied::File(file, mode) => to.put(path, mode, |copy| {
                let written = io::copy(&mut file.take(FILE + 1), copy)?;
                if written > FILE { Err(too_large(path, FILE)) } else { Ok(()) }
            }),
        }
    })?;
    Ok(copied)
}

/// Visits the files and links of a module's folder in the order of their paths, within the limits of a module.
pub(crate) fn visit(from: &Dir, each: &mut dyn FnMut(&Path, Copied<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut budget = Budget { bytes: TREE, files: FILES };
    walk(from, from, Path::new(""), DEPTH, &mut budget, each)
}

struct Budget {
    bytes: u64,
    files: usize,
}

impl Budget {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        let left = self.bytes.checked_sub(bytes).zip(self.files.checked_sub(1));
        let (bytes, files) = left.ok_or_else(Self::spent)?;
        *self = Self { bytes, files };
        Ok(())
    }

    fn spent() -> io::Error {
        let most =
            format!("the module has more than {FILES} files and folders, or more than {} MiB", TREE >> 20);
        io::Error::new(io::ErrorKind::InvalidData, most)
    }
}

fn walk(
    module: &Dir,
    folder: &Dir,
    below: &Path,
    depth: usize,
    budget: &mut Budget,
    each: &mut dyn FnMut(&Path, Copied<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(refused(below, &format!("is more than {DEPTH} folders deep")));
    };
    let mut names = folder.names(FILES + 1)?;
    if names.len() > FILES {
        return Err(Budget::spent());
    }
    names.sort();
    for name in names.iter().filter(|name| !LEFT_OUT.iter().any(|left| **name == **left)) {
        let (path, stat) =
            (below.join(name), fs::statat(&folder.0, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW)?);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                budget.take(0)?;
                walk(module, &folder.below(Path::new(name))?, &path, depth, budget, each)?;
            }
            FileType::Symlink => {
                budget.take(0)?;
                let target = fs::readlinkat(&folder.0, name.as_os_str(), Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if !stays_inside(module, below, &target)? {
                    return Err(refused(
                        &path,
                        &format!("is a link that leads out of the module, to {}", target.display()),
                    ));
                }
                each(&path, Copied::Link(&target))?;
            }
            FileType::RegularFile => {
                let Some((mut file, stat)) = folder.any_file(Path::new(name), FILE)? else { continue };
                budget.take(u64::try_from(stat.st_size).unwrap_or(0))?;
                // The owner's rights, as far as there are any: scripts stay scripts.
                let mode = Mode::from_raw_mode(stat.st_mode) & Mode::RWXU | Mode::RUSR | Mode::WUSR;
                each(&path, Copied::File(&mut file, mode))?;
            }
            _ => return Err(refused(&path, "is no regular file")),
        }
    }
    Ok(())
}

/// The most links on the way of one: as many as the kernel follows.
const LINKS: usize = 40;

/// A link in the folder `below` that leads to `target` stays in the module, with all links on its way.
fn stays_inside(module: &Dir, below: &Path, target: &Path) -> io::Result<bool> {
    // A place in the module by folders alone, and what is left of the way from there, its next part last.
    let mut place: PathBuf = below.to_owned();
    let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect();
    let mut rest: Vec<OsString> = parts(target);
    let mut links = LINKS;
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::Normal(name)) => match module.link_at(&place, name)? {
                Some(next) => {
                    let Some(fewer) = links.checked_sub(1) else { return Ok(false) };
                    links = fewer;
                    rest.extend::<Vec<OsString>>(parts(&next));
                }
                None => place.push(name),
            },
            Some(Component::ParentDir) if place.pop() => {}
            Some(Component::CurDir) | None => {}
            Some(Component::ParentDir | Component::RootDir | Component::Prefix(_)) => return Ok(false),
        }
    }
    Ok(true)
}

impl Dir {
    /// What a link in a folder below leads to; `None` where there is none.
    fn link_at(&self, folder: &Path, name: &OsStr) -> io::Result<Option<PathBuf>> {
        let folder = match self.below(folder) {
            Ok(folder) => folder,
            // What is not there, or is a file, leads nowhere.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match fs::readlinkat(&folder.0, name, Vec::new()) {
            Ok(target) => Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes())))),
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Hashes what `visit` visits: names, modes, contents and links.
pub(crate) fn hash(from: &Dir) -> io::Result<String> {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    let part = |hash: &mut Sha256, bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    visit(from, &mut |path, entry| {
        part(&mut hash, path.as_os_str().as_encoded_bytes());
        match entry {
            Copied::Link(target) => {
                hash.update(b"l");
                part(&mut hash, target.as_os_str().as_encoded_bytes());
            }
            Copied::File(file, mode) => {
                hash.update(if mode.contains(Mode::XUSR) { b"x" } else { b"f" });
                let mut read = Sha256Writer(Sha256::new());
                io::copy(&mut file.take(FILE), &mut read)?;
                hash.update(read.0.finalize());
            }
        }
        Ok(())
    })?;
    Ok(crate::hash::sha256([hash.finalize().as_slice()]))
}

struct Sha256Writer(sha2::Sha256);

impl Write for Sha256Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sha2::Digest::update(&mut self.0, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
