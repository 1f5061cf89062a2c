//! `${key}` in a module's text, for templates that have no variables of their own.
//!
//! | Where `${key}` stands | What is put there |
//! |---|---|
//! | in a quoted string | the value, escaped: it cannot end the string or start a template |
//! | in a heredoc | `${"…"}` with the value escaped in it: it cannot end the heredoc, or change its indentation |
//! | outside of strings | a literal, never an expression: JSON (a number, `true`, a list) as it is, with its strings escaped; any other value in quotes |
//! | in a string of a JSON module | the value, escaped for both JSON and templates |
//! | between the strings of a JSON module | the same literal, in JSON |
//! | in a comment | nothing: it stays |
//!
//! Known keys only, and only such that no expression of a module is spelled like one: who gives the values need not be who wrote
//! the module, and must not be able to change what it means. One pass, so a value is never looked at again; `$${key}` stays, as
//! does `${key}` where an enclosing `for` binds that name. The text is scanned, not parsed: one that Terraform would refuse comes
//! out as wrong as it went in.

mod meaning;
mod scan;

use std::collections::BTreeMap;

use super::Format;
pub use meaning::changed_by;
use scan::{Frame, Scanner};

/// Puts values into a module's text.
pub fn substitute(text: &str, format: Format, values: &BTreeMap<String, String>) -> String {
    if values.is_empty() || !text.contains("${") {
        return text.to_owned();
    }
    match format {
        Format::Hcl => Scanner::new(text, values).run(Frame::code()),
        Format::Json => in_json(text, values),
    }
}

/// Each string of a JSON module is a template of its own, once JSON's escapes are undone.
fn in_json(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        out.push_str(&raw(&rest[..start], values));
        let length = string_length(&rest[start..]);
        let literal = &rest[start..start + length];
        match serde_json::from_str::<String>(literal) {
            Ok(template) if literal.contains("${") => {
                let done = Scanner::new(&template, values).run(Frame::template());
                // One that did not change keeps its spelling.
                let written = if done == template { None } else { serde_json::to_string(&done).ok() };
                out.push_str(written.as_deref().unwrap_or(literal));
            }
            _ => out.push_str(literal),
        }
        rest = &rest[start + length..];
    }
    out.push_str(&raw(rest, values));
    out
}

/// From the opening quote to after the closing one, or to the end.
fn string_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Between JSON strings.
fn raw(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let placeholder = scan::placeholder(from, values).filter(|_| !before.ends_with('$'));
        let length = placeholder.map_or(2, |(length, _)| length);
        match placeholder {
            Some((_, value)) => out.push_str(&literal(value, in_json_quotes)),
            None => out.push_str(&from[..length]),
        }
        rest = &from[length..];
    }
    out.push_str(rest);
    out
}

/// A value where code stands: one that is JSON as it is, any other as a string. `quoted` writes a string as one that is no template.
fn literal(value: &str, quoted: impl Fn(&str) -> String) -> String {
    if serde_json::from_str::<serde_json::Value>(value).is_err() {
        return quoted(value);
    }
    let mut out = String::with_capacity(value.len());
    // A line's end around it would end what it stands in.
    let mut rest = value.trim();
    while let Some(start) = rest.find('"') {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let (string, after) = from.split_at(string_length(from));
        out.push_str(&quoted(&serde_json::from_str::<String>(string).unwrap_or_default()));
        rest = after;
    }
    out + rest
}

/// A string of a JSON module that means this text.
fn in_json_quotes(text: &str) -> String {
    serde_json::to_string(&scan::escape(text, false)).expect("text is JSON")
}

#[cfg(test)]
mod tests;
