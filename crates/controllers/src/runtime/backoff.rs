//! Delays before retries: growing, bounded, and never all at once.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::name::Name;

/// A growing delay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// Never longer than this.
    pub longest: Duration,
}

impl Backoff {
    /// For errors of the API.
    pub const API: Self = Self { first: Duration::from_millis(500), longest: Duration::from_secs(60) };
    /// For writes that met a newer object than the cache had.
    pub const STALE: Self = Self { first: Duration::from_millis(50), longest: Duration::from_secs(2) };
    /// For runs of Terraform that may work next time.
    pub const RUN: Self = Self { first: Duration::from_secs(30), longest: Duration::from_secs(30 * 60) };

    /// The delay after `failures` in a row, without chance: doubled each time.
    pub fn steady(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }

    /// The delay after `failures` in a row: up to a fifth longer, so that what failed together is not retried together.
    pub fn delay(&self, failures: u32) -> Duration {
        // The standard library's hash keys are random: enough chance for this.
        let chance = u32::try_from(RandomState::new().hash_one(failures) % 1000).unwrap_or_default();
        self.steady(failures).mul_f64(1.0 + 0.2 * f64::from(chance) / 1000.0)
    }
}

/// Failures in a row, by object.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<Name, u32>>);

impl Failures {
    /// One more; gives the number in a row.
    pub fn add(&self, name: &Name) -> u32 {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(name.clone()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// It worked.
    pub fn clear(&self, name: &Name) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_longest() {
        let backoff = Backoff { first: Duration::from_secs(30), longest: Duration::from_secs(300) };
        let seconds: Vec<u64> = [0, 1, 2, 3, 4, 5, u32::MAX].map(|n| backoff.steady(n).as_secs()).into();
        assert_eq!(seconds, [30, 30, 60, 120, 240, 300, 300]);
        let delay = backoff.delay(2);
        assert!(delay >= Duration::from_secs(60) && delay <= Duration::from_secs(72), "{delay:?}");
    }
}
