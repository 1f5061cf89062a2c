//! The guard: the process between the engine and Terraform. It outlives the engine, and nothing outlives it.
//!
//! ```text
//! engine ── guard (own group, subreaper, outside of the sandbox) ── terraform (own group, shut in) ── plugins
//! ```
//! - It holds the lock that tells whether the run lives, and writes the exit code before it lets go of it.
//! - Orphans below it become its children. When Terraform has ended it kills them all, and ends when none is left.
//! - It interrupts Terraform when the lease's term is over (see [`term`]).
//! - It ignores signals that stop a whole unit, as systemd sends them: Terraform gets those itself, and saves its state.
//! - Should it be killed all the same, the kernel kills Terraform with it, and the engine what is left.
//!
//! Guard and Terraform's entrance are this very program, started again with a hidden first argument: [`dispatch`] belongs
//! at the beginning of `main`. The environment of the run reaches the guard under other names, so that none of it (`LD_PRELOAD`)
//! means anything to a process that is not shut in.

mod leftovers;
mod spec;
pub mod term;
mod watch;

use std::{
    ffi::{OsStr, OsString},
    io::Write,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        process::CommandExt,
    },
    process::{Command, ExitCode},
};

use rustix::{
    process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid},
    thread::{
        CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
        set_capabilities,
    },
};

pub(crate) use self::spec::{Fence, Spec};
use crate::signal::RUN_VARIABLE;

/// The program that is running, whatever became of its file since.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// First argument of a guard.
pub(crate) const GUARD: &str = "__guard";
/// First argument of the process that shuts itself in and becomes Terraform.
const ENTER: &str = "__enter";
/// First argument of the process that waits until the end of a run is taken in.
const HAND_IN: &str = "__hand-in";
/// Before the name of each variable of the run.
const PREFIX: &str = "+";

/// The exit codes of a shell for what is not there, and for what cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Runs a guard, if that is what this process was started for. For the beginning of `main`.
pub fn dispatch() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let role = args.next()?;
    let work = match role.to_str()? {
        GUARD => watch::guard,
        ENTER => enter,
        HAND_IN => watch::hand_in,
        _ => return None,
    };
    let Some(spec) = Spec::parse(args) else {
        complain("this is no command for people");
        return Some(ExitCode::from(NOT_RUN));
    };
    Some(work(&spec))
}

/// The variables of a run as its guard gets them.
pub(crate) fn veiled(env: Vec<(OsString, OsString)>) -> impl Iterator<Item = (OsString, OsString)> {
    env.into_iter().map(|(name, value)| {
        let mut veiled = OsString::from(PREFIX);
        veiled.push(name);
        (veiled, value)
    })
}

/// Those variables again.
fn unveiled() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_vec();
        let bare = name.strip_prefix(PREFIX.as_bytes()).or_else(|| {
            // The mark by which a process is found.
            (name == RUN_VARIABLE.as_bytes()).then_some(name.as_slice())
        })?;
        Some((OsStr::from_bytes(bare).to_owned(), value))
    })
}

/// Shuts itself in, and becomes Terraform.
fn enter(spec: &Spec) -> ExitCode {
    // A session of its own has no terminal.
    if setsid().is_err() {
        return ExitCode::from(NOT_RUN);
    }
    if let Some(rules) = &spec.rules
        && let Err(error) = rules.enter().and_then(|()| drop_capabilities())
    {
        complain(&format!("shut the run in: {error}"));
        return ExitCode::from(NOT_RUN);
    }
    // A guard that is gone already is not told of any more.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err()
        || getppid().map(Pid::as_raw_pid) != spec.guard
    {
        return ExitCode::from(NOT_RUN);
    }
    let error = Command::new(&spec.program).args(&spec.args).env_clear().envs(unveiled()).exec();
    complain(&format!("{}: {error}", spec.program.display()));
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN })
}

/// Gives up what root may do beyond its files: reading environments of others, devices, modules of the kernel. Landlock knows none of it.
fn drop_capabilities() -> Result<(), String> {
    for capability in CapabilitySet::all().iter() {
        // Needs a right that only root has; a capability that this kernel does not know needs no dropping.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(|error| format!("drop capabilities: {error}"))
}

/// Says something where the run's own errors go.
fn complain(what: &str) {
    // There is nobody else to tell.
    let _ = writeln!(std::io::stderr(), "capt: {what}");
}
