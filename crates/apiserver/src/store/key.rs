//! Keys of objects, and revisions.

use std::{fmt, sync::Arc};

/// A point in the one sequence of all changes of a store.
///
/// Every change takes the next revision; none is given out twice, across restarts too. A new store is at
/// [`Revision::START`], so that 0 stays free for callers to whom it means "any".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// The revision of a new, empty store.
    pub const START: Self = Self(1);

    /// The revision with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number of this revision.
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of one object. Objects of a resource are ordered by namespace, then name, in byte order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The kind of thing, such as `apps/deployments`; the store only compares it.
    pub resource: Arc<str>,
    /// Empty for what has no namespace.
    pub namespace: Arc<str>,
    /// Unique within resource and namespace.
    pub name: Arc<str>,
}

impl Key {
    /// A key of these parts; an empty `namespace` means none.
    pub fn new(
        resource: impl Into<Arc<str>>,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }

    /// The place within the resource.
    pub(crate) fn place(&self) -> NamespacedName<'_> {
        (&self.namespace, &self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, name } = self;
        if namespace.is_empty() {
            write!(f, "{resource} {name}")
        } else {
            write!(f, "{resource} {namespace}/{name}")
        }
    }
}

/// Namespace and name: what objects of one resource are ordered by.
pub(crate) type NamespacedName<'a> = (&'a str, &'a str);
