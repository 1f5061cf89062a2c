//! Large lists, serialized item by item while the client reads.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde_json::Value;

use super::{Chunk, ChunkedBody, FRAME_BYTES, IndentedBody};
use crate::authn::User;
use crate::handlers::response_budget::{ObjectRef, ObjectRefs, TargetRef};
use crate::output::list::{ListMeta, ListWriter};
use crate::secure_serving::{BudgetShare, UserBudget};
use crate::status::ApiError;
use crate::storage::{Target, is_as_stored, to_bytes, to_value};
use crate::store::Object;

/// An item takes many times its size as YAML, so each user gets one large YAML list at a time.
static YAML: LazyLock<Arc<UserBudget>> = LazyLock::new(|| UserBudget::of_each(1));
/// The end of a YAML list that is cut.
const CUT: &[u8] = b"- \"this list is cut, ask for it again";
/// The end of a JSON list.
const TAIL: &[u8] = b"]}\n";

/// A list with at least one item, serialized while the client reads it.
pub(in crate::handlers) struct StreamedList {
    /// The list up to the bracket before the first item.
    pub(super) head: Vec<u8>,
    pub(super) items: Items,
    pub(super) count: usize,
    /// Bytes of all items, where that is known before they are serialized.
    pub(super) length: Option<usize>,
}

/// Each item in two chunks, of which the second may be an object of the store.
pub(super) type Items = Box<dyn Iterator<Item = [Chunk; 2]> + Send>;

/// The objects that become the items of a list, and the builder of their items.
pub(in crate::handlers) struct PendingItems {
    pub objects: ObjectRefs,
    pub builder: ItemBuilder,
}

/// Serializes items that are not sent as they are stored.
pub(in crate::handlers) struct ItemBuilder {
    pub target: TargetRef,
    /// Takes a share of the response budget for an item that is larger than its stored object.
    pub grow: Box<dyn Fn(usize) -> Option<BudgetShare> + Send>,
}

impl ItemBuilder {
    /// The chunk of a serialized item; a missing one where the budget has no room for it.
    fn chunk(&self, item: Bytes, object: &Object) -> Chunk {
        // The bytes of the object were counted when the response began.
        let growth = item.len().saturating_sub(object.bytes().len());
        if growth <= FRAME_BYTES {
            return Chunk::Bytes(item);
        }
        (self.grow)(growth).map_or_else(missing, |share| Chunk::Budgeted(item, share))
    }
}

/// A chunk whose object is gone: it cuts the body.
pub(super) const fn missing() -> Chunk {
    Chunk::Stored(ObjectRef::missing(), 0)
}

/// A chunk without bytes.
pub(super) const fn empty() -> Chunk {
    Chunk::Bytes(Bytes::new())
}

impl StreamedList {
    /// A list of the objects themselves; `hold` takes references to them.
    pub fn plain(
        target: &Target,
        items: Vec<Arc<Object>>,
        hold: impl FnOnce(Vec<Arc<Object>>) -> PendingItems,
        meta: &ListMeta,
    ) -> Self {
        let served = &target.served;
        let writer = ListWriter::new(&served.resource, &served.version.name, meta, 0);
        let (head, count) = (writer.head(), items.len());
        let shown = |bytes: &Bytes| match writer.unshown(bytes) {
            0 => bytes.len(),
            unshown => bytes.len() - unshown + 1,
        };
        let known = items.iter().all(|item| is_as_stored(target, item));
        let length = known.then(|| items.iter().map(|item| shown(item.bytes())).sum());
        let PendingItems { objects, builder } = hold(items);
        let stored = |writer: &ListWriter, item: ObjectRef, object: &Object| {
            let unshown = writer.unshown(object.bytes());
            [opening(unshown), Chunk::Stored(item, unshown)]
        };
        let items: Items = if known {
            Box::new(objects.map(move |item| match item.get() {
                Some(object) => stored(&writer, item, &object),
                None => [empty(), missing()],
            }))
        } else {
            Box::new(objects.map(move |item| {
                let (Some(target), Some(object)) = (builder.target.target(), item.get()) else {
                    return [empty(), missing()];
                };
                if is_as_stored(&target, &object) {
                    return stored(&writer, item, &object);
                }
                let bytes = to_bytes(&target, &object);
                let unshown = writer.unshown(&bytes);
                [opening(unshown), builder.chunk(bytes.slice(unshown..), &object)]
            }))
        };
        Self { head, items, count, length }
    }

    /// A list of the items that `item` builds from the objects.
    pub fn built(
        pending: PendingItems,
        count: usize,
        head: Vec<u8>,
        item: impl Fn(&Value) -> Value + Send + 'static,
    ) -> Self {
        let PendingItems { objects, builder } = pending;
        let items = objects.map(move |reference| {
            let (Some(target), Some(object)) = (builder.target.target(), reference.get()) else {
                return [empty(), missing()];
            };
            let item = item(&to_value(&target, &object)).to_string();
            [empty(), builder.chunk(item.into(), &object)]
        });
        Self { head, items: Box::new(items), count, length: None }
    }

    /// The list as compact JSON.
    pub fn compact(self) -> ChunkedBody {
        let Self { head, items, count, length } = self;
        let length = length.map(|length| head.len() + length + count - 1 + TAIL.len());
        ChunkedBody::new(joined(head, items, b",", TAIL), length)
    }

    /// The list as indented JSON.
    pub fn indented(self) -> IndentedBody {
        IndentedBody::new(self.compact())
    }

    /// The list as YAML, one item at a time; refused while another one is sent to the same user.
    pub fn yaml(self, user: &User) -> Result<ChunkedBody, ApiError> {
        let share = YAML.take(user, 1).ok_or_else(ApiError::busy)?;
        let Self { head, items, .. } = self;
        let head = serde_saphyr::to_string(&parsed(&[&head, b"]}"])).expect("a JSON value is YAML");
        let head =
            head.strip_suffix("[]\n").expect("the items come last, and are none").trim_end().to_owned();
        let items = items.flat_map(|[first, second]| match (first.bytes(), second.bytes()) {
            (Some(start), Some(rest)) => [empty(), Chunk::Bytes(yaml_item(&parsed(&[&start, &rest])))],
            // A shorter list would be valid YAML; an unterminated string is not.
            _ => [Chunk::Bytes(Bytes::from_static(CUT)), second],
        });
        let end = std::iter::from_fn(move || {
            // The share is given back when the last item is sent.
            let _ = &share;
            None
        });
        Ok(ChunkedBody::new(
            std::iter::once(Chunk::Bytes(format!("{head}\n").into())).chain(items).chain(end),
            None,
        ))
    }
}

/// An item as it stands in a YAML list.
pub(super) fn yaml_item(item: &Value) -> Bytes {
    let list = serde_saphyr::to_string(&serde_json::json!({"items": [item]})).expect("a JSON value is YAML");
    list.strip_prefix("items:\n").expect("items of a list are on lines of their own").to_owned().into()
}

/// The brace of an item whose first members are left out.
pub(super) fn opening(unshown: usize) -> Chunk {
    if unshown == 0 { empty() } else { Chunk::Bytes(Bytes::from_static(b"{")) }
}

fn parsed(parts: &[&[u8]]) -> Value {
    serde_json::from_slice(&parts.concat()).expect("the parts of a list are JSON")
}

fn joined(
    head: Vec<u8>,
    items: Items,
    separator: &'static [u8],
    tail: &'static [u8],
) -> impl Iterator<Item = Chunk> + Send {
    let between = std::iter::once(Bytes::new()).chain(std::iter::repeat(Bytes::from_static(separator)));
    let items =
        between.zip(items).flat_map(|(separator, [first, second])| [Chunk::Bytes(separator), first, second]);
    std::iter::once(Chunk::Bytes(head.into())).chain(items).chain([Chunk::Bytes(Bytes::from_static(tail))])
}
