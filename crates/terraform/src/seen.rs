//! Identifies the write to a state backend that a record saw last, to find writes of other controllers since.
//!
//! A state's serial does not tell: a workspace that was destroyed and built again has another lineage, and much of a record changes while
//! the state stays as it is. So every write counts one on from what its writer had seen, and is known again by its checksum.

use serde::{Deserialize, Serialize};

use crate::{hash::sha256, state_backend::Kept};

/// One write to a state backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Counts the writes.
    pub turn: u64,
    /// Of record and state.
    pub sha256: String,
    /// Our own run that was under way then: it may have written more since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

impl Seen {
    /// Identifies a write that may be of another controller.
    pub fn of(kept: &Kept) -> Self {
        let lengths = [kept.record.len(), kept.state.len()].map(|length| length.to_string());
        let parts = [lengths[0].as_bytes(), b" ", lengths[1].as_bytes(), b" ", &kept.record, &kept.state];
        Self { turn: turn(kept).unwrap_or_default(), sha256: sha256(parts), run: None }
    }

    /// Identifies a write of our own.
    pub fn written(kept: &Kept) -> Self {
        Self { run: kept.running.as_ref().map(|running| running.run.clone()), ..Self::of(kept) }
    }

    /// The turn of the next write.
    pub fn next(seen: Option<&Self>) -> u64 {
        seen.map_or(0, |seen| seen.turn).saturating_add(1)
    }

    /// Returns true if nobody else has written since.
    pub fn is_last(&self, kept: &Kept) -> bool {
        let running = kept.running.as_ref().map(|running| &running.run);
        (running.is_some() && running == self.run.as_ref()) || Self::of(kept).sha256 == self.sha256
    }
}

/// The turn of what is kept. Older versions wrote none.
pub(crate) fn turn(kept: &Kept) -> Option<u64> {
    #[derive(Deserialize)]
    struct Turn {
        #[serde(default)]
        turn: Option<u64>,
    }
    serde_json::from_slice::<Turn>(&kept.record).ok()?.turn
}
