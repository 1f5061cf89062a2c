//! A scanner of HCL that knows strings, heredocs, templates, comments, brackets and what `for` binds, and nothing else.

use std::{collections::BTreeMap, fmt::Write as _};

/// The length of `${key}` at the start of a text, and the key's value, where the key is known. A key is a variable's name, as the
/// API has it: `${a.b}` is an expression of the module, whatever a value is called.
pub(super) fn placeholder<'v>(text: &str, values: &'v BTreeMap<String, String>) -> Option<(usize, &'v str)> {
    let inner = text.strip_prefix("${")?;
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'))?;
    let named = inner.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let value = (named && inner[end..].starts_with('}')).then(|| values.get(&inner[..end])).flatten()?;
    Some((end + 3, value))
}

/// Syntactic context of the scanner. Frames nest: a string in an interpolation in a heredoc.
pub(super) struct Frame<'t> {
    kind: Kind<'t>,
    /// Names that a `for` binds here.
    bound: Vec<[Option<&'t str>; 2]>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind<'t> {
    /// Outside of strings: all of a file, or what is in a bracket or an interpolation that this byte closes.
    Code { close: Option<u8> },
    /// In quotes.
    Quoted,
    /// In a heredoc that this word ends.
    Heredoc { marker: &'t str },
    /// A template that nothing ends.
    Template,
}

impl Frame<'_> {
    pub(super) fn code() -> Self {
        Self { kind: Kind::Code { close: None }, bound: Vec::new() }
    }

    pub(super) fn template() -> Self {
        Self { kind: Kind::Template, bound: Vec::new() }
    }
}

pub(super) struct Scanner<'t, 'v> {
    text: &'t str,
    at: usize,
    values: &'v BTreeMap<String, String>,
    frames: Vec<Frame<'t>>,
    out: String,
    /// A value was put in right here.
    after_value: bool,
}

impl<'t, 'v> Scanner<'t, 'v> {
    pub(super) fn new(text: &'t str, values: &'v BTreeMap<String, String>) -> Self {
        Self {
            text,
            at: 0,
            values,
            frames: Vec::new(),
            out: String::with_capacity(text.len()),
            after_value: false,
        }
    }

    pub(super) fn run(mut self, start: Frame<'t>) -> String {
        self.frames.push(start);
        while self.at < self.text.len() {
            match self.frames.last().expect("the first frame is never left").kind {
                Kind::Code { close } => self.code(close),
                Kind::Quoted => self.quoted(),
                Kind::Heredoc { marker } => self.heredoc(marker),
                Kind::Template => self.template(),
            }
        }
        self.out
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn copy(&mut self, length: usize) {
        let end = (self.at + length).min(self.text.len());
        self.out.push_str(&self.text[self.at..end]);
        self.at = end;
        self.after_value = false;
    }

    fn copy_char(&mut self) {
        self.copy(self.rest().chars().next().map_or(1, char::len_utf8));
    }

    fn push(&mut self, kind: Kind<'t>) {
        self.frames.push(Frame { kind, bound: Vec::new() });
    }

    /// The first frame stays, however many brackets a broken text closes.
    fn pop(&mut self) {
        if self.frames.len() > 1 {
            self.frames.pop();
        }
    }

    fn bind(&mut self, names: [Option<&'t str>; 2]) {
        self.frames.last_mut().expect("the first frame is never left").bound.push(names);
    }

    /// A known key that no `for` around here binds.
    fn known(&self) -> Option<(usize, &'v str)> {
        let (length, value) = placeholder(self.rest(), self.values)?;
        let key = &self.rest()[2..length - 1];
        let bound =
            self.frames.iter().flat_map(|frame| &frame.bound).flatten().flatten().any(|name| *name == key);
        (!bound).then_some((length, value))
    }

    fn code(&mut self, close: Option<u8>) {
        let rest = self.rest();
        let byte = rest.as_bytes()[0];
        match byte {
            b'$' if rest.starts_with("${") => match self.known() {
                Some((length, value)) => {
                    self.out.push_str(&super::literal(value, |text| format!("\"{}\"", escape(text, true))));
                    self.at += length;
                }
                None => self.copy(1),
            },
            b'$' if rest.starts_with("$${") => self.copy(2),
            b'#' => self.copy(line_length(rest)),
            b'/' if rest.starts_with("//") => self.copy(line_length(rest)),
            b'/' if rest.starts_with("/*") => self.copy(comment_length(rest)),
            b'"' => {
                self.copy(1);
                self.push(Kind::Quoted);
            }
            b'<' if rest.starts_with("<<") => match heredoc(rest) {
                Some((length, marker)) => {
                    self.copy(length);
                    self.push(Kind::Heredoc { marker });
                }
                None => self.copy(2),
            },
            b'(' | b'[' | b'{' => {
                let close = match byte {
                    b'(' => b')',
                    b'[' => b']',
                    _ => b'}',
                };
                self.copy(1);
                self.push(Kind::Code { close: Some(close) });
                // `for` stands in brackets and braces only, but nothing else can look like it in a parenthesis.
                if let Some(names) = for_names(self.rest()) {
                    self.bind(names);
                }
            }
            _ if Some(byte) == close => {
                self.copy(1);
                self.pop();
            }
            _ => self.copy_char(),
        }
    }

    fn quoted(&mut self) {
        match self.rest().as_bytes()[0] {
            // A string ends on its line; one that does not is broken, and what follows is read as code again.
            b'"' | b'\n' => {
                self.copy(1);
                self.pop();
            }
            b'\\' => {
                self.copy(1);
                self.copy_char();
            }
            _ => self.template(),
        }
    }

    fn heredoc(&mut self, marker: &str) {
        let at_line_start = self.at == 0 || self.text.as_bytes()[self.at - 1] == b'\n';
        if at_line_start && self.rest()[..line_length(self.rest())].trim() == marker {
            // The line's end is left for the frame around, as in HCL.
            self.copy(line_length(self.rest()));
            self.pop();
        } else {
            self.template();
        }
    }

    /// One step in a string or heredoc.
    fn template(&mut self) {
        let rest = self.rest();
        let byte = rest.as_bytes()[0];
        let starts = |byte: u8| matches!(byte, b'$' | b'%');
        match byte {
            _ if rest.starts_with("$${") || rest.starts_with("%%{") => self.copy(3),
            b'$' | b'%' if rest.as_bytes().get(1) == Some(&b'{') => {
                if let Some((length, value)) = self.known() {
                    self.insert(value);
                    self.at += length;
                } else {
                    self.set_apart(byte);
                    self.copy(2);
                    self.push(Kind::Code { close: Some(b'}') });
                    if byte == b'%' {
                        self.directive();
                    }
                }
            }
            // A value that ends in `$` must not make a template of the brace after it.
            b'{' if self.after_value && self.out.bytes().last().is_some_and(starts) => {
                self.double_last();
                self.copy(1);
            }
            _ => self.copy_char(),
        }
    }

    /// Writes what a value left just before an expression of the module as an expression of its own: `$` and `${` together would be the
    /// escape `$${`, and what the module means as code a text, with its quotes the end of the string around it.
    fn set_apart(&mut self, begin: u8) {
        if !self.after_value {
            return;
        }
        let kept = self.out.trim_end_matches(char::from(begin)).len();
        let run = self.out.split_off(kept);
        if !run.is_empty() {
            write!(self.out, "${{\"{run}\"}}").expect("writing to a String never fails");
        }
    }

    /// `%{ for … }` binds in the template around it, until `%{ endfor }`.
    fn directive(&mut self) {
        let rest = self.rest().trim_start_matches('~');
        let template = self.frames.len() - 2;
        if let Some(names) = for_names(rest) {
            self.frames[template].bound.push(names);
        } else if rest.trim_start().starts_with("endfor") {
            self.frames[template].bound.pop();
        }
    }

    fn insert(&mut self, value: &str) {
        let kind = self.frames.last().expect("the first frame is never left").kind;
        if matches!(kind, Kind::Heredoc { .. }) {
            self.out.push_str("${\"");
            self.after_value = false;
            self.escaped(value, true);
            self.out.push_str("\"}");
            self.after_value = false;
        } else {
            self.escaped(value, kind == Kind::Quoted);
        }
    }

    fn escaped(&mut self, value: &str, quoted: bool) {
        escape_onto(&mut self.out, value, quoted);
        // An empty value too: it brings together what stood around it.
        self.after_value = true;
    }

    /// `$${` is how a template writes `${`.
    fn double_last(&mut self) {
        double_last(&mut self.out);
    }
}

/// A text as a template writes it that means just that; `quoted`: in quotes.
pub(super) fn escape(value: &str, quoted: bool) -> String {
    let mut out = String::with_capacity(value.len());
    escape_onto(&mut out, value, quoted);
    out
}

/// The same, after what is there: pieces must not make a template together.
fn escape_onto(out: &mut String, value: &str, quoted: bool) {
    for character in value.chars() {
        match character {
            '{' if out.ends_with(['$', '%']) => {
                double_last(out);
                out.push('{');
            }
            '"' if quoted => out.push_str("\\\""),
            '\\' if quoted => out.push_str("\\\\"),
            '\n' if quoted => out.push_str("\\n"),
            '\r' if quoted => out.push_str("\\r"),
            '\t' if quoted => out.push_str("\\t"),
            control if quoted && control.is_control() => {
                write!(out, "\\u{:04x}", u32::from(control)).expect("writing to a String never fails");
            }
            other => out.push(other),
        }
    }
}

fn double_last(out: &mut String) {
    let last = out.chars().last();
    out.extend(last);
}

/// From `/*` to after `*/`, which cannot share its star: `/*/` is open.
fn comment_length(text: &str) -> usize {
    text[2..].find("*/").map_or(text.len(), |end| end + 4)
}

/// Without the space and comments that it begins with.
fn skip_blank(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let comment = match rest.as_bytes() {
            [b'#', ..] | [b'/', b'/', ..] => line_length(rest),
            [b'/', b'*', ..] => comment_length(rest),
            _ => return rest,
        };
        rest = rest[comment..].trim_start();
    }
}

/// Up to the line's end, without it.
fn line_length(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// The opening of a heredoc, with its line's end, and its marker.
fn heredoc(text: &str) -> Option<(usize, &str)> {
    let line = &text[..=text.find('\n')?];
    let marker = line.strip_prefix("<<")?;
    let marker = marker.strip_prefix('-').unwrap_or(marker);
    let marker = marker.strip_suffix('\n')?;
    let marker = marker.strip_suffix('\r').unwrap_or(marker);
    let word = !marker.is_empty() && marker.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    word.then_some((line.len(), marker))
}

/// `a` and `b` of `for a, b in`.
fn for_names(text: &str) -> Option<[Option<&str>; 2]> {
    let after = skip_blank(text).strip_prefix("for")?;
    // A comment parts words as a space does.
    let (first, rest) = name(after).filter(|_| skip_blank(after).len() < after.len())?;
    let (second, rest) = match rest.strip_prefix(',').and_then(name) {
        Some((second, rest)) => (Some(second), rest),
        None => (None, rest),
    };
    rest.starts_with("in").then_some([Some(first), second])
}

fn name(text: &str) -> Option<(&str, &str)> {
    let text = skip_blank(text);
    let end = text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-'))?;
    (end > 0).then(|| (&text[..end], skip_blank(&text[end..])))
}
