//! The log of a run: what a person would read of its stream, redacted, and bounded in size.
//!
//! It grows while the run goes on. When it is full its first half becomes `log.1` and a new one begins, so the end, which says
//! what went wrong, is always there.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    beneath::open_own,
    redact::Redactor,
    stream::{Line, Severity},
};

/// A line of the log is cut there: what is longer is no reading for people.
const LONGEST: usize = 16 << 10;

/// A log that is written.
pub(crate) struct Log {
    path: PathBuf,
    limit: u64,
    size: u64,
    file: Option<File>,
}

impl Log {
    /// Begins a log, or goes on with it.
    pub fn open(path: PathBuf, limit: u64) -> Self {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).ok();
        let size = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
        Self { path, limit: limit.max(1024), size, file }
    }

    /// Begins anew: an adopted run is read from its first line again.
    pub fn restart(&mut self) {
        let _ = fs::remove_file(older(&self.path));
        *self = Self {
            file: create(&self.path),
            size: 0,
            path: std::mem::take(&mut self.path),
            limit: self.limit,
        };
    }

    /// Writes one line of a stream. A log that cannot be written (a full disk) is no reason to stop a run.
    pub fn line(&mut self, raw: &str, line: &Line, redactor: &Redactor) {
        #[derive(Deserialize)]
        struct Stamped<'a> {
            #[serde(rename = "@timestamp")]
            timestamp: Option<&'a str>,
        }
        let stamp = serde_json::from_str::<Stamped<'_>>(raw)
            .ok()
            .and_then(|stamped| stamped.timestamp)
            .unwrap_or_default();
        let message = crate::stream::message(raw);
        let mut text = format!("{stamp}{}{message}", if stamp.is_empty() { "" } else { " " });
        if let Line::Diagnostic(diagnostic) = line {
            if let (Some(file), Some(line)) = (&diagnostic.file, diagnostic.line) {
                text.extend(["\n  at ", file, ":", &line.to_string()]);
            }
            if diagnostic.severity == Severity::Error && !diagnostic.detail.is_empty() {
                text.extend(["\n", &diagnostic.detail]);
            }
        }
        self.text(&text, redactor);
    }

    /// Writes text.
    pub fn text(&mut self, text: &str, redactor: &Redactor) {
        // Redacted whole and cut afterwards: half a secret would not be found.
        let clean = redactor.clean(text.trim_end());
        let mut end = clean.len().min(LONGEST);
        while !clean.is_char_boundary(end) {
            end -= 1;
        }
        let line = format!("{}{}\n", &clean[..end], if end < clean.len() { " …" } else { "" });
        if self.size + line.len() as u64 > self.limit / 2 && self.size > 0 {
            let _ = fs::rename(&self.path, older(&self.path));
            self.file = create(&self.path);
            self.size = 0;
        }
        if let Some(file) = &mut self.file
            && file.write_all(line.as_bytes()).is_ok()
        {
            self.size += line.len() as u64;
        }
    }

    /// Redacts once more, with what was learned since.
    pub fn redact_again(&self, redactor: &Redactor) {
        for path in [self.path.clone(), older(&self.path)] {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            if let std::borrow::Cow::Owned(clean) = redactor.clean(&text)
                && let Some(mut file) = create(&path)
            {
                let _ = file.write_all(clean.as_bytes());
            }
        }
    }
}

fn create(path: &Path) -> Option<File> {
    crate::private_files::create_private(path).ok()
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("1")
}

/// As much of a stream is read at a time.
const PART: u64 = 1 << 20;
/// A longer line of a stream is left out: a run can print without end. The longest that matters is a state, printed because it could
/// be written nowhere.
const LONGEST_LINE: usize = 64 << 20;

/// A stream that is so far ahead is no run's: the rest is skipped but for so much of its end. A run can make it long without writing it.
const FAR_AHEAD: u64 = 1 << 30;
const LAST: u64 = 16 << 20;

/// Reads a growing file line by line.
pub(crate) struct Tail {
    path: PathBuf,
    file: Option<File>,
    at: u64,
    /// A line without its end yet.
    begun: Vec<u8>,
    /// That line is too long, and left out up to its end.
    left_out: bool,
}

/// Part of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LogChunk {
    pub lines: Vec<String>,
    /// More may be there already.
    pub more: bool,
}

impl Tail {
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None, at: 0, begun: Vec::new(), left_out: false }
    }

    /// The whole lines of the next part. At the `end` of the file, what is left is a line too.
    pub fn lines(&mut self, end: bool) -> io::Result<LogChunk> {
        if self.file.is_none() {
            self.file = match open_own(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                opened => Some(opened?),
            };
        }
        let Some(file) = &mut self.file else { return Ok(LogChunk::default()) };
        let length = file.metadata()?.len();
        if length.saturating_sub(self.at) > FAR_AHEAD {
            self.at = length - LAST;
            self.begun.clear();
            self.left_out = true;
        }
        file.seek(SeekFrom::Start(self.at))?;
        let old = self.begun.len();
        let read = file.take(PART).read_to_end(&mut self.begun)? as u64;
        self.at += read;
        let more = read == PART;
        let new = &self.begun[old..];
        let whole = match new.iter().rposition(|byte| *byte == b'\n') {
            _ if end && !more => self.begun.len(),
            Some(at) => old + at + 1,
            None => 0,
        };
        if self.left_out && whole > 0 {
            let rest = new.iter().position(|byte| *byte == b'\n').map_or(self.begun.len(), |at| old + at);
            self.begun.drain(..rest);
            self.left_out = false;
            return Ok(LogChunk { lines: self.take(whole - rest), more });
        }
        if self.left_out || (whole == 0 && self.begun.len() > LONGEST_LINE) {
            self.begun.clear();
            self.left_out = true;
            return Ok(LogChunk { lines: Vec::new(), more });
        }
        Ok(LogChunk { lines: self.take(whole), more })
    }

    /// Takes so many bytes out, as lines.
    fn take(&mut self, bytes: usize) -> Vec<String> {
        let rest = self.begun.split_off(bytes);
        let lines = std::mem::replace(&mut self.begun, rest);
        let text = String::from_utf8_lossy(&lines);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_gives_whole_lines_and_at_the_end_the_rest() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stream");
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.lines(false).expect("read"), LogChunk::default(), "not there yet");
        let mut file = File::create(&path).expect("create");
        file.write_all(b"one\ntwo").expect("write");
        assert_eq!(tail.lines(false).expect("read").lines, ["one"]);
        file.write_all(b" and a half\n\nthree").expect("write");
        assert_eq!(tail.lines(false).expect("read").lines, ["two and a half"]);
        assert_eq!(tail.lines(false).expect("read"), LogChunk::default());
        assert_eq!(tail.lines(true).expect("read").lines, ["three"]);
    }

    #[test]
    fn a_stream_without_end_is_read_in_parts_and_without_its_endless_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stream");
        let part = usize::try_from(PART).expect("small");
        let (long, endless) = ("a".repeat(2 * part), "b".repeat(LONGEST_LINE + 2 * part));
        for last in ["last\n", "last"] {
            fs::write(&path, format!("first\n{long}\n{endless}\n\n{last}")).expect("write");
            let (mut tail, mut lines) = (Tail::new(path.clone()), Vec::new());
            loop {
                let next = tail.lines(true).expect("read");
                assert!(tail.begun.len() <= LONGEST_LINE + part, "{} bytes are held", tail.begun.len());
                lines.extend(next.lines);
                if !next.more {
                    break;
                }
            }
            assert_eq!(lines, ["first", &long, "last"]);
        }
        // One that is only said to be long.
        let file = File::create(&path).expect("create");
        file.set_len(200 << 30).expect("long");
        (&file).seek(SeekFrom::End(0)).and_then(|_| (&file).write_all(b"\nlast\n")).expect("write");
        let (mut tail, mut parts, mut lines) = (Tail::new(path.clone()), 0, Vec::new());
        loop {
            let next = tail.lines(true).expect("read");
            lines.extend(next.lines);
            parts += 1;
            if !next.more {
                break;
            }
        }
        assert!(parts < 100 && lines == ["last"], "{parts} parts, {lines:?}");
        fs::write(&path, &endless).expect("write");
        let mut tail = Tail::new(path);
        while tail.lines(false).expect("read").more {}
        assert_eq!(tail.lines(true).expect("read"), LogChunk::default());
    }

    #[test]
    fn a_log_is_bounded_and_keeps_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut log = Log::open(path.clone(), 4096);
        for n in 0..1000 {
            log.text(&format!("line {n}"), &Redactor::default());
        }
        log.text(&"é".repeat(20_000), &Redactor::default());
        log.text("the end", &Redactor::default());
        let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        assert!(size(&path) + size(&older(&path)) < 4096 + 2 * LONGEST as u64);
        assert!(fs::read_to_string(&path).expect("a log").ends_with("the end\n"));
    }

    #[test]
    fn what_is_learned_late_is_redacted_late() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut log = Log::open(path.clone(), 4096);
        log.text("the password is hunter22 !", &Redactor::default());
        log.redact_again(&Redactor::new(["hunter22".to_owned()]));
        let text = fs::read_to_string(&path).expect("a log");
        assert!(!text.contains("hunter22") && text.contains("the password is"), "{text}");
    }
}
