//! Index of dependencies: a reconcile notes each object it reads, and a change of that object wakes it.
//!
//! This replaces a mapping per pair of kinds, costs nothing for objects nobody looks at, and cannot miss a reference
//! that the reconcile itself followed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

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
pub struct DependencyIndex(Mutex<Notes>);

/// Both sides share their names: ten thousand who look at one template count.
#[derive(Debug, Default)]
struct Notes {
    looked_at_by: HashMap<Arc<Watched>, HashSet<Arc<Name>>>,
    looks_at: HashMap<Arc<Name>, Vec<Arc<Watched>>>,
}

impl DependencyIndex {
    /// Starts the notes of one reconcile.
    pub fn looker(self: &Arc<Self>, subject: Name) -> Looker {
        let known = self.notes().looks_at.get_key_value(&subject).map(|(known, _)| Arc::clone(known));
        let subject = known.unwrap_or_else(|| Arc::new(subject));
        Looker { dependents: Arc::clone(self), subject, seen: HashSet::new() }
    }

    /// Returns the names of the objects that depend on an object.
    pub fn of(&self, watched: &Watched) -> Vec<Name> {
        let notes = self.notes();
        notes.looked_at_by.get(watched).into_iter().flatten().map(|name| Name::clone(name)).collect()
    }

    /// Drops the notes of an object that is gone.
    pub fn forget(&self, subject: &Name) {
        self.notes().replace(&Arc::new(subject.clone()), HashSet::new());
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes {
    fn add(&mut self, subject: &Arc<Name>, watched: Watched) -> Arc<Watched> {
        let known = self.looked_at_by.get_key_value(&watched).map(|(known, _)| Arc::clone(known));
        let watched = known.unwrap_or_else(|| Arc::new(watched));
        if self.looked_at_by.entry(Arc::clone(&watched)).or_default().insert(Arc::clone(subject)) {
            self.looks_at.entry(Arc::clone(subject)).or_default().push(Arc::clone(&watched));
        }
        watched
    }

    fn replace(&mut self, subject: &Arc<Name>, seen: HashSet<Arc<Watched>>) {
        for gone in self.looks_at.remove(subject).into_iter().flatten().filter(|old| !seen.contains(old)) {
            if let Some(subjects) = self.looked_at_by.get_mut(&gone) {
                subjects.remove(subject);
                if subjects.is_empty() {
                    self.looked_at_by.remove(&gone);
                }
            }
        }
        if !seen.is_empty() {
            self.looks_at.insert(Arc::clone(subject), seen.into_iter().collect());
        }
    }
}

/// The notes of one reconcile. What it did not look at this time is forgotten when it is dropped.
#[derive(Debug)]
pub struct Looker {
    dependents: Arc<DependencyIndex>,
    subject: Arc<Name>,
    seen: HashSet<Arc<Watched>>,
}

impl Looker {
    /// Notes an object, before it is read: so a change between reading and noting cannot be missed.
    pub fn at(&mut self, kind: &'static str, name: &Name) {
        let watched = Watched::new(kind, name.clone());
        let watched = self.dependents.notes().add(&self.subject, watched);
        self.seen.insert(watched);
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.dependents.notes().replace(&self.subject, std::mem::take(&mut self.seen));
    }
}

/// Those who looked at what changed.
pub(crate) fn interested(
    changes: impl Stream<Item = Name> + Send + 'static,
    kind: &'static str,
    dependents: &Arc<DependencyIndex>,
) -> BoxStream<'static, Name> {
    let dependents = Arc::clone(dependents);
    changes.flat_map(move |name| futures::stream::iter(dependents.of(&Watched::new(kind, name)))).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_look_counts() {
        let dependents = Arc::new(DependencyIndex::default());
        let (me, a, b) = (Name::new("n", "me"), Name::new("n", "a"), Name::new("n", "b"));
        let mut first = dependents.looker(me.clone());
        first.at("Secret", &a);
        assert_eq!(
            dependents.of(&Watched::new("Secret", a.clone())),
            std::slice::from_ref(&me),
            "noted at once"
        );
        drop(first);
        let mut second = dependents.looker(me.clone());
        second.at("Secret", &b);
        drop(second);
        assert!(dependents.of(&Watched::new("Secret", a)).is_empty());
        assert_eq!(dependents.of(&Watched::new("Secret", b.clone())), std::slice::from_ref(&me));
        assert!(dependents.of(&Watched::new("ConfigMap", b.clone())).is_empty());
        dependents.forget(&me);
        assert!(dependents.of(&Watched::new("Secret", b)).is_empty());
    }
}
