//! Warnings of an answer, bounded as upstream bounds them.
//!
//! All of them are told while they have 4,096 characters together. Once they would have more, each is cut to 256
//! characters, and what comes after 4,096 of these is left out: clients refuse answers with large headers.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Characters that all warnings may have before they are cut, and after.
const ALL: usize = 4096;
/// Characters of one warning, once they are cut.
const ONE: usize = 256;

/// Warnings for the client; each text is kept once. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    known: HashSet<String>,
    texts: Vec<String>,
    characters: usize,
    cut: bool,
}

impl Warnings {
    /// Adds a warning.
    pub fn add(&self, warning: String) {
        self.with(|told| told.add(warning));
    }

    /// All warnings, in the order they came.
    pub fn all(&self) -> Vec<String> {
        self.with(|told| told.texts.clone())
    }

    /// False once a further warning would be left out: a caller with thousands need not format them.
    pub fn has_room(&self) -> bool {
        self.with(|told| !told.is_full())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Told) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Told {
    fn is_full(&self) -> bool {
        self.cut && self.characters >= ALL
    }

    fn add(&mut self, warning: String) {
        if warning.is_empty() || self.is_full() || !self.known.insert(warning.clone()) {
            return;
        }
        self.texts.push(warning);
        let last = self.texts.len() - 1;
        if self.cut {
            self.characters += shorten(&mut self.texts[last]);
            return;
        }
        self.characters += self.texts[last].chars().count();
        if self.characters > ALL {
            self.cut = true;
            self.characters = self.texts.iter_mut().map(shorten).sum();
        }
    }
}

/// Cuts a text, and tells how many characters are left.
fn shorten(text: &mut String) -> usize {
    match text.char_indices().nth(ONE) {
        Some((end, _)) => {
            text.truncate(end);
            ONE
        }
        None => text.chars().count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(warnings: impl IntoIterator<Item = String>) -> Vec<usize> {
        let all = Warnings::default();
        warnings.into_iter().for_each(|warning| all.add(warning));
        all.all().iter().map(|text| text.chars().count()).collect()
    }

    #[test]
    fn few_are_told_whole_and_once() {
        assert_eq!(told(["a".into(), "b".repeat(4095), "a".into(), String::new()]), [1, 4095]);
    }

    #[test]
    fn many_are_cut_and_the_rest_is_left_out() {
        let long = |index: usize| format!("{index:04}{}", "\u{e9}".repeat(996));
        assert_eq!(told((0..4).map(long)), [1000; 4], "all fit");
        assert_eq!(told((0..5).map(long)), [256; 5], "one is too much, and all are cut");
        assert_eq!(told((0..100_000).map(long)).len(), 16, "4096 characters of 256 each");
    }
}
