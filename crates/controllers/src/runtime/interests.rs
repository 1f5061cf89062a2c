//! Who looked at what: a reconcile notes each object it reads, and a change of that object wakes it.
//!
//! This replaces a mapping per pair of kinds, costs nothing for objects nobody looks at, and cannot miss a reference
//! that the reconcile itself followed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::name::Name;

/// An object that somebody may look at.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Watched {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: Name,
}

impl Watched {
    /// An object.
    pub fn new(kind: &'static str, name: Name) -> Self {
        Self { kind, name }
    }
}

/// The notes of one controller.
#[derive(Debug, Default)]
pub struct Interests(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    looked_at_by: HashMap<Watched, HashSet<Name>>,
    looks_at: HashMap<Name, HashSet<Watched>>,
}

impl Interests {
    /// Starts the notes of one reconcile.
    pub fn looker(self: &Arc<Self>, subject: Name) -> Looker {
        Looker { interests: Arc::clone(self), subject, seen: HashSet::new() }
    }

    /// Who looks at an object.
    pub fn of(&self, watched: &Watched) -> Vec<Name> {
        self.notes().looked_at_by.get(watched).into_iter().flatten().cloned().collect()
    }

    /// Drops the notes of an object that is gone.
    pub fn forget(&self, subject: &Name) {
        self.notes().replace(subject, HashSet::new());
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    fn add(&mut self, subject: &Name, watched: &Watched) {
        self.looked_at_by.entry(watched.clone()).or_default().insert(subject.clone());
        self.looks_at.entry(subject.clone()).or_default().insert(watched.clone());
    }

    fn replace(&mut self, subject: &Name, seen: HashSet<Watched>) {
        for gone in self.looks_at.remove(subject).into_iter().flatten().filter(|old| !seen.contains(old)) {
            if let Some(subjects) = self.looked_at_by.get_mut(&gone) {
                subjects.remove(subject);
                if subjects.is_empty() {
                    self.looked_at_by.remove(&gone);
                }
            }
        }
        if !seen.is_empty() {
            self.looks_at.insert(subject.clone(), seen);
        }
    }
}

/// The notes of one reconcile. What it did not look at this time is forgotten when it is dropped.
#[derive(Debug)]
pub struct Looker {
    interests: Arc<Interests>,
    subject: Name,
    seen: HashSet<Watched>,
}

impl Looker {
    /// Notes an object, before it is read: so a change between reading and noting cannot be missed.
    pub fn at(&mut self, kind: &'static str, name: &Name) {
        let watched = Watched::new(kind, name.clone());
        self.interests.notes().add(&self.subject, &watched);
        self.seen.insert(watched);
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.interests.notes().replace(&self.subject, std::mem::take(&mut self.seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_look_counts() {
        let interests = Arc::new(Interests::default());
        let (me, a, b) = (Name::new("n", "me"), Name::new("n", "a"), Name::new("n", "b"));
        let mut first = interests.looker(me.clone());
        first.at("Secret", &a);
        assert_eq!(
            interests.of(&Watched::new("Secret", a.clone())),
            std::slice::from_ref(&me),
            "noted at once"
        );
        drop(first);
        let mut second = interests.looker(me.clone());
        second.at("Secret", &b);
        drop(second);
        assert!(interests.of(&Watched::new("Secret", a)).is_empty());
        assert_eq!(interests.of(&Watched::new("Secret", b.clone())), std::slice::from_ref(&me));
        assert!(interests.of(&Watched::new("ConfigMap", b.clone())).is_empty());
        interests.forget(&me);
        assert!(interests.of(&Watched::new("Secret", b)).is_empty());
    }
}
