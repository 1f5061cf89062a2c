//! The memory that all definitions together may take: each is compiled, and stays so.
//!
//! The memory of a definition is estimated, and rather too much than too little. A write that finds no room is refused; one that
//! got past that, because two came at once or because it was stored before there was a bound, is not served. Those that were
//! there first keep what they have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capt_schema::{FieldError, Schema};
use serde_json::Value;

use super::{get, text, versions};
use crate::bounds::extent;
use crate::object::Meta;
use crate::object::fields::{forbidden, path};
use crate::resource::{Version, schema_cache};

/// Bytes of all definitions: some hundreds of ordinary ones.
const MOST: usize = 512 << 20;
/// A value of a schema as it was written: that is kept as JSON, and as types of server-side apply. As was measured.
const VALUE: usize = 480;

/// Estimated memory of each definition of a server, by name.
#[derive(Debug)]
pub struct Room {
    most: usize,
    taken: Mutex<HashMap<String, usize>>,
}

impl Default for Room {
    fn default() -> Self {
        Self::of(MOST)
    }
}

impl Room {
    /// A room of so many bytes.
    pub fn of(most: usize) -> Self {
        Self { most, taken: Mutex::default() }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all definitions but these.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.taken().retain(|name, _| is_there(name));
    }

    /// Returns true if there is room for a definition.
    pub fn has(&self, name: &str) -> bool {
        self.taken().contains_key(name)
    }

    /// Takes back the room that a definition has.
    pub fn leave(&self, name: &str) {
        self.taken().remove(name);
    }

    /// Gives a definition room for so many bytes instead of what it has, or takes that back and tells why.
    pub fn give(&self, name: &str, bytes: usize) -> Result<(), String> {
        let mut taken = self.taken();
        if taken.get(name) == Some(&bytes) {
            return Ok(());
        }
        taken.remove(name);
        if taken.values().sum::<usize>().saturating_add(bytes) > self.most {
            // Without what the others take: a status that follows that would be written again and again.
            return Err(self.full(bytes));
        }
        taken.insert(name.to_owned(), bytes);
        Ok(())
    }

    fn full(&self, bytes: usize) -> String {
        let [bytes, most] = [bytes, self.most].map(|bytes| bytes.div_ceil(1 << 20));
        format!(
            "all definitions together may take {most} MiB of memory, by this server's estimate, and there is no room for the {bytes} MiB of this one"
        )
    }

    /// Refuses a definition for which there is no room. One that takes no more than it has may be changed.
    pub fn judge(&self, crd: &Value, old: Option<&Value>) -> Option<FieldError> {
        let at = ["spec", "versions"];
        if old.is_some_and(|old| get(old, &at) == get(crd, &at))
            || Meta::of(crd).deletion_timestamp().is_some()
        {
            return None;
        }
        let versions = versions(crd);
        let schemas = versions.iter().map(|version| schema_cache::weight(&version.open_api)).sum::<usize>();
        let bytes = schemas + as_written(&versions);
        let taken = self.taken();
        let before = taken.get(text(crd, &["metadata", "name"])).copied().unwrap_or_default();
        if bytes <= before {
            return None;
        }
        let others = taken.values().sum::<usize>() - before;
        let is_full = others.saturating_add(bytes) > self.most;
        let told = || format!("{}: {} MiB are taken already", self.full(bytes), others >> 20);
        is_full.then(|| forbidden(&path(&at), &told()))
    }
}

/// Estimated memory of a definition that is served in these versions.
pub fn weight(versions: &[Arc<Version>], schemas: &[Arc<Schema>]) -> usize {
    schemas.iter().map(|schema| schema.weight()).sum::<usize>() + as_written(versions)
}

fn as_written(versions: &[Arc<Version>]) -> usize {
    let weight = |version: &Arc<Version>| {
        let schema: &Value = &version.open_api;
        extent(schema).values * VALUE + schema.to_string().len()
    };
    versions.iter().map(weight).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_comes_first_keeps_the_room() {
        let room = Room::of(10 << 20);
        room.give("a", 6 << 20).unwrap();
        let told = room.give("b", 5 << 20).unwrap_err();
        assert!(told.contains("may take 10 MiB") && told.contains("the 5 MiB of this one"), "{told}");
        room.give("b", 4 << 20).unwrap();
        assert!(room.give("b", 5 << 20).is_err(), "it grew");
        assert!(room.has("a") && !room.has("b"));
        room.give("a", 5 << 20).unwrap();
        room.give("b", 5 << 20).unwrap();
        room.keep(|name| name == "b");
        room.give("c", 5 << 20).unwrap();
    }

    #[test]
    fn what_does_not_grow_may_change() {
        let crd = |words: usize| {
            let words: Vec<String> = (0..words).map(|n| format!("w{n}")).collect();
            json!({"metadata": {"name": "as.example.com"}, "spec": {"versions": [{"name": "v1", "served": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string", "enum": words}}}}}]}})
        };
        let room = Room::of(64 << 10);
        assert!(room.judge(&crd(1), None).is_none());
        let told = room.judge(&crd(1_000), None).unwrap().to_string();
        assert!(
            told.starts_with("spec.versions: Forbidden: all definitions together may take 1 MiB"),
            "{told}"
        );
        assert!(room.judge(&crd(1_000), Some(&crd(1_000))).is_none(), "its schemas are those of before");
        let mut going = crd(1_000);
        going["metadata"]["deletionTimestamp"] = "now".into();
        assert!(room.judge(&going, None).is_none());
        room.taken().insert("as.example.com".into(), 4 << 20);
        assert!(room.judge(&crd(1_000), Some(&crd(2_000))).is_none(), "it shrinks");
    }
}
