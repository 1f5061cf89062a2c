//! Slots for connections, and their eviction when there are more clients than slots.
//!
//! ```text
//! free slot -> take it
//! all taken -> evict the oldest unauthenticated connection
//!           -> else the connection that was idle longest, of the user who has most
//!           -> else take a reserved slot, for administrators only: other users are refused at the first request
//! ```
//!
//! So unauthenticated clients only ever keep out each other, a user keeps half of the slots at most, and the administrator
//! gets in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{connection_timeouts::ConnectionTimeouts, limits::Limits, status::Refusal};
use crate::authn::User;

/// The time a connection has before it can be evicted: enough for a handshake and a first request, and a bound on how fast
/// one flood replaces another.
const GRACE: Duration = Duration::from_millis(250);

/// All connection slots.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    most: usize,
    reserved: usize,
    open: Mutex<Open>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    slots: HashMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    source: IpAddr,
    since: Instant,
    /// The user of the requests on this connection; `None` before the first one.
    user: Option<String>,
    is_master: bool,
    in_reserve: bool,
    /// The timeouts of the connection, once it is established.
    pulse: Option<Arc<ConnectionTimeouts>>,
    leave: CancellationToken,
}

impl Taken {
    fn is_leaving(&self) -> bool {
        self.leave.is_cancelled()
    }

    /// The time since when the connection has no request of an authenticated user.
    fn idle_since(&self) -> Option<Instant> {
        match (&self.user, &self.pulse) {
            (Some(_), Some(pulse)) => pulse.idle_since(),
            _ => Some(self.since),
        }
    }
}

impl Open {
    fn staying(&self) -> impl Iterator<Item = &Taken> {
        self.slots.values().filter(|taken| !taken.is_leaving())
    }

    /// The connection to evict: the one idle longest of the largest group of `group`.
    fn victim(&self, now: Instant, group: impl Fn(&Taken) -> Option<String>) -> Option<&Taken> {
        let mut sizes: HashMap<String, usize> = HashMap::new();
        let grouped: Vec<(String, &Taken)> =
            self.staying().filter_map(|taken| Some((group(taken)?, taken))).collect();
        for (name, _) in &grouped {
            *sizes.entry(name.clone()).or_default() += 1;
        }
        let old = grouped.into_iter().filter_map(|(name, taken)| Some((name, taken.idle_since()?, taken)));
        old.filter(|(_, since, _)| now.duration_since(*since) >= GRACE)
            .max_by_key(|(name, since, _)| (sizes.get(name).copied(), now.duration_since(*since)))
            .map(|(_, _, taken)| taken)
    }

    /// Evicts a connection, if one may be evicted.
    fn make_room(&self) -> bool {
        let now = Instant::now();
        let stranger = |taken: &Taken| taken.user.is_none().then(|| taken.source.to_string());
        let idle = |taken: &Taken| taken.user.clone().filter(|_| !taken.is_master);
        let victim = self.victim(now, stranger).or_else(|| self.victim(now, idle));
        victim.inspect(|taken| taken.leave.cancel()).is_some()
    }
}

impl ConnectionSlots {
    pub fn new(limits: &Limits) -> Arc<Self> {
        let most = limits.connections.max(1);
        let reserved = limits.reserved_connections.max(1);
        Arc::new(Self { most, reserved, open: Mutex::default(), freed: Notify::new() })
    }

    /// Returns when a connection may be accepted; until then clients wait in the kernel's queue.
    pub async fn room(&self) {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let has_room =
                self.with(|open| open.staying().count() < self.most + self.reserved || open.make_room());
            // Those who leave take a moment, and are not to be forgotten in a flood.
            if has_room && self.with(|open| open.slots.len() < 2 * (self.most + self.reserved)) {
                return;
            }
            let _ = timeout(GRACE, freed).await;
        }
    }

    /// Takes a slot for an accepted connection.
    pub fn enter(self: &Arc<Self>, source: IpAddr) -> ConnectionSlot {
        self.with(|open| {
            let in_reserve = open.staying().count() >= self.most && !open.make_room();
            open.next += 1;
            let (id, leave) = (open.next, CancellationToken::new());
            let taken = Taken {
                source,
                since: Instant::now(),
                user: None,
                is_master: false,
                in_reserve,
                pulse: None,
                leave: leave.clone(),
            };
            open.slots.insert(id, taken);
            ConnectionSlot { slots: Arc::clone(self), id, leave }
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Open) -> T) -> T {
        act(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The slot of one connection, given back when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    leave: CancellationToken,
}

impl ConnectionSlot {
    /// Returns when the connection is evicted.
    pub async fn lost(&self) {
        self.leave.cancelled().await;
    }

    /// Notes that the handshake is complete.
    pub fn established(&self, pulse: &Arc<ConnectionTimeouts>) {
        self.slots.with(|open| {
            if let Some(taken) = open.slots.get_mut(&self.id) {
                taken.pulse = Some(Arc::clone(pulse));
            }
        });
    }

    /// Notes the user of a request on this connection; refused if the slot is not for them.
    pub fn is_of(&self, user: &User) -> Result<(), Refusal> {
        self.slots.with(|open| {
            let Some(taken) = open.slots.get(&self.id) else { return Ok(()) };
            // Asked with every request, and known after the first.
            if taken.user.as_ref() == Some(&user.name) && !taken.in_reserve {
                return Ok(());
            }
            let (is_master, in_reserve) = (user.is_master(), taken.in_reserve);
            let ordinary = open.staying().filter(|taken| !taken.in_reserve).count();
            let promoted = in_reserve && ordinary < self.slots.most;
            if in_reserve && !promoted && !is_master {
                return Err(Refusal::busy());
            }
            if !is_master && !user.is_anonymous() && !self.has_share(open, user) {
                return Err(Refusal::busy());
            }
            if let Some(taken) = open.slots.get_mut(&self.id) {
                taken.in_reserve = in_reserve && !promoted;
                if !user.is_anonymous() {
                    taken.user = Some(user.name.clone());
                    taken.is_master |= is_master;
                }
            }
            Ok(())
        })
    }

    /// Returns whether the user has less than half of the slots, if need be after the eviction of an idle connection of theirs.
    fn has_share(&self, open: &Open, user: &User) -> bool {
        let own = open.staying().filter(|taken| taken.user.as_ref() == Some(&user.name)).count();
        if own < (self.slots.most / 2).max(1) {
            return true;
        }
        let theirs = |taken: &Taken| taken.user.clone().filter(|name| *name == user.name);
        let victim = open.victim(Instant::now(), theirs);
        victim.inspect(|taken| taken.leave.cancel()).is_some()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.with(|open| open.slots.remove(&self.id));
        self.slots.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::time::advance;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn slots(connections: usize, reserved_connections: usize) -> Arc<ConnectionSlots> {
        ConnectionSlots::new(&Limits { connections, reserved_connections, ..Limits::default() })
    }

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::anonymous() }
    }

    fn known(slot: &ConnectionSlot, user: &User) -> Arc<ConnectionTimeouts> {
        let pulse = ConnectionTimeouts::new(Arc::new(Limits::default()), true);
        slot.established(&pulse);
        slot.is_of(user).unwrap();
        drop(pulse.request());
        pulse
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_make_room_the_oldest_of_the_largest_crowd_first() {
        let slots = slots(3, 1);
        let other = slots.enter(THERE);
        advance(GRACE).await;
        let first = slots.enter(HERE);
        advance(GRACE).await;
        let second = slots.enter(HERE);
        advance(GRACE).await;
        let third = slots.enter(HERE);
        let lost = |slot: &ConnectionSlot| slot.leave.is_cancelled();
        assert!(lost(&first) && !lost(&second) && !lost(&third) && !lost(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_sent_away_at_once_and_reserve_is_for_administrators() {
        let slots = slots(2, 1);
        let (first, second) = (slots.enter(HERE), slots.enter(HERE));
        let third = slots.enter(HERE);
        assert!(!first.leave.is_cancelled() && !second.leave.is_cancelled(), "they are too young");
        assert!(third.is_of(&user("ann")).is_err());
        third.is_of(&User::admin()).unwrap();
        assert!(timeout(GRACE / 2, slots.room()).await.is_err(), "the reserve is taken as well");
        timeout(GRACE, slots.room()).await.unwrap();
        assert!(first.leave.is_cancelled() ^ second.leave.is_cancelled(), "they are as old as each other");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_known_users_are_not_cut_and_administrators_never_leave() {
        let slots = slots(2, 1);
        let (busy, admin) = (slots.enter(HERE), slots.enter(HERE));
        let pulse = known(&busy, &user("ann"));
        known(&admin, &User::admin());
        let request = pulse.request();
        advance(GRACE * 2).await;
        let third = slots.enter(HERE);
        assert!(third.is_of(&User::anonymous()).is_err());
        assert!(!busy.leave.is_cancelled() && !admin.leave.is_cancelled());
        drop((request, third));
        advance(GRACE).await;
        let fourth = slots.enter(HERE);
        assert!(busy.leave.is_cancelled() && !admin.leave.is_cancelled(), "idle now");
        fourth.is_of(&User::anonymous()).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_has_half_of_the_places() {
        let slots = slots(4, 1);
        let own: Vec<ConnectionSlot> = (0..3).map(|_| slots.enter(HERE)).collect();
        let pulses: Vec<_> = own[..2].iter().map(|slot| known(slot, &user("ann"))).collect();
        let requests: Vec<_> = pulses.iter().map(ConnectionTimeouts::request).collect();
        assert!(own[2].is_of(&user("ann")).is_err(), "both are busy");
        drop(requests);
        advance(GRACE).await;
        own[2].is_of(&user("ann")).unwrap();
        assert_eq!(own.iter().filter(|slot| slot.leave.is_cancelled()).count(), 1);
    }
}
