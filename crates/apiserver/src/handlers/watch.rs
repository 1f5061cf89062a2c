//! `watch`: a stream of the events of one collection.
//!
//! The connection asks for an event when it has room for one, and only then is one taken from the store. So a watch that
//! is not read holds no objects: the store keeps its events, and when history has been compacted the watch ends with an
//! error.
//!
//! An event is written in frames of at most 32 KiB. An object that the client wants as it is stored is sent from the store;
//! if history drops it between two frames, the watch ends. A converted object (a table, metadata, another version) is held
//! by the watch until it is read: a large one takes a share of a budget first.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval, sleep};

use super::body::{Chunk, ChunkedBody, FRAME_BYTES};
use super::response::endpoint;
use super::response_budget::{ObjectRef, ObjectRefs, TargetRef};
use super::{Api, Body, Call};
use crate::authn::User;
use crate::output::partial;
use crate::output::table::{Printer, TableOptions};
use crate::output::watch::{self, EventType};
use crate::request::accept::{Accepted, Transform, negotiate_watch};
use crate::request::query::ListOptions;
use crate::resource::{Column, Version};
use crate::secure_serving::{BudgetShare, UserBudget};
use crate::status::ApiError;
use crate::storage::{Storage, Target, is_as_stored, selected, to_bytes, to_value};
use crate::store::{Event, Object, Revision, WatchError, Watcher};

/// The duration of a watch without a timeout; clients start another one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The interval of bookmarks, for clients that ask for them.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Bytes of large converted events that are not read yet: half of them for one user, and as many again for administrators.
const MAX_BYTES: usize = 64 << 20;
/// The unit of the budget, in bytes.
const UNIT: usize = 1 << 10;
/// Bytes by which an event may exceed its object without a larger share: its type, and what a table has around its one row.
const ENVELOPE: usize = 4 << 10;
/// The wait of a watch for its share: longer than the timeout of clients that read nothing and hold shares.
const SHARE_TIMEOUT: Duration = Duration::from_secs(90);

/// The budget of converted events.
pub(super) fn budget() -> Arc<UserBudget> {
    UserBudget::new(MAX_BYTES / UNIT, 1)
}

impl Api {
    /// Answers with the stream of events of a collection.
    pub(super) async fn watch(
        self: &Arc<Self>,
        target: &Target,
        mut options: ListOptions,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let accepted = negotiate_watch(call.header(header::ACCEPT), endpoint(&target.served))?;
        let from = options.watch_from()?;
        (options.resource_version, options.continue_token) = (None, None);
        let share = call.take_bytes(request_bytes(target, &options, accepted, call.user))?;
        if let (Some(wanted), true) = (from, options.initial_events)
            && let Err(mut error) = self.storage.reach(target, wanted).await
        {
            if let ApiError::Timeout { retry_after_seconds, .. } = &mut error {
                *retry_after_seconds = 1;
            }
            // The response has begun by then, and the error is its only event.
            return Ok(stream(futures::stream::iter([watch::error(&error)])));
        }
        let (initial, start) = match from {
            Some(revision) if revision > 0 && !options.initial_events => (None, Revision::new(revision)),
            _ => {
                let (objects, revision) = self.storage.snapshot(target, &options)?;
                (Some(call.hold_objects(objects)), revision)
            }
        };
        let table = match accepted.transform {
            Some((Transform::Table, version)) => {
                let served = &target.served;
                let printer = Printer::new(&served.resource, &served.version);
                Some((printer, TableOptions::parse(&call.query, version)?))
            }
            Some((Transform::Partial | Transform::PartialList, _)) | None => None,
        };
        let watcher = self.storage.watch(target, start)?;
        let budget = (Arc::clone(&self.event_budget), call.budget_user.in_budgets());
        let encoder =
            Encoder { watched: Watched::of(&self.storage, target), accepted, table, headed: false, budget };
        let source = EventSource::new(options, initial, start, watcher);
        let events = EventStream { source, encoder, unsent: None, _share: share };
        Ok(stream(futures::stream::unfold(events, |mut events| async move {
            let frame = events.frame().await?;
            Some((frame, events))
        })))
    }
}

/// An estimate of the bytes of its request that a watch keeps: selectors, names, and the columns of a table.
fn request_bytes(target: &Target, options: &ListOptions, accepted: Accepted, user: &User) -> usize {
    /// Bytes of a column beside its texts.
    const COLUMN: usize = 512;
    /// Bytes of a byte of its path once that is parsed.
    const PARSED: usize = 16;
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let column = |Column { name, kind, format, description, priority: _, json_path }: &Column| {
        let texts = name.len() + kind.len() + format.len() + description.len() + json_path.len();
        COLUMN + texts + PARSED * json_path.len()
    };
    let is_table = matches!(accepted.transform, Some((Transform::Table, _)));
    let columns = target.served.version.columns.iter().filter(|_| is_table);
    options.selectors_bytes() + 2 * namespace.len() + user.name.len() + columns.map(column).sum::<usize>()
}

/// The events of a watch on their way to the connection.
struct EventStream {
    source: EventSource,
    encoder: Encoder,
    /// The rest of an event, with its share where it was converted.
    unsent: Option<(ChunkedBody, Option<BudgetShare>)>,
    /// The share of what the watch keeps of its request.
    _share: Option<BudgetShare>,
}

impl EventStream {
    async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some((event, _)) = &mut self.unsent {
                if let Some(frame) = event.frame() {
                    return Some(frame);
                }
                if event.is_cut() {
                    return None;
                }
                self.unsent = None;
            }
            match self.source.next(&mut self.encoder.watched).await? {
                NextEvent::Object(kind, object, at) => match self.encoder.event(kind, object, at).await? {
                    EncodedEvent::Small(event) => return Some(event),
                    EncodedEvent::Large(event, share) => self.unsent = Some((event, share)),
                    EncodedEvent::Gone => return Some(self.source.expired()),
                },
                NextEvent::Bookmark(object) => {
                    return Some(self.encoder.converted(EventType::Bookmark, &object).concat().into());
                }
                NextEvent::Error(bytes) => return Some(bytes),
            }
        }
    }
}

fn stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = events.map(|bytes| Ok(Frame::data(bytes)));
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(StreamBody::new(frames).boxed_unsync())
        .expect("headers of our own are valid")
}

/// The watched collection, as it is served now.
struct Watched {
    target: TargetRef,
    storage: Weak<Storage>,
    /// The version that the watch began with.
    version: Weak<Version>,
    /// Group, version and plural.
    path: [String; 3],
}

impl Watched {
    fn of(storage: &Arc<Storage>, target: &Target) -> Self {
        let served = &target.served;
        let path = [&served.resource.group, &served.version.name, &served.resource.plural];
        Self {
            target: TargetRef::served(target),
            storage: Arc::downgrade(storage),
            version: Arc::downgrade(&served.version),
            path: path.map(Clone::clone),
        }
    }

    /// Continues with the definition that is served now and returns true, if its version is the same: so a watch sees the
    /// objects go while their definition is being deleted.
    fn renew(&mut self) -> bool {
        let Some(storage) = self.storage.upgrade() else { return false };
        let (catalogue, [group, version, plural]) = (storage.registry.current(), &self.path);
        let served = catalogue.find(group, version, plural);
        let Some(served) = served.filter(|new| Arc::as_ptr(&new.version) == self.version.as_ptr()) else {
            return false;
        };
        self.target = self.target.with(served);
        true
    }

    /// The target, if it is still served.
    fn target(&mut self) -> Option<Target> {
        if let Some(target) = self.target.target() {
            return Some(target);
        }
        if self.renew() { self.target.target() } else { None }
    }
}

/// The next event of a watch.
enum NextEvent {
    /// An object, shown with another revision where one is given.
    Object(EventType, ObjectRef, Option<Revision>),
    /// The object of a bookmark.
    Bookmark(Value),
    /// An encoded error, the last event.
    Error(Bytes),
}

/// The events that a watch selects, in their order.
struct EventSource {
    options: ListOptions,
    /// Objects of the initial state that are not sent yet.
    initial: Option<ObjectRefs>,
    start: Revision,
    watcher: Watcher,
    /// Completes at the timeout of the watch.
    end: Pin<Box<Sleep>>,
    bookmarks: Interval,
    /// True after the last event.
    is_over: bool,
}

impl EventSource {
    fn new(options: ListOptions, initial: Option<ObjectRefs>, start: Revision, watcher: Watcher) -> Self {
        let end = Box::pin(sleep(options.timeout.unwrap_or(DEFAULT_TIMEOUT)));
        let mut bookmarks = interval(BOOKMARK_INTERVAL);
        bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        bookmarks.reset();
        Self { options, initial, start, watcher, end, bookmarks, is_over: false }
    }

    /// Waits for the next event; `None` at the end of the watch, or once another definition is served. Cancel safe.
    async fn next(&mut self, watched: &mut Watched) -> Option<NextEvent> {
        if self.is_over {
            return None;
        }
        if let Some(objects) = &mut self.initial {
            if let Some(object) = objects.next() {
                return Some(NextEvent::Object(EventType::Added, object, None));
            }
            self.initial = None;
            self.bookmarks.reset();
            if self.options.initial_events && self.options.bookmarks {
                return Some(NextEvent::Bookmark(bookmark(&watched.target()?, self.start, true)));
            }
        }
        loop {
            tokio::select! {
                biased;
                () = &mut self.end => return None,
                () = watched.target.replaced.cancelled() => if !watched.renew() {
                    return None;
                },
                event = self.watcher.next() => match event {
                    Ok(event) => {
                        if let Some(next) = self.select(&watched.target()?, &event) {
                            return Some(next);
                        }
                        // History may be full of events that are not selected: other tasks run in between.
                        tokio::task::coop::consume_budget().await;
                    }
                    Err(error) => return self.failed(&error),
                },
                _ = self.bookmarks.tick(), if self.options.bookmarks => {
                    return match self.watcher.progress() {
                        Ok(revision) => Some(NextEvent::Bookmark(bookmark(&watched.target()?, revision, false))),
                        Err(error) => self.failed(&error),
                    };
                }
            }
        }
    }

    /// Translates an event of the store: an object that begins to match the selectors is added, one that ceases to is deleted.
    fn select(&self, target: &Target, event: &Event) -> Option<NextEvent> {
        let before = event.previous().is_some_and(|object| self.selects(target, object));
        let after = event.current().is_some_and(|object| self.selects(target, object));
        let kind = match (before, after) {
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
            (false, false) => return None,
        };
        let (object, at) = match (kind, event.previous(), event.current()) {
            // An object that leaves the selection is shown as it was before.
            (EventType::Deleted, Some(previous), Some(current)) => (previous, Some(current.revision())),
            _ => (event.object(), None),
        };
        Some(NextEvent::Object(kind, ObjectRef::stored(object), at))
    }

    fn selects(&self, target: &Target, object: &Object) -> bool {
        let options = &self.options;
        let everything = options.labels.is_empty() && options.fields.is_empty();
        everything || selected(target, object, options)
    }

    fn failed(&mut self, error: &WatchError) -> Option<NextEvent> {
        self.is_over = true;
        match error {
            WatchError::TooSlow { at, compacted } => {
                Some(NextEvent::Error(watch::error(&ApiError::too_old_watch(at.get(), compacted.get()))))
            }
            WatchError::Start(_) | WatchError::Closed => None,
        }
    }

    /// The error that ends a watch whose next object history has dropped.
    fn expired(&mut self) -> Bytes {
        self.is_over = true;
        watch::error(&ApiError::too_old_watch(self.start.get(), self.watcher.compacted().get()))
    }
}

fn bookmark(target: &Target, revision: Revision, end_of_initial: bool) -> Value {
    let served = &target.served;
    let mut object =
        watch::bookmark_object(&served.resource.kind, &served.api_version, revision.get(), end_of_initial);
    // The bookmark of a built-in kind has the fields that Go never omits.
    let zero = served.kind.zero().as_object().into_iter().flatten();
    for (name, value) in zero.filter(|(name, _)| *name != "metadata") {
        object[name] = value.clone();
    }
    object
}

/// Encodes events in the negotiated form.
struct Encoder {
    /// A weak reference to the definition: thousands of watches may each have an older one.
    watched: Watched,
    accepted: Accepted,
    table: Option<(Printer, TableOptions)>,
    /// True after the event with the column definitions of a table.
    headed: bool,
    /// The budget of converted events, and the user that they count against.
    budget: (Arc<UserBudget>, User),
}

/// An encoded event.
enum EncodedEvent {
    Small(Bytes),
    Large(ChunkedBody, Option<BudgetShare>),
    /// Its object is gone.
    Gone,
}

impl Encoder {
    /// Encodes an event, once the budget has room for it; `None` after a timeout, or once another definition is served.
    async fn event(
        &mut self,
        kind: EventType,
        object: ObjectRef,
        at: Option<Revision>,
    ) -> Option<EncodedEvent> {
        let Some(found) = object.get() else { return Some(EncodedEvent::Gone) };
        let mut length = found.bytes().len();
        let is_plain = self.accepted.transform.is_none() && at.is_none();
        if is_plain && length > FRAME_BYTES && is_as_stored(&self.watched.target()?, &found) {
            let [head, _, tail] = watch::parts(kind, Bytes::new());
            let length = head.len() + length + tail.len();
            let chunks = [Chunk::Bytes(head), Chunk::Stored(object, 0), Chunk::Bytes(tail)];
            return Some(EncodedEvent::Large(ChunkedBody::with_length(chunks, length), None));
        }
        // No object is held while the watch waits for its share.
        drop(found);
        let mut share = None;
        loop {
            if length > FRAME_BYTES {
                drop(share.take());
                let (budget, user) = &self.budget;
                share = Some(budget.take_within(user, length.div_ceil(UNIT), SHARE_TIMEOUT).await?);
            }
            let Some(found) = object.get() else { return Some(EncodedEvent::Gone) };
            let headed = self.headed;
            let parts = self.stored(kind, &found, at)?;
            let encoded = parts.iter().map(Bytes::len).sum();
            if encoded <= FRAME_BYTES || encoded <= length + ENVELOPE {
                return Some(whole(parts, share));
            }
            // Defaults that were added to the schema later may turn a few bytes into megabytes: it is encoded again with a
            // larger share.
            (length, self.headed) = (encoded, headed);
        }
    }

    /// Encodes an object of the store, with another revision where one is given.
    fn stored(&mut self, kind: EventType, object: &Object, at: Option<Revision>) -> Option<[Bytes; 3]> {
        let target = self.watched.target()?;
        if self.accepted.transform.is_none() && at.is_none() {
            return Some(watch::parts(kind, to_bytes(&target, object)));
        }
        let mut value = to_value(&target, object);
        if let Some(at) = at {
            value["metadata"]["resourceVersion"] = at.to_string().into();
        }
        Some(self.converted(kind, &value))
    }

    /// Encodes an object as a table, as metadata, or as it is.
    fn converted(&mut self, kind: EventType, object: &Value) -> [Bytes; 3] {
        let bytes: Bytes = match (self.accepted.transform, &self.table) {
            (Some(_), Some((printer, options))) => {
                let mut options = *options;
                // Only the first event has column definitions.
                options.no_headers = std::mem::replace(&mut self.headed, true);
                printer.one(object, options, Timestamp::now()).into()
            }
            (Some((_, version)), None) => partial::partial(object, version).to_string().into(),
            (None, _) => object.to_string().into(),
        };
        watch::parts(kind, bytes)
    }
}

/// Joins the parts of an event.
fn whole(parts: [Bytes; 3], share: Option<BudgetShare>) -> EncodedEvent {
    let length = parts.iter().map(Bytes::len).sum();
    if length <= FRAME_BYTES {
        return EncodedEvent::Small(parts.concat().into());
    }
    EncodedEvent::Large(ChunkedBody::with_length(parts.map(Chunk::Bytes), length), share)
}
