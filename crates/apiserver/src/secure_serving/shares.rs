//! Budgets that users share: no user takes more than half, and the administrators have as much again for themselves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::{sync::Notify, time::timeout};

use crate::authn::User;

/// A budget of something: bytes, requests, watches.
#[derive(Debug)]
pub(crate) struct Shares {
    /// For all users that are no administrators, and for all that are.
    most: usize,
    /// For one user that is none.
    most_of_one: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    masters: usize,
    others: usize,
    users: HashMap<String, usize>,
}

impl Shares {
    /// A budget. `largest` is what one request may take: every share has room for it.
    pub fn new(most: usize, largest: usize) -> Arc<Self> {
        let most = most.max(largest);
        let most_of_one = (most / 2).max(largest);
        Arc::new(Self { most, most_of_one, taken: Mutex::default(), freed: Notify::new() })
    }

    /// A budget of each user alone; administrators have no bound.
    pub fn of_each(most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most: usize::MAX, most_of_one, taken: Mutex::default(), freed: Notify::new() })
    }

    /// A share, if there is one now.
    pub fn take(self: &Arc<Self>, user: &User, amount: usize) -> Option<Share> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let user = (!user.is_master()).then(|| user.name.clone());
        if let Some(name) = &user {
            let own = taken.users.get(name).copied().unwrap_or_default();
            if taken.others + amount > self.most || own + amount > self.most_of_one {
                return None;
            }
            taken.others += amount;
            taken.users.insert(name.clone(), own + amount);
        } else {
            if taken.masters + amount > self.most {
                return None;
            }
            taken.masters += amount;
        }
        Some(Share { shares: Arc::clone(self), user, amount })
    }

    /// A share, if there is one in time.
    pub async fn take_within(
        self: &Arc<Self>,
        user: &User,
        amount: usize,
        patience: Duration,
    ) -> Option<Share> {
        let taken = async {
            loop {
                // Registered before looking: what is freed after the look wakes the wait.
                let freed = self.freed.notified();
                tokio::pin!(freed);
                freed.as_mut().enable();
                if let Some(share) = self.take(user, amount) {
                    return share;
                }
                freed.await;
            }
        };
        timeout(patience, taken).await.ok()
    }
}

/// What was taken; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    /// `None`: an administrator.
    user: Option<String>,
    amount: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.user {
            None => taken.masters -= self.amount,
            Some(name) => {
                taken.others -= self.amount;
                if let Some(own) = taken.users.get_mut(name) {
                    *own -= self.amount;
                    if *own == 0 {
                        taken.users.remove(name);
                    }
                }
            }
        }
        drop(taken);
        self.shares.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::anonymous() }
    }

    #[test]
    fn one_user_leaves_half_and_all_users_leave_the_administrators_theirs() {
        let shares = Shares::new(10, 1);
        let of = |name: &str| std::iter::from_fn(|| shares.take(&user(name), 1)).collect::<Vec<_>>();
        let ann = of("ann");
        assert_eq!(ann.len(), 5);
        let (ben, eve) = (of("ben"), of("eve"));
        assert_eq!((ben.len(), eve.len()), (5, 0));
        let admin: Vec<_> = std::iter::from_fn(|| shares.take(&User::admin(), 1)).collect();
        assert_eq!(admin.len(), 10);
        drop(ann);
        assert_eq!(of("eve").len(), 5);
        drop((ben, eve, admin));
        assert!(shares.taken.lock().unwrap().users.is_empty(), "nobody is remembered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_is_waited_for() {
        let shares = Shares::new(1, 1);
        let patience = Duration::from_secs(5);
        let first = shares.take(&user("ann"), 1).unwrap();
        assert!(shares.take_within(&user("ann"), 1, patience).await.is_none());
        let ann = user("ann");
        let (second, ()) = tokio::join!(shares.take_within(&ann, 1, patience), async { drop(first) });
        assert!(second.is_some());
    }
}
