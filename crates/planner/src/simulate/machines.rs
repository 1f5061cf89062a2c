//! Machines by number, in the order in which they came.

use std::ops::Index;

use super::world::Actor;

/// Machines by number. No number is given out twice, so that what is known of a machine can be kept in a list, too: a plan
/// looks at ten thousand of them, and finds each without a search.
#[derive(Debug, Default)]
pub(super) struct Machines(Vec<Option<Box<Actor>>>);

impl Machines {
    /// The number of the next machine.
    pub(super) fn next(&self) -> usize {
        self.0.len()
    }

    /// Puts a machine in its place.
    pub(super) fn insert(&mut self, index: usize, actor: Box<Actor>) {
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(actor);
    }

    /// Takes a machine out; its place stays empty.
    pub(super) fn take(&mut self, index: usize) -> Option<Box<Actor>> {
        self.0.get_mut(index)?.take()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Actor)> {
        self.0.iter().enumerate().filter_map(|(index, actor)| Some((index, actor.as_deref()?)))
    }
}

impl Index<usize> for Machines {
    type Output = Actor;

    fn index(&self, index: usize) -> &Actor {
        self.0[index].as_deref().expect("the tally names machines that are there")
    }
}
