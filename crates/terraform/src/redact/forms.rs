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

/// Adds a value as it is.
pub(super) fn add_plain(value: &str, forms: &mut BTreeSet<String>) {
    forms.extend([value, value.trim()].into_iter().filter(|whole| !trivial(whole)).map(str::to_owned));
}

/// Adds every form of a value. One that is too short or trivial has none.
pub(super) fn add_forms(value: &str, forms: &mut BTreeSet<String>) {
    // A secret from a file often ends in a newline that it loses on its way.
    for whole in [value, value.trim()] {
        if !trivial(whole) {
            add_encodings(whole, forms);
            for changed in on_its_way(whole) {
                add_encodings(&changed, forms);
            }
        }
    }
    if value.trim().contains('\n') {
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
        // The first and last lines of every PEM file are the same.
        for line in lines.filter(|line| !trivial(line) && !line.starts_with("-----")) {
            add_encodings(line, forms);
        }
    }
}

/// What becomes of a value on its way to where it is looked for: Terraform normalizes texts, long numbers are read from a state as
/// floating-point ones, and characters that steer a terminal are taken out of texts before.
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
    let json = serde_json::to_string(value).expect("a string is JSON");
    let json = &json[1..json.len() - 1];
    // Go writes these three in its own way, and streams come from Go.
    let go = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let hcl = json.replace("${", "$${").replace("%{", "%%{");
    let mut encodings = vec![STANDARD_NO_PAD.encode(value), URL_SAFE_NO_PAD.encode(value)];
    for text in BTreeSet::from([value, json, &go]) {
        if text.len() >= SHORTEST_INSIDE {
            encodings.extend((0..3).flat_map(|before| inside_base64(text, before)));
        }
        if text.len() > SHORTEST {
            let hex = hex(text);
            encodings.extend([hex.to_uppercase(), hex]);
        }
    }
    encodings.extend(wrapped(value));
    encodings.extend([value.to_owned(), json.to_owned(), go, hcl]);
    forms.extend(encodings.into_iter().filter(|form| !MASK.contains(form.as_str())));
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
    let whole = bytes.len() / 4 * 4;
    (whole >= 16).then(|| String::from_utf8_lossy(&bytes[..whole]).into_owned())
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

/// Whether a value is too common to be looked for.
pub(crate) fn trivial(value: &str) -> bool {
    let value = value.trim();
    value.len() < SHORTEST
        || matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "null")
        || value.parse::<f64>().is_ok_and(|number| number.abs() < 1000.0)
        || MASK.contains(value)
}
