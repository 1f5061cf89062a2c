//! Turns at decoding: as an object, a body may take a hundred times its bytes, so few of them are objects at once.
//!
//! ```text
//! a user       -> half of the bytes, for all their bodies -> in the order of coming, all that are no administrators
//! an administrator ----------------------------------------> in the order of coming, all administrators
//! ```
//!
//! So nobody waits behind more than one share of each other user, and administrators behind none.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::shares::{Share, Shares};
use crate::authn::User;

/// The unit of a turn: a semaphore counts in 32 bits, and a small body costs more than its bytes.
const UNIT: usize = 1 << 10;

/// All turns.
#[derive(Debug)]
pub(crate) struct Turns {
    own: Arc<Shares>,
    others: Arc<Semaphore>,
    masters: Arc<Semaphore>,
}

/// The leave to decode the body that a request brings, in the extensions of the request.
///
/// It ends with its last copy. What waits once the body is decoded and gone drops it first: others are waiting.
#[derive(Clone, Debug)]
pub struct Turn {
    _taken: Arc<(Share, OwnedSemaphorePermit)>,
}

impl Turns {
    /// Turns for so many bytes at once. The largest body has room in every share.
    pub fn new(bytes: usize, largest: usize) -> Self {
        let largest = largest.div_ceil(UNIT).max(1);
        let units = bytes.div_ceil(UNIT).clamp(largest, Semaphore::MAX_PERMITS);
        let queue = || Arc::new(Semaphore::new(units));
        Self { own: Shares::of_each((units / 2).max(largest)), others: queue(), masters: queue() }
    }

    /// The turn of a body of so many bytes, if it comes in time.
    pub async fn take(&self, user: &User, bytes: usize, patience: Duration) -> Option<Turn> {
        let units = bytes.div_ceil(UNIT);
        let queue = if user.is_master() { &self.masters } else { &self.others };
        let taken = async {
            let share = self.own.take_within(user, units, patience).await?;
            let permit = Arc::clone(queue).acquire_many_owned(u32::try_from(units).ok()?).await.ok()?;
            Some(Turn { _taken: Arc::new((share, permit)) })
        };
        timeout(patience, taken).await.ok().flatten()
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

    fn now(turns: &Turns, user: &User, units: usize) -> Option<Turn> {
        turns.take(user, units * UNIT, PATIENCE).now_or_never().flatten()
    }

    #[tokio::test(start_paused = true)]
    async fn no_user_takes_the_turns_of_another_and_nobody_those_of_administrators() {
        let turns = Turns::new(8 * UNIT, 3 * UNIT);
        let (ann, ben, eve) = (user("ann"), user("ben"), user("eve"));
        let of_ann = now(&turns, &ann, 3).unwrap();
        assert!(now(&turns, &ann, 2).is_none(), "more than half");
        assert!(turns.take(&ann, 2 * UNIT, PATIENCE).await.is_none(), "not in time either");
        let of_ben = now(&turns, &ben, 3).unwrap();
        assert!(now(&turns, &eve, 3).is_none(), "all are taken");
        assert!(now(&turns, &User::admin(), 3).is_some());
        drop((of_ann, of_ben));
        assert!(now(&turns, &eve, 3).is_some());
    }

    #[tokio::test]
    async fn small_bodies_do_not_overtake_a_large_one() {
        let turns = Turns::new(8 * UNIT, 3 * UNIT);
        let (ann, ben, eve) = (user("ann"), user("ben"), user("eve"));
        let taken = [now(&turns, &ann, 3).unwrap(), now(&turns, &ben, 3).unwrap()];
        let mut large = Box::pin(turns.take(&eve, 3 * UNIT, PATIENCE));
        assert!(large.as_mut().now_or_never().is_none());
        assert!(now(&turns, &ann, 1).is_none(), "there is room, and somebody came before");
        drop(taken);
        assert!(large.await.is_some());
    }

    #[tokio::test]
    async fn the_largest_body_always_has_a_turn_and_a_copy_keeps_it() {
        let turns = Turns::new(0, 3 * UNIT);
        let turn = now(&turns, &user("ann"), 3).unwrap();
        let copy = turn.clone();
        drop(turn);
        assert!(now(&turns, &user("ben"), 1).is_none());
        drop(copy);
        assert!(now(&turns, &user("ben"), 1).is_some());
    }
}
