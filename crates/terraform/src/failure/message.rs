//! Messages of one line.

use super::{Reason, fetch, inputs};
use crate::generated::VALUES;
use crate::stream::Diagnostic;

/// About what a condition's message can show; details of providers run to pages.
const LONGEST: usize = 600;

pub(super) fn of(error: &Diagnostic, reason: Reason, more: usize) -> String {
    let mut message = match (reason, lock_holder(&error.detail)) {
        (Reason::StateLocked, Some(holder)) => holder,
        _ => inputs::sentence(error, reason)
            .or_else(|| fetch::sentence(error))
            .unwrap_or_else(|| sentence(error)),
    };
    // What is wrong with an input is put right where its value is given, not where the module declares it.
    let is_input = inputs::variable(error, reason).is_some();
    let named = error.file.as_deref().filter(|_| !is_input && fetch::is_shown(error)).and_then(shown);
    let file = match (named, error.line) {
        (Some(file), Some(line)) => Some(format!("{file}:{line}")),
        (file, _) => file,
    };
    shorten(&mut message, LONGEST);
    let places: Vec<String> =
        error.address.iter().cloned().chain(file).filter(|place| !message.contains(place.as_str())).collect();
    let place = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    message + &place + &more
}

/// Summary and the first paragraph of the detail; of one that ends in a colon, the next too.
fn sentence(error: &Diagnostic) -> String {
    let mut detail = String::new();
    for paragraph in error.detail.split("\n\n").map(words).filter(|paragraph| !paragraph.is_empty()) {
        if !detail.is_empty() {
            detail.push(' ');
        }
        detail += &paragraph;
        if !detail.ends_with(':') {
            break;
        }
    }
    let summary = words(&error.summary);
    match (summary.is_empty(), detail.is_empty()) {
        (_, true) => summary,
        (true, false) => detail,
        // Providers like to say it twice.
        (false, false) if detail.starts_with(&summary) => detail,
        (false, false) => format!("{summary}: {detail}"),
    }
}

/// A file as whoever wrote it knows it; nothing for one that is generated.
fn shown(file: &str) -> Option<String> {
    let Some(rest) = file.strip_prefix(VALUES).and_then(|rest| rest.strip_prefix('-')) else {
        return Some(file.to_owned());
    };
    let number: usize = rest.split('.').next()?.parse().ok()?;
    Some(format!("varFiles[{number}]"))
}

pub(super) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Holder of the lock, from the `Lock Info` of a message.
fn lock_holder(detail: &str) -> Option<String> {
    let field = |name: &str| {
        let line = detail.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim()).filter(|value| !value.is_empty())
    };
    let who = field("Who")?;
    let part = |name: &str, write: fn(&str) -> String| field(name).map(write).unwrap_or_default();
    let operation =
        part("Operation", |kind| format!(" ({})", kind.trim_start_matches("OperationType").to_lowercase()));
    // `2026-01-01 00:00:00.123 +0000 UTC`: to the second is enough.
    let since =
        part("Created", |time| format!(" since {}", time.split(['.', '+']).next().unwrap_or(time).trim()));
    let id = part("ID", |id| format!(", lock id {id}"));
    Some(format!("the state is locked by {who}{operation}{since}{id}"))
}

/// A plugin that crashed, and the first line of its panic: Terraform prints the trace where its stream is not.
pub(super) fn of_crash(stderr: &str) -> Option<String> {
    let (_, trace) = stderr.split_once("Stack trace from the ")?;
    let (plugin, trace) = trace.split_once(" plugin:")?;
    let is_panic = |line: &&str| line.starts_with("panic:") || line.starts_with("fatal error:");
    let mut message = format!("{plugin} crashed: {}", words(trace.lines().find(is_panic)?));
    shorten(&mut message, LONGEST);
    Some(message)
}

/// The panic, or the last lines.
pub(super) fn of_stderr(stderr: &str) -> String {
    let panic = stderr.lines().find(|line| line.starts_with("panic:") || line.starts_with("fatal error:"));
    let mut message = panic.map_or_else(|| last_lines(stderr), words);
    shorten(&mut message, LONGEST);
    message
}

fn last_lines(stderr: &str) -> String {
    // Terraform draws boxes around what it says there.
    let lines: Vec<&str> = stderr.lines().filter(|line| line.chars().any(char::is_alphanumeric)).collect();
    words(&lines[lines.len().saturating_sub(5)..].join(" "))
}

fn shorten(message: &mut String, longest: usize) {
    if message.chars().count() > longest {
        let end = message.char_indices().nth(longest - 1).map_or(message.len(), |(at, _)| at);
        message.truncate(end);
        message.push('…');
    }
}
