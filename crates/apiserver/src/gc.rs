//! The graph of owners and dependents, for garbage collection. Pure: changes go in, actions come out.
//!
//! Owners are known by uid. An owner that no object has is absent, unless it was never looked for: the graph holds
//! every object of the store, so what it does not hold does not exist. An owner in another namespace counts as
//! absent, as Kubernetes has it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::object::Meta;
use crate::object::delete::{FOREGROUND, ORPHAN};
use crate::store::Key;

/// A uid. Objects may name many owners, so each is kept once for an object.
pub type Uid = Arc<str>;

/// The next action of garbage collection for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Delete it: its owners are gone, or wait for it to go.
    Delete {
        /// True if its own dependents go first.
        foreground: bool,
    },
    /// Take these owners out of its references.
    Disown(Vec<Uid>),
    /// Take this finalizer away: what it stood for is done.
    Release(&'static str),
}

#[derive(Debug, PartialEq)]
struct Node {
    key: Key,
    /// Ordered by their uids.
    owners: Vec<Owner>,
    deleting: bool,
    foreground: bool,
    orphan: bool,
}

#[derive(Debug, PartialEq)]
struct Owner {
    uid: Uid,
    blocks: bool,
}

/// Every object, its owners and its dependents.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<Uid, Node>,
    /// The uids of each are in order.
    dependents: HashMap<Uid, Vec<Uid>>,
}

/// The state of one owner of a dependent.
enum OwnerState {
    Solid,
    Absent,
    Waiting,
}

impl Graph {
    /// Takes note of an object; returns the objects for which something may have changed.
    pub fn observe(&mut self, key: &Key, object: &Value) -> BTreeSet<Uid> {
        let meta = Meta::of(object);
        let Some(uid) = meta.uid().map(Uid::from) else { return BTreeSet::new() };
        let mut owners: Vec<Owner> = meta.owner_references().filter_map(owner).collect();
        // Of one that is named twice, the reference that blocks counts.
        owners.sort_by(|a, b| a.uid.cmp(&b.uid).then(b.blocks.cmp(&a.blocks)));
        owners.dedup_by(|a, b| a.uid == b.uid);
        owners.shrink_to_fit();
        let finalizers: Vec<&str> = meta.finalizers().collect();
        let deleting = meta.deletion_timestamp().is_some();
        let node = Node {
            key: key.clone(),
            owners,
            deleting,
            foreground: deleting && finalizers.contains(&FOREGROUND),
            orphan: deleting && finalizers.contains(&ORPHAN),
        };
        if self.nodes.get(&uid) == Some(&node) {
            // Most writes change nothing here. An owner of ten thousand would touch them all with each of its own.
            return BTreeSet::from([uid]);
        }
        let mut touched = self.unlink(&uid);
        for owner in &node.owners {
            let dependents = self.dependents.entry(owner.uid.clone()).or_default();
            if let Err(place) = dependents.binary_search(&uid) {
                dependents.insert(place, uid.clone());
            }
            touched.insert(owner.uid.clone());
        }
        touched.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        self.nodes.insert(uid.clone(), node);
        touched.insert(uid);
        touched
    }

    /// Takes note that an object is gone; returns the objects for which something may have changed.
    pub fn forget(&mut self, uid: &str) -> BTreeSet<Uid> {
        let mut touched = self.unlink(uid);
        touched.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        self.nodes.remove(uid);
        touched
    }

    /// Removes the links to the owners of an object; returns those owners.
    fn unlink(&mut self, uid: &str) -> BTreeSet<Uid> {
        let owners = self.nodes.get(uid).into_iter().flat_map(|node| &node.owners);
        let owners: BTreeSet<Uid> = owners.map(|owner| owner.uid.clone()).collect();
        for owner in &owners {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                if let Ok(place) = dependents.binary_search_by(|dependent| (**dependent).cmp(uid)) {
                    dependents.remove(place);
                }
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        owners
    }

    /// Every object.
    pub fn uids(&self) -> impl Iterator<Item = Uid> {
        self.nodes.keys().cloned()
    }

    /// The coordinates of an object.
    pub fn key(&self, uid: &str) -> Option<&Key> {
        self.nodes.get(uid).map(|node| &node.key)
    }

    /// The next action for an object, if any.
    pub fn action(&self, uid: &str) -> Option<Action> {
        let node = self.nodes.get(uid)?;
        if node.orphan {
            // Each dependent disowns it first; see below.
            return self.dependents_of(uid).next().is_none().then_some(Action::Release(ORPHAN));
        }
        if node.foreground && !self.dependents_of(uid).any(|dependent| self.blocks(dependent, uid)) {
            return Some(Action::Release(FOREGROUND));
        }
        self.as_dependent(uid, node)
    }

    /// The action for an object that follows from its owners.
    fn as_dependent(&self, uid: &str, node: &Node) -> Option<Action> {
        let orphaned: Vec<Uid> = node
            .owners
            .iter()
            .filter(|owner| self.lets_go(&owner.uid))
            .map(|owner| owner.uid.clone())
            .collect();
        if !orphaned.is_empty() {
            return Some(Action::Disown(orphaned));
        }
        if node.owners.is_empty() || (node.deleting && !node.foreground) {
            return None;
        }
        let (mut solid, mut others, mut waiting) = (false, Vec::new(), false);
        for owner in &node.owners {
            match self.standing(node, owner) {
                OwnerState::Solid => solid = true,
                OwnerState::Absent => others.push(owner.uid.clone()),
                OwnerState::Waiting => {
                    waiting = true;
                    others.push(owner.uid.clone());
                }
            }
        }
        match (solid, others.is_empty()) {
            (true, true) => None,
            (true, false) => Some(Action::Disown(others)),
            (false, _) if node.deleting => None,
            (false, _) => {
                Some(Action::Delete { foreground: waiting && self.dependents_of(uid).next().is_some() })
            }
        }
    }

    fn standing(&self, dependent: &Node, owner: &Owner) -> OwnerState {
        match self.nodes.get(&owner.uid) {
            None => OwnerState::Absent,
            Some(owner)
                if !owner.key.namespace.is_empty() && owner.key.namespace != dependent.key.namespace =>
            {
                OwnerState::Absent
            }
            Some(owner) if owner.foreground => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
        }
    }

    fn lets_go(&self, owner: &str) -> bool {
        self.nodes.get(owner).is_some_and(|owner| owner.orphan)
    }

    fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &Uid> {
        let namespace = self.nodes.get(uid).map(|node| &node.key.namespace);
        self.dependents.get(uid).into_iter().flatten().filter(move |dependent| {
            let theirs = self.nodes.get(*dependent).map(|node| &node.key.namespace);
            namespace.is_some_and(|namespace| namespace.is_empty() || Some(namespace) == theirs)
        })
    }

    /// Returns whether a dependent keeps an owner in foreground deletion from going. Two that wait for each other do not.
    fn blocks(&self, dependent: &str, owner: &str) -> bool {
        let Some(node) = self.nodes.get(dependent) else { return false };
        // Not by the owners of the owner, of which there may be thousands.
        let owns = |owned: &Vec<Uid>| owned.binary_search_by(|uid| (**uid).cmp(owner)).is_ok();
        let mutual = node.foreground && self.dependents.get(dependent).is_some_and(owns);
        let found = node.owners.binary_search_by(|known| (*known.uid).cmp(owner));
        !mutual && found.is_ok_and(|place| node.owners[place].blocks)
    }
}

fn owner(reference: &Value) -> Option<Owner> {
    let uid = Uid::from(reference.get("uid")?.as_str()?);
    let blocks = reference.get("blockOwnerDeletion") == Some(&Value::Bool(true));
    Some(Owner { uid, blocks })
}

#[cfg(test)]
mod tests;
