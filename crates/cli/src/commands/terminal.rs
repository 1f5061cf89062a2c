//! A part of the terminal that is drawn again and again.

use std::io::{self, IsTerminal, Write};

/// Columns and lines of the terminal, where there is one.
pub fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// Lines at the end of the output that the next drawing replaces. Where the output is no terminal nothing can be
/// replaced: a drawing that differs from the last is printed below it.
pub struct Screen {
    live: bool,
    colours: bool,
    drawn: Vec<String>,
}

impl Screen {
    pub fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            live: io::stdout().is_terminal() && !dumb,
            colours: anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
            drawn: Vec::new(),
        }
    }

    /// Whether lines are replaced.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Shows these lines in place of the last. Each must be no wider than the terminal.
    pub fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        if self.drawn == lines {
            return Ok(());
        }
        let mut text = self.erase();
        for line in lines {
            text += &self.coloured(line);
            text += if self.live { "\x1b[K\n" } else { "\n" };
        }
        self.drawn = lines.to_vec();
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Prints lines that stay, above what is drawn.
    pub fn say(&mut self, lines: &[String]) -> io::Result<()> {
        let mut text = self.erase();
        for line in lines {
            text += &self.coloured(line);
            text += "\n";
        }
        if self.live {
            for line in &self.drawn {
                text += &self.coloured(line);
                text += "\x1b[K\n";
            }
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Leaves what is drawn where it is; the next drawing begins below it.
    pub fn keep(&mut self) {
        self.drawn.clear();
    }

    fn erase(&self) -> String {
        if self.live && !self.drawn.is_empty() {
            format!("\x1b[{}A\r\x1b[J", self.drawn.len())
        } else {
            String::new()
        }
    }

    fn coloured(&self, line: &str) -> String {
        if self.colours { line.to_owned() } else { anstream::adapter::strip_str(line).to_string() }
    }
}
