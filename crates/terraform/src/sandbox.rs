//! Shutting a run in with Landlock, where the kernel has it, and a filter of system calls.
//!
//! The process that becomes Terraform shuts itself in before it does so: see the room `guard`.
//!
//! A run may read the system's folders and those of programs, its own entry and the plugins; it may write its own guest folder and its own
//! scratch. It sees no other workspace, not what CAPT keeps of its own one, and not the home of whoever runs the engine. It signals and
//! connects (by abstract sockets) to its own processes only, and changes no limits or priorities of others.

mod calls;

use std::{
    ffi::OsStr,
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags};

use crate::beneath::open_real;

/// Folders and files of the system that programs read. Not all of `/etc`, `/run` and `/dev`: with the rights of root those hold
/// passwords, tokens of service accounts and whole disks.
const SYSTEM: [&str; 42] = [
    "/bin",
    "/sbin",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix",
    "/snap",
    "/proc",
    "/sys",
    "/run/current-system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/nscd",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/static",
];

/// Devices that programs read and write. No terminal: what is pushed into its input, the shell of the operator runs.
const DEVICES: [&str; 5] = ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// The newest version whose meaning is known here; older kernels do what they can.
const VERSION: ABI = ABI::V6;

/// Paths that a process may write and read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    pub write: Vec<PathBuf>,
    pub read: Vec<PathBuf>,
}

/// Paths that a process may write and read, besides the system's folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub write: Vec<PathBuf>,
    pub read: Vec<PathBuf>,
    /// Paths without links that somebody else can put links into: these are not followed.
    pub real: Grants,
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
            real: Grants::default(),
        }
    }

    /// With the program that is run: a link on PATH may lead to where nothing else may be read.
    pub fn around(mut self, program: &Path) -> Self {
        self.read.extend(fs::canonicalize(program));
        self
    }

    /// Shuts this thread in, and what it starts or becomes. Where the kernel has no Landlock, its files are all open.
    pub fn enter(&self) -> Result<(), String> {
        enter(self).map_err(|error| error.to_string())?;
        calls::enter()
    }
}

/// Returns true if the kernel can confine a process. Tries it, in a thread of its own that ends.
pub fn available() -> bool {
    std::thread::spawn(|| {
        matches!(
            enter(&Rules::default()),
            Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced)
        )
    })
    .join()
    .unwrap_or(false)
}

/// Returns true if the kernel can keep a run from signalling processes that are not its own. Tries it, in a thread of its own that
/// ends.
pub fn confines_signals() -> bool {
    let scoped =
        || Ruleset::default().set_compatibility(CompatLevel::HardRequirement).scope(Scope::Signal)?.create();
    std::thread::spawn(move || scoped().is_ok_and(|rules| rules.restrict_self().is_ok()))
        .join()
        .unwrap_or(false)
}

/// Gaps of the sandbox on this kernel, each as the end of "does not keep a run from …". Empty if there are none.
pub fn gaps() -> Vec<&'static str> {
    let mut gaps = gaps_where(|version| {
        let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        rules.handle_access(AccessFs::from_all(version)).and_then(Ruleset::create).is_ok()
    });
    if !confines_signals() {
        gaps.push("signalling CAPT and other runs");
    }
    if !calls::available() {
        gaps.push("changing limits and priorities of CAPT and other runs");
    }
    gaps
}

/// The folder that runs may read and a folder lies below, if there is one: of the system, or on `path`, where programs are looked for.
/// Landlock gives rights on a whole tree and takes back none.
pub fn exposes(folder: &Path, path: &OsStr) -> Option<PathBuf> {
    let folder = real(folder);
    let readable = Rules::new([].into_iter(), [].into_iter(), path).read;
    readable.into_iter().find(|read| folder.starts_with(real(read)))
}

/// Without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|part| Some((part, fs::canonicalize(part).ok()?)));
    let Some((part, real)) = found else { return path.to_path_buf() };
    // Nothing below it is there yet, so nothing is a link.
    path.strip_prefix(part).map_or_else(|_| real.clone(), |rest| real.join(rest))
}

fn gaps_where(supports: impl Fn(ABI) -> bool) -> Vec<&'static str> {
    let promises = [
        (
            ABI::V1,
            "reading and writing whatever this user can, other workspaces and the API's token included",
        ),
        (ABI::V3, "emptying files that it cannot write"),
        (ABI::V5, "controlling devices with ioctl"),
    ];
    promises.into_iter().filter(|(version, _)| !supports(*version)).map(|(_, gap)| gap).collect()
}

fn enter(granted: &Rules) -> Result<RulesetStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .scope(Scope::from_all(VERSION))?
        .create()?;
    let (read, write) = (AccessFs::from_read(VERSION), AccessFs::from_all(VERSION));
    let devices: BitFlags<AccessFs> = read | AccessFs::WriteFile | AccessFs::IoctlDev;
    let Rules { write: written, read: readable, real } = granted;
    let followed = written
        .iter()
        .map(|path| (path.as_path(), write))
        .chain(readable.iter().map(|path| (path.as_path(), read)))
        .chain(DEVICES.iter().map(|path| (Path::new(path), devices)))
        .map(|(path, access)| (place(path), access));
    let real = real.write.iter().map(|path| (path, write)).chain(real.read.iter().map(|path| (path, read)));
    let real = real.map(|(path, access)| (open_real(path), access));
    for (opened, access) in followed.chain(real) {
        // What is not there needs no grant.
        let Ok(opened) = opened else { continue };
        let access = if is_folder(&opened) { access } else { access & AccessFs::from_file(VERSION) };
        rules = rules.add_rule(PathBeneath::new(opened, access))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// A handle of the place that a path leads to.
fn place(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn is_folder(place: &OwnedFd) -> bool {
    rustix::fs::fstat(place).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_lacks_is_told() {
        let of = |newest: Option<ABI>| gaps_where(|version| newest.is_some_and(|newest| version <= newest));
        assert_eq!(of(Some(ABI::V5)), Vec::<&str>::new());
        assert_eq!(of(Some(ABI::V4)).len(), 1);
        assert!(of(Some(ABI::V1)).iter().any(|gap| gap.contains("emptying")));
        let without = of(None);
        assert!(without.len() == 3 && without[0].contains("other workspaces"), "{without:?}");
        assert_eq!(available(), !gaps().iter().any(|gap| gap.contains("other workspaces")));
    }

    #[test]
    fn a_folder_below_one_that_runs_read_is_exposed() {
        let lab = tempfile::tempdir().unwrap();
        let (bin, data) = (lab.path().join("bin"), lab.path().join("data"));
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(&bin, lab.path().join("link")).unwrap();
        let path = std::env::join_paths([Path::new("/usr/bin"), &lab.path().join("link")]).unwrap();
        assert_eq!(exposes(&data, &path), None);
        assert_eq!(exposes(Path::new("/opt/capt/data"), &path), Some("/opt".into()), "not there yet");
        assert_eq!(exposes(&bin.join("capt/data"), &path), Some(lab.path().join("link")), "by way of a link");
        assert_eq!(exposes(&lab.path().join("link/data"), &path), Some(lab.path().join("link")));
        assert_eq!(exposes(&data, OsStr::new("/")), Some("/".into()));
    }

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
