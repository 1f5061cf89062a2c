//! Permits to decode bodies: decoded, a body may take a hundred times its bytes, so only a few are decoded at once.
//!
//! ```text
//! a user       -> half of the bytes, for all their bodies -> FIFO queue of all users that are no administrators
//! an administrator ----------------------------------------> FIFO queue of all administrators
//! ```
//!
//! So a user waits behind at most one share of each other user, and administrators wait behind no users.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::user_budget::{BudgetShare, UserBudget};
use crate::authn::User;

/// The unit of a permit: a semaphore counts in 32 bits, and a small body costs more than its bytes.
const UNIT: usize = 1 << 10;

/// Gives out permits to decode bodies.
#[derive(Debug)]
pub(crate) struct DecodePermits {
    own: Arc<UserBudget>,
    others: Arc<Semaphore>,
    masters: Arc<Semaphore>,
}

/// The permit to decode the body of a request, in the extensions of the request.
///
/// It is released with its last copy. A handler that waits after its decoded body is dropped releases the permit first.
#[derive(Clone, Debug)]
pub struct DecodePermit {
    _taken: Arc<(BudgetShare, OwnedSemaphorePermit)>,
}

impl DecodePermits {
    /// Permits for `bytes` at once, and at least for the largest body.
    pub fn new(bytes: usize, largest: usize) -> Self {
        let largest = largest.div_ceil(UNIT).max(1);
        let units = bytes.div_ceil(UNIT).clamp(largest, Semaphore::MAX_PERMITS);
        let queue = || Arc::new(Semaphore::new(units));
        Self { own: UserBudget::of_each((units / 2).max(largest)), others: queue(), masters: queue() }
    }

    /// Waits for the permit to decode a body of `bytes`; `None` after the timeout.
    pub async fn take(&self, user: &User, bytes: usize, wait: Duration) -> Option<DecodePermit> {
        let units = bytes.div_ceil(UNIT);
        let queue = if user.is_master() { &self.masters } else { &self.others };
        let taken = async {
            let share = self.own.take_within(user, units, wait).await?;
            let permit = Arc::clone(queue).acquire_many_owned(u32::try_from(units).ok()?).await.ok()?;
            Some(DecodePermit { _taken: Arc::new((share, permit)) })
        };
        timeout(wait, taken).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::anonymous() }
    }

    fn now(permits: &DecodePermits, user: &User, units: usize) -> Option<DecodePermit> {
        permits.take(user, units * UNIT, PATIENCE).now_or_never().flatten()
    }

    #[tokio::test(start_paused = true)]
    async fn no_user_takes_the_permits_of_another_or_of_administrators() {
        let permits = DecodePermits::new(8 * UNIT, 3 * UNIT);
        let (ann, ben, eve) = (user("ann"), user("ben"), user("eve"));
        let of_ann = now(&permits, &ann, 3).unwrap();
        assert!(now(&permits, &ann, 2).is_none(), "more than half");
        assert!(permits.take(&ann, 2 * UNIT, PATIENCE).await.is_none(), "not in time either");
        let of_ben = now(&permits, &ben, 3).unwrap();
        assert!(now(&permits, &eve, 3).is_none(), "all are taken");
        assert!(now(&permits, &User::admin(), 3).is_some());
        drop((of_ann, of_ben));
        assert!(now(&permits, &eve, 3).is_some());
    }

    #[tokio::test]
    async fn small_bodies_do_not_overtake_a_large_one() {
        let permits = DecodePermits::new(8 * UNIT, 3 * UNIT);
        let (ann, ben, eve) = (user("ann"), user("ben"), user("eve"));
        let taken = [now(&permits, &ann, 3).unwrap(), now(&permits, &ben, 3).unwrap()];
        let mut large = Box::pin(permits.take(&eve, 3 * UNIT, PATIENCE));
        assert!(large.as_mut().now_or_never().is_none());
        assert!(now(&permits, &ann, 1).is_none(), "there is room, but the large body came first");
        drop(taken);
        assert!(large.await.is_some());
    }

    #[tokio::test]
    async fn the_largest_body_always_gets_a_permit_and_a_copy_keeps_it() {
        let permits = DecodePermits::new(0, 3 * UNIT);
        let permit = now(&permits, &user("ann"), 3).unwrap();
        let copy = permit.clone();
        drop(permit);
        assert!(now(&permits, &user("ben"), 1).is_none());
        drop(copy);
        assert!(now(&permits, &user("ben"), 1).is_some());
    }
}
