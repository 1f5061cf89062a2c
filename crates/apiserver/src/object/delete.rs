//! A deleted object goes at once, or is marked and waits for its finalizers.

use serde_json::{Value, json};

use super::{Meta, metadata_mut};

/// Finalizer of an object whose dependents go first.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents are let go first.
pub const ORPHAN: &str = "orphan";

/// The propagation policy of a deletion: how the dependents of the object are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted after the object.
    #[default]
    Background,
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents are orphaned.
    Orphan,
}

/// The effect of a deletion.
#[derive(Debug, PartialEq)]
pub enum Deletion {
    /// The object goes now.
    Remove,
    /// The object is marked and stays until its finalizers are gone.
    Mark(Value),
    /// The object is marked already, in just this way.
    Waiting,
}

/// Decides what a request to delete `object` does. `propagation` is `None` where the request does not say:
/// finalizers that are there then keep their meaning.
pub fn begin(object: &Value, propagation: Option<Propagation>, now: &str) -> Deletion {
    let mut finalizers: Vec<&str> = Meta::of(object).finalizers().collect();
    if let Some(propagation) = propagation {
        let wanted = match propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        };
        finalizers
            .retain(|finalizer| ![FOREGROUND, ORPHAN].contains(finalizer) || Some(*finalizer) == wanted);
        if let Some(wanted) = wanted.filter(|wanted| !finalizers.contains(wanted)) {
            finalizers.push(wanted);
        }
    }
    let marked = Meta::of(object).deletion_timestamp().is_some();
    if finalizers.is_empty() && !waits_otherwise(object) {
        return Deletion::Remove;
    }
    let timed = is_namespace(object) || object["metadata"].get("deletionGracePeriodSeconds").is_some();
    if marked && timed && Meta::of(object).finalizers().eq(finalizers.iter().copied()) {
        return Deletion::Waiting;
    }
    let finalizers = json!(finalizers);
    let mut object = object.clone();
    let generation = Meta::of(&object).generation();
    let namespace = is_namespace(&object);
    let metadata = metadata_mut(&mut object);
    if finalizers.as_array().is_some_and(Vec::is_empty) {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers);
    }
    if !namespace {
        metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
    }
    if !marked {
        metadata.insert("deletionTimestamp".into(), now.into());
        if generation > 0 && !namespace {
            metadata.insert("generation".into(), (generation + 1).into());
        }
    }
    if namespace {
        object["status"] = json!({"phase": "Terminating"});
    }
    Deletion::Mark(object)
}

/// A namespace has finalizers in its spec too: it waits until it is empty.
fn waits_otherwise(object: &Value) -> bool {
    is_namespace(object)
        && object["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

fn is_namespace(object: &Value) -> bool {
    object["kind"] == "Namespace" && object["apiVersion"] == "v1"
}

/// Returns whether an object that an update would store is in fact done: it waits for nothing any more.
pub fn is_finished(object: &Value) -> bool {
    let meta = Meta::of(object);
    meta.deletion_timestamp().is_some() && meta.finalizers().next().is_none() && !waits_otherwise(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(finalizers: &[&str]) -> Value {
        json!({"metadata": {"name": "a", "generation": 1, "finalizers": finalizers}})
    }

    fn marked(finalizers: &[&str]) -> Value {
        json!({"metadata": {"name": "a", "generation": 2, "finalizers": finalizers, "deletionTimestamp": "now", "deletionGracePeriodSeconds": 0}})
    }

    #[test]
    fn an_object_goes_or_waits() {
        use Propagation::{Background, Foreground, Orphan};
        let rows = [
            (object(&[]), None, Deletion::Remove),
            (object(&[]), Some(Background), Deletion::Remove),
            (object(&["x"]), None, Deletion::Mark(marked(&["x"]))),
            (object(&[]), Some(Foreground), Deletion::Mark(marked(&[FOREGROUND]))),
            (object(&["x"]), Some(Orphan), Deletion::Mark(marked(&["x", ORPHAN]))),
            (object(&[FOREGROUND]), Some(Background), Deletion::Remove),
            (object(&[ORPHAN]), None, Deletion::Mark(marked(&[ORPHAN]))),
            (marked(&["x"]), None, Deletion::Waiting),
            (marked(&["x"]), Some(Background), Deletion::Waiting),
            (marked(&["x"]), Some(Foreground), Deletion::Mark(marked(&["x", FOREGROUND]))),
        ];
        for (object, propagation, expected) in rows {
            assert_eq!(begin(&object, propagation, "now"), expected, "{object} {propagation:?}");
        }
    }

    #[test]
    fn a_marked_object_without_finalizers_is_finished() {
        assert!(is_finished(&marked(&[])));
        assert!(!is_finished(&marked(&["x"])));
        assert!(!is_finished(&object(&[])));
    }
}
