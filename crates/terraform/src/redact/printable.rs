//! Texts of modules and their programs are read in terminals, where some characters are commands: they clear the screen, change what was
//! printed before, fill the clipboard, or turn the direction of a text. None of them gets through.

use std::{borrow::Cow, iter::Peekable, str::Chars};

const ESCAPE: char = '\u{1b}';

/// The text without such characters; with colours, where those are wanted.
pub(super) fn printable(text: &str, colours: bool) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            ESCAPE => {
                if let Some(colour) = sequence(&mut rest).filter(|_| colours) {
                    plain.push(ESCAPE);
                    plain.push_str(&colour);
                }
            }
            // The end of a line elsewhere.
            '\r' => {}
            next if steers(next) => plain.push(char::REPLACEMENT_CHARACTER),
            next => plain.push(next),
        }
    }
    Cow::Owned(plain)
}

fn steers(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (character.is_control() && !matches!(character, '\n' | '\t'))
}

/// Takes what follows an escape character; returns a colour.
fn sequence(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    match rest.peek() {
        Some('[') => {
            let mut all = String::new();
            while let Some(next) = rest.next_if(|next| !steers(*next) && *next != '\n') {
                all.push(next);
                if all.len() > 1 && ('@'..='~').contains(&next) {
                    break;
                }
            }
            let numbers = all.strip_prefix('[')?.strip_suffix('m')?;
            numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b';').then_some(all)
        }
        // A text for the terminal itself, up to its end.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while rest.next_if(|next| !matches!(*next, '\u{7}' | ESCAPE | '\n')).is_some() {}
            rest.next_if(|next| *next == '\u{7}');
            None
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        for (text, plain) in [
            ("all is well\n\tindeed — é 日本", "all is well\n\tindeed — é 日本"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("a\u{1b}[2J\u{1b}[1Ab", "ab"),
            ("a\u{1b}]52;c;Zm9v\u{7}b", "ab"),
            ("a\u{1b}]0;title\u{1b}\\b", "a\\b"),
            ("one\r\ntwo", "one\ntwo"),
            ("over\rwritten", "overwritten"),
            ("a\u{8}b\u{9b}2Jc\u{202e}d", "a\u{fffd}b\u{fffd}2Jc\u{fffd}d"),
            ("a\u{1b}", "a"),
            ("a\u{1b}[12;", "a"),
            ("a\u{1b}]0;b\nc", "a\nc"),
        ] {
            assert_eq!(printable(text, false), plain, "{text:?}");
            assert_eq!(printable(plain, false), plain, "again");
        }
        let coloured = "\u{1b}[1;31mred\u{1b}[0m\u{1b}[2J\u{1b}[?25l";
        assert_eq!(printable(coloured, true), "\u{1b}[1;31mred\u{1b}[0m");
    }
}
