//! Watches: a stream of events that follows one collection.
//!
//! A task takes events from the store and hands them to the connection through a short queue. When the client is
//! slow the task waits, and the store keeps the events; when history has dropped them the watch ends with an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::answer::endpoint;
use super::{Api, Body, Call};
use crate::engine::{Target, selected, to_bytes, to_value};
use crate::output::partial;
use crate::output::table::{Printer, TableOptions};
use crate::output::watch::{self, EventType};
use crate::request::accept::{Accepted, Transform, negotiate_watch};
use crate::request::query::ListOptions;
use crate::status::ApiError;
use crate::store::{Event, Object, Revision, WatchError, Watcher};

/// Events that wait for a slow connection; the rest waits in the store.
const QUEUE: usize = 64;
/// How long a watch lasts that does not say; clients start another one.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// How often a client that asked for bookmarks gets one.
const BOOKMARK: Duration = Duration::from_secs(60);

impl Api {
    /// Starts a watch.
    pub(super) async fn watch(
        self: &Arc<Self>,
        target: &Target,
        options: &ListOptions,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let accepted = negotiate_watch(call.header(header::ACCEPT), endpoint(&target.served))?;
        let from = options.watch_from()?;
        if let (Some(wanted), true) = (from, options.initial_events)
            && let Err(mut error) = self.engine.reach(target, wanted).await
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
                let (objects, revision) = self.engine.snapshot(target, options)?;
                (Some(objects), revision)
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
        let watcher = self.engine.watch(target, start)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let task = Follow {
            target: target.clone(),
            options: options.clone(),
            accepted,
            table,
            sender,
            headed: AtomicBool::new(false),
        };
        tokio::spawn(task.run(initial, start, watcher));
        Ok(stream(futures::stream::unfold(receiver, |mut receiver| async move {
            let bytes: Bytes = receiver.recv().await?;
            Some((bytes, receiver))
        })))
    }
}

fn stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = events.map(|bytes| Ok(Frame::data(bytes)));
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(StreamBody::new(frames).boxed_unsync())
        .expect("headers of our own are valid")
}

/// The client is gone, or the watch is over.
struct Ended;

struct Follow {
    target: Target,
    options: ListOptions,
    accepted: Accepted,
    table: Option<(Printer, TableOptions)>,
    sender: mpsc::Sender<Bytes>,
    /// Whether an event was sent that says what the columns of a table are.
    headed: AtomicBool,
}

impl Follow {
    async fn run(self, initial: Option<Vec<Arc<Object>>>, start: Revision, watcher: Watcher) {
        // Both ends of a watch are ordinary: the client leaves, or the time is up.
        let _ = self.follow(initial, start, watcher).await;
    }

    async fn follow(
        &self,
        initial: Option<Vec<Arc<Object>>>,
        start: Revision,
        mut watcher: Watcher,
    ) -> Result<(), Ended> {
        let end = sleep_until(Instant::now() + self.options.timeout.unwrap_or(LONGEST));
        tokio::pin!(end);
        if let Some(objects) = initial {
            for object in objects {
                self.send_at(EventType::Added, &object, None).await?;
            }
            if self.options.initial_events && self.options.bookmarks {
                self.bookmark(start, true).await?;
            }
        }
        let mut bookmarks = interval(BOOKMARK);
        bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        bookmarks.reset();
        loop {
            tokio::select! {
                biased;
                () = &mut end => return Err(Ended),
                () = self.sender.closed() => return Err(Ended),
                event = watcher.next() => match event {
                    Ok(event) => self.pass(&event).await?,
                    Err(error) => return self.fail(&error).await,
                },
                _ = bookmarks.tick(), if self.options.bookmarks => {
                    match watcher.progress() {
                        Ok(revision) => self.bookmark(revision, false).await?,
                        Err(error) => return self.fail(&error).await,
                    }
                }
            }
        }
    }

    /// An event as it looks through the selectors of the watch.
    async fn pass(&self, event: &Event) -> Result<(), Ended> {
        let before = event.previous().is_some_and(|object| self.selects(object));
        let after = event.current().is_some_and(|object| self.selects(object));
        let kind = match (before, after) {
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
            (false, false) => return Ok(()),
        };
        match (kind, event.previous(), event.current()) {
            // What leaves the selection is shown as it was while it was selected.
            (EventType::Deleted, Some(previous), Some(current)) => {
                self.send_at(kind, previous, Some(current.revision())).await
            }
            _ => self.send_at(kind, event.object(), None).await,
        }
    }

    fn selects(&self, object: &Object) -> bool {
        let options = &self.options;
        let everything = options.labels.is_empty() && options.fields.is_empty();
        everything || selected(&self.target, object, options)
    }

    /// Sends an object, with another revision where one is given.
    async fn send_at(&self, kind: EventType, object: &Object, at: Option<Revision>) -> Result<(), Ended> {
        let value = || {
            let mut value = to_value(&self.target, object);
            if let Some(at) = at {
                value["metadata"]["resourceVersion"] = at.to_string().into();
            }
            value
        };
        let bytes = match (self.accepted.transform, &self.table) {
            (Some(_), Some((printer, options))) => {
                let mut options = *options;
                // Only the first event says what the columns are.
                options.no_headers = self.headed.swap(true, Ordering::Relaxed);
                watch::event(kind, &printer.one(&value(), options, Timestamp::now()))
            }
            (Some((_, version)), None) => {
                watch::event(kind, partial::partial(&value(), version).to_string().as_bytes())
            }
            (None, _) if at.is_some() => watch::event(kind, value().to_string().as_bytes()),
            (None, _) => watch::event(kind, &to_bytes(&self.target, object)),
        };
        self.sender.send(bytes).await.map_err(|_| Ended)
    }

    async fn bookmark(&self, revision: Revision, end_of_initial: bool) -> Result<(), Ended> {
        let served = &self.target.served;
        let mut object = watch::bookmark_object(
            &served.resource.kind,
            &served.api_version,
            revision.get(),
            end_of_initial,
        );
        // Of a built-in kind it is an object without contents, which still shows what every object has.
        let zero = served.kind.zero().as_object().into_iter().flatten();
        for (name, value) in zero.filter(|(name, _)| *name != "metadata") {
            object[name] = value.clone();
        }
        let bytes = watch::event(EventType::Bookmark, object.to_string().as_bytes());
        self.sender.send(bytes).await.map_err(|_| Ended)
    }

    async fn fail(&self, error: &WatchError) -> Result<(), Ended> {
        let error = match error {
            WatchError::TooSlow { at, compacted } => ApiError::too_old_watch(at.get(), compacted.get()),
            WatchError::Start(_) | WatchError::Closed => return Err(Ended),
        };
        self.sender.send(watch::error(&error)).await.map_err(|_| Ended)
    }
}
