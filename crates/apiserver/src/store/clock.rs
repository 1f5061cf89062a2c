//! Time, as far as the store needs it: the age of history.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

/// Milliseconds since 1970.
pub type Millis = u64;

/// Tells the time of a change.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Millis;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        // A clock before 1970 is wrong anyway; age 0 only keeps history longer.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
    }
}
