//! A new object gets its identity: name, uid, time, generation.

use serde_json::{Map, Value};

use super::{Meta, metadata_mut};

/// Letters that cannot spell words, as Kubernetes draws them for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// A generated name has at most 63 characters, five of them drawn.
const LONGEST_PREFIX: usize = 58;

/// The values that a new object is given.
#[derive(Clone, Copy, Debug)]
pub struct Creation<'a> {
    /// Namespace it is created in; none for kinds without namespaces.
    pub namespace: Option<&'a str>,
    /// Its uid.
    pub uid: &'a str,
    /// The time, in RFC 3339.
    pub now: &'a str,
    /// True if its kind counts generations.
    pub generation: bool,
    /// True if what the body says of deletion is dropped. An update that creates what it was to change leaves it, as
    /// upstream does.
    pub from_body: bool,
    /// True if a status given by the client is dropped, because status has an endpoint of its own.
    pub drop_status: bool,
}

/// Gives `object` its identity. The name is settled before, by [`generated_name`].
pub fn prepare(object: &mut Value, creation: &Creation<'_>) {
    if creation.drop_status
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
    }
    let metadata = metadata_mut(object);
    metadata.remove("resourceVersion");
    if creation.from_body {
        for foreign in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            metadata.remove(foreign);
        }
    }
    if let Some(namespace) = creation.namespace {
        metadata.insert("namespace".into(), namespace.into());
    }
    metadata.insert("uid".into(), creation.uid.into());
    metadata.insert("creationTimestamp".into(), creation.now.into());
    if creation.generation {
        metadata.insert("generation".into(), 1.into());
    }
    drop_empty(metadata);
}

/// Kubernetes leaves empty lists and maps of metadata out of what it stores.
pub fn drop_empty(metadata: &mut Map<String, Value>) {
    metadata.retain(|_, value| match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => true,
    });
}

/// The name for an object that has only a prefix for one; `draw` gives numbers below its argument.
pub fn generated_name(object: &Value, mut draw: impl FnMut(usize) -> usize) -> Option<String> {
    let meta = Meta::of(object);
    if meta.name().is_some() {
        return None;
    }
    let prefix: String = meta.generate_name()?.chars().take(LONGEST_PREFIX).collect();
    let suffix = (0..5).map(|_| char::from(ALPHABET[draw(ALPHABET.len()) % ALPHABET.len()]));
    Some(prefix.chars().chain(suffix).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_object_has_its_own_identity_and_none_of_another() {
        let mut object = json!({
            "metadata": {"name": "a", "uid": "old", "resourceVersion": "7", "generation": 9,
                "deletionTimestamp": "x", "labels": {}, "annotations": {"k": "v"}, "finalizers": []},
            "spec": {"a": 1},
            "status": {"b": 2},
        });
        let creation = Creation {
            namespace: Some("ns"),
            uid: "new",
            now: "2026-01-01T00:00:00Z",
            generation: true,
            from_body: true,
            drop_status: true,
        };
        prepare(&mut object, &creation);
        assert_eq!(
            object,
            json!({
                "metadata": {"name": "a", "uid": "new", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z",
                    "generation": 1, "annotations": {"k": "v"}},
                "spec": {"a": 1},
            })
        );
    }

    #[test]
    fn generated_names_have_a_drawn_suffix_and_fit() {
        let draw = |below: usize| below - 1;
        let rows = [
            (json!({"name": "a", "generateName": "b-"}), None),
            (json!({"generateName": "web-"}), Some("web-99999".to_owned())),
            (json!({"generateName": "x".repeat(100)}), Some(format!("{}99999", "x".repeat(58)))),
            (json!({}), None),
        ];
        for (metadata, expected) in rows {
            assert_eq!(generated_name(&json!({"metadata": metadata}), draw), expected);
        }
    }
}
