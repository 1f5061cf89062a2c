//! Shutting a run in with Landlock, where the kernel has it.
//!
//! A program shuts itself in and then starts another: that needs no unsafe code between fork and exec. So the
//! binary, told by its first argument, calls [`run`], and takes the place of the shell that otherwise wraps each process.
//!
//! A run may read the system's folders and those of programs, its shape and the plugins; it may write its own workspace, scratch and the
//! plugin cache. It sees no other workspace, and not the home of whoever runs the engine.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
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

/// Whether the kernel can shut a process in. Asks by trying, in a thread of its own that ends.
pub fn available() -> bool {
    std::thread::spawn(|| {
        matches!(enter(&[], &[]), Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced))
    })
    .join()
    .unwrap_or(false)
}

/// The arguments for [`run`], up to where those of the wrapper begin.
pub(crate) fn arguments<'a>(
    write: impl Iterator<Item = &'a Path>,
    read: impl Iterator<Item = &'a Path>,
    path: &OsStr,
) -> Vec<OsString> {
    let mut arguments = Vec::new();
    for folder in write {
        arguments.extend([OsString::from("--write"), folder.into()]);
    }
    for folder in read.map(Path::to_path_buf).chain(std::env::split_paths(path)) {
        arguments.extend([OsString::from("--read"), folder.into()]);
    }
    arguments.push("--".into());
    arguments
}

/// Shuts this process in, runs a program, writes its exit code to a file, and has it itself.
///
/// Arguments: `[--write FOLDER]… [--read FOLDER]… -- EXIT_FILE PROGRAM [ARGUMENT]…`, as the engine gives them. Where the kernel has
/// no Landlock the program runs as it is.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (mut write, mut read) = (Vec::new(), SYSTEM.map(PathBuf::from).to_vec());
    let mut arguments = arguments.into_iter();
    loop {
        match arguments.next() {
            Some(word) if word == "--write" => write.extend(arguments.next().map(PathBuf::from)),
            Some(word) if word == "--read" => read.extend(arguments.next().map(PathBuf::from)),
            Some(word) if word == "--" => break,
            _ => return ExitCode::from(64),
        }
    }
    let (Some(exit), Some(program)) = (arguments.next(), arguments.next()) else { return ExitCode::from(64) };
    // A link on PATH may lead to where nothing else may be read.
    read.extend(fs::canonicalize(&program));
    let code = match enter(&write, &read) {
        // 126 and 127 are what a shell says of a program that cannot be run.
        Err(_) => 126,
        Ok(_) => match Command::new(program).args(arguments).status() {
            Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            Err(_) => 127,
        },
    };
    // Where the disk is full the parent, if there is one, learns it from this process.
    let _ = fs::write(exit, format!("{code}\n"));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
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
