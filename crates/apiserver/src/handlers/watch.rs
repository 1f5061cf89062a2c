//! Watches: a stream of events that follows one collection.
//!
//! The connection asks for an event when it has room for one, and only then is one taken from the store. So a watch that
//! is not read holds no objects: the store keeps its events, and when history has dropped them the watch ends with an
//! error.
//!
//! An event is written in frames of at most 32 KiB. Its object is the store's where the client wants it as it is; one that
//! history drops in the midst of its frames ends the watch. What has to be made (a table, metadata, another version) is
//! held by the watch until it is read: where that is large, it takes a share of a budget first.

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

use super::answer::endpoint;
use super::kept::{Objects, Reference, Subject};
use super::pieces::{FRAME, Piece, Pieces};
use super::{Api, Body, Call};
use crate::authn::User;
use crate::output::partial;
use crate::output::table::{Printer, TableOptions};
use crate::output::watch::{self, EventType};
use crate::request::accept::{Accepted, Transform, negotiate_watch};
use crate::request::query::ListOptions;
use crate::resource::{Column, Version};
use crate::secure_serving::{Share, Shares};
use crate::status::ApiError;
use crate::storage::{Storage, Target, is_as_stored, selected, to_bytes, to_value};
use crate::store::{Event, Object, Revision, WatchError, Watcher};

/// How long a watch lasts that does not say; clients start another one.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// How often a client that asked for bookmarks gets one.
const BOOKMARK: Duration = Duration::from_secs(60);
/// Bytes of large events that were made for clients and are not read yet; half of it for one user, and as much again for
/// administrators.
const MADE: usize = 64 << 20;
/// The unit in which that is given out.
const UNIT: usize = 1 << 10;
/// Bytes by which an event may be longer than its object without more room: its type, and what a table has around its one row.
const ENVELOPE: usize = 4 << 10;
/// How long a watch waits for its share. Longer than a client is kept that takes nothing, and its share with it.
const PATIENCE: Duration = Duration::from_secs(90);

/// The budget of events that are made.
pub(super) fn room() -> Arc<Shares> {
    Shares::new(MADE / UNIT, 1)
}

impl Api {
    /// Starts a watch.
    pub(super) async fn watch(
        self: &Arc<Self>,
        target: &Target,
        mut options: ListOptions,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let accepted = negotiate_watch(call.header(header::ACCEPT), endpoint(&target.served))?;
        let from = options.watch_from()?;
        (options.resource_version, options.continue_token) = (None, None);
        let share = call.keep_bytes(kept_bytes(target, &options, accepted, call.user))?;
        if let (Some(wanted), true) = (from, options.initial_events)
            && let Err(mut error) = self.storage.reach(target, wanted).await
        {
            if let ApiError::Timeout { retry_after_seconds, .. } = &mut error {
                *retry_after_seconds = 1;
            }
            // The watch has begun by then, and this is its one event.
            return Ok(stream(futures::stream::iter([watch::error(&error)])));
        }
        let (initial, start) = match from {
            Some(revision) if revision > 0 && !options.initial_events => (None, Revision::new(revision)),
            _ => {
                let (objects, revision) = self.storage.snapshot(target, &options)?;
                (Some(call.keep(objects)), revision)
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
        let room = (Arc::clone(&self.made), call.payer.in_budgets());
        let show = Show { subject: Watched::of(&self.storage, target), accepted, table, headed: false, room };
        let follow = Follow::new(options, initial, start, watcher);
        let events = Events { follow, show, unsent: None, _share: share };
        Ok(stream(futures::stream::unfold(events, |mut events| async move {
            let frame = events.frame().await?;
            Some((frame, events))
        })))
    }
}

/// What a watch keeps of its request, in bytes, roughly: selectors, names, and the columns of a table.
fn kept_bytes(target: &Target, options: &ListOptions, accepted: Accepted, user: &User) -> usize {
    /// Of a column, and of a byte of its path once that is parsed.
    const COLUMN: usize = 512;
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
struct Events {
    follow: Follow,
    show: Show,
    /// What is left of an event, and its share where it was made.
    unsent: Option<(Pieces, Option<Share>)>,
    /// What it keeps of its request.
    _share: Option<Share>,
}

impl Events {
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
            match self.follow.next(&mut self.show.subject).await? {
                Next::Object(kind, object, at) => match self.show.event(kind, object, at).await? {
                    Shown::Small(event) => return Some(event),
                    Shown::Large(event, share) => self.unsent = Some((event, share)),
                    Shown::Gone => return Some(self.follow.expired()),
                },
                Next::Bookmark(object) => {
                    return Some(self.show.made(EventType::Bookmark, &object).concat().into());
                }
                Next::Made(bytes) => return Some(bytes),
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
    target: Subject,
    storage: Weak<Storage>,
    /// The version that the watch began with, and where it is served.
    version: Weak<Version>,
    path: [String; 3],
}

impl Watched {
    fn of(storage: &Arc<Storage>, target: &Target) -> Self {
        let served = &target.served;
        let path = [&served.resource.group, &served.version.name, &served.resource.plural];
        Self {
            target: Subject::served(target),
            storage: Arc::downgrade(storage),
            version: Arc::downgrade(&served.version),
            path: path.map(Clone::clone),
        }
    }

    /// Goes on with what is served instead, where that means the same: a definition that is being deleted takes its objects along,
    /// and watches tell of it.
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

    /// It, if it is still served.
    fn target(&mut self) -> Option<Target> {
        if let Some(target) = self.target.target() {
            return Some(target);
        }
        if self.renew() { self.target.target() } else { None }
    }
}

/// What a watch tells next.
enum Next {
    /// An object, with another revision where one is given.
    Object(EventType, Reference, Option<Revision>),
    /// The object of a bookmark.
    Bookmark(Value),
    Made(Bytes),
}

/// Events in the order in which they are told.
struct Follow {
    options: ListOptions,
    /// What there was when the watch began, and is not told yet.
    initial: Option<Objects>,
    start: Revision,
    watcher: Watcher,
    /// When the watch has lasted long enough.
    end: Pin<Box<Sleep>>,
    bookmarks: Interval,
    /// Whether the last event was told.
    is_over: bool,
}

impl Follow {
    fn new(options: ListOptions, initial: Option<Objects>, start: Revision, watcher: Watcher) -> Self {
        // Any time that a client may ask for, as far as there is such a time.
        let end = Box::pin(sleep(options.timeout.unwrap_or(LONGEST)));
        let mut bookmarks = interval(BOOKMARK);
        bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        bookmarks.reset();
        Self { options, initial, start, watcher, end, bookmarks, is_over: false }
    }

    /// Waits for the next event; `None` where there is no other, or another definition is served. Dropping the future loses
    /// nothing.
    async fn next(&mut self, subject: &mut Watched) -> Option<Next> {
        if self.is_over {
            return None;
        }
        if let Some(objects) = &mut self.initial {
            if let Some(object) = objects.next() {
                return Some(Next::Object(EventType::Added, object, None));
            }
            self.initial = None;
            self.bookmarks.reset();
            if self.options.initial_events && self.options.bookmarks {
                return Some(Next::Bookmark(bookmark(&subject.target()?, self.start, true)));
            }
        }
        loop {
            tokio::select! {
                biased;
                () = &mut self.end => return None,
                () = subject.target.replaced.cancelled() => if !subject.renew() {
                    return None;
                },
                event = self.watcher.next() => match event {
                    Ok(event) => {
                        if let Some(next) = self.seen(&subject.target()?, &event) {
                            return Some(next);
                        }
                        // History may be full of events that are not selected: others are served between them.
                        tokio::task::coop::consume_budget().await;
                    }
                    Err(error) => return self.failed(&error),
                },
                _ = self.bookmarks.tick(), if self.options.bookmarks => {
                    return match self.watcher.progress() {
                        Ok(revision) => Some(Next::Bookmark(bookmark(&subject.target()?, revision, false))),
                        Err(error) => self.failed(&error),
                    };
                }
            }
        }
    }

    /// An event as it looks through the selectors of the watch.
    fn seen(&self, target: &Target, event: &Event) -> Option<Next> {
        let before = event.previous().is_some_and(|object| self.selects(target, object));
        let after = event.current().is_some_and(|object| self.selects(target, object));
        let kind = match (before, after) {
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
            (false, false) => return None,
        };
        let (object, at) = match (kind, event.previous(), event.current()) {
            // What leaves the selection is shown as it was while it was selected.
            (EventType::Deleted, Some(previous), Some(current)) => (previous, Some(current.revision())),
            _ => (event.object(), None),
        };
        Some(Next::Object(kind, Reference::stored(object), at))
    }

    fn selects(&self, target: &Target, object: &Object) -> bool {
        let options = &self.options;
        let everything = options.labels.is_empty() && options.fields.is_empty();
        everything || selected(target, object, options)
    }

    fn failed(&mut self, error: &WatchError) -> Option<Next> {
        self.is_over = true;
        match error {
            WatchError::TooSlow { at, compacted } => {
                Some(Next::Made(watch::error(&ApiError::too_old_watch(at.get(), compacted.get()))))
            }
            WatchError::Start(_) | WatchError::Closed => None,
        }
    }

    /// The last event of a watch whose next object history has dropped.
    fn expired(&mut self) -> Bytes {
        self.is_over = true;
        watch::error(&ApiError::too_old_watch(self.start.get(), self.watcher.compacted().get()))
    }
}

fn bookmark(target: &Target, revision: Revision, end_of_initial: bool) -> Value {
    let served = &target.served;
    let mut object =
        watch::bookmark_object(&served.resource.kind, &served.api_version, revision.get(), end_of_initial);
    // Of a built-in kind it is an object without contents, which still shows what every object has.
    let zero = served.kind.zero().as_object().into_iter().flatten();
    for (name, value) in zero.filter(|(name, _)| *name != "metadata") {
        object[name] = value.clone();
    }
    object
}

/// Writes events in the form the client wants.
struct Show {
    /// Its definition is not the watch's to keep: there may be thousands of watches, each with an older one.
    subject: Watched,
    accepted: Accepted,
    table: Option<(Printer, TableOptions)>,
    /// Whether an event was sent that says what the columns of a table are.
    headed: bool,
    /// Where large events are made, and for whom.
    room: (Arc<Shares>, User),
}

/// An event as it is sent.
enum Shown {
    Small(Bytes),
    Large(Pieces, Option<Share>),
    /// Its object is no more.
    Gone,
}

impl Show {
    /// Writes an event, once there is room for it; `None` where there is none in time, or another definition is served.
    async fn event(&mut self, kind: EventType, object: Reference, at: Option<Revision>) -> Option<Shown> {
        let Some(found) = object.get() else { return Some(Shown::Gone) };
        let mut length = found.bytes().len();
        let is_plain = self.accepted.transform.is_none() && at.is_none();
        if is_plain && length > FRAME && is_as_stored(&self.subject.target()?, &found) {
            let [head, _, tail] = watch::parts(kind, Bytes::new());
            let length = head.len() + length + tail.len();
            let pieces = [Piece::Made(head), Piece::Stored(object, 0), Piece::Made(tail)];
            return Some(Shown::Large(Pieces::known(pieces, length), None));
        }
        // Nothing is held while others have the room.
        drop(found);
        let mut share = None;
        loop {
            if length > FRAME {
                drop(share.take());
                let (room, user) = &self.room;
                share = Some(room.take_within(user, length.div_ceil(UNIT), PATIENCE).await?);
            }
            let Some(found) = object.get() else { return Some(Shown::Gone) };
            let headed = self.headed;
            let parts = self.stored(kind, &found, at)?;
            let made = parts.iter().map(Bytes::len).sum();
            if made <= FRAME || made <= length + ENVELOPE {
                return Some(whole(parts, share));
            }
            // Defaults that came later may have made megabytes of a few bytes: it is made again when there is room for them.
            (length, self.headed) = (made, headed);
        }
    }

    /// An event with an object of the store, with another revision where one is given.
    fn stored(&mut self, kind: EventType, object: &Object, at: Option<Revision>) -> Option<[Bytes; 3]> {
        let target = self.subject.target()?;
        if self.accepted.transform.is_none() && at.is_none() {
            return Some(watch::parts(kind, to_bytes(&target, object)));
        }
        let mut value = to_value(&target, object);
        if let Some(at) = at {
            value["metadata"]["resourceVersion"] = at.to_string().into();
        }
        Some(self.made(kind, &value))
    }

    /// An event with an object that is not the store's as it is.
    fn made(&mut self, kind: EventType, object: &Value) -> [Bytes; 3] {
        let bytes: Bytes = match (self.accepted.transform, &self.table) {
            (Some(_), Some((printer, options))) => {
                let mut options = *options;
                // Only the first event says what the columns are.
                options.no_headers = std::mem::replace(&mut self.headed, true);
                printer.one(object, options, Timestamp::now()).into()
            }
            (Some((_, version)), None) => partial::partial(object, version).to_string().into(),
            (None, _) => object.to_string().into(),
        };
        watch::parts(kind, bytes)
    }
}

/// An event of these parts.
fn whole(parts: [Bytes; 3], share: Option<Share>) -> Shown {
    let length = parts.iter().map(Bytes::len).sum();
    if length <= FRAME {
        return Shown::Small(parts.concat().into());
    }
    Shown::Large(Pieces::known(parts.map(Piece::Made), length), share)
}
