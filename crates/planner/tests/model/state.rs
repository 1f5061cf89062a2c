//! What the model knows: what is in the API, in caches, and yet to be written.

use std::collections::BTreeMap;

/// The deployment: it is read fresh, since a stale one only postpones an edit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Deployment {
    pub replicas: i32,
    /// Which template.
    pub template: u8,
    pub paused: bool,
    pub deleting: bool,
    /// Counts up with every change; only where deadlines are followed.
    pub generation: i64,
    /// What its status tells of the rollout; only where deadlines are followed.
    pub told: Option<Told>,
    /// The template that an undo by itself went back to last.
    pub undone_to: Option<u8>,
}

impl Deployment {
    /// One that nobody has changed yet.
    pub fn new(replicas: i32, template: u8) -> Self {
        Self {
            replicas,
            template,
            paused: false,
            deleting: false,
            generation: 1,
            told: None,
            undone_to: None,
        }
    }
}

/// What the status of a deployment tells of its rollout.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Told {
    pub observed: Option<i64>,
    pub replicas: i32,
    pub updated: i32,
    pub ready: i32,
    pub available: i32,
    pub word: Word,
    /// Whether the deadline has passed since the last progress.
    pub overdue: bool,
}

/// Reason of the condition Progressing.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Word {
    Moves,
    Done,
    Late,
    AwaitsPeople,
}

#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Set {
    /// Given by the API: no two sets ever have the same.
    pub id: u8,
    pub template: u8,
    pub owned: bool,
    pub deleting: bool,
    pub replicas: i32,
    pub generation: i64,
    pub revision: i64,
    pub desired: i32,
    pub create_disabled: bool,
    pub unavailable_first: bool,
    pub status: Option<Status>,
    /// Largest size it was ever told to have; the planner does not see it.
    pub largest: i32,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Status {
    pub observed: i64,
    pub replicas: i32,
    pub ready: i32,
    pub available: i32,
    pub terminating: i32,
    /// It knows that it is being deleted.
    pub deleting: bool,
    pub next: i64,
    pub pending: Vec<i64>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Machine {
    pub set: u8,
    pub number: i64,
    pub life: Life,
    pub bond: Bond,
    /// For deletion, by somebody.
    pub marked: bool,
}

impl Machine {
    /// One that a set creates.
    pub fn new(set: u8, number: i64) -> Self {
        Self { set, number, life: Life::Building, bond: Bond::Owned, marked: false }
    }

    /// Whether nothing was written to it since it was this: that time passes is no write.
    pub fn has_version_of(self, seen: Self) -> bool {
        let stored = |life| if life == Life::Warm { Life::Ready } else { life };
        Self { life: stored(self.life), ..self } == Self { life: stored(seen.life), ..seen }
    }
}

/// How a machine stands to its set.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Bond {
    Owned,
    /// Nobody owns it; the set's selector matches.
    Stray,
    /// The set owns it; its selector does not match any more.
    Unlabelled,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Life {
    Building,
    /// Ready, but not for long enough.
    Warm,
    /// Available.
    Ready,
    Failed,
    /// Being destroyed; whether a decision to have fewer took it.
    Going(bool),
}

impl Life {
    pub fn is_live(self) -> bool {
        !matches!(self, Self::Going(_))
    }
}

/// A write of the deployment's controller.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum DeploymentWrite {
    Create(Set),
    /// From what was read to what it becomes; refused where it is another by now.
    Change(Set, Set),
    Delete(u8),
    Adopt(Set),
    Finish,
    /// From what was read: refused where the deployment is another by now.
    Report(Deployment, Told),
    Undo(Deployment, u8),
}

/// A write of a set's controller.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum SetWrite {
    /// From what was read to what it becomes; refused where it is another by now, and then nothing more is written.
    Status(Set, Status),
    Create(i64),
    /// The machine as it was observed, and whether a decision to have fewer takes it; refused where it is another by now.
    Delete(Machine, bool),
    Adopt(i64),
    Release(i64),
    /// A live read.
    Probe(i64),
    /// From what was read.
    Finish(Set),
}

/// What a set's controller remembers of one set, until it crashes.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Memory {
    pub queue: Vec<SetWrite>,
    /// It created or deleted machines and has not seen that yet.
    pub awaits: bool,
    /// Numbers that will have no machine, by a live read.
    pub absent: Vec<i64>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct State {
    pub deployment: Deployment,
    /// Its finalizer is off, and it with it.
    pub gone: bool,
    pub next_id: u8,
    /// By id.
    pub sets: BTreeMap<u8, Set>,
    /// Sorted.
    pub machines: Vec<Machine>,

    /// The deployment controller's cache, and whether it lacks an own write.
    pub seen_sets: BTreeMap<u8, Set>,
    pub awaits: bool,
    pub queue: Vec<DeploymentWrite>,

    /// The set controller's caches.
    pub known_sets: BTreeMap<u8, Set>,
    pub known_machines: Vec<Machine>,
    pub memory: BTreeMap<u8, Memory>,

    /// A create that was under way when the process crashed.
    pub late: Option<(u8, i64)>,

    pub edits: u8,
    pub scales: u8,
    pub faults: u8,
    pub crashes: u8,
    pub pauses: u8,
    pub set_deletes: u8,
    pub deployment_deletes: u8,
    pub strays: u8,
    pub unlabels: u8,
    pub marks: u8,
    /// How often people have edited the template, and how often an undo by itself has.
    pub edited: u8,
    pub undone: u8,
    /// Machines that turned up without an owner so far: nobody made them.
    pub found: i32,
    /// Available machines that were lost to what nobody decided.
    pub lost: i32,
    /// Machines that were not ready in the beginning, and that no other one has made up for.
    pub short: i32,
    /// The fewest that must be available, and the most that may exist, of all that was asked for so far.
    pub floor: i32,
    pub ceiling: i32,
}
