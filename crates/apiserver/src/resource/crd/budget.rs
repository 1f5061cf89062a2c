//! The memory budget of all CRDs: each is compiled, and stays in memory.
//!
//! The memory of a CRD is estimated, rather too high than too low. A write that exceeds the budget is refused; a CRD that is
//! stored nevertheless, because two were written at once or because it is older than the limit, is not served. Earlier CRDs
//! keep their share.

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
pub struct CrdBudget {
    most: usize,
    taken: Mutex<HashMap<String, usize>>,
}

impl Default for CrdBudget {
    fn default() -> Self {
        Self::of(MOST)
    }
}

impl CrdBudget {
    /// A budget in bytes.
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

    /// Replaces the share of a CRD by one of `bytes`; if that exceeds the budget, it has no share, and the error says why.
    pub fn give(&self, name: &str, bytes: usize) -> Result<(), String> {
        let mut taken = self.taken();
        if taken.get(name) == Some(&bytes) {
            return Ok(());
        }
        taken.remove(name);
        if taken.values().sum::<usize>().saturating_add(bytes) > self.most {
            // The message omits the shares of others: a status that showed them would be written again and again.
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

    /// Refuses a CRD that exceeds the budget. One that needs no more than its share may be changed.
    pub fn check(&self, crd: &Value, old: Option<&Value>) -> Option<FieldError> {
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
        let room = CrdBudget::of(10 << 20);
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
        let room = CrdBudget::of(64 << 10);
        assert!(room.check(&crd(1), None).is_none());
        let told = room.check(&crd(1_000), None).unwrap().to_string();
        assert!(
            told.starts_with("spec.versions: Forbidden: all definitions together may take 1 MiB"),
            "{told}"
        );
        assert!(room.check(&crd(1_000), Some(&crd(1_000))).is_none(), "its schemas are those of before");
        let mut going = crd(1_000);
        going["metadata"]["deletionTimestamp"] = "now".into();
        assert!(room.check(&going, None).is_none());
        room.taken().insert("as.example.com".into(), 4 << 20);
        assert!(room.check(&crd(1_000), Some(&crd(2_000))).is_none(), "it shrinks");
    }
}
