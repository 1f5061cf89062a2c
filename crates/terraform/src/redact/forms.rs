//! The forms that a secret takes: what is looked for in a text, after what a layer has undone.

use std::collections::BTreeSet;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

use unicode_normalization::UnicodeNormalization as _;

use super::{MASK, printable::printable};

/// Below this a value is found in every text, and cutting it out tells more than it hides.
const SHORTEST: usize = 3;

/// The same for one line of a secret of several lines, where `users:` is no secret and a line of a key is longer.
const SHORTEST_LINE: usize = 6;

/// The same for what is encoded together with its neighbours, where a short value leaves two or three letters only.
const SHORTEST_INSIDE: usize = 8;

/// A longer value is looked for piece by piece: what a text is compared with at each place stays short.
const PIECE: usize = 16 << 10;

/// As many bytes of a piece are the next one's too.
const OVERLAP: usize = 64;

/// Adds a value as it is.
pub(super) fn add_plain(value: &str, forms: &mut BTreeSet<String>) {
    for piece in pieces(value) {
        forms.extend([piece, piece.trim()].into_iter().filter(|whole| !trivial(whole)).map(str::to_owned));
    }
}

/// Adds every form of a value. One that is too short or trivial has none.
pub(super) fn add_forms(value: &str, forms: &mut BTreeSet<String>) {
    for text in pieces(value).flat_map(spellings) {
        add_encodings(&text, forms);
    }
    // Of the whole value: lines are cut from its beginning on, wherever its pieces begin.
    for text in spellings(value) {
        forms.extend(wrapped(&text));
    }
    if value.trim().contains('\n') {
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
        // The first and last lines of every PEM file are the same.
        for line in lines.filter(|line| !trivial(line) && !line.starts_with("-----")) {
            if line.len() <= PIECE {
                add_encodings(line, forms);
                forms.extend(wrapped(line));
            } else {
                // What is between them is in pieces of the value.
                add_encodings(&line[..boundary(line, PIECE)], forms);
                add_encodings(&line[boundary(line, line.len() - PIECE)..], forms);
            }
        }
    }
}

/// The texts of a value that may be encoded together with what stands around them.
pub(super) fn encoded_texts(value: &str) -> BTreeSet<String> {
    let mut texts = spellings(value);
    let quoted: Vec<_> = texts.iter().flat_map(|text| quoted(text)).collect();
    texts.extend(quoted);
    texts
}

/// A value, in pieces that overlap where it is long.
fn pieces(value: &str) -> impl Iterator<Item = &str> {
    // What is left after the first belongs to the one before it where it is no longer than the overlap.
    let starts = (0..value.len().saturating_sub(OVERLAP).max(1)).step_by(PIECE - OVERLAP);
    starts.map(move |start| &value[boundary(value, start)..boundary(value, start + PIECE)])
}

/// The next start of a character, there or behind.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// A value with and without the white space around it, which a secret from a file often loses, and what becomes of both.
fn spellings(value: &str) -> BTreeSet<String> {
    let whole = [value, value.trim()].into_iter().filter(|whole| !trivial(whole));
    whole.flat_map(|whole| on_its_way(whole).into_iter().chain([whole.to_owned()])).collect()
}

/// Other spellings of a value in outputs: Terraform normalizes texts, long numbers are read from a state as floating-point ones,
/// and terminal control characters are removed from texts before.
fn on_its_way(value: &str) -> Vec<String> {
    let normalized: String = value.nfc().collect();
    let printed = printable(&normalized, false).into_owned();
    // More digits than a number of 64 bits has.
    let is_long =
        value.len() > 15 && value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let number = is_long.then(|| serde_json::from_str::<serde_json::Number>(value).ok()).flatten();
    let mut changed = vec![normalized, printed];
    // As it is read from a state, and shown.
    changed.extend(number.map(|number| number.to_string()));
    changed.retain(|changed| changed != value && !trivial(changed));
    changed
}

fn add_encodings(value: &str, forms: &mut BTreeSet<String>) {
    let [json, go] = quoted(value);
    let hcl = json.replace("${", "$${").replace("%{", "%%{");
    let mut encodings = vec![STANDARD_NO_PAD.encode(value), URL_SAFE_NO_PAD.encode(value)];
    for text in BTreeSet::from([value, &json, &go]) {
        if text.len() >= SHORTEST_INSIDE {
            encodings.extend((0..3).flat_map(|before| inside_base64(text, before)));
        }
        if text.len() > SHORTEST {
            let hex = hex(text);
            encodings.extend([hex.to_uppercase(), hex]);
        }
    }
    encodings.extend([value.to_owned(), json, go, hcl]);
    forms.extend(encodings.into_iter().filter(|form| !MASK.contains(form.as_str())));
}

/// A value within quotes of JSON, and as Go writes them: three characters in its own way, and streams come from Go.
fn quoted(value: &str) -> [String; 2] {
    let json = serde_json::to_string(value).expect("a string is JSON");
    let json = json[1..json.len() - 1].to_owned();
    let go = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    [json, go]
}

/// The lines of a longer value in base64 and hex, as programs wrap them: logs are cleaned line by line.
fn wrapped(value: &str) -> Vec<String> {
    let (base64, hex) = (STANDARD_NO_PAD.encode(value), hex(value));
    let lines = [(&base64, 76), (&base64, 64), (&hex, 60)];
    let lines = lines.into_iter().filter(|(text, width)| text.len() > *width);
    lines.flat_map(|(text, width)| text.as_bytes().chunks(width)).filter_map(line).collect()
}

/// A line that is long enough to be found by. The last letters depend on what follows.
fn line(bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[..bytes.len() / 4 * 4];
    // One byte that repeats has four letters: a ruler or zeros, which other files have too.
    let varied = bytes.iter().collect::<BTreeSet<_>>().len() > 4;
    (bytes.len() >= 16 && varied).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// The letters of a base64 text that a value alone decides, where `before` bytes (of three) stand before it in its group: those
/// at its ends are its neighbours' too.
fn inside_base64(value: &str, before: usize) -> [String; 2] {
    let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(value.bytes()).collect();
    let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)].map(|text| text[from..to].to_owned())
}

/// The forms of a value that stands alone: as it is, in base64, in hex.
pub(crate) fn whole_forms(value: &str) -> [String; 4] {
    let hex = hex(value);
    [value.to_owned(), STANDARD_NO_PAD.encode(value), URL_SAFE_NO_PAD.encode(value), hex]
}

pub(super) fn hex(text: &str) -> String {
    let digits = text.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from_digit(digit.into(), 16).expect("a nibble is a hex digit")).collect()
}

/// Returns true if a value is too common to be searched for.
pub(crate) fn trivial(value: &str) -> bool {
    let value = value.trim();
    value.len() < SHORTEST
        || matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "null")
        || value.parse::<f64>().is_ok_and(|number| number.abs() < 1000.0)
        || MASK.contains(value)
}
