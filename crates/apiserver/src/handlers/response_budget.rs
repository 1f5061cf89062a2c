//! The budget of objects that responses have yet to send.
//!
//! An object that is replaced while a response waits for its client is in memory for that response alone, and so can be
//! every version of it, for one response after the other. So responses hold their objects as far as a budget goes. Beyond
//! it they keep weak references to the objects of the store and its history, and are cut where history has been compacted
//! before the client has read so far.

use std::sync::{Arc, Weak};
use std::time::Duration;
use std::vec;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::authn::User;
use crate::registry::Served;
use crate::secure_serving::{BudgetShare, UserBudget};
use crate::status::ApiError;
use crate::storage::Target;
use crate::store::Object;

/// Bytes of objects that responses hold: half of them for one user, and as many again for administrators.
const MAX_BYTES: usize = 64 << 20;
/// The unit of the budget, in bytes.
const UNIT: usize = 1 << 10;
/// The time that objects wait for a slow client: as long as history lasts. kube-apiserver gives a list one minute.
const MAX_AGE: Duration = Duration::from_secs(300);

/// Bytes of the selectors of one watch that are not counted; the selectors of informers have fewer.
const FREE_BYTES: usize = 4 << 10;

/// The budget of held objects and of the selectors of watches.
pub(super) fn budget() -> Arc<UserBudget> {
    UserBudget::new(MAX_BYTES / UNIT, 1)
}

/// Takes a share for bytes of a request that are kept as long as its response lasts; a few bytes need none.
pub(super) fn take_bytes(
    budget: &Arc<UserBudget>,
    user: &User,
    bytes: usize,
) -> Result<Option<BudgetShare>, ApiError> {
    if bytes <= FREE_BYTES {
        return Ok(None);
    }
    budget.take(user, bytes.div_ceil(UNIT)).map(Some).ok_or_else(ApiError::busy)
}

/// A reference to an object: strong within the budget, weak beyond it.
#[derive(Debug)]
pub(super) enum ObjectRef {
    Held(Arc<Object>),
    Stored(Weak<Object>),
}

impl ObjectRef {
    /// A weak reference, which holds for as long as the store has the object.
    pub fn stored(object: &Arc<Object>) -> Self {
        Self::Stored(Arc::downgrade(object))
    }

    /// A reference to an object that is gone.
    pub const fn missing() -> Self {
        Self::Stored(Weak::new())
    }

    /// The object, if it is still in memory.
    pub fn get(&self) -> Option<Arc<Object>> {
        match self {
            Self::Held(object) => Some(Arc::clone(object)),
            Self::Stored(object) => object.upgrade(),
        }
    }
}

/// References to objects in the order in which they are sent.
#[derive(Debug)]
pub(super) struct ObjectRefs {
    refs: Refs,
    until: Instant,
}

#[derive(Debug)]
enum Refs {
    Held(
        vec::IntoIter<Arc<Object>>,
        #[expect(dead_code, reason = "given back when it is dropped")] BudgetShare,
    ),
    Stored(vec::IntoIter<Weak<Object>>),
}

impl ObjectRefs {
    /// References for a response to a user: strong if the budget has room.
    pub fn new(budget: &Arc<UserBudget>, user: &User, objects: Vec<Arc<Object>>) -> Self {
        let bytes: usize = objects.iter().map(|object| object.bytes().len()).sum();
        let refs = if let Some(share) = budget.take(user, bytes.div_ceil(UNIT)) {
            Refs::Held(objects.into_iter(), share)
        } else {
            let stored: Vec<_> = objects.iter().map(Arc::downgrade).collect();
            Refs::Stored(stored.into_iter())
        };
        Self { refs, until: Instant::now() + MAX_AGE }
    }
}

impl ObjectRefs {
    /// All objects, if none is gone.
    pub fn all(self) -> Option<Vec<Arc<Object>>> {
        self.map(|object| object.get()).collect()
    }
}

impl Iterator for ObjectRefs {
    type Item = ObjectRef;

    fn next(&mut self) -> Option<ObjectRef> {
        let next = match &mut self.refs {
            Refs::Held(objects, _) => objects.next().map(ObjectRef::Held),
            Refs::Stored(objects) => objects.next().map(ObjectRef::Stored),
        };
        // A weak reference keeps the allocation of an object that is gone.
        next.map(|next| if Instant::now() > self.until { ObjectRef::missing() } else { next })
    }
}

/// A reference to a text of a catalogue: strong within the budget, else it holds for as long as the catalogue.
#[derive(Debug)]
pub(super) enum TextRef {
    Held(Arc<Bytes>, #[expect(dead_code, reason = "given back when it is dropped")] BudgetShare),
    Shared(Weak<Bytes>),
}

impl TextRef {
    /// A reference for a response to a user.
    pub fn new(budget: &Arc<UserBudget>, user: &User, text: &Arc<Bytes>) -> Self {
        match budget.take(user, text.len().div_ceil(UNIT)) {
            Some(share) => Self::Held(Arc::clone(text), share),
            None => Self::Shared(Arc::downgrade(text)),
        }
    }

    /// The text, if it is still in memory.
    pub fn get(&self) -> Option<Bytes> {
        match self {
            Self::Held(text, _) => Some(Bytes::clone(text)),
            Self::Shared(text) => text.upgrade().map(|text| Bytes::clone(&text)),
        }
    }
}

/// A reference to a target, whose definition may be replaced or deleted meanwhile.
#[derive(Debug)]
pub(super) struct TargetRef {
    served: Weak<Served>,
    namespace: Option<String>,
    status: bool,
    /// Cancelled when the target is no longer served.
    pub replaced: CancellationToken,
    /// The strong reference, with its share.
    _held: Option<(Arc<Served>, BudgetShare)>,
}

impl TargetRef {
    /// A weak reference, which holds for as long as the target is served.
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

    /// A reference for a response to a user: strong if the budget has room.
    pub fn new(budget: &Arc<UserBudget>, user: &User, target: &Target) -> Self {
        let share = budget.take(user, target.served.weight().div_ceil(UNIT));
        let held = share.map(|share| (Arc::clone(&target.served), share));
        Self { _held: held, ..Self::served(target) }
    }

    /// A weak reference to the same target of another definition.
    pub fn with(&self, served: &Arc<Served>) -> Self {
        let (namespace, status) = (self.namespace.clone(), self.status);
        Self::served(&Target { served: Arc::clone(served), namespace, status })
    }

    /// The target, if it is still served or strongly referenced.
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

    fn alive(objects: ObjectRefs) -> usize {
        objects.filter(|object| object.get().is_some()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_objects_are_held_within_the_budget() {
        let budget = budget();
        let ann = User { name: "ann".to_owned(), ..User::anonymous() };
        let first = ObjectRefs::new(&budget, &ann, objects(30));
        let second = ObjectRefs::new(&budget, &ann, objects(3));
        assert_eq!(alive(second), 0, "nobody else has them");
        assert_eq!(
            alive(ObjectRefs::new(&budget, &User::admin(), objects(60))),
            60,
            "administrators have their own"
        );
        assert_eq!(alive(first), 30);
        assert_eq!(alive(ObjectRefs::new(&budget, &ann, objects(30))), 30, "there is budget again");
        let stored = objects(40);
        let refers = ObjectRefs::new(&budget, &ann, stored.clone());
        assert_eq!(alive(refers), 40, "the store has them");

        let slow = ObjectRefs::new(&budget, &ann, objects(1));
        tokio::time::advance(MAX_AGE + Duration::from_secs(1)).await;
        assert_eq!(alive(slow), 0, "nothing is held without end");
    }
}
