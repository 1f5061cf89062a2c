//! Figures for monitoring, gathered by the writer.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{draft::WriteError, key::Revision};

/// Upper bounds in seconds: from a commit in memory to a disk in trouble.
const COMMIT_SECONDS: [f64; 12] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5];

/// Upper bounds in writes, up to the largest group.
const GROUP_WRITES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// Counted observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
    }

    fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        // What is above every bound is in `count` alone, as in Prometheus' +Inf.
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += value;
        self.count += 1;
    }

    /// Upper bounds and the number of observations in each bucket, not cumulated.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().copied().zip(self.counts.iter().copied())
    }

    /// The sum of all observations.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The number of observations, those above the last bound included.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// The figures of a store at one moment.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The newest revision.
    pub revision: Revision,
    /// The oldest revision that can still be read.
    pub compacted: Revision,
    /// Resources that have objects, and how many.
    pub objects: Vec<(Arc<str>, usize)>,
    /// Events in the history.
    pub history_events: usize,
    /// Memory that only the history keeps alive, roughly.
    pub history_bytes: usize,
    /// Bytes of the database and its write-ahead log on disk; 0 in memory.
    pub disk_bytes: u64,
    /// Watchers there are.
    pub watchers: usize,
    /// Seconds from the start of a commit to its end.
    pub commit_seconds: Histogram,
    /// Writes that shared one commit.
    pub group_writes: Histogram,
    /// Commits that failed.
    pub failed_commits: u64,
    /// Why the store takes no more writes, when it does not.
    pub read_only: Option<Arc<str>>,
}

/// The measurements of the writer.
#[derive(Clone, Debug)]
pub(crate) struct Readings {
    pub(crate) commit_seconds: Histogram,
    pub(crate) group_writes: Histogram,
    pub(crate) failed_commits: u64,
    pub(crate) read_only: Option<Arc<str>>,
    /// Time and reason of the newest commit, if it found no room.
    pub(crate) full: Option<(Instant, Arc<str>)>,
}

#[derive(Debug)]
pub(crate) struct Meter(Mutex<Readings>);

impl Meter {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Readings {
            commit_seconds: Histogram::new(&COMMIT_SECONDS),
            group_writes: Histogram::new(&GROUP_WRITES),
            failed_commits: 0,
            read_only: None,
            full: None,
        }))
    }

    pub(crate) fn read(&self) -> Readings {
        self.lock().clone()
    }

    pub(crate) fn committed(&self, writes: usize, took: Duration) {
        let mut readings = self.lock();
        readings.full = None;
        readings.commit_seconds.observe(took.as_secs_f64());
        readings.group_writes.observe(f64::from(u32::try_from(writes).unwrap_or(u32::MAX)));
    }

    pub(crate) fn failed(&self, error: &WriteError) {
        let mut readings = self.lock();
        readings.failed_commits += 1;
        match error {
            WriteError::Full { reason } => readings.full = Some((Instant::now(), reason.clone())),
            WriteError::ReadOnly { reason } => readings.read_only = Some(reason.clone()),
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Readings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_fall_into_buckets() {
        let mut histogram = Histogram::new(&[1.0, 2.0, 4.0]);
        for value in [0.5, 1.0, 1.5, 4.0, 9.0] {
            histogram.observe(value);
        }
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(1.0, 2), (2.0, 1), (4.0, 1)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 16.0));
    }
}
