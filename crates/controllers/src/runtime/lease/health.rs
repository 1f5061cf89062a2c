//! The state of a Lease as health probes tell it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{LeaseError, renew_deadline};

/// Time after the end of its Lease for which a holder that still believes to lead counts as alive: the tolerance of Kubernetes' own
/// components.
const TOLERANCE: Duration = Duration::from_secs(20);

/// Follows a Lease from its candidate to the end of its holder.
#[derive(Clone, Debug, Default)]
pub struct LeaseHealth(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    /// The API has not answered yet.
    #[default]
    Unknown,
    Standby {
        holder: String,
    },
    Leading {
        lasts: Duration,
        renewed: Instant,
        /// Time at which the Lease was last known to be its own, also where it could not be renewed.
        confirmed: Instant,
    },
    Lost {
        why: String,
    },
}

impl LeaseHealth {
    /// Returns true if this process holds the Lease, as far as it knows.
    pub fn is_leading(&self) -> bool {
        matches!(*self.state(), State::Leading { .. })
    }

    /// Returns true if this process waits for another one. Such a one is ready: a rollout that waits for it would otherwise wait
    /// for ever, since the holder only goes after it.
    pub fn is_standby(&self) -> bool {
        matches!(*self.state(), State::Standby { .. })
    }

    /// The state in words, or why a holder is not ready to work.
    pub fn ready(&self) -> Result<String, String> {
        match &*self.state() {
            State::Unknown => Err("the API has not said yet who holds the Lease".to_owned()),
            State::Standby { holder } => Ok(format!("standby, {holder} holds the Lease")),
            State::Leading { lasts, renewed, .. } => match renewed.elapsed() {
                late if late > renew_deadline(*lasts) => {
                    Err(format!("the Lease was not renewed for {} s", late.as_secs()))
                }
                _ => Ok("holds the Lease".to_owned()),
            },
            State::Lost { why } => Err(why.clone()),
        }
    }

    /// Fails where a holder still believes to lead long after its Lease ended: it hangs, and a restart helps.
    pub fn live(&self) -> Result<(), String> {
        match &*self.state() {
            State::Leading { lasts, confirmed, .. } if confirmed.elapsed() > *lasts + TOLERANCE => {
                let late = confirmed.elapsed().as_secs();
                Err(format!("the Lease was not renewed for {late} s, and its holder goes on"))
            }
            State::Lost { why } => Err(why.clone()),
            _ => Ok(()),
        }
    }

    pub(super) fn waits_for(&self, holder: &str) {
        *self.state() = State::Standby { holder: holder.to_owned() };
    }

    pub(super) fn renewed(&self, lasts: Duration, begun: Instant) {
        *self.state() = State::Leading { lasts, renewed: begun, confirmed: begun };
    }

    pub(super) fn confirmed(&self, now: Instant) {
        if let State::Leading { confirmed, .. } = &mut *self.state() {
            *confirmed = now;
        }
    }

    pub(super) fn lost(&self, why: &LeaseError) {
        *self.state() = State::Lost { why: why.to_string() };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
