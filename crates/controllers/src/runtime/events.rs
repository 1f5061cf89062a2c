//! Events: what happened to an object, for `kubectl describe`.
//!
//! Of one reason on one kind a few are written each second, and a hundred at once: those of a thousand machines that are
//! made together would cost as much as the machines, and nobody reads them. Warnings are written as long as there is room to wait.
//!
//! Nobody waits for an event being written: those of a moment are written together, beside the work they tell of.

mod recorder;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use recorder::Recorder;

/// Longest note that the API accepts, in bytes.
const LONGEST_NOTE: usize = 1024;
/// Events of one reason on one kind that are written at once, where none were for a while.
const AT_ONCE: f64 = 100.0;
/// And each second after that.
const EACH_SECOND: f64 = 2.0;

/// Time that an event waits for others; a warning does not.
const GATHER: Duration = Duration::from_millis(100);
/// Events that are written together.
const TOGETHER: usize = 64;
/// Events that may wait: more than a few fleets make at once.
const WAITING: usize = 4096;
/// Timeout for the last events when the process stops.
const LAST: Duration = Duration::from_secs(2);

/// One thing that happened.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Note {
    /// True if somebody should look at it.
    pub warning: bool,
    /// Machine-readable reason.
    pub reason: Cow<'static, str>,
    /// Action that was done: a verb in CamelCase.
    pub action: &'static str,
    /// Message, in a sentence.
    pub text: String,
    /// Written however many there are of its reason: somebody will ask for it later.
    pub always: bool,
}

impl Note {
    /// Something went as it should.
    pub fn normal(
        reason: impl Into<Cow<'static, str>>,
        action: &'static str,
        text: impl Into<String>,
    ) -> Self {
        Self { warning: false, reason: reason.into(), action, text: text.into(), always: false }
    }

    /// Something did not.
    pub fn warning(
        reason: impl Into<Cow<'static, str>>,
        action: &'static str,
        text: impl Into<String>,
    ) -> Self {
        Self { warning: true, reason: reason.into(), action, text: text.into(), always: false }
    }

    /// One that is not left out in a flood of its reason.
    #[must_use]
    pub fn always(self) -> Self {
        Self { always: true, ..self }
    }
}

/// Writes events; one for the whole process, since it counts repetitions.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Said>,
    budget: Arc<Mutex<Budget>>,
}

/// Message to the task that writes events.
enum Said {
    Event(Box<(Note, ObjectReference)>),
    /// To answer when all before it are written.
    Flush(oneshot::Sender<()>),
}

impl Said {
    fn is_urgent(&self) -> bool {
        match self {
            Self::Event(about) => about.0.warning,
            Self::Flush(_) => true,
        }
    }
}

/// Number of events that may still be written, by kind and reason, and the time of that count.
#[derive(Debug, Default)]
struct Budget(HashMap<(String, Cow<'static, str>), (f64, Instant)>);

impl Budget {
    /// Takes one event from the budget; returns false if none is left.
    fn spend(&mut self, kind: String, reason: Cow<'static, str>, now: Instant) -> bool {
        let (left, since) = self.0.entry((kind, reason)).or_insert((AT_ONCE, now));
        *left = (*left + now.duration_since(*since).as_secs_f64() * EACH_SECOND).min(AT_ONCE);
        *since = now;
        let enough = *left >= 1.0;
        if enough {
            *left -= 1.0;
        }
        enough
    }
}

impl Events {
    /// Events of this program, and the task that writes them.
    pub fn new(
        client: Client,
        controller: &str,
        instance: Option<String>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let recorder = Recorder::new(client, controller, instance);
        let (queue, said) = mpsc::channel(WAITING);
        (Self { queue, budget: Arc::default() }, write(recorder, said))
    }

    /// Has one written. An event that cannot be is only logged: it must not stop the work it tells of.
    pub fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, note: &Note) {
        if !note.warning && !note.always {
            let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
            if !budget.spend(K::kind(&()).into_owned(), note.reason.clone(), Instant::now()) {
                return;
            }
        }
        let mut note = note.clone();
        if note.text.len() > LONGEST_NOTE {
            let text = &mut note.text;
            let end = (0..=LONGEST_NOTE - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        let reason = note.reason.clone();
        let said = Said::Event(Box::new((note, object.object_ref(&()))));
        if let Err(refused) = self.queue.try_send(said) {
            tracing::warn!(%reason, why = %refused, "an event was not written");
        }
    }

    /// Waits until those so far are written, for a while.
    pub async fn flush(&self) {
        let (answer, written) = oneshot::channel();
        let flush = async {
            if self.queue.send(Said::Flush(answer)).await.is_ok() {
                // Not answered: there is nobody who writes.
                let _ = written.await;
            }
        };
        if timeout(LAST, flush).await.is_err() {
            tracing::warn!("the last events were not written in time");
        }
    }
}

async fn write(recorder: Recorder, mut queue: mpsc::Receiver<Said>) {
    while let Some(first) = queue.recv().await {
        let (mut urgent, mut said) = (first.is_urgent(), vec![first]);
        let end = Instant::now() + GATHER;
        while said.len() < TOGETHER {
            let next = if urgent {
                queue.try_recv().ok()
            } else {
                timeout_at(end, queue.recv()).await.ok().flatten()
            };
            let Some(next) = next else { break };
            urgent |= next.is_urgent();
            said.push(next);
        }
        let (mut objects, mut waiting) = (HashMap::<_, Vec<_>>::new(), Vec::new());
        for one in said {
            match one {
                Said::Event(about) => objects.entry(about.1.uid.clone()).or_default().push(about),
                Said::Flush(answer) => waiting.push(answer),
            }
        }
        // Those of one object in their order: what is said again is counted, not written again.
        let in_order = async |events: &Vec<Box<(Note, ObjectReference)>>| {
            for about in events {
                write_one(&recorder, &about.0, &about.1).await;
            }
        };
        join_all(objects.values().map(in_order)).await;
        for answer in waiting {
            // Nobody may wait any more.
            let _ = answer.send(());
        }
    }
}

async fn write_one(recorder: &Recorder, note: &Note, about: &ObjectReference) {
    match timeout(super::status::PATIENCE, recorder.publish(note, about)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(reason = %note.reason, %error, "an event was not written"),
        Err(_) => tracing::warn!(reason = %note.reason, "an event was not written in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_for_later_is_written_in_a_flood() {
        let client = capt_apiserver::Server::in_memory().await.unwrap().client("default");
        let (events, work) = Events::new(client, "test", None);
        let object = k8s_openapi::api::core::v1::Namespace::default();
        let full = |events: &Events| WAITING - events.queue.capacity();
        for number in 0..200 {
            events.publish(&object, &Note::normal("Applied", "Apply", format!("run {number}")));
        }
        assert_eq!(full(&events), 100);
        events.publish(&object, &Note::normal("Applied", "Apply", "destroyed 2").always());
        assert_eq!(full(&events), 101);
        drop(work);
    }

    #[test]
    fn a_flood_is_cut_and_others_are_not() {
        let (mut budget, start) = (Budget::default(), Instant::now());
        let mut written = |kind: &str, seconds| {
            let now = start + Duration::from_secs(seconds);
            (0..1000).filter(|_| budget.spend(kind.to_owned(), "Provisioned".into(), now)).count()
        };
        assert_eq!(written("CaptMachine", 0), 100);
        assert_eq!(written("CaptMachine", 10), 20);
        assert_eq!(written("CaptMachineSet", 10), 100, "each kind has its own");
        assert_eq!(written("CaptMachine", 10_000), 100, "never more at once");
    }

    /// Reads the events about a Namespace, as `reason` and count, in the order of the API.
    async fn written(client: &Client) -> Vec<(String, i32)> {
        let events = kube::Api::<k8s_openapi::api::events::v1::Event>::all(client.clone());
        let mut all = events.list(&kube::api::ListParams::default()).await.unwrap().items;
        all.sort_by_key(|event| event.metadata.resource_version.clone().unwrap().parse::<u64>().unwrap());
        let count = |event: &k8s_openapi::api::events::v1::Event| {
            event.series.as_ref().map_or(1, |series| series.count)
        };
        all.iter().map(|event| (event.reason.clone().unwrap(), count(event))).collect()
    }

    #[tokio::test]
    async fn events_are_written_in_order_and_counted_and_none_is_left_at_the_end() {
        let server = capt_apiserver::Server::in_memory().await.unwrap();
        let client = server.client("default");
        let (events, work) = Events::new(client.clone(), "test", None);
        let _writer = tokio::spawn(work);
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(client.clone());
        let object = namespaces.get("default").await.unwrap();
        for reason in ["First", "Second", "Second", "Second", "Third"] {
            events.publish(&object, &Note::normal(reason, "Test", "it happened"));
        }
        events.flush().await;
        // A flush gives up on a machine that stands still.
        let expected = [("First", 1), ("Second", 3), ("Third", 1)];
        let expected = expected.map(|(reason, count)| (reason.to_owned(), count));
        let all = async {
            loop {
                let mut found = written(&client).await;
                found.sort();
                if found == expected {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), all).await.unwrap();
        // A warning takes with it, at once, what was said before it.
        events.publish(&object, &Note::normal("Fourth", "Test", "it happened"));
        events.publish(&object, &Note::warning("Fifth", "Test", "it went wrong"));
        let last = async {
            loop {
                let all = written(&client).await;
                if all.iter().any(|(reason, _)| reason == "Fifth") {
                    return all;
                }
                tokio::task::yield_now().await;
            }
        };
        let all = timeout(Duration::from_secs(60), last).await.unwrap();
        let at = |reason: &str| all.iter().position(|(known, _)| known == reason);
        assert!(at("Fourth").unwrap() < at("Fifth").unwrap(), "{all:?}");
    }

    #[tokio::test]
    async fn other_words_are_another_event() {
        let server = capt_apiserver::Server::in_memory().await.unwrap();
        let client = server.client("default");
        let recorder = Recorder::new(client.clone(), "test", None);
        let api: kube::Api<k8s_openapi::api::events::v1::Event> = kube::Api::all(client.clone());
        let long = "a".repeat(253);
        let object = |name: &str, version: &str| ObjectReference {
            kind: Some("Namespace".into()),
            name: Some(name.into()),
            uid: Some(format!("uid-of-{name}")),
            resource_version: Some(version.into()),
            ..ObjectReference::default()
        };
        let plan = |text: &str| Note::normal("WaitingForApproval", "Plan", text);
        let told = [
            (object("a", "1"), plan("add 3, destroy 0"), 1),
            (object("a", "2"), plan("destroy 2"), 1),
            (object("a", "3"), plan("destroy 2"), 2),
            (object("b", "4"), plan("destroy 2"), 1),
            (object("a", "5"), Note::warning("WaitingForApproval", "Plan", "destroy 2"), 1),
            (object(&long, "6"), plan("destroy 2"), 1),
        ];
        for (about, note, _) in &told {
            recorder.publish(note, about).await.unwrap();
        }
        let all = async || api.list(&kube::api::ListParams::default()).await.unwrap().items;
        let count = |all: &[k8s_openapi::api::events::v1::Event], about: &ObjectReference, note: &Note| {
            let kind = if note.warning { "Warning" } else { "Normal" };
            let same = all.iter().filter(|event| {
                event.regarding.as_ref().unwrap().name == about.name
                    && event.type_.as_deref() == Some(kind)
                    && event.note.as_deref() == Some(&note.text)
            });
            same.map(|event| event.series.as_ref().map_or(1, |series| series.count)).collect::<Vec<_>>()
        };
        let found = all().await;
        assert_eq!(found.len(), 5, "{found:?}");
        for (about, note, times) in told.iter().filter(|row| row.0.resource_version.as_deref() != Some("2")) {
            assert_eq!(count(&found, about, note), [*times], "{note:?}");
        }
        // One that somebody removed is written again.
        let removed = kube::Api::<k8s_openapi::api::events::v1::Event>::namespaced(client, "default");
        for event in &found {
            removed
                .delete(event.metadata.name.as_deref().unwrap(), &kube::api::DeleteParams::default())
                .await
                .unwrap();
        }
        recorder.publish(&told[1].1, &told[1].0).await.unwrap();
        assert_eq!(count(&all().await, &told[1].0, &told[1].1), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_writer_that_is_gone() {
        let client = capt_apiserver::Server::in_memory().await.unwrap().client("default");
        let (events, work) = Events::new(client, "test", None);
        drop(work);
        events.publish(&k8s_openapi::api::core::v1::Namespace::default(), &Note::normal("A", "Test", "x"));
        let begun = Instant::now();
        events.flush().await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "by a clock that stands still unless somebody waits");
    }
}
