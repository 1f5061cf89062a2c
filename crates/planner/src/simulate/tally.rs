//! Machines by owner and standing, kept change by change: a count of ten thousand machines for each of as many steps would
//! take minutes.

use std::collections::{HashMap, HashSet};

use capt_api::machine::{CaptMachine, CaptMachineSet};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::world::{Actor, World};
use crate::availability::MachineAvailability;
use crate::set::{Facts, Reader};

/// Machines of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Group {
    pub(super) live: i32,
    pub(super) terminating: i32,
    pub(super) available: i32,
    /// Of the terminating ones, those that a decision to have fewer took.
    pub(super) given_up: i32,
}

impl Group {
    /// Machines that count for the ceiling: one that failed or that somebody deleted is replaced while it is still being
    /// destroyed.
    pub(super) fn counting(&self) -> i32 {
        self.live + self.given_up
    }

    fn add(&mut self, other: &Self, times: i32) {
        let Self { live, terminating, available, given_up } = other;
        self.live += times * live;
        self.terminating += times * terminating;
        self.available += times * available;
        self.given_up += times * given_up;
    }
}

/// Machines by the uid of what controls them; none for those that nobody does.
#[derive(Debug, Default)]
pub(super) struct Tally {
    groups: HashMap<Option<String>, Group>,
    /// In the order of their numbers.
    members: HashMap<Option<String>, Vec<usize>>,
}

impl Tally {
    fn add(&mut self, index: usize, (owner, one): (Option<String>, Group)) {
        self.groups.entry(owner.clone()).or_default().add(&one, 1);
        let members = self.members.entry(owner).or_default();
        if let Err(place) = members.binary_search(&index) {
            members.insert(place, index);
        }
    }

    fn remove(&mut self, index: usize, (owner, one): (Option<String>, Group)) {
        let members = self.members.entry(owner.clone()).or_default();
        if let Ok(place) = members.binary_search(&index) {
            members.remove(place);
        }
        self.groups.entry(owner).or_default().add(&one, -1);
    }
}

/// Sets that are to be looked at: as their controller has it, where something of theirs changed and where they asked for it.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    all: bool,
    changed: HashSet<String>,
    wakes: HashMap<String, Timestamp>,
}

impl Agenda {
    fn machine_changed(&mut self, owner: Option<&String>) {
        match owner {
            Some(uid) => drop(self.changed.insert(uid.clone())),
            // One without an owner may be anybody's.
            None => self.all = true,
        }
    }

    /// Everything may have changed.
    pub(super) fn everything(&mut self) {
        self.all = true;
    }

    /// A set has changed.
    pub(super) fn set_changed(&mut self, set: &ObjectMeta) {
        self.machine_changed(set.uid.as_ref());
    }

    /// Takes the round's work: the sets of these that are due.
    pub(super) fn due(&mut self, sets: &[CaptMachineSet], now: Timestamp) -> Vec<String> {
        let (all, changed) = (std::mem::take(&mut self.all), std::mem::take(&mut self.changed));
        let due =
            |uid: &String| all || changed.contains(uid) || self.wakes.get(uid).is_some_and(|at| *at <= now);
        let meta = sets.iter().map(|set| &set.metadata);
        let due = meta.filter(|meta| meta.uid.as_ref().is_some_and(due)).filter_map(|meta| meta.name.clone());
        due.collect()
    }

    /// Notes when a set wants to be looked at again.
    pub(super) fn wake(&mut self, set: &ObjectMeta, at: Option<Timestamp>) {
        let Some(uid) = set.uid.clone() else { return };
        match at {
            Some(at) => drop(self.wakes.insert(uid, at)),
            None => drop(self.wakes.remove(&uid)),
        }
    }

    /// A set is gone.
    pub(super) fn forget(&mut self, set: &ObjectMeta) {
        self.wake(set, None);
    }

    /// Returns the earliest time at which a set asked to be looked at.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.wakes.values().min().copied()
    }
}

/// Facts of machines by their numbers, as far as they are known.
pub(super) type FactsOfMachines = Vec<Option<Facts>>;

/// Facts of machines, by the set that was planned with them.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_set: HashMap<String, (CaptMachineSet, FactsOfMachines)>,
}

impl Known {
    /// Takes the known facts of a set's machines; none where the set has become another.
    pub(super) fn take(&mut self, set: &CaptMachineSet) -> FactsOfMachines {
        let known = set.metadata.uid.as_ref().and_then(|uid| self.by_set.remove(uid));
        known
            .filter(|(before, _)| Reader::reads_alike(before, set))
            .map(|(_, facts)| facts)
            .unwrap_or_default()
    }

    pub(super) fn keep(&mut self, set: CaptMachineSet, facts: FactsOfMachines) {
        if let Some(uid) = set.metadata.uid.clone() {
            self.by_set.insert(uid, (set, facts));
        }
    }

    /// A machine has changed.
    fn forget(&mut self, index: usize) {
        for (_, facts) in self.by_set.values_mut() {
            if let Some(known) = facts.get_mut(index) {
                *known = None;
            }
        }
    }
}

/// The uid of what controls an object.
pub(super) fn controller(meta: &ObjectMeta) -> Option<&String> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| &owner.uid)
}

impl World {
    /// Counts everything again: the clock, or what makes a machine available, has changed.
    pub(super) fn recount(&mut self) {
        let mut tally = Tally::default();
        for (index, actor) in self.machines.iter() {
            tally.add(index, self.share(actor));
        }
        self.tally = tally;
    }

    /// Returns the owner that a machine counts for, and its share of the count.
    fn share(&self, actor: &Actor) -> (Option<String>, Group) {
        let standing = self.standing(&actor.object);
        let terminating = standing == MachineAvailability::Terminating;
        let one = Group {
            live: i32::from(!terminating),
            terminating: i32::from(terminating),
            available: i32::from(standing == MachineAvailability::Available),
            given_up: i32::from(terminating && actor.given_up),
        };
        (controller(&actor.object.metadata).cloned(), one)
    }

    /// Changes a machine.
    pub(super) fn change(&mut self, index: usize, change: impl FnOnce(&mut Actor)) {
        let Some(mut actor) = self.take(index) else { return };
        change(&mut actor);
        self.put(index, actor);
    }

    /// Adds a machine.
    pub(super) fn add(&mut self, actor: Actor) {
        let index = self.machines.next();
        self.names.insert(actor.object.metadata.name.clone().unwrap_or_default(), index);
        self.put(index, Box::new(actor));
    }

    /// Takes a machine away; its name.
    pub(super) fn remove(&mut self, index: usize) -> Option<String> {
        let actor = self.take(index)?;
        let name = actor.object.metadata.name.unwrap_or_default();
        self.names.remove(&name);
        Some(name)
    }

    fn put(&mut self, index: usize, actor: Box<Actor>) {
        let share = self.share(&actor);
        self.agenda.machine_changed(share.0.as_ref());
        self.tally.add(index, share);
        self.changes.extend(actor.changes_at().map(|at| (at, index)));
        self.machines.insert(index, actor);
    }

    fn take(&mut self, index: usize) -> Option<Box<Actor>> {
        let actor = self.machines.take(index)?;
        let share = self.share(&actor);
        self.agenda.machine_changed(share.0.as_ref());
        self.known.forget(index);
        self.tally.remove(index, share);
        if let Some(at) = actor.changes_at() {
            self.changes.remove(&(at, index));
        }
        Some(actor)
    }

    /// Machines of a set, and those that nobody controls, with what is known of them.
    pub(super) fn candidates(
        &self,
        set: &CaptMachineSet,
        known: &mut FactsOfMachines,
    ) -> Vec<(&CaptMachine, Facts)> {
        let of = |owner: &Option<String>| self.tally.members.get(owner).map_or(&[][..], Vec::as_slice);
        let strays = of(&None);
        let mut all = [of(&set.metadata.uid), strays].concat();
        if !strays.is_empty() {
            all.sort_unstable();
        }
        known.resize(self.machines.next(), None);
        let reader = Reader::new(set);
        let with_facts = |index: usize| {
            let machine = &self.machines[index].object;
            (machine, *known[index].get_or_insert_with(|| reader.read(machine, self.now)))
        };
        all.into_iter().map(with_facts).collect()
    }

    /// Returns the index of a machine.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// Machines of one set.
    pub(super) fn of_set(&self, set: &ObjectMeta) -> Group {
        self.tally.groups.get(&set.uid).copied().unwrap_or_default()
    }

    /// Machines of the deployment: those of its sets. One that was released is nobody's; where the deployment is gone, all that
    /// is left of it counts.
    pub(super) fn own(&self) -> Group {
        let mut all = Group::default();
        if self.exists {
            self.sets.iter().for_each(|set| all.add(&self.of_set(&set.metadata), 1));
        } else {
            self.tally.groups.values().for_each(|group| all.add(group, 1));
        }
        all
    }
}
