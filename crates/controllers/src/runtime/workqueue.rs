//! Rate-limited work queue.
//!
//! An object whose turn comes is looked at at once, then at most once per pause: what happens meanwhile is one look, not
//! many. So a set of a thousand machines costs a few looks a second while they change, not one per change; one of ten
//! thousand, whose look costs ten times as much, says how much longer its pause is.
//!
//! A controller with little to do has no reason to wait: there an object is looked at without a pause as long as looking at
//! it takes a small share of a second. So a chain of objects that wait for each other is not held up at each link. An object
//! with a longer pause always waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::name::Name;

/// Turns of objects. One that is being looked at keeps its next turn until that has ended.
#[derive(Debug)]
pub(super) struct WorkQueue {
    pause: Duration,
    /// As long may an object be looked at without a pause in each [`WINDOW`].
    quick: Duration,
    /// By time; those that are being looked at are not in here.
    turns: BTreeSet<(Instant, Arc<Name>)>,
    entries: HashMap<Arc<Name>, Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Time of its next turn.
    turn: Option<Instant>,
    /// Time at which the last look began.
    began: Option<Instant>,
    /// The pause after it.
    pause: Duration,
    looking: bool,
    /// Time spent on looks since this window began.
    spent: Duration,
    window: Option<Instant>,
}

/// Time until an object has its quick looks again.
const WINDOW: Duration = Duration::from_secs(1);
/// With more turns than this waiting a controller has something better to do.
const FEW: usize = 8;

impl WorkQueue {
    pub(super) fn new(pause: Duration, quick: Duration) -> Self {
        Self { pause, quick, turns: BTreeSet::new(), entries: HashMap::new() }
    }

    /// Something changed for an object.
    pub(super) fn wake(&mut self, name: &Name, now: Instant) {
        let entry = self.entries.get(name).copied().unwrap_or_default();
        let quick = entry.spent < self.quick && entry.pause <= self.pause && self.turns.len() <= FEW;
        let paused = entry.began.filter(|_| !quick).map(|began| now.max(began + entry.pause));
        self.schedule(name, paused.unwrap_or(now));
    }

    /// Gives an object a turn; an earlier one that it has stays.
    fn schedule(&mut self, name: &Name, at: Instant) {
        let (name, mut entry) = match self.entries.get_key_value(name) {
            Some((name, entry)) => (Arc::clone(name), *entry),
            None => (Arc::new(name.clone()), Entry::default()),
        };
        if entry.turn.is_some_and(|turn| turn <= at) {
            return;
        }
        let before = entry.turn.replace(at);
        if !entry.looking {
            if let Some(before) = before {
                self.turns.remove(&(before, Arc::clone(&name)));
            }
            self.turns.insert((at, Arc::clone(&name)));
        }
        self.entries.insert(name, entry);
    }

    /// Returns the time of the next turn.
    pub(super) fn due(&self) -> Option<Instant> {
        self.turns.first().map(|(at, _)| *at)
    }

    /// The object whose turn it is.
    pub(super) fn take(&mut self, now: Instant) -> Option<Name> {
        let (_, name) = self.turns.first().filter(|(at, _)| *at <= now)?.clone();
        self.turns.pop_first();
        let entry = self.entries.entry(Arc::clone(&name)).or_default();
        let fresh = entry.window.is_none_or(|begun| begun + WINDOW <= now);
        let (spent, window) = if fresh { (Duration::ZERO, Some(now)) } else { (entry.spent, entry.window) };
        let pause = entry.pause.max(self.pause);
        *entry = Entry { turn: None, began: Some(now), pause, looking: true, spent, window };
        Some(Name::clone(&name))
    }

    /// A look ended, and asks for another one. Changes before and from now on wait for so many pauses since it began.
    pub(super) fn ended(&mut self, name: &Name, now: Instant, again: Option<Instant>, pauses: u32) {
        let Some((name, entry)) =
            self.entries.get_key_value(name).map(|(name, entry)| (Arc::clone(name), *entry))
        else {
            return;
        };
        // What changed during the look has its turn after the pause; without one, now.
        let pause = self.pause * pauses;
        let spent = entry.spent + entry.began.map_or(Duration::ZERO, |began| now - began);
        let began = entry.began.filter(|_| pauses > 0);
        let woken = entry.turn.map(|turn| match began {
            None => now.min(turn),
            Some(began) if pauses > 1 => turn.max(began + pause),
            Some(_) => turn,
        });
        let turn = match (woken, again) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if let Some(at) = turn {
            self.turns.insert((at, Arc::clone(&name)));
        }
        self.entries.insert(name, Entry { turn, began, pause, looking: false, spent, ..entry });
    }

    /// Drops what nobody needs any more: objects at rest cost nothing here.
    pub(super) fn tidy(&mut self, now: Instant) {
        let rests = |entry: &Entry| {
            entry.turn.is_none()
                && !entry.looking
                && entry.began.is_none_or(|began| began + entry.pause <= now)
        };
        self.entries.retain(|_, entry| !rests(entry));
    }

    /// An object is gone.
    pub(super) fn forget(&mut self, name: &Name) {
        self.entries.remove(name);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);
    const QUICK: Duration = Duration::from_millis(15);

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn many_changes_are_one_look_and_none_is_lost() {
        let (name, start) = (Name::new("n", "a"), Instant::now());
        let mut queue = WorkQueue::new(PAUSE, Duration::ZERO);
        queue.wake(&name, start);
        queue.wake(&name, start);
        assert_eq!(queue.take(start), Some(name.clone()), "the first at once");
        assert_eq!(queue.take(start), None, "once");
        for moment in [1, 5, 20] {
            queue.wake(&name, after(start, moment));
        }
        assert_eq!(queue.take(after(start, 500)), None, "never two at a time");
        queue.ended(&name, start, None, 1);
        assert_eq!(queue.due(), Some(start + PAUSE), "the pause counts from the last look");
        assert_eq!(queue.take(after(start, 99)), None);
        assert_eq!(queue.take(after(start, 100)), Some(name.clone()), "all of them are one");
        queue.ended(&name, start, None, 1);
        assert_eq!(queue.due(), None);
        queue.wake(&name, after(start, 900));
        assert_eq!(queue.take(after(start, 900)), Some(name), "after a rest at once again");
    }

    #[test]
    fn what_costs_more_is_looked_at_less_often() {
        let (name, start) = (Name::new("n", "a"), Instant::now());
        let mut queue = WorkQueue::new(PAUSE, QUICK);
        queue.wake(&name, start);
        queue.take(start).unwrap();
        queue.wake(&name, after(start, 10));
        queue.ended(&name, after(start, 20), None, 5);
        assert_eq!(queue.due(), Some(after(start, 500)), "what came during the look waits as long");
        queue.take(after(start, 500)).unwrap();
        queue.ended(&name, after(start, 520), None, 5);
        queue.tidy(after(start, 900));
        queue.wake(&name, after(start, 900));
        assert_eq!(queue.due(), Some(after(start, 1000)), "and what comes later");
        queue.take(after(start, 1000)).unwrap();
        queue.ended(&name, after(start, 1010), None, 1);
        queue.wake(&name, after(start, 1020));
        assert_eq!(queue.due(), Some(after(start, 1020)), "once it is small again, as soon as others");
    }

    #[test]
    fn what_was_written_is_seen_without_a_pause() {
        let (name, start) = (Name::new("n", "a"), Instant::now());
        let mut queue = WorkQueue::new(PAUSE, Duration::ZERO);
        queue.wake(&name, start);
        queue.take(start).unwrap();
        queue.ended(&name, start, Some(after(start, 60_000)), 0);
        queue.wake(&name, after(start, 1));
        assert_eq!(queue.due(), Some(after(start, 1)));
        queue.take(after(start, 1)).unwrap();
        queue.wake(&name, after(start, 2));
        queue.ended(&name, after(start, 3), None, 0);
        assert_eq!(queue.due(), Some(after(start, 3)), "what came during the look, too");
    }

    #[test]
    fn the_earlier_turn_counts() {
        let (name, start) = (Name::new("n", "a"), Instant::now());
        let mut queue = WorkQueue::new(PAUSE, Duration::ZERO);
        queue.wake(&name, start);
        queue.take(start).unwrap();
        queue.ended(&name, start, Some(after(start, 10)), 1);
        queue.wake(&name, after(start, 5));
        assert_eq!(queue.due(), Some(after(start, 10)), "what a look asks for is not put off");
        queue.take(after(start, 10)).unwrap();
        queue.ended(&name, start, Some(after(start, 60_000)), 1);
        queue.wake(&name, after(start, 3_000));
        assert_eq!(queue.due(), Some(after(start, 3_000)));
        queue.take(after(start, 3_000)).unwrap();
        queue.ended(&name, start, None, 1);
        queue.tidy(after(start, 3_001));
        assert_eq!(queue.entries.len(), 1, "its pause still holds");
        queue.tidy(after(start, 3_100));
        assert!(queue.entries.is_empty());
    }

    #[test]
    fn an_idle_controller_looks_at_once_as_long_as_that_costs_little() {
        let (name, start) = (Name::new("n", "a"), Instant::now());
        let mut queue = WorkQueue::new(PAUSE, QUICK);
        for moment in [0, 10, 20] {
            queue.wake(&name, after(start, moment));
            assert_eq!(queue.take(after(start, moment)), Some(name.clone()), "without a pause");
            queue.ended(&name, after(start, moment + 5), None, 1);
        }
        queue.wake(&name, after(start, 30));
        assert_eq!(queue.due(), Some(after(start, 120)), "then with one");
        assert!(queue.take(after(start, 120)).is_some());
        queue.ended(&name, after(start, 121), None, 1);
        queue.wake(&name, after(start, 1030));
        assert!(queue.take(after(start, 1030)).is_some());
        queue.ended(&name, after(start, 1031), None, 1);
        queue.wake(&name, after(start, 1040));
        assert_eq!(queue.due(), Some(after(start, 1040)), "after a second it may again");
    }

    #[test]
    fn a_busy_controller_pauses() {
        let start = Instant::now();
        let mut queue = WorkQueue::new(PAUSE, QUICK);
        let names: Vec<Name> = (0..20).map(|number| Name::new("n", number.to_string())).collect();
        queue.wake(&names[0], start);
        assert!(queue.take(start).is_some());
        queue.ended(&names[0], start, None, 1);
        for name in &names[1..] {
            queue.wake(name, start);
        }
        queue.wake(&names[0], after(start, 1));
        let mut seen = 0;
        while queue.take(after(start, 99)).is_some() {
            seen += 1;
        }
        assert_eq!(seen, 19, "the others, and not the first again");
    }
}
