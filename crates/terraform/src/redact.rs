//! Takes secrets out of texts, by value.
//!
//! Whatever prints them (a provider's error, a provisioner, a crash), a known secret becomes `(sensitive)`: as it is, in JSON
//! or HCL quotes, URL-encoded, in hex, in base64 (also in the middle of a longer base64 text, and wrapped into lines), and line
//! by line where it has several lines. In base64 and hex a part is found too, since a log is cleaned line by line. What a cleaned
//! text holds is never a secret, not even one that only the cutting put together, and cleaning it again changes nothing. Other
//! transformations (a hash, another case, a part as it is) are not known.
//!
//! Parse first and clean the texts after: a secret called `type` would take the keys out of a JSON line.

mod anchors;
mod forms;
mod layers;
mod printable;

use std::{borrow::Cow, collections::BTreeSet, fmt, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

pub(crate) use self::forms::{trivial, whole_forms};
use self::{
    anchors::Anchors,
    forms::{add_forms, add_plain, encoded_texts},
    layers::{Layer, windows},
    printable::printable,
};

/// A text in one line of at most so many characters that steers no terminal: control characters, escape sequences and changes of
/// direction are taken out.
pub fn one_line(text: &str, longest: usize) -> String {
    let text = printable(text, false);
    let mut line = if text.contains(['\n', '\t']) {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        text.into_owned()
    };
    if line.chars().count() > longest {
        let end = line.char_indices().nth(longest.saturating_sub(1)).map_or(line.len(), |(at, _)| at);
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Replacement for a secret.
const MASK: &str = "(sensitive)";

/// Knows the secrets, and takes them out.
#[derive(Clone)]
pub struct Redactor {
    secrets: AhoCorasick,
    anchors: Arc<Anchors>,
    /// There are too many to look for: no text is shown.
    blind: bool,
}

/// As many bytes are looked for: in all forms of the first secrets, and in all. What looks for them takes twenty times as much.
const FORMS: usize = 4 << 20;
const PLAIN: usize = 8 << 20;
/// A value of so many bytes is looked for in all of its forms, or no text is shown.
const SHORT: usize = 16 << 10;
/// Number of times a text is cleaned again.
const ROUNDS: usize = 8;
/// A byte of a value takes at least so many in all of its forms.
const FORMS_OF_A_BYTE: usize = 10;

/// Shows how many, and not which.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.patterns_len()).finish_non_exhaustive()
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new::<&str>([])
    }
}

impl Redactor {
    /// A redactor of these values. Those that are too short, or trivial (`true`, `null`, numbers below 1000), are left out.
    pub fn new<V: AsRef<str>>(values: impl IntoIterator<Item = V>) -> Self {
        let (mut forms, mut anchors, mut bytes) = (BTreeSet::new(), Anchors::default(), 0);
        // Whatever else is secret, tokens and passwords are looked for in all of their forms.
        let mut values: Vec<V> = values.into_iter().collect();
        values.sort_by_key(|value| value.as_ref().len());
        for value in &values {
            let value = value.as_ref();
            // Of a great many the long ones are looked for as they are.
            let all = bytes <= FORMS || value.len() <= SHORT;
            let least = value.len().saturating_mul(if all { FORMS_OF_A_BYTE } else { 1 });
            // Before any of them is made: a state may hold a value of a few hundred MiB.
            if !trivial(value) && least > FORMS + PLAIN - bytes {
                return Self { blind: true, ..Self::default() };
            }
            let mut own = BTreeSet::new();
            if all {
                add_forms(value, &mut own);
                for text in encoded_texts(value) {
                    anchors.add(&text);
                }
            } else {
                add_plain(value, &mut own);
            }
            bytes += own.iter().map(String::len).sum::<usize>();
            if bytes > FORMS + PLAIN {
                return Self { blind: true, ..Self::default() };
            }
            forms.extend(own);
        }
        let secrets = AhoCorasick::builder()
            // Two secrets can overlap in a text: all matches are wanted, not one of each spot.
            .match_kind(MatchKind::Standard)
            // A DFA is faster by little, and takes work that grows with the square of a pattern like `[[[[`.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(forms)
            .expect("secrets take less than two billion bytes");
        Self { secrets, anchors: Arc::new(anchors), blind: false }
    }

    /// The text without secrets, and without what would steer the terminal of whoever reads it.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.cleaned(printable(text, false))
    }

    /// The same of a text that may have colours.
    pub fn clean_coloured<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.cleaned(printable(text, true))
    }

    fn cleaned<'a>(&self, mut clean: Cow<'a, str>) -> Cow<'a, str> {
        if self.blind && !clean.is_empty() {
            return Cow::Borrowed(MASK);
        }
        if self.secrets.patterns_len() == 0 {
            return clean;
        }
        // A second round finds what a mask and its neighbours spell by chance.
        for _ in 0..ROUNDS {
            let Some(next) = self.round(&clean) else { return clean };
            clean = Cow::Owned(next);
        }
        // Only secrets that are made for it spell more: one letter a round, in a text of any length.
        if self.cuts(&clean, &self.anchors).is_empty() { clean } else { Cow::Borrowed(MASK) }
    }

    /// Returns true if a text holds a secret. A part of one is none here: the text is a whole one, and what two files have in common
    /// makes no secret of either.
    pub fn finds(&self, text: &str) -> bool {
        self.blind || self.secrets.patterns_len() > 0 && !self.cuts(text, &Anchors::default()).is_empty()
    }

    /// Ranges of secrets: in the text, and in the text with the encodings around them undone.
    fn cuts(&self, text: &str, anchors: &Anchors) -> Vec<Range<usize>> {
        let mut cuts = Vec::new();
        for found in self.secrets.find_overlapping_iter(text) {
            add_cut(&mut cuts, found.range());
        }
        anchors.each(text.as_bytes(), &mut |found| add_cut(&mut cuts, found));
        // An escape takes six letters for one.
        for (start, part) in windows(text, self.secrets.max_pattern_len().saturating_mul(6)) {
            Layer::each(part, &mut |layer| {
                let found = self.secrets.find_overlapping_iter(layer.bytes());
                let mut add = |found| {
                    if let Some(place) = layer.range(part, found) {
                        add_cut(&mut cuts, place.start + start..place.end + start);
                    }
                };
                found.for_each(|found| add(found.range()));
                // Behind a line break that is undone stands any word, and what is whole again was found.
                if !layer.wrapped() {
                    anchors.each(layer.bytes(), &mut add);
                }
            });
        }
        cuts
    }

    /// `None` where there is nothing to take out.
    fn round(&self, text: &str) -> Option<String> {
        let mut cuts = self.cuts(text, &self.anchors);
        if cuts.is_empty() {
            return None;
        }
        let masks = text.match_indices(MASK).map(|(start, _)| start..start + MASK.len());
        let mut whole: Vec<(Range<usize>, bool)> = cuts.drain(..).map(|cut| (cut, true)).collect();
        whole.extend(masks.map(|mask| (mask, false)));
        whole.sort_unstable_by_key(|(range, _)| (range.start, range.end));
        Some(replace(text, &merge(whole)))
    }
}

/// Adds a range, or widens the last one: of `aaaa` in a long row of that letter each place is one.
fn add_cut(cuts: &mut Vec<Range<usize>>, cut: Range<usize>) {
    match cuts.last_mut() {
        Some(last) if cut.start < last.end && last.start < cut.end => {
            *last = last.start.min(cut.start)..last.end.max(cut.end);
        }
        _ => cuts.push(cut),
    }
}

/// Joins ranges that overlap, and drops masks that touch no secret: they stay as they are.
fn merge(ranges: Vec<(Range<usize>, bool)>) -> Vec<Range<usize>> {
    let mut merged: Vec<(Range<usize>, bool)> = Vec::with_capacity(ranges.len());
    for (range, secret) in ranges {
        match merged.last_mut() {
            Some((last, any)) if range.start < last.end => {
                last.end = last.end.max(range.end);
                *any |= secret;
            }
            _ => merged.push((range, secret)),
        }
    }
    merged.into_iter().filter(|(_, secret)| *secret).map(|(range, _)| range).collect()
}

fn replace(text: &str, cuts: &[Range<usize>]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for cut in cuts {
        clean.push_str(&text[from..cut.start]);
        clean.push_str(MASK);
        from = cut.end;
    }
    clean.push_str(&text[from..]);
    clean
}

#[cfg(test)]
mod tests;
