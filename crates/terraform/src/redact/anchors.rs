//! Parts of secrets in base64 and hex that is cut into lines: a line of a log holds a part of a secret, and what stands before the
//! secret decides where that part begins.
//!
//! A letter of base64 is six bits, a digit of hex four, so what both print is runs of the secret's bits. A few of them are known:
//!
//! ```text
//! secret   |first  |                                          |  last|
//! keys     |---- 120 bits ----|
//!                 |------------------|   every 72 bits, for each way that letters may fall, and at the end
//! ```
//!
//! Where a key is found, the letters or digits around it are the secret's and its neighbours', and all of them are cut.

use std::{collections::HashSet, ops::Range};

/// Bits of a key: 15 bytes, 20 letters or 30 digits. A whole number of either, and few enough for one integer.
const KEY: usize = 120;
/// Bits between keys: any 31 letters in a row that are a secret's hold a key. So an encoded line of common width does, and less
/// than 24 bytes stay where lines are shorter.
const STEP: usize = 72;
/// Bits at the ends of a secret, which are found where a line ends or begins with them: less than 9 bytes stay on each side of a
/// line break in the middle of a secret.
const EDGE: usize = 72;
/// Bits of a secret that the letter before takes, behind 0, 2 and 1 bytes of others (of three). Digits fall as the first do.
const STARTS: [usize; 3] = [0, 2, 4];
/// Fewer different bytes are a ruler, indentation or zeros, which stand in every file.
const VARIETY: usize = 5;

/// Keys by which parts of secrets are found. They take a small part of the memory of what finds whole ones.
#[derive(Default)]
pub(super) struct Anchors {
    keys: HashSet<u128>,
    first: HashSet<u128>,
    last: HashSet<u128>,
}

impl Anchors {
    /// Adds a text that may be encoded.
    pub fn add(&mut self, text: &str) {
        // The first and last lines of every PEM file are the same.
        let is_label = |part: &str| {
            let named = part.strip_prefix("BEGIN ").or_else(|| part.strip_prefix("END "));
            named.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b' '))
        };
        for part in text.split("-----").filter(|part| !is_label(part)) {
            self.add_part(part.as_bytes());
        }
    }

    fn add_part(&mut self, bytes: &[u8]) {
        for start in STARTS {
            let end = start + (bytes.len() * 8).saturating_sub(start) / 6 * 6;
            if let Some(last) = end.checked_sub(KEY).filter(|last| *last >= start) {
                let keys = (start..last).step_by(STEP).chain([last]);
                self.keys.extend(keys.filter_map(|at| varied_bits(bytes, at, KEY)));
            }
            if let Some(last) = end.checked_sub(EDGE).filter(|last| *last >= start) {
                self.first.extend(varied_bits(bytes, start, EDGE));
                self.last.extend(varied_bits(bytes, last, EDGE));
            }
        }
    }

    /// Calls `cut` with each place of a text that holds a part of a secret.
    pub fn each(&self, text: &[u8], cut: &mut impl FnMut(Range<usize>)) {
        if self.first.is_empty() && self.keys.is_empty() {
            return;
        }
        for code in [Encoding::Base64, Encoding::Hex] {
            let mut start = 0;
            for run in text.split(|byte| code.bits(*byte).is_none()) {
                if run.len() >= EDGE / code.width() {
                    self.each_of_run(code, run, &mut |found| cut(start + found.start..start + found.end));
                }
                start += run.len() + 1;
            }
        }
    }

    fn each_of_run(&self, code: Encoding, run: &[u8], cut: &mut impl FnMut(Range<usize>)) {
        let (key, edge) = (KEY / code.width(), EDGE / code.width());
        let mut bits = 0;
        for (end, byte) in (1..).zip(run) {
            bits = bits << code.width() | code.bits(*byte).unwrap_or_default();
            if end >= key && self.keys.contains(&lowest(bits, KEY)) {
                cut(0..run.len());
                return;
            }
            if end < edge {
                continue;
            }
            // Longer ones hold a key.
            if end < key && self.last.contains(&lowest(bits, EDGE)) {
                cut(0..end);
            }
            let begin = end - edge;
            if run.len() - begin < key && self.first.contains(&lowest(bits, EDGE)) {
                cut(begin..run.len());
            }
        }
    }
}

/// An encoding of bits as text.
#[derive(Clone, Copy)]
enum Encoding {
    /// Also base64url.
    Base64,
    Hex,
}

impl Encoding {
    const fn width(self) -> usize {
        match self {
            Self::Base64 => 6,
            Self::Hex => 4,
        }
    }

    fn bits(self, byte: u8) -> Option<u128> {
        let bits = match (self, byte) {
            (Self::Base64, b'A'..=b'Z') => byte - b'A',
            (Self::Base64, b'a'..=b'z') => byte - b'a' + 26,
            (Self::Base64, b'0'..=b'9') => byte - b'0' + 52,
            (Self::Base64, b'+' | b'-') => 62,
            (Self::Base64, b'/' | b'_') => 63,
            (Self::Hex, b'0'..=b'9') => byte - b'0',
            (Self::Hex, b'a'..=b'f') => byte - b'a' + 10,
            (Self::Hex, b'A'..=b'F') => byte - b'A' + 10,
            _ => return None,
        };
        Some(bits.into())
    }
}

/// Bits of a text, unless they are of too few different bytes.
fn varied_bits(bytes: &[u8], at: usize, count: usize) -> Option<u128> {
    let touched = &bytes[at / 8..(at + count).div_ceil(8)];
    let different: HashSet<u8> = touched.iter().copied().collect();
    let word = touched.iter().fold(0_u128, |word, byte| word << 8 | u128::from(*byte));
    let behind = touched.len() * 8 - at % 8 - count;
    (different.len() >= VARIETY).then(|| lowest(word >> behind, count))
}

const fn lowest(bits: u128, count: usize) -> u128 {
    bits & ((1 << count) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(anchors: &Anchors, text: &str) -> Vec<(usize, usize)> {
        let mut cuts = Vec::new();
        anchors.each(text.as_bytes(), &mut |cut| cuts.push((cut.start, cut.end)));
        cuts
    }

    #[test]
    fn all_letters_around_a_part_are_cut() {
        let mut anchors = Anchors::default();
        anchors.add("correct horse battery staple, and more");
        let rows: &[(&str, &[(usize, usize)])] = &[
            // `horse battery staple,`, at each alignment.
            ("= aG9yc2UgYmF0dGVyeSBzdGFwbGUs =", &[(2, 30)]),
            ("eGhvcnNlIGJhdHRlcnkgc3RhcGxlLA==", &[(0, 30)]),
            ("eHhob3JzZSBiYXR0ZXJ5IHN0YXBsZSw=", &[(0, 31)]),
            ("x: 686f7273652062617474657279 20", &[]),
            ("x: 636F727265637420686F7273652062617474657279", &[(3, 45)]),
            // `us:correct hor` and `and more!!`: a break in the middle.
            ("dXM6Y29ycmVjdCBob3I", &[(4, 19)]),
            ("ZCBtb3Jl", &[]),
            ("LCBhbmQgbW9yZSEh", &[(0, 13)]),
            ("correct horse battery staple", &[]),
        ];
        for (text, expected) in rows {
            assert_eq!(found(&anchors, text), *expected, "{text}");
        }
    }

    #[test]
    fn anchors_take_memory_by_the_length_of_a_secret() {
        let text: String = (0..40_000).flat_map(|n| [format!("{n:x}"), "-".to_owned()]).collect();
        let mut anchors = Anchors::default();
        anchors.add(&text);
        let most = 3 * (text.len() / 9 + 2);
        assert!(anchors.keys.len() <= most, "{} of {most}", anchors.keys.len());
    }

    #[test]
    fn what_every_file_has_is_no_anchor() {
        let mut anchors = Anchors::default();
        for text in
            ["\0".repeat(90), "# ".to_owned() + &"-".repeat(90), "-----BEGIN RSA PRIVATE KEY-----".into()]
        {
            anchors.add(&text);
        }
        assert!(anchors.keys.is_empty() && anchors.first.is_empty() && anchors.last.is_empty());
    }
}
