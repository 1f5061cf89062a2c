//! In a terminal: a tree that is drawn in place, with colours unless they are not wanted.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::plane::capt;

/// Runs a command in a terminal of 100 columns, and returns all that it wrote and whether it succeeded.
fn in_a_terminal(mut command: Command, rows: u16) -> (bool, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs: OwnedFd =
        rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    tcsetwinsize(&theirs, Winsize { ws_row: rows, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
    let mut child = command
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8")
        .stdin(end(&theirs))
        .stdout(end(&theirs))
        .stderr(end(&theirs))
        .spawn()
        .unwrap();
    drop((theirs, command));
    let reader = std::thread::spawn(move || {
        let (mut file, mut bytes, mut buffer) = (File::from(ours), Vec::new(), [0; 4096]);
        // The last end closes with an error, as ptys do.
        while let Ok(count @ 1..) = file.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..count]);
        }
        bytes
    });
    let success = child.wait().unwrap().success();
    (success, String::from_utf8(reader.join().unwrap()).unwrap())
}

#[test]
fn the_demo_in_a_terminal() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = capt(&["up", "--demo", "--wait", "--data-dir"]);
    command.arg(folder.path()).env_remove("NO_COLOR");
    let (success, text) = in_a_terminal(command, 40);
    assert!(success, "{text}");
    assert!(text.contains("\x1b[32m✓"), "ready is green: {text}");
    assert!(text.contains("A\r\x1b[J"), "it is drawn in place: {text}");
    let last = text.rsplit("\x1b[J").next().unwrap();
    let plain = anstream_strip(last);
    assert!(plain.contains("all is ready") || text.contains("all is ready"), "{plain}");
    assert!(plain.contains("└─ ✓ deployment demo-workers"), "{plain}");
    for line in plain.lines().filter(|line| line.contains('─')) {
        assert!(line.trim_end().chars().count() <= 100, "{line}");
    }

    // Once more, without colours and in a terminal with few lines: the same in fewer.
    let mut command = capt(&["up", "--wait", "--demo", "--data-dir"]);
    command.arg(folder.path()).env("NO_COLOR", "1");
    let (success, text) = in_a_terminal(command, 14);
    assert!(success && !text.contains("\x1b[32m"), "{text}");
    let plain = anstream_strip(text.rsplit("\x1b[J").next().unwrap());
    assert!(plain.contains("✓ deployment demo-workers") && !plain.contains("workspace"), "{plain}");
}

/// Without escape sequences.
fn anstream_strip(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain += before;
        rest = after.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, after)| after);
    }
    plain + rest
}
