//! Skipped tests: each is told, and counted at the end of `make test` and `make e2e`.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

/// The file that [`skip`] notes skipped tests in.
const NOTES: &str = "CAPT_SKIPPED";

/// Tells that a test is skipped, or a part of it, and for want of what.
#[expect(clippy::print_stderr, reason = "a skip must not be silent")]
pub fn skip(want: &str) {
    eprintln!("skipped: {want}");
    let Some(notes) = env::var_os(NOTES) else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let program = env::current_exe().unwrap_or_default();
    let suite = program.file_stem().unwrap_or_default().to_string_lossy();
    let suite = suite.rsplit_once('-').map_or(&*suite, |(suite, _)| suite);
    // One write: tests of several threads note theirs at once.
    let line = format!("{want}\t{suite} {test}\n");
    let noted = OpenOptions::new().create(true).append(true).open(&notes);
    if let Err(error) = noted.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("{}: {error}", notes.display());
    }
}
