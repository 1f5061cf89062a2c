//! In-memory tables of the engine, under one lock that is never held across an await.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::{
    executor::Interruption,
    inputs::Revision,
    metrics::Snapshot,
    order::{Order, RunId, WorkspaceId},
    pool::{Gate, Queue, Urgency},
    view::{Outcome, View},
};

/// Why a run is stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Why {
    Cancelled,
    /// Its inputs are old: it is in nobody's way, should they be wanted again.
    Superseded,
    TimedOut,
    /// Nothing more can be written down.
    Full,
    /// Somebody else owns the workspace.
    Fenced(String),
}

impl From<Interruption> for Why {
    fn from(why: Interruption) -> Self {
        match why {
            Interruption::Cancelled => Self::Cancelled,
            Interruption::Superseded => Self::Superseded,
        }
    }
}

/// A run that was ordered.
pub(super) struct Ticket {
    pub id: RunId,
    pub order: Order,
    pub revision: Option<Revision>,
    pub stop: watch::Receiver<Option<Why>>,
}

/// The handle on a run that is queued or under way.
pub(super) struct Handle {
    pub id: RunId,
    pub stop: watch::Sender<Option<Why>>,
    pub queued: bool,
}

/// A prepared run that waits for room.
pub(super) struct Waiting {
    pub urgency: Urgency,
    pub estimate: u64,
    pub sender: oneshot::Sender<()>,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and any combination is valid")]
pub(super) struct Entry {
    pub view: View,
    /// The folder was read, and the state backend asked.
    pub known: bool,
    /// The view is not from a record: none could be read.
    pub unread: bool,
    pub run: Option<Handle>,
    /// The place of its state in a backend, while its run is under way.
    pub claims: Option<String>,
    /// Nobody has it any more: its object went, and what it built stayed.
    pub retained: bool,
    /// Forgetting or taking over is under way.
    pub reserved: bool,
}

impl Entry {
    /// Returns true if it is somebody's: one that was never opened has no object, and one that is retained has none any more.
    pub fn counts(&self) -> bool {
        (self.known || self.unread) && !self.retained
    }
}

pub(super) struct Table {
    /// Boxed: such a map is up to half empty, and an entry is large.
    pub entries: HashMap<WorkspaceId, Box<Entry>>,
    pub queue: Queue<Ticket>,
    pub gate: Gate,
    /// Prepared runs that wait for the gate, by urgency.
    pub waiting: VecDeque<Waiting>,
    /// Runs taken from the queue and not over yet.
    pub under_way: usize,
    pub numbers: Snapshot,
    pub orders: u64,
    /// No further run is started.
    pub closed: bool,
}

impl Table {
    pub fn new(slots: usize) -> Self {
        Self {
            entries: HashMap::new(),
            queue: Queue::new(),
            gate: Gate::new(slots),
            waiting: VecDeque::new(),
            under_way: 0,
            numbers: Snapshot::default(),
            orders: 0,
            closed: false,
        }
    }

    pub fn entry(&mut self, workspace: &WorkspaceId) -> &mut Entry {
        self.entries.entry(workspace.clone()).or_default()
    }

    /// Takes the place that a backend keeps a state in for a workspace; refused with the one whose state is there.
    pub fn claim(&mut self, workspace: &WorkspaceId, place: Option<String>) -> Result<(), WorkspaceId> {
        let own = self.entries.get(workspace).map(|own| &own.view);
        let own = own.filter(|own| own.touched && own.backend == place).map_or(Timestamp::MAX, View::since);
        let has = |entry: &Entry| {
            let built = entry.view.backend.as_ref().filter(|_| entry.view.touched && entry.counts());
            let is_first = built == place.as_ref() && entry.view.since() <= own;
            place.is_some() && (entry.claims == place || is_first)
        };
        let user = self.entries.iter().find(|(other, entry)| *other != workspace && has(entry));
        if let Some((user, _)) = user {
            return Err(user.clone());
        }
        self.entry(workspace).claims = place;
        Ok(())
    }

    pub fn count(&mut self, operation: &'static str, outcome: &Outcome, took: Duration) {
        *self.numbers.runs.entry((operation, outcome.as_str())).or_default() += 1;
        self.numbers.durations.entry(operation).or_default().add(took);
    }
}
