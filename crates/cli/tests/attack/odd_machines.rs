//! Files of a data folder that are something else: one line that names the file, and no panic.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::plane::{PAUSE, SOON, capt, said};

/// Runs a command to its end; one that starts for good is killed.
fn ended(command: &mut Command, what: &str) -> Output {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + SOON;
    while process.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            process.kill().unwrap();
            panic!("{what}: it does not end");
        }
        std::thread::sleep(PAUSE);
    }
    process.wait_with_output().unwrap()
}

#[test]
fn a_file_that_is_something_else_is_named() {
    // The file of capt server, or of capt up; and whether it is a folder there, else a file.
    let table = [
        ("up", "capt.log", true),
        ("server", "kubeconfig", true),
        ("up", "kubeconfig", true),
        ("server", "lock", true),
        ("server", "store.db", true),
        ("server", "store.db-wal", true),
        ("server", "store.head", true),
        ("server", "pki", false),
        ("server", "pki/ca.pem", true),
        ("server", "pki/token", true),
        ("up", "terraform", false),
        ("up", "terraform/lock", true),
        ("up", "terraform/workspaces", false),
    ];
    for (command, name, folder) in table {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        let path = data.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
        if folder {
            fs::create_dir(&path).unwrap();
        } else {
            fs::write(&path, "").unwrap();
        }
        let output = ended(capt(&[command, "--data-dir"]).arg(&data), name);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{command} {name}: {said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(said.lines().count() <= 4 && !said.contains("panicked"), "{command} {name}: {said}");
        let named = name.split('/').next().unwrap();
        assert!(said.contains("capt: ") && said.contains(named), "{command} {name}: {last}");
    }
}

/// To open a pipe is to wait for its other end.
#[test]
fn a_pipe_in_the_place_of_a_file_is_named() {
    for (command, name) in [
        ("up", "capt.log"),
        ("server", "kubeconfig"),
        ("server", "store.db"),
        ("server", "store.db-wal"),
        ("server", "store.head"),
        ("server", "pki/ca.pem"),
        ("server", "pki/token"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        let path = data.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let output = ended(capt(&[command, "--data-dir"]).arg(&data), name);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{command} {name}: {said}");
        let named = name.split('/').next_back().unwrap();
        assert!(said.contains(named) && said.contains("it is not a file"), "{command} {name}: {said}");
    }
}

#[test]
fn a_folder_that_nobody_may_write_is_named() {
    let output = capt(&["server", "--data-dir", "/proc/nothing/here"]).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/proc/nothing/here") && !said.contains("panicked"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// A clock of our own, as a library that is loaded before the others.
const CLOCK: &str = "
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock == CLOCK_REALTIME) { time->tv_sec = -10 * 86400; time->tv_nsec = 0; return 0; }
    return syscall(SYS_clock_gettime, clock, time);
}
";

#[test]
fn a_clock_before_1970_is_told() {
    let place = tempfile::tempdir().unwrap();
    let (source, library) = (place.path().join("clock.c"), place.path().join("clock.so"));
    fs::write(&source, CLOCK).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    if !cfg!(target_os = "linux") || !built.is_ok_and(|status| status.success()) {
        capt_e2e::skip("no clock can be put before this program");
        return;
    }
    for command in ["up", "server"] {
        let data = place.path().join("data");
        let output = capt(&[command, "--data-dir"]).arg(&data).env("LD_PRELOAD", &library).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said, "capt: the clock of this machine is 10 days before 1970: set it\n");
        assert!(!data.exists(), "nothing was begun");
    }
}
