//! A live view: a page that fills the terminal until it is left, with keys to scroll, fold and quit.
//!
//! It is drawn on the terminal's alternate screen, and whole each time: a resize leaves nothing stale, and the
//! scrollback stays as it was. What should remain afterwards is printed by whoever opened the view.

use std::io::{self, IsTerminal, Read, Write};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use textwrap::core::display_width;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::wrap::hanging;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// The mark of text that is left out, in any locale.
const MORE: &str = "...";
/// Ages are drawn anew though nothing happens.
const TICK: Duration = Duration::from_secs(1);

/// Columns and lines of the terminal, where there is one.
pub fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// Returns true if the output is a terminal that this process can draw on.
pub fn is_possible() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    // A job in the background would draw over the shell, and be stopped when it reads a key.
    let background = rustix::termios::tcgetpgrp(io::stdout())
        .is_ok_and(|foreground| foreground != rustix::process::getpgrp());
    io::stdout().is_terminal() && !dumb && !background
}

/// Colours as the terminal and NO_COLOR want them.
pub fn coloured(line: &str) -> String {
    if anstream::AutoStream::choice(&io::stdout()) == anstream::ColorChoice::Never {
        anstream::adapter::strip_str(line).to_string()
    } else {
        line.to_owned()
    }
}

/// Key command of the user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum KeyCommand {
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Fold,
    Redraw,
    Quit,
}

/// Why a view wakes whoever draws it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wake {
    /// The page is to be drawn again: a key, another size, or a second later.
    Draw,
    /// `q` was pressed.
    Quit,
}

/// A terminal that belongs to a page until this is dropped.
pub struct LiveView {
    /// Terminal settings from before, where keys are read.
    settings: Option<Termios>,
    keys: mpsc::UnboundedReceiver<KeyCommand>,
    resized: Signal,
    /// First line of the page on the screen.
    top: usize,
    /// True if the page is folded to fit the screen.
    folded: bool,
    drawn: Vec<String>,
}

impl LiveView {
    /// Takes the terminal.
    pub fn open() -> io::Result<Self> {
        let (sender, keys) = mpsc::unbounded_channel();
        let resized = signal(SignalKind::window_change())?;
        let settings = read_keys(sender);
        print(ENTER)?;
        Ok(Self { settings, keys, resized, top: 0, folded: true, drawn: Vec::new() })
    }

    /// Returns true if the page should fit the screen; else it is shown whole, and scrolled.
    pub fn is_folded(&self) -> bool {
        self.folded
    }

    /// The keys, for the last line of the screen, and in a few words where it is narrow.
    fn help(&self) -> [&'static str; 2] {
        match (self.settings.is_some(), self.folded) {
            (true, true) => ["  (arrows scroll, f unfolds, q quits)", "  (f unfolds, q quits)"],
            (true, false) => ["  (arrows scroll, f folds, q quits)", "  (f folds, q quits)"],
            (false, _) => ["  (Ctrl-C quits)", "  (Ctrl-C)"],
        }
    }

    /// Shows as much of the page as fits, and a line with the keys below it, and with the first of `feet` that has room there.
    pub fn draw(&mut self, page: &[String], feet: [&str; 2]) -> io::Result<()> {
        let (width, rows) = size().unwrap_or((80, 24));
        let page: Vec<String> = page.iter().flat_map(|line| pieces(line, width)).collect();
        let room = rows.saturating_sub(1).max(1);
        self.top = self.top.min(page.len().saturating_sub(room));
        let mut screen: Vec<String> = page.into_iter().skip(self.top).take(room).collect();
        screen.resize(room, String::new());
        screen.push(last_line(feet, self.help(), width));
        if self.drawn == screen {
            return Ok(());
        }
        let lines: Vec<String> =
            screen.iter().map(|line| format!("{}\x1b[0m\x1b[K", coloured(line))).collect();
        // No line end behind the last line: it would scroll.
        print(&format!("\x1b[H{}\x1b[J", lines.join("\r\n")))?;
        self.drawn = screen;
        Ok(())
    }

    /// Waits for a key, another size of the terminal, or the next second.
    pub async fn wake(&mut self) -> Wake {
        tokio::select! {
            Some(key) = self.keys.recv() => return self.act(key),
            _ = self.resized.recv() => self.drawn.clear(),
            () = tokio::time::sleep(TICK) => {}
        }
        Wake::Draw
    }

    fn act(&mut self, key: KeyCommand) -> Wake {
        let page = size().map_or(20, |(_, rows)| rows.saturating_sub(2).max(1));
        match key {
            KeyCommand::Up => self.top = self.top.saturating_sub(1),
            KeyCommand::Down => self.top += 1,
            KeyCommand::PageUp => self.top = self.top.saturating_sub(page),
            KeyCommand::PageDown => self.top += page,
            KeyCommand::Top => self.top = 0,
            // Drawing knows where the end is.
            KeyCommand::Bottom => self.top = usize::MAX,
            KeyCommand::Fold => (self.folded, self.top) = (!self.folded, 0),
            KeyCommand::Redraw => self.drawn.clear(),
            KeyCommand::Quit => return Wake::Quit,
        }
        Wake::Draw
    }
}

/// As [`LiveView::wake`]; never where there is no view.
pub async fn wake(view: &mut Option<LiveView>) -> Wake {
    match view {
        Some(view) => view.wake().await,
        None => std::future::pending().await,
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        // The terminal may be gone; then there is nothing to give back.
        let _ = print(LEAVE);
        if let Some(settings) = &self.settings {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, settings);
        }
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Reads keys one by one, without showing them, where the input is a terminal. Gives the settings from before.
fn read_keys(keys: mpsc::UnboundedSender<KeyCommand>) -> Option<Termios> {
    let before = tcgetattr(io::stdin()).ok()?;
    let mut settings = before.clone();
    settings.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    settings.special_codes[SpecialCodeIndex::VMIN] = 1;
    settings.special_codes[SpecialCodeIndex::VTIME] = 0;
    // A stopped process would leave the shell on this screen.
    settings.special_codes[SpecialCodeIndex::VSUSP] = 0;
    tcsetattr(io::stdin(), OptionalActions::Now, &settings).ok()?;
    // A thread of its own: a read of the terminal cannot be given up, and must not keep the runtime from ending.
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok(count @ 1..) = io::stdin().lock().read(&mut bytes) {
            for key in parse(&bytes[..count]) {
                if keys.send(key).is_err() {
                    return;
                }
            }
        }
    });
    Some(before)
}

/// The keys in what a terminal sent.
fn parse(bytes: &[u8]) -> Vec<KeyCommand> {
    // As terminals send cursor keys in either mode; of several that begin alike the longest comes first.
    const KNOWN: [(&[u8], KeyCommand); 25] = [
        (b"\x1b[5~", KeyCommand::PageUp),
        (b"\x1b[6~", KeyCommand::PageDown),
        (b"\x1b[1~", KeyCommand::Top),
        (b"\x1b[4~", KeyCommand::Bottom),
        (b"\x1b[A", KeyCommand::Up),
        (b"\x1bOA", KeyCommand::Up),
        (b"\x1b[B", KeyCommand::Down),
        (b"\x1bOB", KeyCommand::Down),
        (b"\x1b[H", KeyCommand::Top),
        (b"\x1bOH", KeyCommand::Top),
        (b"\x1b[F", KeyCommand::Bottom),
        (b"\x1bOF", KeyCommand::Bottom),
        (b"k", KeyCommand::Up),
        (b"j", KeyCommand::Down),
        (b"\n", KeyCommand::Down),
        (b"\r", KeyCommand::Down),
        (b"b", KeyCommand::PageUp),
        (b" ", KeyCommand::PageDown),
        (b"g", KeyCommand::Top),
        (b"G", KeyCommand::Bottom),
        (b"f", KeyCommand::Fold),
        (b"\x0c", KeyCommand::Redraw),
        (b"q", KeyCommand::Quit),
        (b"Q", KeyCommand::Quit),
        (b"\x04", KeyCommand::Quit),
    ];
    let (mut keys, mut rest) = (Vec::new(), bytes);
    while let Some(&first) = rest.first() {
        if let Some((code, key)) = KNOWN.iter().find(|(code, _)| rest.starts_with(code)) {
            keys.push(*key);
            rest = &rest[code.len()..];
        } else if first == 0x1b {
            // An unknown key: its letters are not keys of their own.
            let end = rest.iter().skip(2).position(|byte| byte.is_ascii_alphabetic() || *byte == b'~');
            rest = end.map_or(&[], |end| &rest[end + 3..]);
        } else {
            rest = &rest[1..];
        }
    }
    keys
}

/// Lines of the screen that a text takes.
pub fn height(text: &[String], width: usize) -> usize {
    text.iter().map(|line| pieces(line, width).len()).sum()
}

/// The last line of the screen: the first of `feet` that has room beside the keys, which are told in more words or in fewer. Where
/// none has, the last is cut: who does not know the keys cannot leave.
fn last_line(feet: [&str; 2], help: [&str; 2], width: usize) -> String {
    let all = [(feet[0], help[0]), (feet[0], help[1]), (feet[1], help[1])];
    let fits = |(foot, help): &&(&str, &str)| display_width(foot) + help.len() <= width;
    if let Some((foot, help)) = all.iter().find(fits) {
        return format!("{foot}{help}");
    }
    let room = width.saturating_sub(help[1].len() + MORE.len());
    let mut used = 0;
    let letters = feet[1].chars().take_while(|letter| {
        used += display_width(letter.encode_utf8(&mut [0; 4]));
        used <= room
    });
    let line = format!("{}{MORE}{}", letters.collect::<String>().trim_end(), help[1]);
    line.chars().take(width).collect()
}

/// A line in pieces that are no wider than the screen.
fn pieces(line: &str, width: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    hanging(line, Some(width), indent + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_terminals() {
        let rows: [(&[u8], &[KeyCommand]); 8] = [
            (b"q", &[KeyCommand::Quit]),
            (b"jjk", &[KeyCommand::Down, KeyCommand::Down, KeyCommand::Up]),
            (b"\x1b[A\x1bOB\x1b[6~", &[KeyCommand::Up, KeyCommand::Down, KeyCommand::PageDown]),
            (b"\x1b[H\x1b[4~gG", &[KeyCommand::Top, KeyCommand::Bottom, KeyCommand::Top, KeyCommand::Bottom]),
            (b"\x1b[1;5Qf", &[KeyCommand::Fold]),
            (b"\x1b[15~\x0c", &[KeyCommand::Redraw]),
            (b"\x1b", &[]),
            ("äx".as_bytes(), &[]),
        ];
        for (bytes, expected) in rows {
            assert_eq!(parse(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn long_lines_are_broken_where_the_screen_ends() {
        let rows: [(&str, &[&str]); 5] = [
            ("", &[""]),
            ("abcd", &["abcd"]),
            ("abcdef", &["abcd", "ef"]),
            ("\x1b[1mab\x1b[0mcdef", &["\x1b[1mab\x1b[0mcd", "ef"]),
            ("日本語", &["日本", "語"]),
        ];
        for (line, expected) in rows {
            assert_eq!(pieces(line, 4), expected);
        }
        let hint = "  undo    capt status, and then: capt rollout undo demo-workers";
        let wanted = ["  undo    capt status, and then: capt", "    rollout undo demo-workers"];
        assert_eq!(pieces(hint, 40), wanted);
        assert_eq!(height(&[hint.to_owned()], 40), 2);
    }

    #[test]
    fn the_keys_are_told_however_narrow_the_screen_is() {
        let feet = [
            "88 objects: 60 ready, 9 under way, 19 in need of attention",
            "19 in need of attention, 60 ready",
        ];
        let help = ["  (arrows scroll, f unfolds, q quits)", "  (f unfolds, q quits)"];
        let rows = [
            (
                100,
                "88 objects: 60 ready, 9 under way, 19 in need of attention  (arrows scroll, f unfolds, q quits)",
            ),
            (80, "88 objects: 60 ready, 9 under way, 19 in need of attention  (f unfolds, q quits)"),
            (60, "19 in need of attention, 60 ready  (f unfolds, q quits)"),
            (40, "19 in need of a...  (f unfolds, q quits)"),
        ];
        for (width, expected) in rows {
            assert_eq!(last_line(feet, help, width), expected);
        }
        assert!((0..40).all(|width| last_line(feet, help, width).len() <= width));
    }
}
