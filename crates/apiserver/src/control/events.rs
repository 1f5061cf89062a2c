//! Events expire: each goes some time after it was last written, as an ordinary deletion.
//!
//! A running server sees every write. After a start it goes by the times in the event: the newest of its creation,
//! of its managers and of what it reports, as far as they are past. An event that changes meanwhile is not deleted:
//! what expires is the revision that was looked at.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::backoff::Backoff;
use crate::storage::Storage;
use crate::store::{Event, Filter, Key, ListQuery, Object, Revision, WatchError, Watcher, WriteError};

/// Events of both groups are stored here.
const STORE_NAME: &str = "/events";
/// Seconds since 1970.
type Seconds = i64;
/// The longest sleep: a clock that is set forward is noticed after that.
const NAP: Duration = Duration::from_secs(60);

/// A clock that is put right by less is not set back.
const SLACK: Seconds = 60;

/// Runs until the store is closed.
pub async fn run(storage: Arc<Storage>, ttl: Duration) {
    loop {
        let Ok((mut expiry, mut watcher)) = Expiry::start(&storage, ttl) else { return };
        let (mut backoff, mut refused, mut latest) = (Backoff::default(), false, now(&storage));
        loop {
            if !refused {
                refused = !expiry.expire(&storage).await;
                backoff.note(refused);
            }
            let nap = expiry.next().map_or(NAP, |due| {
                let left = due.saturating_sub(now(&storage)).max(1);
                Duration::from_secs(left.unsigned_abs()).min(NAP)
            });
            tokio::select! {
                event = watcher.next() => match event {
                    Ok(event) => expiry.see(&event, now(&storage)),
                    Err(WatchError::Closed) => return,
                    Err(_) => break,
                },
                () = backoff.is_due() => refused = false,
                () = tokio::time::sleep(nap), if !refused => {}
            }
            // What is due by a clock that was set back since would stay for as long as that was ahead.
            let now = now(&storage);
            if now < latest.saturating_sub(SLACK) {
                break;
            }
            latest = latest.max(now);
        }
    }
}

fn now(storage: &Storage) -> Seconds {
    seconds(&storage.now()).unwrap_or(Seconds::MAX)
}

fn seconds(text: &str) -> Option<Seconds> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

/// The expiry times of events.
struct Expiry {
    ttl: Seconds,
    due: BTreeSet<(Seconds, Key)>,
    known: HashMap<Key, (Seconds, Revision)>,
}

impl Expiry {
    fn start(storage: &Storage, ttl: Duration) -> Result<(Self, Watcher), WatchError> {
        let snapshot = storage.store.snapshot();
        let filter = Filter { resource: Some(STORE_NAME.into()), namespace: None };
        let watcher = storage.store.watch(filter, snapshot.revision())?;
        let ttl = Seconds::try_from(ttl.as_secs()).unwrap_or(Seconds::MAX);
        let mut expiry = Self { ttl, due: BTreeSet::new(), known: HashMap::new() };
        let now = now(storage);
        let query = ListQuery { resource: STORE_NAME, ..ListQuery::default() };
        // The newest revision can always be read.
        for object in snapshot.list(&query).map(|page| page.objects).unwrap_or_default() {
            expiry.note(&object, last_write(&object, now));
        }
        Ok((expiry, watcher))
    }

    fn see(&mut self, event: &Event, now: Seconds) {
        match event.current() {
            Some(object) => self.note(object, now),
            None => self.forget(event.key()),
        }
    }

    fn note(&mut self, object: &Object, written: Seconds) {
        self.forget(object.key());
        let due = written.saturating_add(self.ttl);
        self.due.insert((due, object.key().clone()));
        self.known.insert(object.key().clone(), (due, object.revision()));
    }

    fn forget(&mut self, key: &Key) {
        if let Some((due, _)) = self.known.remove(key) {
            self.due.remove(&(due, key.clone()));
        }
    }

    /// When the next event goes.
    fn next(&self) -> Option<Seconds> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Deletes what is due; false where there was no room for that, and it is to be tried again.
    async fn expire(&mut self, storage: &Storage) -> bool {
        let now = now(storage);
        while let Some((_, key)) = self.due.first().filter(|(due, _)| *due <= now).cloned() {
            let revision = self.known.get(&key).map(|(_, revision)| *revision);
            if let Err(WriteError::Full { .. }) = storage.store.delete(key.clone(), revision).await {
                return false;
            }
            // One that changed or went meanwhile comes back with its own event.
            self.forget(&key);
        }
        true
    }
}

/// The newest time in an event that is not in the future; without any, now.
fn last_write(object: &Object, now: Seconds) -> Seconds {
    let event: Value = serde_json::from_slice(object.bytes()).expect("the store holds the JSON it was given");
    let metadata = &event["metadata"];
    let managers = metadata["managedFields"].as_array().into_iter().flatten().map(|entry| &entry["time"]);
    let told =
        [&metadata["creationTimestamp"], &event["lastTimestamp"], &event["series"]["lastObservedTime"]];
    let times = managers.chain(told).filter_map(Value::as_str).filter_map(seconds);
    times.filter(|time| *time <= now).max().unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use serde_json::json;

    use super::*;
    use crate::storage::Source;
    use crate::store::{self, Options, Store};

    const HOUR: Duration = Duration::from_secs(3600);

    struct Hand(AtomicI64);

    impl Source for Arc<Hand> {
        fn now(&self) -> String {
            Timestamp::from_second(self.0.load(Ordering::Relaxed)).unwrap().to_string()
        }

        fn uid(&self) -> String {
            String::new()
        }

        fn draw(&self, _: usize) -> usize {
            0
        }
    }

    fn storage(store: Store) -> (Storage, Arc<Hand>) {
        let hand = Arc::new(Hand(AtomicI64::new(1_000_000)));
        (Storage::new(store, Arc::new(Arc::clone(&hand))), hand)
    }

    fn event(name: &str, last: i64) -> (Key, store::Value) {
        let time = Timestamp::from_second(last).unwrap().to_string();
        let event = json!({
            "metadata": {"name": name, "creationTimestamp": "1970-01-02T00:00:00Z"}, "lastTimestamp": time,
        });
        (Key::new(STORE_NAME, "default", name), store::Value::plain(event.to_string()))
    }

    fn names(storage: &Storage) -> Vec<String> {
        let query = ListQuery { resource: STORE_NAME, ..ListQuery::default() };
        storage.store.list(&query).unwrap().objects.iter().map(|it| it.key().name.to_string()).collect()
    }

    #[tokio::test]
    async fn an_event_goes_an_hour_after_its_last_write() {
        let (storage, hand) = storage(Store::in_memory(&Options::default()).unwrap());
        let (mut expiry, mut watcher) = Expiry::start(&storage, HOUR).ok().unwrap();
        for name in ["old", "written-again"] {
            let (key, value) = event(name, 0);
            storage.store.create(key, value).await.unwrap();
            expiry.see(&watcher.next().await.unwrap(), now(&storage));
        }
        hand.0.fetch_add(1800, Ordering::Relaxed);
        let (key, value) = event("written-again", 0);
        storage.store.update(key, value, None).await.unwrap();
        expiry.see(&watcher.next().await.unwrap(), now(&storage));
        hand.0.fetch_add(1799, Ordering::Relaxed);
        expiry.expire(&storage).await;
        assert_eq!(names(&storage), ["old", "written-again"]);
        hand.0.fetch_add(1, Ordering::Relaxed);
        expiry.expire(&storage).await;
        assert_eq!(names(&storage), ["written-again"]);
        let deleted = watcher.next().await.unwrap();
        assert!(deleted.current().is_none() && *deleted.key().name == *"old");
        assert_eq!(expiry.next(), Some(1_000_000 + 1800 + 3600));
        // Written after the look at it: it stays.
        hand.0.fetch_add(1800, Ordering::Relaxed);
        let (key, value) = event("written-again", 0);
        storage.store.update(key, value, None).await.unwrap();
        expiry.expire(&storage).await;
        assert_eq!(names(&storage), ["written-again"]);
    }

    #[tokio::test]
    async fn what_a_full_disk_keeps_goes_when_there_is_room() {
        let (store, _begins, verdict) = store::tests::court();
        let (storage, hand) = storage(store);
        let (mut expiry, mut watcher) = Expiry::start(&storage, HOUR).ok().unwrap();
        verdict.send(Ok(())).unwrap();
        let (key, value) = event("old", 0);
        storage.store.create(key, value).await.unwrap();
        expiry.see(&watcher.next().await.unwrap(), now(&storage));
        hand.0.fetch_add(3600, Ordering::Relaxed);
        for (said, done, left) in [(store::tests::no_room(), false, 1), (Ok(()), true, 0)] {
            verdict.send(said).unwrap();
            assert_eq!((expiry.expire(&storage).await, names(&storage).len()), (done, left));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_back_keeps_no_events() {
        let (storage, hand) = storage(Store::in_memory(&Options::default()).unwrap());
        let storage = Arc::new(storage);
        let running = tokio::spawn(run(Arc::clone(&storage), HOUR));
        let (key, value) = event("before", 1_000_000);
        storage.store.create(key, value).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        hand.0.fetch_sub(990_000, Ordering::Relaxed);
        tokio::time::sleep(2 * NAP).await;
        assert_eq!(names(&storage), ["before"]);
        hand.0.fetch_add(3600, Ordering::Relaxed);
        let gone = async {
            while !names(&storage).is_empty() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(10 * NAP, gone).await.unwrap();
        running.abort();
    }

    #[tokio::test]
    async fn after_a_start_the_times_in_an_event_count() {
        let folder = tempfile::tempdir().unwrap();
        {
            let store = Store::open(folder.path(), &Options::default()).unwrap();
            for (name, last) in [("old", 1_000_000 - 3600), ("new", 1_000_000 - 3599), ("future", 2_000_000)]
            {
                let (key, value) = event(name, last);
                store.create(key, value).await.unwrap();
            }
        }
        let (storage, _) = storage(Store::open(folder.path(), &Options::default()).unwrap());
        let (mut expiry, _watcher) = Expiry::start(&storage, HOUR).ok().unwrap();
        expiry.expire(&storage).await;
        // A time in the future says nothing: the creation is long past.
        assert_eq!(names(&storage), ["new"]);
    }
}
