//! Namespace and name of an object.

use std::fmt;

use capt_api::refs::ObjectRef;
use kube::{Resource, ResourceExt};

/// Namespace and name of an object of a kind that is known from where this stands.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name {
    /// The namespace.
    pub namespace: String,
    /// The name in it.
    pub name: String,
}

impl Name {
    /// A name in a namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The name of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }

    /// What a reference means in an object of `namespace`.
    pub fn referred(reference: &ObjectRef, namespace: &str) -> Self {
        Self::new(reference.namespace.as_deref().unwrap_or(namespace), reference.name.clone())
    }

    /// How a message in `namespace` names it: without the namespace where that is the same.
    pub fn seen_from(&self, namespace: &str) -> String {
        if self.namespace == namespace { self.name.clone() } else { self.to_string() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
