//! Queue of runs: by urgency, then round-robin over groups.

use std::collections::{HashMap, VecDeque};

/// Urgency of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Deletions: they free what others wait for, and people wait for them.
    Deletion,
    /// Runs that others depend on: a control plane must not wait for a thousand machines.
    Leading,
    /// All else.
    Ordinary,
}

/// A queue of items, fair between groups.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    deletions: Turns<T>,
    leading: Turns<T>,
    ordinary: Turns<T>,
}

#[derive(Debug)]
struct Turns<T> {
    /// Groups with something waiting, in the order of their turns.
    order: VecDeque<String>,
    waiting: HashMap<String, VecDeque<T>>,
}

impl<T> Queue<T> {
    pub fn new() -> Self {
        let turns = || Turns { order: VecDeque::new(), waiting: HashMap::new() };
        Self { deletions: turns(), leading: turns(), ordinary: turns() }
    }

    pub fn push(&mut self, urgency: Urgency, group: &str, item: T) {
        let turns = match urgency {
            Urgency::Deletion => &mut self.deletions,
            Urgency::Leading => &mut self.leading,
            Urgency::Ordinary => &mut self.ordinary,
        };
        if !turns.waiting.contains_key(group) {
            turns.order.push_back(group.to_owned());
        }
        turns.waiting.entry(group.to_owned()).or_default().push_back(item);
    }

    pub fn pop(&mut self) -> Option<T> {
        self.deletions.pop().or_else(|| self.leading.pop()).or_else(|| self.ordinary.pop())
    }

    /// The next deletion alone.
    pub fn pop_deletion(&mut self) -> Option<T> {
        self.deletions.pop()
    }

    /// Takes out the first item that is meant.
    pub fn take(&mut self, meant: impl Fn(&T) -> bool) -> Option<T> {
        [&mut self.deletions, &mut self.leading, &mut self.ordinary]
            .into_iter()
            .find_map(|turns| turns.take(&meant))
    }

    pub fn len(&self) -> usize {
        [&self.deletions, &self.leading, &self.ordinary]
            .iter()
            .flat_map(|turns| turns.waiting.values())
            .map(VecDeque::len)
            .sum()
    }
}

impl<T> Turns<T> {
    fn pop(&mut self) -> Option<T> {
        let group = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&group).expect("a group in order has items");
        let item = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&group);
        } else {
            self.order.push_back(group);
        }
        item
    }

    fn take(&mut self, meant: &impl Fn(&T) -> bool) -> Option<T> {
        let (group, at) = self
            .waiting
            .iter()
            .find_map(|(group, items)| items.iter().position(meant).map(|at| (group.clone(), at)))?;
        let items = self.waiting.get_mut(&group)?;
        let item = items.remove(at);
        if items.is_empty() {
            self.waiting.remove(&group);
            self.order.retain(|waiting| *waiting != group);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut Queue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn groups_take_turns() {
        let mut queue = Queue::new();
        for item in ["a1", "a2", "a3"] {
            queue.push(Urgency::Ordinary, "a", item);
        }
        queue.push(Urgency::Ordinary, "b", "b1");
        queue.push(Urgency::Ordinary, "c", "c1");
        queue.push(Urgency::Ordinary, "b", "b2");
        assert_eq!(queue.len(), 6);
        assert_eq!(drain(&mut queue), ["a1", "b1", "c1", "a2", "b2", "a3"]);
    }

    #[test]
    fn a_group_that_returns_waits_for_its_turn() {
        let mut queue = Queue::new();
        queue.push(Urgency::Ordinary, "a", "a1");
        queue.push(Urgency::Ordinary, "b", "b1");
        assert_eq!(queue.pop(), Some("a1"));
        queue.push(Urgency::Ordinary, "a", "a2");
        assert_eq!(drain(&mut queue), ["b1", "a2"]);
    }

    #[test]
    fn deletions_go_first_and_are_fair_too() {
        let mut queue = Queue::new();
        queue.push(Urgency::Ordinary, "a", "apply");
        queue.push(Urgency::Deletion, "a", "delete a1");
        queue.push(Urgency::Deletion, "a", "delete a2");
        queue.push(Urgency::Deletion, "b", "delete b1");
        assert_eq!(queue.pop_deletion(), Some("delete a1"));
        assert_eq!(drain(&mut queue), ["delete b1", "delete a2", "apply"]);
        queue.push(Urgency::Ordinary, "a", "apply");
        assert_eq!(queue.pop_deletion(), None);
    }

    #[test]
    fn what_others_are_built_on_does_not_wait_for_them() {
        let mut queue = Queue::new();
        for item in ["machine 1", "machine 2"] {
            queue.push(Urgency::Ordinary, "a", item);
        }
        queue.push(Urgency::Leading, "a", "control plane");
        queue.push(Urgency::Deletion, "b", "delete b1");
        assert_eq!(queue.len(), 4);
        assert_eq!(queue.take(|item| *item == "control plane"), Some("control plane"));
        queue.push(Urgency::Leading, "a", "control plane");
        assert_eq!(drain(&mut queue), ["delete b1", "control plane", "machine 1", "machine 2"]);
    }

    #[test]
    fn what_is_taken_out_leaves_no_gap() {
        let mut queue = Queue::new();
        queue.push(Urgency::Ordinary, "a", "a1");
        queue.push(Urgency::Ordinary, "b", "b1");
        assert_eq!(queue.take(|item| *item == "a1"), Some("a1"));
        assert_eq!(queue.take(|item| *item == "a1"), None);
        queue.push(Urgency::Ordinary, "a", "a2");
        assert_eq!(drain(&mut queue), ["b1", "a2"]);
    }
}
