//! ConnectionSlots for connections: who has one, and who loses it when there are more clients than places.
//!
//! ```text
//! free place -> take it
//! all taken  -> the oldest of those who have not said who they are loses its place
//!            -> else the connection that was idle longest, of the user who has most
//!            -> else a place in reserve, for an administrator alone: anybody else is sent away at the first request
//! ```
//!
//! So strangers only ever keep out strangers, one user keeps half of the places at most, and the administrator gets in.

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

/// What a connection has at least before it makes room for another: time for a handshake and a first request, and a bound
/// on how fast one flood replaces another.
const GRACE: Duration = Duration::from_millis(250);

/// All places.
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
    places: HashMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    source: IpAddr,
    since: Instant,
    /// The user that a request of this connection was of; nobody yet.
    user: Option<String>,
    is_master: bool,
    in_reserve: bool,
    /// Once there is one: what is under way on the connection.
    pulse: Option<Arc<ConnectionTimeouts>>,
    leave: CancellationToken,
}

impl Taken {
    fn is_leaving(&self) -> bool {
        self.leave.is_cancelled()
    }

    /// Since when the connection could be closed without ending a request of somebody known.
    fn idle_since(&self) -> Option<Instant> {
        match (&self.user, &self.pulse) {
            (Some(_), Some(pulse)) => pulse.idle_since(),
            _ => Some(self.since),
        }
    }
}

impl Open {
    fn staying(&self) -> impl Iterator<Item = &Taken> {
        self.places.values().filter(|taken| !taken.is_leaving())
    }

    /// The one to leave, of those whom `group` puts into a group: the one idle longest of the largest group.
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

    /// Sends somebody away, if anybody may be.
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
            if has_room && self.with(|open| open.places.len() < 2 * (self.most + self.reserved)) {
                return;
            }
            let _ = timeout(GRACE, freed).await;
        }
    }

    /// A place for a connection that was accepted.
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
            open.places.insert(id, taken);
            ConnectionSlot { places: Arc::clone(self), id, leave }
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Open) -> T) -> T {
        act(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    id: u64,
    leave: CancellationToken,
}

impl ConnectionSlot {
    /// Returns when the connection is to make room for another.
    pub async fn lost(&self) {
        self.leave.cancelled().await;
    }

    /// The handshake is over.
    pub fn established(&self, pulse: &Arc<ConnectionTimeouts>) {
        self.places.with(|open| {
            if let Some(taken) = open.places.get_mut(&self.id) {
                taken.pulse = Some(Arc::clone(pulse));
            }
        });
    }

    /// A request on this connection is of `user`. Refused where the place is not for them.
    pub fn is_of(&self, user: &User) -> Result<(), Refusal> {
        self.places.with(|open| {
            let Some(taken) = open.places.get(&self.id) else { return Ok(()) };
            // Asked with every request, and known after the first.
            if taken.user.as_ref() == Some(&user.name) && !taken.in_reserve {
                return Ok(());
            }
            let (is_master, in_reserve) = (user.is_master(), taken.in_reserve);
            let ordinary = open.staying().filter(|taken| !taken.in_reserve).count();
            let promoted = in_reserve && ordinary < self.places.most;
            if in_reserve && !promoted && !is_master {
                return Err(Refusal::busy());
            }
            if !is_master && !user.is_anonymous() && !self.has_share(open, user) {
                return Err(Refusal::busy());
            }
            if let Some(taken) = open.places.get_mut(&self.id) {
                taken.in_reserve = in_reserve && !promoted;
                if !user.is_anonymous() {
                    taken.user = Some(user.name.clone());
                    taken.is_master |= is_master;
                }
            }
            Ok(())
        })
    }

    /// Whether the user has less than half of the places, if need be after one of theirs that is idle was closed.
    fn has_share(&self, open: &Open, user: &User) -> bool {
        let own = open.staying().filter(|taken| taken.user.as_ref() == Some(&user.name)).count();
        if own < (self.places.most / 2).max(1) {
            return true;
        }
        let theirs = |taken: &Taken| taken.user.clone().filter(|name| *name == user.name);
        let victim = open.victim(Instant::now(), theirs);
        victim.inspect(|taken| taken.leave.cancel()).is_some()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.with(|open| open.places.remove(&self.id));
        self.places.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::time::advance;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn places(connections: usize, reserved_connections: usize) -> Arc<ConnectionSlots> {
        ConnectionSlots::new(&Limits { connections, reserved_connections, ..Limits::default() })
    }

    fn user(name: &str) -> User {
        User { name: name.to_owned(), ..User::anonymous() }
    }

    fn known(place: &ConnectionSlot, user: &User) -> Arc<ConnectionTimeouts> {
        let pulse = ConnectionTimeouts::new(Arc::new(Limits::default()), true);
        place.established(&pulse);
        place.is_of(user).unwrap();
        drop(pulse.request());
        pulse
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_make_room_the_oldest_of_the_largest_crowd_first() {
        let places = places(3, 1);
        let other = places.enter(THERE);
        advance(GRACE).await;
        let first = places.enter(HERE);
        advance(GRACE).await;
        let second = places.enter(HERE);
        advance(GRACE).await;
        let third = places.enter(HERE);
        let lost = |place: &ConnectionSlot| place.leave.is_cancelled();
        assert!(lost(&first) && !lost(&second) && !lost(&third) && !lost(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_sent_away_at_once_and_reserve_is_for_administrators() {
        let places = places(2, 1);
        let (first, second) = (places.enter(HERE), places.enter(HERE));
        let third = places.enter(HERE);
        assert!(!first.leave.is_cancelled() && !second.leave.is_cancelled(), "they are too young");
        assert!(third.is_of(&user("ann")).is_err());
        third.is_of(&User::admin()).unwrap();
        assert!(timeout(GRACE / 2, places.room()).await.is_err(), "the reserve is taken as well");
        timeout(GRACE, places.room()).await.unwrap();
        assert!(first.leave.is_cancelled() ^ second.leave.is_cancelled(), "they are as old as each other");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_known_users_are_not_cut_and_administrators_never_leave() {
        let places = places(2, 1);
        let (busy, admin) = (places.enter(HERE), places.enter(HERE));
        let pulse = known(&busy, &user("ann"));
        known(&admin, &User::admin());
        let request = pulse.request();
        advance(GRACE * 2).await;
        let third = places.enter(HERE);
        assert!(third.is_of(&User::anonymous()).is_err());
        assert!(!busy.leave.is_cancelled() && !admin.leave.is_cancelled());
        drop((request, third));
        advance(GRACE).await;
        let fourth = places.enter(HERE);
        assert!(busy.leave.is_cancelled() && !admin.leave.is_cancelled(), "idle now");
        fourth.is_of(&User::anonymous()).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_has_half_of_the_places() {
        let places = places(4, 1);
        let own: Vec<ConnectionSlot> = (0..3).map(|_| places.enter(HERE)).collect();
        let pulses: Vec<_> = own[..2].iter().map(|place| known(place, &user("ann"))).collect();
        let requests: Vec<_> = pulses.iter().map(ConnectionTimeouts::request).collect();
        assert!(own[2].is_of(&user("ann")).is_err(), "both are busy");
        drop(requests);
        advance(GRACE).await;
        own[2].is_of(&user("ann")).unwrap();
        assert_eq!(own.iter().filter(|place| place.leave.is_cancelled()).count(), 1);
    }
}
