//! The live objects of one resource, ordered, copy-on-write.
//!
//! A sorted sequence cut into shared chunks: a B-tree of two levels. Cloning copies one pointer per chunk; a change
//! copies the one chunk it falls into, and only while a clone still holds it. Reading in order runs over arrays, which
//! makes a list of ten thousand a matter of microseconds; persistent trees of one node per object chase a pointer for
//! each, and the ones with wide nodes come under a licence this project does not take.

use std::{cmp::Ordering, sync::Arc};

use super::{
    key::{NamespacedName, Revision},
    object::Object,
};

/// A full chunk is cut in two. Small enough to copy in about a microsecond, large enough that the pointers to the
/// chunks of a hundred thousand objects are copied in about that too.
const CHUNK: usize = 128;

type Chunk = Vec<Arc<Object>>;

#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// None is empty; every place in a chunk is less than every place in the next.
    chunks: Vec<Arc<Chunk>>,
    len: usize,
    /// The newest change of this resource that history has dropped.
    pub(crate) compacted: Revision,
}

impl Default for Table {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0, compacted: Revision::new(0) }
    }
}

impl Table {
    /// A table of objects in any order, of which no two have the same place.
    pub(crate) fn of(mut objects: Vec<Arc<Object>>) -> Self {
        objects.sort_unstable_by(|left, right| left.key.place().cmp(&right.key.place()));
        let chunks = objects.chunks(CHUNK).map(|chunk| Arc::new(chunk.to_vec())).collect();
        Self { chunks, len: objects.len(), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, place: NamespacedName<'_>) -> Option<&Arc<Object>> {
        let chunk = self.chunks.get(self.chunk_of(place)?)?;
        search(chunk, place).ok().and_then(|at| chunk.get(at))
    }

    /// Puts the object in its place and returns the one that was there.
    pub(crate) fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let Some(index) = self.chunk_of(object.key.place()) else {
            self.chunks.push(Arc::new(vec![object]));
            self.len += 1;
            return None;
        };
        let chunk = Arc::make_mut(&mut self.chunks[index]);
        match search(chunk, object.key.place()) {
            Ok(at) => Some(std::mem::replace(&mut chunk[at], object)),
            Err(at) => {
                chunk.insert(at, object);
                self.len += 1;
                if chunk.len() > CHUNK {
                    // Names often count up: a chunk that grew at its end stays full and leaves the growth to the next.
                    let keep = if at == CHUNK { CHUNK } else { CHUNK / 2 };
                    let rest = chunk.split_off(keep);
                    self.chunks.insert(index + 1, Arc::new(rest));
                }
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, place: NamespacedName<'_>) -> Option<Arc<Object>> {
        let index = self.chunk_of(place)?;
        let at = search(&self.chunks[index], place).ok()?;
        let chunk = Arc::make_mut(&mut self.chunks[index]);
        let object = chunk.remove(at);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(index);
        } else if let Some(next) = self.chunks.get(index + 1) {
            // Without this, deleting all but a few objects here and there would leave a chunk for each.
            if self.chunks[index].len() + next.len() <= CHUNK / 2 {
                let next = self.chunks.remove(index + 1);
                Arc::make_mut(&mut self.chunks[index]).extend(next.iter().cloned());
            }
        }
        Some(object)
    }

    /// Objects of a namespace (of all, when `None`) in order, starting behind `after`.
    pub(crate) fn range<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<NamespacedName<'_>>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let (chunk, at) = self.start(namespace, after);
        let rest = self.chunks.get(chunk..).unwrap_or_default();
        rest.iter()
            .flat_map(|chunk| chunk.iter())
            .skip(at)
            .take_while(move |object| namespace.is_none_or(|namespace| *object.key.namespace == *namespace))
    }

    /// The start of a range: a chunk, and the number of its objects to skip.
    fn start(&self, namespace: Option<&str>, after: Option<NamespacedName<'_>>) -> (usize, usize) {
        let head = namespace.map(|namespace| (namespace, ""));
        let (place, inclusive) = match (head, after) {
            (None, None) => return (0, 0),
            (Some(head), None) => (head, true),
            (Some(head), Some(after)) if head > after => (head, true),
            (_, Some(after)) => (after, false),
        };
        let Some(index) = self.chunk_of(place) else { return (0, 0) };
        match search(&self.chunks[index], place) {
            Ok(at) if !inclusive => (index, at + 1),
            Ok(at) | Err(at) => (index, at),
        }
    }

    /// The only chunk that may hold the place; `None` when there are no chunks.
    fn chunk_of(&self, place: NamespacedName<'_>) -> Option<usize> {
        if self.chunks.is_empty() {
            return None;
        }
        let behind = self.chunks.partition_point(|chunk| chunk[0].key.place() <= place);
        Some(behind.saturating_sub(1))
    }
}

fn search(chunk: &Chunk, place: NamespacedName<'_>) -> Result<usize, usize> {
    chunk.binary_search_by(|object| -> Ordering { object.key.place().cmp(&place) })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::store::{Key, Value};

    fn object(namespace: u8, name: u16, revision: u64) -> Arc<Object> {
        let key = Key::new("things", format!("n{namespace}"), format!("{name:04}"));
        Object::new(key, Value::plain(Vec::new()), Revision::new(revision), Revision::new(revision))
    }

    fn revisions<'a>(objects: impl Iterator<Item = &'a Arc<Object>>) -> Vec<u64> {
        objects.map(|object| object.revision.get()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// The table behaves as an ordered map does, and a clone does not see later changes.
        #[test]
        fn like_an_ordered_map(
            steps in prop::collection::vec((0u8..3, 0u16..400, prop::bool::weighted(0.7)), 1..1500),
            frozen_at in 0usize..1500,
            from in (0u8..3, 0u16..400),
        ) {
            let (mut table, mut model) = (Table::default(), BTreeMap::new());
            let mut frozen = None;
            for (step, (namespace, name, put)) in steps.into_iter().enumerate() {
                if step == frozen_at {
                    frozen = Some((table.clone(), model.clone()));
                }
                let object = object(namespace, name, step as u64);
                let key = (object.key.namespace.to_string(), object.key.name.to_string());
                if put {
                    prop_assert_eq!(table.insert(object.clone()), model.insert(key, object));
                } else {
                    prop_assert_eq!(table.remove(object.key.place()), model.remove(&key));
                }
            }
            let from = (format!("n{}", from.0), format!("{:04}", from.1));
            let made = (Table::of(model.values().rev().cloned().collect()), model.clone());
            for (table, model) in frozen.into_iter().chain([made, (table, model)]) {
                prop_assert_eq!(table.len(), model.len());
                prop_assert!(table.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
                prop_assert_eq!(revisions(table.range(None, None)), revisions(model.values()));
                let after = table.range(None, Some((&from.0, &from.1)));
                prop_assert_eq!(revisions(after), revisions(model.range(&from..).filter(|(key, _)| **key != from).map(|(_, object)| object)));
                for namespace in ["n0", "n1", "n2", "n3", ""] {
                    let expected = model.iter().filter(|(key, _)| key.0 == namespace);
                    prop_assert_eq!(revisions(table.range(Some(namespace), None)), revisions(expected.map(|(_, object)| object)));
                }
                for ((namespace, name), object) in &model {
                    prop_assert_eq!(table.get((namespace, name)), Some(object));
                }
            }
        }
    }
}
