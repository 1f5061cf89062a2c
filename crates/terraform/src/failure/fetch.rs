//! Modules that cannot be fetched: the source, and what git, a server or a registry said.

use crate::generated::{CALL, FETCHED};
use crate::stream::{Diagnostic, Severity};

/// One clean sentence; nothing where an error is about something else.
pub(super) fn sentence(error: &Diagnostic) -> Option<String> {
    let detail = super::message::words(&error.detail);
    if let Some(rest) = detail.strip_prefix("Could not download module \"") {
        let (name, rest) = rest.split_once("\" (")?;
        let (place, rest) = rest.split_once(") source code from \"")?;
        let (source, rest) = rest.split_once("\": ")?;
        let what = if name == FETCHED {
            format!("module {source} cannot be fetched")
        } else {
            format!("module \"{name}\" ({place}) cannot be fetched from {source}")
        };
        return Some(format!("{what}: {}", cause(rest)));
    }
    // Registries, and versions that do not exist.
    let root = format!("module \"{FETCHED}\"");
    let (before, after) = detail.split_once(&root)?;
    let after =
        after.strip_prefix(" (").and_then(|rest| rest.split_once(')')).map_or(after, |(_, rest)| rest);
    Some(format!("{before}the module{}", after.trim_end_matches('.')))
}

/// Returns true if the file of an error is one that a user wrote: the call of the module that the engine fetches is not.
pub(super) fn is_shown(error: &Diagnostic) -> bool {
    !error.detail.contains(&format!("module \"{FETCHED}\"")) && error.file.as_deref() != Some(CALL)
}

/// The words of whoever refused it: without the program's path, its progress and its advice.
fn cause(text: &str) -> String {
    let text = match text.strip_prefix("error downloading '") {
        Some(rest) => rest.split_once("': ").map_or(rest, |(_, rest)| rest),
        None => text,
    };
    let Some((program, said)) = text.split_once(" exited with ") else { return text.trim().to_owned() };
    let program = program.rsplit('/').next().unwrap_or(program);
    let said = said.split_once(": ").map_or("", |(_, said)| said);
    let fatal = said.split("fatal: ").nth(1);
    let wrong = fatal.or_else(|| said.split("error: ").nth(1)).unwrap_or(said);
    let wrong = wrong.split(" Please make sure").next().unwrap_or(wrong).trim();
    let wrong = if wrong.is_empty() { "it failed" } else { wrong };
    format!("{program}: {wrong}")
}

/// The errors that a command without a stream printed for people:
///
/// ```text
/// Error: Failed to download module
///
///   on main.tf line 1, in module "m":
///    1: module "m" {
///
/// Could not download module "m" …
/// ```
pub(super) fn printed(text: &str) -> Vec<Diagnostic> {
    let mut errors: Vec<(String, Vec<String>)> = Vec::new();
    let mut wanted = false;
    for line in text.lines() {
        // Drawn with a bar before each line, or without.
        let bar = line.strip_prefix(['│', '╷', '╵']);
        let line = bar.map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest)).trim_end();
        if line.starts_with("Downloading ") && line.ends_with("...") {
            // Progress of another stream, which stands anywhere.
        } else if let Some(summary) = line.strip_prefix("Error: ") {
            errors.push((summary.to_owned(), Vec::new()));
            wanted = true;
        } else if line.starts_with("Warning: ") {
            wanted = false;
        } else if let Some((_, lines)) = errors.last_mut().filter(|_| wanted) {
            lines.push(line.to_owned());
        }
    }
    errors.into_iter().map(|(summary, lines)| diagnostic(summary, &lines.join("\n"))).collect()
}

fn diagnostic(summary: String, text: &str) -> Diagnostic {
    let mut paragraphs = text.trim_start_matches('\n').splitn(2, "\n\n");
    let first = paragraphs.next().unwrap_or_default();
    // Where it is: `  on FILE line N, in …:` and the lines there.
    let (place, detail) = match first.trim_start().strip_prefix("on ") {
        Some(place) if first.starts_with("  on ") => (Some(place), paragraphs.next().unwrap_or_default()),
        _ => (None, text),
    };
    let at = place.and_then(|place| place.split_once(" line "));
    let number = at.and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    Diagnostic {
        severity: Severity::Error,
        summary,
        detail: detail.trim().to_owned(),
        address: None,
        file: at.map(|(file, _)| file.to_owned()),
        line: number,
        snippet: None,
        variable: None,
    }
}
