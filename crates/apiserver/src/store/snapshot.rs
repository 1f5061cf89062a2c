//! Everything there is at one revision: immutable, shared, and all that reads ever look at.
//!
//! The writer prepares the next state beside the published one and swaps it in after the commit, so a reader never
//! waits for a write and a state never changes under a reader. An *earlier* revision is the present state with the
//! later changes undone, which needs nothing but the history: pages of a list stay at the revision of the first one,
//! and no old state has to be kept alive for a client that may never ask for the next page.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    history::History,
    key::{Key, NamespacedName, Revision},
    object::Object,
    table::Table,
};

/// Why a read at some revision is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// History no longer reaches back so far.
    #[error("revision {asked} is gone: history starts at {compacted}")]
    Gone {
        /// The revision asked for.
        asked: Revision,
        /// The oldest revision that can still be read.
        compacted: Revision,
    },
    /// The store has not got there yet.
    #[error("revision {asked} is in the future: the store is at {current}")]
    Future {
        /// The revision asked for.
        asked: Revision,
        /// The newest revision.
        current: Revision,
    },
}

/// The revision that a list shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The newest one.
    #[default]
    Latest,
    /// The newest one, which must be this or a later one.
    NotOlderThan(Revision),
    /// This one and no other.
    Exactly(Revision),
}

/// The position of the next page of a list. It names its revision, so the store keeps nothing for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continue {
    /// The revision of the first page.
    pub revision: Revision,
    /// Namespace of the last object of the page before.
    pub namespace: String,
    /// Name of the last object of the page before.
    pub name: String,
}

/// The parameters of a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListQuery<'a> {
    /// The resource.
    pub resource: &'a str,
    /// One namespace, or all of them.
    pub namespace: Option<&'a str>,
    /// The most objects to return; 0 means all.
    pub limit: usize,
    /// The revision; ignored if `from` is given, which names its own.
    pub at: At,
    /// The end of the page before.
    pub from: Option<&'a Continue>,
}

/// A page of a list, or all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The objects, ordered by namespace and name.
    pub objects: Vec<Arc<Object>>,
    /// The revision at which these were the objects; a watch from here misses nothing.
    pub revision: Revision,
    /// The position of the next page; `None` on the last page.
    pub next: Option<Continue>,
    /// The number of objects after this page, whether a filter matches them or not.
    pub remaining: usize,
}

/// The inner state; see the module's contract.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) revision: Revision,
    /// History holds every change after this revision.
    pub(crate) compacted: Revision,
    pub(crate) tables: BTreeMap<Arc<str>, Arc<Table>>,
    /// The bytes of all objects in the tables.
    pub(crate) bytes: usize,
    pub(crate) history: History,
}

impl Default for State {
    fn default() -> Self {
        Self {
            revision: Revision::START,
            compacted: Revision::START,
            tables: BTreeMap::new(),
            bytes: 0,
            history: History::default(),
        }
    }
}

impl State {
    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.tables.get(&key.resource)?.get(key.place())
    }

    /// The table of a resource, to be changed; made when it is not there.
    pub(crate) fn table_mut(&mut self, resource: &Arc<str>) -> &mut Table {
        Arc::make_mut(self.tables.entry(resource.clone()).or_default())
    }

    /// Returns whether history can tell what happened after `revision`.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), ReadError> {
        if revision > self.revision {
            Err(ReadError::Future { asked: revision, current: self.revision })
        } else if revision < self.compacted {
            Err(ReadError::Gone { asked: revision, compacted: self.compacted })
        } else {
            Ok(())
        }
    }

    /// The revision a query is about.
    fn resolve(&self, query: &ListQuery<'_>) -> Result<Revision, ReadError> {
        let revision = match (query.from, query.at) {
            (Some(from), _) => from.revision,
            (None, At::Exactly(revision)) => revision,
            (None, At::Latest) => return Ok(self.revision),
            (None, At::NotOlderThan(revision)) if revision <= self.revision => return Ok(self.revision),
            (None, At::NotOlderThan(revision)) => {
                return Err(ReadError::Future { asked: revision, current: self.revision });
            }
        };
        // The newest revision is always at hand, compacted or not.
        if revision != self.revision {
            self.check(revision)?;
        }
        Ok(revision)
    }

    /// The objects that changed after `revision`, as they were at it; `None` for one that did not exist.
    fn undo(
        &self,
        query: &ListQuery<'_>,
        revision: Revision,
    ) -> BTreeMap<NamespacedName<'_>, Option<&Arc<Object>>> {
        let after = query.from.map(|from| (from.namespace.as_str(), from.name.as_str()));
        let in_range = |key: &Key| {
            *key.resource == *query.resource
                && query.namespace.is_none_or(|namespace| *key.namespace == *namespace)
                && after.is_none_or(|after| key.place() > after)
        };
        let mut earlier = BTreeMap::new();
        // Newest first: the oldest change behind the revision has the last word.
        for event in self.history.after(revision).rev().filter(|event| in_range(event.key())) {
            earlier.insert(event.key().place(), event.previous());
        }
        earlier
    }

    fn list(&self, query: &ListQuery<'_>, matches: &dyn Fn(&Object) -> bool) -> Result<Page, ReadError> {
        let revision = self.resolve(query)?;
        let after = query.from.map(|from| (from.namespace.as_str(), from.name.as_str()));
        let table = self.tables.get(query.resource);
        let present = table.into_iter().flat_map(|table| table.range(query.namespace, after));
        if revision == self.revision {
            return Ok(page(present, revision, query.limit, matches));
        }
        let earlier = self.undo(query, revision);
        let unchanged = present.filter(|object| !earlier.contains_key(&object.key.place()));
        Ok(page(merge(unchanged, earlier.values().copied().flatten()), revision, query.limit, matches))
    }
}

/// Merges two ordered sequences that have no place in common.
fn merge<'a>(
    left: impl Iterator<Item = &'a Arc<Object>>,
    right: impl Iterator<Item = &'a Arc<Object>>,
) -> impl Iterator<Item = &'a Arc<Object>> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(a), Some(b)) if a.key.place() > b.key.place() => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    })
}

/// Takes a page of those that match and counts the rest.
fn page<'a>(
    mut objects: impl Iterator<Item = &'a Arc<Object>>,
    revision: Revision,
    limit: usize,
    matches: &dyn Fn(&Object) -> bool,
) -> Page {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let taken: Vec<_> = objects.by_ref().filter(|object| matches(object)).take(limit).cloned().collect();
    let remaining = objects.count();
    let next = taken.last().filter(|_| remaining > 0).map(|last| Continue {
        revision,
        namespace: last.key.namespace.to_string(),
        name: last.key.name.to_string(),
    });
    Page { objects: taken, revision, next, remaining }
}

/// A consistent view of the whole store at one revision. Cheap to take and to clone.
#[derive(Clone)]
pub struct Snapshot(pub(crate) Arc<State>);

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot(at {})", self.revision())
    }
}

impl Snapshot {
    /// The revision of this view.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// The oldest revision that lists and watches can go back to.
    pub fn compacted(&self) -> Revision {
        self.0.compacted
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.get(key).cloned()
    }

    /// A list, or a page of it.
    pub fn list(&self, query: &ListQuery<'_>) -> Result<Page, ReadError> {
        self.0.list(query, &|_| true)
    }

    /// A list, or a page of it, of the objects that match; the limit counts these.
    pub fn list_matching(
        &self,
        query: &ListQuery<'_>,
        matches: impl Fn(&Object) -> bool,
    ) -> Result<Page, ReadError> {
        self.0.list(query, &matches)
    }

    /// The number of objects of a resource, in one namespace or in all.
    pub fn count(&self, resource: &str, namespace: Option<&str>) -> usize {
        self.0.tables.get(resource).map_or(0, |table| match namespace {
            None => table.len(),
            Some(_) => table.range(namespace, None).count(),
        })
    }

    /// Every object, by resource and place.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.0.tables.values().flat_map(|table| table.range(None, None))
    }

    /// Every resource that has objects, with their number, by name.
    pub fn resources(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.0.tables.iter().map(|(resource, table)| (resource, table.len())).filter(|(_, count)| *count > 0)
    }
}
