//! Regular expressions in Go's syntax.
//!
//! Kubernetes' patterns are RE2 as Go reads it. The `regex` crate has the same semantics but
//! another dialect: its `\d`, `\w`, `\s` and `\b` are Unicode-wide, its classes nest and have
//! set operators, a stray `{` is an error, and `**` is not. [`compile_within`] rewrites one into the
//! other and refuses what Go refuses.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

/// Go refuses repetition counts above this.
const MAX_REPEAT: u32 = 1000;
/// Names of classes, as in `[[:alpha:]]`.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];
/// Bounds the memory of one compiled pattern; Go's own bound on program size is of this order.
pub(crate) const SIZE_LIMIT: usize = 10 * (1 << 20);
/// No compiled pattern counts for less.
pub(crate) const SMALLEST: usize = 16 << 10;

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("error parsing regexp: missing closing ]: `{0}`")]
    UnclosedClass(String),
    #[error("error parsing regexp: missing closing ): `{0}`")]
    UnclosedGroup(String),
    #[error("error parsing regexp: unexpected ): `{0}`")]
    UnopenedGroup(String),
    #[error("error parsing regexp: trailing backslash at end of expression")]
    TrailingBackslash,
    #[error("error parsing regexp: invalid nested repetition operator: `{0}`")]
    NestedRepetition(String),
    #[error("error parsing regexp: missing argument to repetition operator: `{0}`")]
    NothingToRepeat(String),
    #[error("error parsing regexp: invalid named capture: `{0}`")]
    GroupName(String),
    #[error("error parsing regexp: invalid character class range: `{0}`")]
    ClassName(String),
    #[error("error parsing regexp: invalid repeat count: `{0}`")]
    RepeatCount(String),
    #[error("error parsing regexp: invalid escape sequence: `\\{0}`")]
    Escape(char),
    #[error("error parsing regexp: invalid or unsupported Perl syntax: `(?{0}`")]
    Group(char),
    #[error(
        "error parsing regexp: expression too large: the patterns of one definition take more than {0} bytes"
    )]
    TooLarge(usize),
    #[error("error parsing regexp: {}", one_line(.0))]
    Syntax(#[from] regex::Error),
}

fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.rsplit("error: ").next().unwrap_or(&text).trim().to_owned()
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct CompiledPattern {
    pub regex: Regex,
    /// Bytes that it takes at most.
    pub size: usize,
}

/// Compiles a pattern written for Go's `regexp`, to at most `most` bytes.
pub(crate) fn compile_within(pattern: &str, most: usize) -> Result<CompiledPattern, PatternError> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut translator =
        Translator { chars: pattern.chars().peekable(), out: &mut out, repeats: vec![1], last: 1 };
    translator.run(pattern)?;
    if translator.repeats.len() > 1 {
        return Err(PatternError::UnclosedGroup(pattern.to_owned()));
    }
    // Nothing tells how large one is but whether it fits: all that do not fit cost as much as the last together.
    let mut limit = SMALLEST.min(most);
    loop {
        match RegexBuilder::new(&out).size_limit(limit).build() {
            Ok(regex) => return Ok(CompiledPattern { regex, size: limit }),
            Err(regex::Error::CompiledTooBig(_)) if limit < most => limit = (limit * 2).min(most),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Compiles a pattern written for Go's `regexp`.
#[cfg(test)]
fn compile(pattern: &str) -> Result<Regex, PatternError> {
    compile_within(pattern, SIZE_LIMIT).map(|pattern| pattern.regex)
}

fn unclosed(inside: &Peekable<Chars<'_>>) -> PatternError {
    let mut shown = String::from("[");
    shown.extend(inside.clone());
    PatternError::UnclosedClass(shown)
}

struct Translator<'a> {
    chars: Peekable<Chars<'a>>,
    out: &'a mut String,
    /// For each open group, and the whole: how often its most repeated part is repeated.
    repeats: Vec<u32>,
    /// The same for what was read last.
    last: u32,
}

impl Translator<'_> {
    fn run(&mut self, pattern: &str) -> Result<(), PatternError> {
        let mut last_repetition: Option<String> = None;
        let mut repeatable = false;
        while let Some(c) = self.chars.next() {
            let repetition = match c {
                '*' | '+' | '?' => Some(c.to_string()),
                '{' => self.counted()?,
                c => {
                    self.atom(c, pattern)?;
                    None
                }
            };
            last_repetition = match (last_repetition, repetition) {
                (Some(first), Some(second)) => {
                    return Err(PatternError::NestedRepetition(first + &second));
                }
                (None, Some(text)) if !repeatable => return Err(PatternError::NothingToRepeat(text)),
                (None, Some(mut text)) => {
                    if self.chars.next_if_eq(&'?').is_some() {
                        text.push('?');
                    }
                    self.out.push_str(&text);
                    Some(text)
                }
                (_, None) => None,
            };
            repeatable = !matches!(c, '(' | '|');
        }
        Ok(())
    }

    fn atom(&mut self, c: char, pattern: &str) -> Result<(), PatternError> {
        self.last = 1;
        match c {
            '\\' => self.escape()?,
            '[' => self.class()?,
            '(' => {
                self.repeats.push(1);
                self.group()?;
            }
            ')' => {
                if self.repeats.len() < 2 {
                    return Err(PatternError::UnopenedGroup(pattern.to_owned()));
                }
                self.last = self.repeats.pop().unwrap_or(1);
                self.note_repeats();
                self.out.push(')');
            }
            // Free-spacing mode does not exist in Go, so a `#` or a blank is itself.
            c => self.out.push(c),
        }
        Ok(())
    }

    fn note_repeats(&mut self) {
        if let Some(most) = self.repeats.last_mut() {
            *most = self.last.max(*most);
        }
    }

    /// A `{` that starts no repetition is itself in Go.
    fn counted(&mut self) -> Result<Option<String>, PatternError> {
        let mut ahead = self.chars.clone();
        let mut text = String::from("{");
        for c in ahead.by_ref() {
            text.push(c);
            if !(c.is_ascii_digit() || c == ',') {
                break;
            }
        }
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        let valid = inner.is_some_and(|inner| {
            let (min, max) = inner.split_once(',').unwrap_or((inner, ""));
            !min.is_empty() && !max.contains(',')
        });
        let Some(inner) = inner.filter(|_| valid) else {
            self.out.push_str("\\{");
            return Ok(None);
        };
        let counts: Vec<u32> =
            inner.split(',').filter(|n| !n.is_empty()).map(|n| n.parse().unwrap_or(u32::MAX)).collect();
        let ordered = counts.windows(2).all(|pair| pair[0] <= pair[1]);
        let most = counts.iter().copied().max().unwrap_or(0);
        self.last = self.last.saturating_mul(most.max(1));
        if !ordered || most > MAX_REPEAT || self.last > MAX_REPEAT {
            return Err(PatternError::RepeatCount(text));
        }
        self.note_repeats();
        self.chars = ahead;
        Ok(Some(text))
    }

    /// Captures are not used, so their names, which Go lets repeat, are dropped.
    fn group(&mut self) -> Result<(), PatternError> {
        self.out.push('(');
        if self.chars.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        match self.chars.peek() {
            Some('i' | 'm' | 's' | 'U' | '-' | ':') | None => {
                self.out.push('?');
                Ok(())
            }
            Some('<' | 'P') => self.group_name(),
            // Look-around, and flags of the crate's own.
            Some(&c) => Err(PatternError::Group(c)),
        }
    }

    fn group_name(&mut self) -> Result<(), PatternError> {
        let mut shown = String::from("(?");
        shown.extend(self.chars.next_if_eq(&'P'));
        if self.chars.next_if_eq(&'<').is_none() {
            return Err(PatternError::Group('P'));
        }
        shown.push('<');
        let start = shown.len();
        for c in self.chars.by_ref() {
            if c == '>' && shown.len() > start {
                return Ok(());
            }
            shown.push(c);
            if !(c.is_ascii_alphanumeric() || c == '_') {
                break;
            }
        }
        shown.extend(self.chars.clone());
        Err(PatternError::GroupName(shown))
    }

    /// The braces after `\p` or `\x`, which are no repetition.
    fn braced(&mut self) {
        if self.chars.peek() != Some(&'{') {
            return;
        }
        for c in self.chars.by_ref() {
            self.out.push(c);
            if c == '}' {
                return;
            }
        }
    }

    fn escape(&mut self) -> Result<(), PatternError> {
        let c = self.chars.next().ok_or(PatternError::TrailingBackslash)?;
        match c {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("[0-9A-Za-z_]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str("[\\t\\n\\x0C\\r ]"),
            'S' => self.out.push_str("[^\\t\\n\\x0C\\r ]"),
            'b' => self.out.push_str("(?-u:\\b)"),
            'B' => self.out.push_str("(?-u:\\B)"),
            'Q' => self.quoted(),
            'A' | 'z' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' => {
                self.out.push('\\');
                self.out.push(c);
            }
            'p' | 'P' | 'x' => {
                self.out.push('\\');
                self.out.push(c);
                self.braced();
            }
            c => self.literal_escape(c)?,
        }
        Ok(())
    }

    fn literal_escape(&mut self, c: char) -> Result<(), PatternError> {
        if c.is_ascii_digit() {
            return self.octal(c);
        }
        if c.is_ascii_alphanumeric() || !c.is_ascii() {
            return Err(PatternError::Escape(c));
        }
        self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        Ok(())
    }

    /// `\123` is a code point in octal, unless it would read as a back-reference.
    fn octal(&mut self, first: char) -> Result<(), PatternError> {
        let mut digits = String::from(first);
        while digits.len() < 3 {
            match self.chars.next_if(|c| ('0'..='7').contains(c)) {
                Some(c) => digits.push(c),
                None => break,
            }
        }
        if first != '0' && (digits.len() == 1 || !('1'..='7').contains(&first)) {
            return Err(PatternError::Escape(first));
        }
        match u32::from_str_radix(&digits, 8) {
            Ok(code) => {
                let _ = write!(self.out, "\\x{{{code:X}}}");
                Ok(())
            }
            Err(_) => Err(PatternError::Escape(first)),
        }
    }

    fn quoted(&mut self) {
        while let Some(c) = self.chars.next() {
            if c == '\\' && self.chars.peek() == Some(&'E') {
                self.chars.next();
                return;
            }
            self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        }
    }

    fn class(&mut self) -> Result<(), PatternError> {
        let inside = self.chars.clone();
        self.out.push('[');
        if self.chars.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            match self.chars.next().ok_or_else(|| unclosed(&inside))? {
                ']' if !first => {
                    self.out.push(']');
                    return Ok(());
                }
                '[' if self.chars.peek() == Some(&':') => self.posix_class()?,
                '\\' => self.class_escape()?,
                c @ ('[' | ']' | '&' | '~' | '^' | '#') => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                '-' => self.class_dash(first),
                c => self.out.push(c),
            }
            first = false;
        }
    }

    /// A dash at either end of a class is itself; two in a row would be a set operator.
    fn class_dash(&mut self, first: bool) {
        if first || self.chars.peek() == Some(&']') || self.out.ends_with("\\-") {
            self.out.push_str("\\-");
        } else {
            self.out.push('-');
        }
    }

    fn posix_class(&mut self) -> Result<(), PatternError> {
        let mut ahead = self.chars.clone();
        let mut name = String::from("[");
        for c in ahead.by_ref() {
            name.push(c);
            if c == ']' || !(c == ':' || c == '^' || c.is_ascii_lowercase()) {
                break;
            }
        }
        let Some(inner) = name.strip_prefix("[:").and_then(|rest| rest.strip_suffix(":]")) else {
            self.out.push_str("\\[");
            return Ok(());
        };
        if !CLASSES.contains(&inner.trim_start_matches('^')) {
            return Err(PatternError::ClassName(name));
        }
        self.chars = ahead;
        self.out.push_str(&name);
        Ok(())
    }

    fn class_escape(&mut self) -> Result<(), PatternError> {
        let c = self.chars.next().ok_or(PatternError::TrailingBackslash)?;
        match c {
            'd' => self.out.push_str("0-9"),
            'w' => self.out.push_str("0-9A-Za-z_"),
            's' => self.out.push_str("\\t\\n\\x0C\\r "),
            'D' => self.out.push_str("[^0-9]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            'S' => self.out.push_str("[^\\t\\n\\x0C\\r ]"),
            'a' | 'f' | 'n' | 'r' | 't' | 'v' => {
                self.out.push('\\');
                self.out.push(c);
            }
            'p' | 'P' | 'x' => {
                self.out.push('\\');
                self.out.push(c);
                self.braced();
            }
            c => self.literal_escape(c)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let rows: &[(&str, &str, bool)] = &[
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w+$", "é", false),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"^[^\s]$", "\u{a0}", true),
            (r"^[a-z&&[^b]]$", "&]", true),
            (r"^[a-z&&[^b]]$", "b", false),
            (r"^[[:alpha:]_]+$", "ab_", true),
            (r"^[]a]+$", "]a", true),
            (r"^a{$", "a{", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^a{1,2}$", "aa", true),
            (r"^a{1,2}$", "aaa", false),
            (r"^\/x\-\.$", "/x-.", true),
            (r"^\<a\>$", "<a>", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\101$", "A", true),
            (r"\bfoo\b", "a foo b", true),
            (r"\bfoo\b", "éfoo", true),
            (r"o\Bo", "foo", true),
            (r"a$", "a\n", false),
            (r"^(?i)AB$", "ab", true),
            (r"^(?P<x>a)(?:b)(?<y>c)$", "abc", true),
            (r"^[a\-z]+$", "-", true),
            (r"^[a--]+$", "-", false),
            (r"^[+--]+$", "-,+", true),
            (r"^a+?$", "aa", true),
            (r"^\p{Greek}+$", "\u{3b1}", true),
            (r"^[\p{Lu}]$", "A", true),
            (r"^\x{1F600}$", "\u{1f600}", true),
            (r"^(?P<n>a)(?P<n>b)$", "ab", true),
            (r"^[[:^alpha:]]$", "1", true),
            (r"", "x", true),
        ];
        for (pattern, text, expected) in rows {
            match compile(pattern) {
                Ok(regex) => assert_eq!(regex.is_match(text), *expected, "{pattern} on {text:?}"),
                Err(error) => assert!(!expected, "{pattern}: {error}"),
            }
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for pattern in [
            "[",
            "(",
            ")",
            "a**",
            "a+*",
            "a{2}{3}",
            "a{1001}",
            "a{2,1}",
            r"\1",
            r"\8",
            r"\y",
            r"\",
            "(?=a)",
            "(?<!a)",
            "(?x)a",
            "*a",
            r"\Z",
            r"[\b]",
            "a|*",
            "(*)",
            "[[:nope:]]",
            "(a{500}){3}",
            "(?P<>a)",
            "(?P=a)",
        ] {
            assert!(compile(pattern).is_err(), "{pattern}");
        }
    }
}
