//! Objects that an answer has yet to send.
//!
//! An object that is replaced while an answer waits for its client would be in memory for that answer alone, and so would
//! every version of it, for one answer after the other. So an answer holds its objects as far as a budget goes. Beyond it,
//! it refers to those of the store, which has what it serves and what its history needs, and is cut where history has
//! moved on before the client read so far.

use std::sync::{Arc, Weak};
use std::time::Duration;
use std::vec;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::authn::User;
use crate::registry::Served;
use crate::secure_serving::{Share, Shares};
use crate::status::ApiError;
use crate::storage::Target;
use crate::store::Object;

/// Bytes of objects that answers hold; half of it for one user, and as much again for administrators.
const HELD: usize = 64 << 20;
/// The unit in which that is given out.
const UNIT: usize = 1 << 10;
/// How long objects wait for a client that reads slowly: as long as history lasts. Upstream gives a list one minute.
const LIFE: Duration = Duration::from_secs(300);

/// Bytes of the selectors of one watch that are not counted; more than informers ask for.
const FEW: usize = 4 << 10;

/// The budget of objects that are held, and of what watches are selected by.
pub(super) fn room() -> Arc<Shares> {
    Shares::new(HELD / UNIT, 1)
}

/// Room for bytes of a request that last as long as its answer; a few need none.
pub(super) fn share(room: &Arc<Shares>, user: &User, bytes: usize) -> Result<Option<Share>, ApiError> {
    if bytes <= FEW {
        return Ok(None);
    }
    room.take(user, bytes.div_ceil(UNIT)).map(Some).ok_or_else(ApiError::busy)
}

/// An object that may be gone when it is wanted.
#[derive(Debug)]
pub(super) enum Reference {
    Held(Arc<Object>),
    Stored(Weak<Object>),
}

impl Reference {
    /// A reference to an object for as long as the store has it.
    pub fn stored(object: &Arc<Object>) -> Self {
        Self::Stored(Arc::downgrade(object))
    }

    /// A reference to nothing.
    pub const fn gone() -> Self {
        Self::Stored(Weak::new())
    }

    /// The object, if it is still there.
    pub fn get(&self) -> Option<Arc<Object>> {
        match self {
            Self::Held(object) => Some(Arc::clone(object)),
            Self::Stored(object) => object.upgrade(),
        }
    }
}

/// Objects in the order in which they are sent.
#[derive(Debug)]
pub(super) struct Objects {
    waiting: Waiting,
    until: Instant,
}

#[derive(Debug)]
enum Waiting {
    Held(vec::IntoIter<Arc<Object>>, #[expect(dead_code, reason = "given back when it is dropped")] Share),
    Stored(vec::IntoIter<Weak<Object>>),
}

impl Objects {
    /// Objects for an answer to a user: held, if there is room for them.
    pub fn new(room: &Arc<Shares>, user: &User, objects: Vec<Arc<Object>>) -> Self {
        let bytes: usize = objects.iter().map(|object| object.bytes().len()).sum();
        let waiting = if let Some(share) = room.take(user, bytes.div_ceil(UNIT)) {
            Waiting::Held(objects.into_iter(), share)
        } else {
            let stored: Vec<_> = objects.iter().map(Arc::downgrade).collect();
            Waiting::Stored(stored.into_iter())
        };
        Self { waiting, until: Instant::now() + LIFE }
    }
}

impl Objects {
    /// All of them, if none is gone.
    pub fn all(self) -> Option<Vec<Arc<Object>>> {
        self.map(|object| object.get()).collect()
    }
}

impl Iterator for Objects {
    type Item = Reference;

    fn next(&mut self) -> Option<Reference> {
        let next = match &mut self.waiting {
            Waiting::Held(objects, _) => objects.next().map(Reference::Held),
            Waiting::Stored(objects) => objects.next().map(Reference::Stored),
        };
        // Even what is left of an object that is gone takes a little memory.
        next.map(|next| if Instant::now() > self.until { Reference::gone() } else { next })
    }
}

/// A text of a catalogue: held as far as the budget goes, else there for as long as the catalogue is.
#[derive(Debug)]
pub(super) enum Text {
    Held(Arc<Bytes>, #[expect(dead_code, reason = "given back when it is dropped")] Share),
    Shared(Weak<Bytes>),
}

impl Text {
    /// A text for an answer to a user.
    pub fn new(room: &Arc<Shares>, user: &User, text: &Arc<Bytes>) -> Self {
        match room.take(user, text.len().div_ceil(UNIT)) {
            Some(share) => Self::Held(Arc::clone(text), share),
            None => Self::Shared(Arc::downgrade(text)),
        }
    }

    /// The text, if it is still there.
    pub fn get(&self) -> Option<Bytes> {
        match self {
            Self::Held(text, _) => Some(Bytes::clone(text)),
            Self::Shared(text) => text.upgrade().map(|text| Bytes::clone(&text)),
        }
    }
}

/// A target whose definition may be served no more when it is wanted.
#[derive(Debug)]
pub(super) struct Subject {
    served: Weak<Served>,
    namespace: Option<String>,
    status: bool,
    /// Cancelled when it is served no more.
    pub replaced: CancellationToken,
    /// Where it is held.
    _held: Option<(Arc<Served>, Share)>,
}

impl Subject {
    /// A target for as long as it is served.
    pub fn served(target: &Target) -> Self {
        let Target { served, namespace, status } = target;
        Self {
            served: Arc::downgrade(served),
            namespace: namespace.clone(),
            status: *status,
            replaced: served.replaced.clone(),
            _held: None,
        }
    }

    /// A target for an answer to a user: held, if there is room for it.
    pub fn new(room: &Arc<Shares>, user: &User, target: &Target) -> Self {
        let share = room.take(user, target.served.weight().div_ceil(UNIT));
        let held = share.map(|share| (Arc::clone(&target.served), share));
        Self { _held: held, ..Self::served(target) }
    }

    /// The same target of another definition.
    pub fn with(&self, served: &Arc<Served>) -> Self {
        let (namespace, status) = (self.namespace.clone(), self.status);
        Self::served(&Target { served: Arc::clone(served), namespace, status })
    }

    /// The target, if it is still served or held.
    pub fn target(&self) -> Option<Target> {
        let served = self.served.upgrade()?;
        Some(Target { served, namespace: self.namespace.clone(), status: self.status })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Key, Revision, Value};

    fn objects(count: u64) -> Vec<Arc<Object>> {
        let object = |n| {
            let value = Value::plain(vec![b'x'; 1 << 20]);
            Object::new(Key::new("things", "", "a"), value, Revision::new(n), Revision::new(n))
        };
        (0..count).map(object).collect()
    }

    fn alive(objects: Objects) -> usize {
        objects.filter(|object| object.get().is_some()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_store_drops_is_held_as_far_as_the_budget_goes() {
        let room = room();
        let ann = User { name: "ann".to_owned(), ..User::anonymous() };
        let first = Objects::new(&room, &ann, objects(30));
        let second = Objects::new(&room, &ann, objects(3));
        assert_eq!(alive(second), 0, "nobody else has them");
        assert_eq!(
            alive(Objects::new(&room, &User::admin(), objects(60))),
            60,
            "administrators have their own"
        );
        assert_eq!(alive(first), 30);
        assert_eq!(alive(Objects::new(&room, &ann, objects(30))), 30, "there is room again");
        let stored = objects(40);
        let refers = Objects::new(&room, &ann, stored.clone());
        assert_eq!(alive(refers), 40, "the store has them");

        let slow = Objects::new(&room, &ann, objects(1));
        tokio::time::advance(LIFE + Duration::from_secs(1)).await;
        assert_eq!(alive(slow), 0, "nothing is held without end");
    }
}
