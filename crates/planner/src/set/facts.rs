//! Facts of a machine that plans use.
//!
//! It changes with the machine, and with name, selector, template and minReadySeconds of its set, but with time only as
//! [`Facts::standing`] knows: whoever plans for the same machines again and again can keep it. Labels of ten thousand machines
//! cost more than all the rest of a plan, and so does a look into each of them.

use capt_api::machine::{CaptMachine, CaptMachineSet};
use capt_api::names::annotations;
use jiff::Timestamp;

use super::build;
use crate::availability::{MachineAvailability, standing};
use crate::owner::{Kinship, Matcher, kinship};
use crate::{names, template};

/// Facts of a machine that plans use.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "answers to questions that do not depend on each other")]
pub(crate) struct Facts {
    /// Its number, where it has a name of the set.
    pub(super) number: Option<i64>,
    pub(super) kinship: Kinship,
    /// True if the selector of the set matches it.
    pub(super) matches: bool,
    /// True if it has all labels of its set's template.
    pub(super) fully_labeled: bool,
    /// True if it has all in-place fields of its set's template.
    pub(super) up_to_date: bool,
    /// True if a user has annotated it to go first.
    pub(super) annotated: bool,
    /// Its standing when it was read.
    standing: MachineAvailability,
}

impl Facts {
    /// Its standing now, at the time of the reading or later: time alone only makes a ready machine available.
    pub(super) fn standing(&self, now: Timestamp) -> MachineAvailability {
        match self.standing {
            MachineAvailability::Ready(due) if due <= now => MachineAvailability::Available,
            standing => standing,
        }
    }
}

/// Reads them for machines of one set.
pub(crate) struct Reader<'a> {
    set: &'a CaptMachineSet,
    matcher: Matcher,
    hash: String,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(set: &'a CaptMachineSet) -> Self {
        let (matcher, hash) = (Matcher::new(&set.spec.selector), template::in_place_hash(&set.spec.template));
        Self { set, matcher, hash }
    }

    pub(crate) fn read(&self, machine: &CaptMachine, now: Timestamp) -> Facts {
        let meta = &machine.metadata;
        let set_name = self.set.metadata.name.as_deref().unwrap_or_default();
        let fully_labeled = build::fully_labeled(machine, self.set);
        Facts {
            number: names::machine_number(set_name, meta.name.as_deref().unwrap_or_default()),
            kinship: kinship(meta, &self.set.metadata),
            matches: self.matcher.matches(meta.labels.as_ref()),
            fully_labeled,
            up_to_date: fully_labeled && build::is_marked(machine, &self.hash),
            annotated: meta
                .annotations
                .as_ref()
                .is_some_and(|all| all.contains_key(annotations::DELETE_MACHINE)),
            standing: standing(machine, self.set.spec.min_ready_seconds, now),
        }
    }

    /// Returns true if facts that were read for one version of a set hold for another.
    pub(crate) fn reads_alike(one: &CaptMachineSet, other: &CaptMachineSet) -> bool {
        let name = |set: &CaptMachineSet| (set.metadata.name.clone(), set.metadata.uid.clone());
        name(one) == name(other)
            && one.spec.selector == other.spec.selector
            && one.spec.template == other.spec.template
            && one.spec.min_ready_seconds == other.spec.min_ready_seconds
    }
}
