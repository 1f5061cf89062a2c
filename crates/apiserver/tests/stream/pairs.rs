//! What the two servers call the same thing: uids, revisions, generated names, continue tokens.
//!
//! Each is learned from answers, one pair at a time, and must never be paired otherwise again. Requests name a pair
//! by a placeholder such as `@uid3@`, and each server is told its own.

use std::collections::{HashMap, HashSet};

/// Pairs of one sort.
#[derive(Clone, Default)]
pub struct Sort {
    pub all: Vec<(String, String)>,
    real: HashMap<String, usize>,
    ours: HashMap<String, usize>,
}

impl Sort {
    /// Whether these two are, or from now on are, the same.
    pub fn agree(&mut self, real: &str, ours: &str) -> bool {
        match (self.real.get(real), self.ours.get(ours)) {
            (Some(a), Some(b)) => a == b,
            (None, None) => {
                self.add(real, ours);
                true
            }
            _ => false,
        }
    }

    /// Notes a pair that need not be the only one.
    pub fn add(&mut self, real: &str, ours: &str) -> usize {
        self.real.insert(real.to_owned(), self.all.len());
        self.ours.insert(ours.to_owned(), self.all.len());
        self.all.push((real.to_owned(), ours.to_owned()));
        self.all.len() - 1
    }

    /// From now on the real server has another word for the same.
    pub fn rename(&mut self, real: &str, ours: &str) {
        if let Some(index) = self.ours.get(ours) {
            self.real.insert(real.to_owned(), *index);
            self.all[*index].0 = real.to_owned();
        }
    }

    fn replaced(&self, which: Which, word: &str) -> Option<usize> {
        match which {
            Which::Real => self.real.get(word).copied(),
            Which::Ours => self.ours.get(word).copied(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Real,
    Ours,
}

/// What a name was generated from; the prefixes of the stream end in `-g` and a number.
fn generated(word: &str) -> Option<&str> {
    if word.len() == 9 && word.starts_with("-Bad") {
        return Some("-Bad");
    }
    let (prefix, suffix) = word.rsplit_once('-')?;
    let (_, number) = prefix.rsplit_once("-g")?;
    (suffix.len() == 5 && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(prefix)
}

pub fn is_uid(text: &str) -> bool {
    text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4
}

#[derive(Clone, Default)]
pub struct Pairs {
    pub uids: Sort,
    /// Revisions of objects.
    pub revisions: Sort,
    /// Revisions of lists: moments, of which the real server has more.
    pub moments: Sort,
    pub names: Sort,
    pub tokens: Sort,
    /// Revisions of the real server that changed nothing that anybody sees.
    pub silent: HashSet<String>,
}

impl Pairs {
    fn sorts(&self) -> [(&'static str, &Sort); 5] {
        [
            ("uid", &self.uids),
            ("rv", &self.revisions),
            ("at", &self.moments),
            ("name", &self.names),
            ("token", &self.tokens),
        ]
    }

    /// Puts what a server calls them in the place of placeholders.
    pub fn fill(&self, which: Which, text: &str) -> String {
        let mut text = text.to_owned();
        for (sort, pairs) in self.sorts() {
            let mark = format!("@{sort}");
            while let Some(start) = text.find(&mark) {
                let rest = &text[start + mark.len()..];
                let Some((number, _)) = rest.split_once('@') else { break };
                let (real, ours) = &pairs.all[number.parse::<usize>().unwrap()];
                let end = start + mark.len() + number.len() + 1;
                text.replace_range(start..end, if which == Which::Real { real } else { ours });
            }
        }
        text
    }

    /// A text in which everything that has a pair is called by its number.
    pub fn neutral(&self, which: Which, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let about_revisions = text.to_lowercase().replace(' ', "").contains("resourceversion");
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            let number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            if let Some(index) = self.uids.replaced(which, word) {
                out.push_str(&format!("<uid{index}>"));
            } else if is_uid(word) {
                // Of an object that nobody was shown: its write took longer than the client gave it.
                out.push_str("<uid>");
            } else if let Some(index) = self.names.replaced(which, word) {
                out.push_str(&format!("<name{index}>"));
            } else if let Some(prefix) = generated(word) {
                out.push_str(&format!("{prefix}<generated>"));
            } else if number && about_revisions && word != "0" && word != "1" {
                out.push_str("<revision>");
            } else {
                out.push_str(word);
            }
            let mut characters = tail.chars();
            out.extend(characters.next());
            rest = characters.as_str();
        }
        out
    }
}
