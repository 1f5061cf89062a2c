//! Coverage: whether the rules of a user include every right of other rules.
//!
//! A rule is a product: groups x resources x verbs x names. Kilobytes of text give millions of rights, so these are never
//! listed. The walk goes down one factor after the other and takes along those held rules alone that have what it passed:
//! a held rule that has all of a rule answers it at once, one without names answers all names at once. What is told of
//! missing rights is bounded, and so are the steps of the walk; what was not walked to its end is not held.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use super::rule::{ALL, Rule, path_covers, quoted};

/// Comparisons of a word with a held rule, and words that are held. Roles that people write take some thousands.
const STEPS: usize = 1 << 20;
/// Bytes of a word that are compared in one step.
const WORD: usize = 64;
/// Rights that are told.
const TOLD: usize = 1000;
/// Bytes that are told.
const TOLD_BYTES: usize = 64 << 10;

/// Why rules give more than is held.
#[derive(Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// These rights, a line each.
    Missing(Vec<String>),
    /// There are too many rights to compare.
    TooMany,
}

/// Checks that `owned` has every right that `wanted` has.
pub fn check<'a>(owned: impl IntoIterator<Item = &'a Rule>, wanted: &'a [Rule]) -> Result<(), Shortfall> {
    let mut walk = Walk { steps: STEPS, missing: Vec::new() };
    let walked = walk.all(owned, wanted);
    match (walked, walk.missing.is_empty()) {
        (ControlFlow::Continue(()), true) => Ok(()),
        (ControlFlow::Break(()), true) => Err(Shortfall::TooMany),
        (walked, false) => Err(Shortfall::Missing(lines(&walk.missing, walked.is_break()))),
    }
}

/// A rule that is held, with its lists as sets.
struct Held<'a> {
    groups: HashSet<&'a str>,
    resources: HashSet<&'a str>,
    verbs: HashSet<&'a str>,
    /// None at all is no limit.
    names: HashSet<&'a str>,
    urls: &'a [String],
}

impl<'a> Held<'a> {
    fn new(rule: &'a Rule) -> Self {
        let set = |list: &'a [String]| list.iter().map(String::as_str).collect();
        Self {
            groups: set(&rule.api_groups),
            resources: set(&rule.resources),
            verbs: set(&rule.verbs),
            names: set(&rule.resource_names),
            urls: &rule.non_resource_urls,
        }
    }

    fn has_group(&self, group: &str) -> bool {
        self.groups.contains(ALL) || self.groups.contains(group)
    }

    fn has_resource(&self, resource: &str) -> bool {
        let has_every = |sub: &str| self.resources.contains(format!("*/{sub}").as_str());
        self.resources.contains(ALL)
            || self.resources.contains(resource)
            || resource.split_once('/').is_some_and(|(_, sub)| has_every(sub))
    }

    fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(ALL) || self.verbs.contains(verb)
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(name)
    }
}

/// Tells whether a held rule has a word in one of its lists.
type Has<'h> = fn(&Held<'h>, &str) -> bool;

/// One right.
struct Right<'a> {
    object: Object<'a>,
    verb: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Object<'a> {
    Url(&'a str),
    /// Group, resource, and name, if it is about one.
    Resource(&'a str, &'a str, Option<&'a str>),
}

struct Walk<'a> {
    /// That are left.
    steps: usize,
    missing: Vec<Right<'a>>,
}

impl<'a> Walk<'a> {
    fn all(&mut self, owned: impl IntoIterator<Item = &'a Rule>, wanted: &'a [Rule]) -> ControlFlow<()> {
        let mut held = Vec::new();
        for rule in owned {
            let Rule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
            let lists = [verbs, api_groups, resources, resource_names, non_resource_urls];
            self.spend(1 + lists.into_iter().map(Vec::len).sum::<usize>())?;
            held.push(Held::new(rule));
        }
        let held: Vec<&Held<'_>> = held.iter().collect();
        wanted.iter().try_for_each(|rule| {
            self.urls(&held, rule)?;
            self.resources(&held, rule)
        })
    }

    fn spend(&mut self, steps: usize) -> ControlFlow<()> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }

    /// Those of some held rules that have a word.
    fn having<'h>(
        &mut self,
        held: &[&'h Held<'h>],
        word: &str,
        has: impl Fn(&Held<'h>, &str) -> bool,
    ) -> ControlFlow<(), Vec<&'h Held<'h>>> {
        self.spend(1 + held.len() * (1 + word.len() / WORD))?;
        ControlFlow::Continue(held.iter().copied().filter(|held| has(held, word)).collect())
    }

    fn lacks(&mut self, object: Object<'a>, verb: &'a str) -> ControlFlow<()> {
        if self.missing.len() == TOLD {
            return ControlFlow::Break(());
        }
        self.missing.push(Right { object, verb });
        ControlFlow::Continue(())
    }

    fn urls(&mut self, held: &[&Held<'_>], rule: &'a Rule) -> ControlFlow<()> {
        for url in &rule.non_resource_urls {
            let mut of_url = Vec::new();
            for held in held.iter().copied().filter(|held| held.names.is_empty()) {
                for owned in held.urls {
                    self.spend(1 + (owned.len() + url.len()) / WORD)?;
                    if path_covers(owned, url) {
                        of_url.push(held);
                        break;
                    }
                }
            }
            for verb in &rule.verbs {
                if self.having(&of_url, verb, Held::has_verb)?.is_empty() {
                    self.lacks(Object::Url(url), verb)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn resources(&mut self, held: &[&Held<'_>], rule: &'a Rule) -> ControlFlow<()> {
        for held in held {
            if self.has_all(held, rule)? {
                return ControlFlow::Continue(());
            }
        }
        for group in &rule.api_groups {
            let of_group = self.having(held, group, Held::has_group)?;
            for resource in &rule.resources {
                let of_resource = self.having(&of_group, resource, Held::has_resource)?;
                for verb in &rule.verbs {
                    let of_verb = self.having(&of_resource, verb, Held::has_verb)?;
                    if of_verb.iter().any(|held| held.names.is_empty()) {
                        continue;
                    }
                    if rule.resource_names.is_empty() {
                        self.lacks(Object::Resource(group, resource, None), verb)?;
                    }
                    for name in &rule.resource_names {
                        if self.having(&of_verb, name, Held::has_name)?.is_empty() {
                            self.lacks(Object::Resource(group, resource, Some(name)), verb)?;
                        }
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns whether one held rule has all that a rule says of resources.
    fn has_all<'h>(&mut self, held: &Held<'h>, rule: &Rule) -> ControlFlow<(), bool> {
        let lists: [(&[String], Has<'h>); 4] = [
            (&rule.api_groups, Held::has_group),
            (&rule.resources, Held::has_resource),
            (&rule.verbs, Held::has_verb),
            (&rule.resource_names, Held::has_name),
        ];
        for (list, has) in lists {
            for word in list {
                self.spend(1 + word.len() / WORD)?;
                if !has(held, word) {
                    return ControlFlow::Continue(false);
                }
            }
        }
        ControlFlow::Continue(held.names.is_empty() || !rule.resource_names.is_empty())
    }
}

/// The lines of a refusal. Rights that differ by their verb alone are told together.
fn lines(missing: &[Right<'_>], mut is_cut: bool) -> Vec<String> {
    let mut together: BTreeMap<Object<'_>, Vec<&str>> = BTreeMap::new();
    for Right { object, verb } in missing {
        together.entry(*object).or_default().push(verb);
    }
    let mut lines = Vec::new();
    let mut bytes = 0;
    let told = together.iter().flat_map(|(object, verbs)| {
        // Of a path each verb is told alone.
        let at_once = if matches!(object, Object::Url(_)) { 1 } else { verbs.len() };
        verbs.chunks(at_once).map(|verbs| (*object, verbs))
    });
    for (object, verbs) in told {
        if bytes > TOLD_BYTES {
            is_cut = true;
            break;
        }
        let line = describe(object, verbs);
        bytes += line.len();
        lines.push(line);
    }
    lines.sort();
    lines.dedup();
    if is_cut {
        lines.push("and more".to_owned());
    }
    lines
}

fn describe(object: Object<'_>, verbs: &[&str]) -> String {
    let verbs = quoted(verbs);
    match object {
        Object::Url(url) => format!("{{NonResourceURLs:{}, Verbs:{verbs}}}", quoted(&[url])),
        Object::Resource(group, resource, name) => {
            let (group, resource) = (quoted(&[group]), quoted(&[resource]));
            let name = name.map(|name| format!(", ResourceNames:{}", quoted(&[name]))).unwrap_or_default();
            format!("{{APIGroups:{group}, Resources:{resource}{name}, Verbs:{verbs}}}")
        }
    }
}

#[cfg(test)]
mod tests;
