//! Budgets that users share: no user takes more than half, and the administrators have as much again for themselves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::{sync::Notify, time::timeout};

use crate::authn::User;

/// A budget of something: bytes, requests, watches.
#[derive(Debug)]
pub(crate) struct UserBudget {
    /// The limit for all users that are no administrators, and again for all administrators.
    limit: usize,
    /// The limit for one user that is no administrator.
    user_limit: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    masters: usize,
    others: usize,
    users: HashMap<String, usize>,
}

impl UserBudget {
    /// A budget. Every user can take at least `largest`, the amount of the largest request.
    pub fn new(limit: usize, largest: usize) -> Arc<Self> {
        let limit = limit.max(largest);
        let user_limit = (limit / 2).max(largest);
        Arc::new(Self { limit, user_limit, taken: Mutex::default(), freed: Notify::new() })
    }

    /// A budget for each user by itself; administrators have no limit.
    pub fn of_each(user_limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: usize::MAX, user_limit, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a share, if the budget has room now.
    pub fn take(self: &Arc<Self>, user: &User, amount: usize) -> Option<BudgetShare> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let user = (!user.is_master()).then(|| user.name.clone());
        if let Some(name) = &user {
            let own = taken.users.get(name).copied().unwrap_or_default();
            if taken.others + amount > self.limit || own + amount > self.user_limit {
                return None;
            }
            taken.others += amount;
            taken.users.insert(name.clone(), own + amount);
        } else {
            if taken.masters + amount > self.limit {
                return None;
            }
            taken.masters += amount;
        }
        Some(BudgetShare { budget: Arc::clone(self), user, amount })
    }

    /// Waits for a share; `None` after the timeout.
    pub async fn take_within(
        self: &Arc<Self>,
        user: &User,
        amount: usize,
        wait: Duration,
    ) -> Option<BudgetShare> {
        let taken = async {
            loop {
                // Registered before the attempt, so that a share freed after it wakes this task.
                let freed = self.freed.notified();
                tokio::pin!(freed);
                freed.as_mut().enable();
                if let Some(share) = self.take(user, amount) {
                    return share;
                }
                freed.await;
            }
        };
        timeout(wait, taken).await.ok()
    }
}

/// A share of a budget, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<UserBudget>,
    /// `None` for an administrator.
    user: Option<String>,
    amount: usize,
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.budget.freed.notify_waiters();
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
        let budget = UserBudget::new(10, 1);
        let of = |name: &str| std::iter::from_fn(|| budget.take(&user(name), 1)).collect::<Vec<_>>();
        let ann = of("ann");
        assert_eq!(ann.len(), 5);
        let (ben, eve) = (of("ben"), of("eve"));
        assert_eq!((ben.len(), eve.len()), (5, 0));
        let admin: Vec<_> = std::iter::from_fn(|| budget.take(&User::admin(), 1)).collect();
        assert_eq!(admin.len(), 10);
        drop(ann);
        assert_eq!(of("eve").len(), 5);
        drop((ben, eve, admin));
        assert!(budget.taken.lock().unwrap().users.is_empty(), "nobody is remembered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_is_waited_for() {
        let budget = UserBudget::new(1, 1);
        let patience = Duration::from_secs(5);
        let first = budget.take(&user("ann"), 1).unwrap();
        assert!(budget.take_within(&user("ann"), 1, patience).await.is_none());
        let ann = user("ann");
        let (second, ()) = tokio::join!(budget.take_within(&ann, 1, patience), async { drop(first) });
        assert!(second.is_some());
    }
}
