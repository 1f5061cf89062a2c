//! Numbers about the engine, for whoever serves them.

use std::{collections::BTreeMap, time::Duration};

/// Upper bounds of the duration buckets, in seconds; the last bucket has none.
pub const BUCKETS: [f64; 12] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0];

/// Numbers at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Runs that wait for their turn.
    pub queued: usize,
    /// Runs under way.
    pub running: usize,
    /// Runs by operation and outcome (`apply`, `done`).
    pub runs: BTreeMap<(&'static str, &'static str), u64>,
    /// Durations of runs, by operation.
    pub durations: BTreeMap<&'static str, Histogram>,
    /// `init` processes.
    pub inits: u64,
    /// Processes of any kind that worked on a module (`init`, `plan`, `apply`, …).
    pub processes: u64,
}

/// Durations, counted in buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// One count for each of [`BUCKETS`], not cumulative, and one for what is longer.
    pub counts: [u64; BUCKETS.len() + 1],
    /// Their sum, in seconds.
    pub sum: f64,
}

impl Histogram {
    pub(crate) fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS.len());
        self.counts[bucket] += 1;
        self.sum += seconds;
    }
}
