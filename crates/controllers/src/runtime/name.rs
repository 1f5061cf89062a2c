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

    /// The object that a reference in an object of `namespace` mentions. That is no leave to use it: see [`super::grants`].
    pub fn mentioned(reference: &ObjectRef, namespace: &str) -> Self {
        Self::new(reference.namespace.as_deref().unwrap_or(namespace), reference.name.clone())
    }

    /// Returns the problem with a name or namespace that no object can have. In an address it would be something else: a list, or another
    /// object.
    pub fn problem(&self, kind: &str) -> Option<String> {
        if !is_namespace(&self.namespace) {
            return Some(not_a_name("Namespace", &self.namespace));
        }
        (!is_object_name(&self.name)).then(|| not_a_name(kind, &self.name))
    }

    /// Returns the name for a message in `namespace`: without the namespace where that is the same.
    pub fn seen_from(&self, namespace: &str) -> String {
        if self.namespace == namespace { self.name.clone() } else { self.to_string() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Returns true if the API takes a text as the name of an object: labels with dots between them.
pub fn is_object_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Returns true if the API takes a text as the name of a namespace.
fn is_namespace(text: &str) -> bool {
    text.len() <= 63 && is_label(text)
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Sentence about a text that was given for a name. It may be long: variables fill names in.
pub fn not_a_name(kind: &str, text: &str) -> String {
    let shown: String = text.chars().take(80).collect();
    format!("{shown:?} is not the name of a {kind}: names have lower-case letters, digits, - and .")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        let long = "a".repeat(254);
        let rows = [
            ("a", true, true),
            ("cluster-1-vpc", true, true),
            ("1", true, true),
            ("a.b-c.d", true, false),
            (&long[..253], true, false),
            (&long, false, false),
            ("", false, false),
            (".", false, false),
            ("..", false, false),
            ("a..b", false, false),
            (".a", false, false),
            ("-a", false, false),
            ("a-.b", false, false),
            ("A", false, false),
            ("a_b", false, false),
            ("é", false, false),
            ("?limit=5", false, false),
            ("a?watch=1", false, false),
            ("../owner/prod", false, false),
            ("a/b", false, false),
            ("a%2fb", false, false),
            ("a#b", false, false),
            ("a b", false, false),
            ("a\n", false, false),
            ("${a}", false, false),
        ];
        for (text, object, namespace) in rows {
            assert_eq!(is_object_name(text), object, "{text:?}");
            assert_eq!(is_namespace(text), namespace, "{text:?}");
            assert_eq!(Name::new("default", text).problem("Secret").is_none(), object, "{text:?}");
            assert_eq!(Name::new(text, "a").problem("Secret").is_none(), namespace, "{text:?}");
        }
        let said = Name::new("default", "?limit=5").problem("Secret");
        let expected =
            "\"?limit=5\" is not the name of a Secret: names have lower-case letters, digits, - and .";
        assert_eq!(said.as_deref(), Some(expected));
        assert!(not_a_name("Secret", &"?".repeat(1_000_000)).len() < 300);
    }
}
