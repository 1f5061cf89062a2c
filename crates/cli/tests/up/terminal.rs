//! In a terminal: a live view with keys, on a screen of its own, and its last page below the prompt afterwards.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::plane::capt;

/// What a slow machine may take for one step.
const DEADLINE: Duration = Duration::from_secs(120);

/// A command in a terminal, and the screen that a person would see.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<(Mutex<vt100::Parser>, Condvar)>,
    reader: std::thread::JoinHandle<()>,
}

impl Terminal {
    fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs: OwnedFd =
            rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&theirs, winsize(columns, rows)).unwrap();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let child = command
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .stdin(end(&theirs))
            .stdout(end(&theirs))
            .stderr(end(&theirs))
            .spawn()
            .unwrap();
        let keyboard = File::from(ours);
        let screen = Arc::new((Mutex::new(vt100::Parser::new(rows, columns, 1000)), Condvar::new()));
        let (mut output, shared) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The last end closes with an error, as ptys do.
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                shared.0.lock().unwrap().process(&buffer[..count]);
                shared.1.notify_all();
            }
        });
        Self { child, keyboard, screen, reader }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Gives the terminal another size. What is on its screen stays there until the program draws.
    fn resize(&mut self, columns: u16, rows: u16) {
        tcsetwinsize(&self.keyboard, winsize(columns, rows)).unwrap();
        self.screen.0.lock().unwrap().screen_mut().set_size(rows, columns);
        // As a terminal's own session would get it.
        kill_process(Pid::from_child(&self.child), Signal::WINCH).unwrap();
    }

    /// Waits for a screen that is as wanted, and gives it.
    fn wait_for(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + DEADLINE;
        let mut parser = self.screen.0.lock().unwrap();
        loop {
            let seen = parser.screen().contents();
            if is_so(&seen) {
                return seen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never seen: {what}\n{seen}");
            parser = self.screen.1.wait_timeout(parser, left).unwrap().0;
        }
    }

    /// Waits for the end of the command; gives all that is left in the terminal.
    fn end(mut self) -> (ExitStatus, String, bool) {
        let status = self.child.wait().unwrap();
        drop(self.keyboard);
        self.reader.join().unwrap();
        let mut parser = self.screen.0.lock().unwrap();
        let (alternate, colours) = {
            let screen = parser.screen();
            (screen.alternate_screen() || screen.hide_cursor(), screen.contents_formatted())
        };
        assert!(!alternate, "the terminal is given back");
        parser.screen_mut().set_scrollback(usize::MAX);
        let mut text = parser.screen().contents();
        parser.screen_mut().set_scrollback(0);
        text.push('\n');
        text.push_str(&parser.screen().contents());
        (status, text, String::from_utf8_lossy(&colours).contains("\x1b[32m"))
    }
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

#[test]
fn the_demo_in_a_terminal() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = capt(&["up", "--demo", "--wait", "--data-dir"]);
    command.arg(folder.path()).env_remove("NO_COLOR");
    let (status, text, colours) = Terminal::start(command, 100, 60).end();
    assert!(status.success() && colours, "{text}");
    let order = ["CAPT is up", "✓ cluster demo", "└─ ✓ deployment demo-workers", "all is ready", "stopped"];
    let places: Vec<_> = order.iter().map(|part| text.find(part)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{places:?}\n{text}");

    // Once more, without colours and in a terminal with few lines: the same in fewer.
    let mut command = capt(&["up", "--wait", "--demo", "--data-dir"]);
    command.arg(folder.path()).env("NO_COLOR", "1");
    let (status, text, colours) = Terminal::start(command, 100, 14).end();
    assert!(status.success() && !colours, "{text}");
    assert!(text.contains("✓ cluster demo") && !text.contains("workspace demo"), "{text}");
}

#[test]
fn keys_and_sizes_of_a_live_view() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = capt(&["up", "--demo", "--data-dir"]);
    command.arg(folder.path());
    let mut terminal = Terminal::start(command, 80, 24);
    let ready = terminal.wait_for("all is ready", |seen| seen.contains("all is ready"));
    assert!(ready.contains("f unfolds, q quits") && !ready.contains("workspace demo-vpc"), "{ready}");
    for (start, phase) in [("✓ cluster demo", "Provisioned"), ("      └─ ✓ machine demo-w", "Running")]
    {
        let row =
            ready.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {ready}"));
        assert!(row.contains(phase), "{ready}");
    }

    // Unfolded there is more than the screen holds: it scrolls, and folds again.
    terminal.press("f");
    terminal.wait_for("all lines", |seen| seen.contains("workspace demo-vpc") && seen.contains("f folds"));
    terminal.press("G");
    terminal.wait_for("the end", |seen| !seen.contains("CAPT is up") && seen.contains("undo"));
    terminal.press("\x1b[H");
    terminal.wait_for("the start", |seen| seen.contains("CAPT is up") && !seen.contains("undo"));
    terminal.press("f");
    terminal.wait_for("folded", |seen| !seen.contains("workspace demo-vpc"));

    // Nothing of the old size is left: each line is one of the new page, and the branches are whole.
    for (columns, rows) in [(60, 40), (120, 30), (80, 24)] {
        terminal.resize(columns, rows);
        let seen = terminal.wait_for("the new size", |seen| {
            let lines: Vec<&str> = seen.lines().collect();
            lines.len() == usize::from(rows) && lines.last().is_some_and(|line| line.contains("q quits)"))
        });
        for once in ["CAPT is up", "cluster demo  ", "network demo", "all is ready", "q quits"] {
            assert_eq!(seen.matches(once).count(), 1, "{once} at {columns}x{rows}:\n{seen}");
        }
    }

    terminal.press("q");
    let (status, text, _) = terminal.end();
    assert!(status.success() && text.contains("stopped. Nothing is lost"), "{text}");
    assert!(text.contains("✓ cluster demo"), "the last page stays: {text}");
}
