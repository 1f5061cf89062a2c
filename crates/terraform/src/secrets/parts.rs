//! Parts of secrets that are JSON or YAML.
//!
//! A module takes them apart: `yamldecode(file("kubeconfig")).users[0].user.token` is a secret as the file is. So are texts within
//! texts. What is neither is looked at line by line, for `key: value`.

use std::{collections::HashSet, rc::Rc};

use granit_parser::{Event, Parser};
use serde_json::Value;

use super::{LONG, is_place};
use crate::redact;

/// As many bytes are taken apart, texts in texts included. Nothing at all is shown of a run with secrets of so many.
const MOST: usize = 8 << 20;

/// Names in a kubeconfig whose values say where and what something is: words like `default` and `aws` are in half of all lines.
const OF_KUBECONFIG: [&str; 13] = [
    "apiVersion",
    "certificate-authority-data",
    "cluster",
    "command",
    "context",
    "current-context",
    "interactiveMode",
    "kind",
    "name",
    "namespace",
    "server",
    "tls-server-name",
    "user",
];

/// Adds the parts of all that are there, and the parts of those.
pub(super) fn add(secrets: &mut Vec<String>) {
    let (mut at, mut left, mut seen) = (0, MOST, HashSet::new());
    while let Some(text) = secrets.get(at) {
        at += 1;
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.len() <= left && may_have(text) {
            left -= text.len();
            let parts = parts(text).into_iter().filter(|part| seen.insert(part.clone()));
            let parts: Vec<String> = parts.collect();
            secrets.extend(parts);
        }
    }
}

/// Returns true if a text can be more than one value; most are one.
fn may_have(text: &str) -> bool {
    let colon =
        || text.split(':').skip(1).any(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
    text.starts_with(['{', '[', '"']) || text.starts_with("- ") || colon()
}

fn parts(text: &str) -> Vec<String> {
    let found = match serde_json::from_str::<Value>(text) {
        Ok(value) => Some(Found::of_json(&value)),
        Err(_) => Found::of_yaml(text),
    };
    let Some(found) = found else { return lines(text) };
    // One line of a kubeconfig may be all that somebody has.
    let is_kubeconfig =
        found.kind && found.users || !text.contains('\n') && !text.starts_with(['{', '[', '"']);
    let counts = |leaf: &Leaf| !is_kubeconfig || !is_of_kubeconfig(leaf);
    found.leaves.into_iter().filter(counts).map(|leaf| leaf.text).collect()
}

fn is_of_kubeconfig(leaf: &Leaf) -> bool {
    OF_KUBECONFIG.contains(&&*leaf.name) || &*leaf.name == "args" && leaf.text.len() < LONG
}

/// The values of lines like `key: value`.
fn lines(text: &str) -> Vec<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(": ").or_else(|| line.split_once(":\t")));
    let bare = |part: &str| part.trim().trim_matches(['"', '\'', ',']).to_owned();
    pairs
        .map(|(name, value)| (bare(name.trim_start().trim_start_matches("- ")), bare(value)))
        .filter(|(name, _)| !name.contains(char::is_whitespace) && !is_place(name))
        .map(|(_, value)| value)
        .collect()
}

/// A text or a number.
struct Leaf {
    /// Name of the value; that of the list for an item of a list.
    name: Rc<str>,
    text: String,
}

/// A map or a list whose end has not come.
struct Open {
    name: Rc<str>,
    list: bool,
    /// The key whose value comes next.
    key: Option<Rc<str>>,
    /// True if nothing in it is secret.
    place: bool,
}

/// Values found in a text. Found without recursion: it may be nested to any depth.
#[derive(Default)]
struct Found {
    open: Vec<Open>,
    leaves: Vec<Leaf>,
    /// True if it says `kind: Config`, and if it has `users`.
    kind: bool,
    users: bool,
}

impl Found {
    fn of_yaml(text: &str) -> Option<Self> {
        let mut found = Self::default();
        for next in Parser::new_from_str(text) {
            match next.ok()?.0 {
                // All of it is one text, which is known.
                Event::Scalar(..) if found.open.is_empty() => {}
                Event::Scalar(text, ..) => found.scalar(&text),
                // What it stands for was there before.
                Event::Alias(_) => found.scalar(""),
                // A list or a map as a key: nothing that Terraform reads.
                Event::SequenceStart(..) | Event::MappingStart(..) if found.awaits_key() => return None,
                Event::SequenceStart(..) => found.enter(true),
                Event::MappingStart(..) => found.enter(false),
                Event::SequenceEnd | Event::MappingEnd => found.leave(),
                _ => {}
            }
        }
        Some(found)
    }

    fn of_json(value: &Value) -> Self {
        let mut found = Self::default();
        found.json(value);
        found
    }

    /// As deep as `serde_json` reads.
    fn json(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.scalar(text),
            Value::Number(number) => self.scalar(&number.to_string()),
            Value::Null | Value::Bool(_) => self.scalar(""),
            Value::Array(items) => {
                self.enter(true);
                for item in items {
                    self.json(item);
                }
                self.leave();
            }
            Value::Object(fields) => {
                self.enter(false);
                for (name, field) in fields {
                    self.scalar(name);
                    self.json(field);
                }
                self.leave();
            }
        }
    }

    fn awaits_key(&self) -> bool {
        self.open.last().is_some_and(|open| !open.list && open.key.is_none())
    }

    fn scalar(&mut self, text: &str) {
        if let Some(Open { list: false, key: key @ None, .. }) = self.open.last_mut() {
            *key = Some(text.into());
            return;
        }
        let (name, place) = self.next();
        if self.open.len() == 1 && &*name == "kind" {
            self.kind = text == "Config";
        }
        if !place && !redact::trivial(text) {
            self.leaves.push(Leaf { name, text: text.to_owned() });
        }
    }

    fn enter(&mut self, list: bool) {
        let (name, place) = self.next();
        self.users |= self.open.len() == 1 && &*name == "users";
        self.open.push(Open { name, list, key: None, place });
    }

    fn leave(&mut self) {
        self.open.pop();
    }

    /// Returns the name of the next value, and true if that is no secret.
    fn next(&mut self) -> (Rc<str>, bool) {
        let Some(open) = self.open.last_mut() else { return (Rc::from(""), false) };
        let name = if open.list { open.name.clone() } else { open.key.take().unwrap_or_default() };
        let place = open.place || is_place(&name);
        (name, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deep, wide, full of aliases, and texts in texts.
    #[test]
    fn odd_texts_take_bounded_work() {
        let nested = |depth| format!("{:depth$}a: |\n", "");
        let chain = (0..2000).map(nested).collect::<String>() + &" ".repeat(2000) + "end-of-it";
        let texts = [
            "[".repeat(100_000),
            "{\"a\":".repeat(100_000),
            "- ".repeat(50_000),
            format!("a: &a [xyz]\n{}", "b: [*a, *a]\n".repeat(5_000)),
            chain,
        ];
        for text in texts {
            let mut secrets = vec![text];
            add(&mut secrets);
            assert!(secrets.iter().map(String::len).sum::<usize>() < 2 * MOST);
        }
    }
}
