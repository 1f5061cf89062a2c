//! Storage of a cache's objects, whole or packed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::name::Name;
use super::{Index, Keep, Key};

/// As many objects are kept whole in any case: packing a few saves no memory worth the time.
pub(super) const FEW: usize = 256;

/// The objects, and where to find them. Names and keys are shared: ten thousand of them count.
pub(super) struct Shelf<K> {
    pub index: Index<K>,
    pub keep: Keep,
    pub objects: HashMap<Arc<Name>, Kept<K>>,
    pub keyed: HashMap<Arc<Key>, HashSet<Arc<Name>>>,
}

/// An object, and the keys that it has: who lets go of it need not open it.
pub(super) struct Kept<K> {
    pub keys: Box<[Arc<Key>]>,
    pub stored: Stored<K>,
}

pub(super) enum Stored<K> {
    Whole(Arc<K>),
    Packed(Arc<[u8]>),
}

impl<K> Clone for Stored<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Whole(object) => Self::Whole(Arc::clone(object)),
            Self::Packed(json) => Self::Packed(Arc::clone(json)),
        }
    }
}

impl<K: Clone + Serialize + DeserializeOwned> Stored<K> {
    pub fn new(object: &K, keep: Keep) -> Self {
        match keep {
            // What was read has room to grow: one owner takes the place of four. A copy has none.
            Keep::Whole => Self::Whole(Arc::new(object.clone())),
            Keep::Packed => Self::Packed(serde_json::to_vec(object).expect("it was read from JSON").into()),
        }
    }

    pub fn open(self) -> Arc<K> {
        match self {
            Self::Whole(object) => object,
            Self::Packed(json) => {
                Arc::new(serde_json::from_slice(&json).expect("it was written from this type"))
            }
        }
    }
}

impl<K: Clone + Serialize + DeserializeOwned> Shelf<K> {
    pub fn new(index: Index<K>, keep: Keep) -> Self {
        Self { index, keep, objects: HashMap::new(), keyed: HashMap::new() }
    }

    pub fn names(&self) -> Vec<Name> {
        self.objects.keys().map(|name| Name::clone(name)).collect()
    }

    pub fn found(&self, keys: &[Key]) -> impl Iterator<Item = &Arc<Name>> {
        keys.iter().filter_map(|key| self.keyed.get(key)).flatten()
    }

    pub fn put(&mut self, name: Name, object: &K) {
        let known = self.objects.get_key_value(&name).map(|(known, _)| Arc::clone(known));
        let name = known.unwrap_or_else(|| Arc::new(name));
        let keys: Box<[Arc<Key>]> =
            (self.index)(object).into_iter().map(|key| self.key(key, &name)).collect();
        let keep = if self.objects.len() < FEW { Keep::Whole } else { self.keep };
        let kept = Kept { keys: keys.clone(), stored: Stored::new(object, keep) };
        let before = self.objects.insert(Arc::clone(&name), kept);
        for key in before.iter().flat_map(|kept| &kept.keys).filter(|key| !keys.contains(key)) {
            self.unkey(key, &name);
        }
    }

    pub fn take(&mut self, name: &Name) {
        let Some(before) = self.objects.remove(name) else { return };
        for key in &before.keys {
            self.unkey(key, name);
        }
    }

    /// Makes an object found by a key.
    fn key(&mut self, key: Key, name: &Arc<Name>) -> Arc<Key> {
        let known = self.keyed.get_key_value(&key).map(|(known, _)| Arc::clone(known));
        let key = known.unwrap_or_else(|| Arc::new(key));
        self.keyed.entry(Arc::clone(&key)).or_default().insert(Arc::clone(name));
        key
    }

    fn unkey(&mut self, key: &Key, name: &Name) {
        if let Some(names) = self.keyed.get_mut(key) {
            names.remove(name);
            if names.is_empty() {
                self.keyed.remove(key);
            }
        }
    }
}
