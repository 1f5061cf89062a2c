//! Writes events to the API.
//!
//! A repeated event of the same words is counted on the one that is there. Other words are another event: the API lets nobody
//! change the text of one, and a count on an older text would tell what did not happen again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::Note;

/// Time after an event within which the same one is counted on it, as in client-go.
const COUNTED: Duration = Duration::from_secs(6 * 60);
/// Longest part of an event's name that the object's name is: the API takes names of 253 bytes.
const LONGEST_NAME: usize = 220;

/// Writes events to the API.
pub(super) struct Recorder {
    client: Client,
    controller: String,
    instance: String,
    written: Mutex<Written>,
}

/// Events that were written a short while ago.
#[derive(Default)]
struct Written {
    known: HashMap<Key, Last>,
    swept: Option<Timestamp>,
}

/// The same event: about one object, whatever its version, in the same words.
type Key = ([Option<String>; 4], Note);

/// The event that repetitions are counted on.
#[derive(Clone)]
struct Last {
    name: String,
    count: i32,
    at: Timestamp,
}

impl Recorder {
    pub fn new(client: Client, controller: &str, instance: Option<String>) -> Self {
        Self {
            client,
            controller: controller.to_owned(),
            instance: instance.unwrap_or_else(|| controller.to_owned()),
            written: Mutex::default(),
        }
    }

    /// Writes one event about an object, or counts it on the same one of a short while ago. Events of one object are written one after
    /// another.
    pub async fn publish(&self, note: &Note, about: &ObjectReference) -> kube::Result<()> {
        let now = Timestamp::now();
        let ObjectReference { kind, namespace, name, uid, .. } = about.clone();
        let key = ([kind, namespace, name, uid], note.clone());
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let before = self.recent(&key, now);
        if let Some(before) = before {
            let last = Last { count: before.count.saturating_add(1), at: now, ..before };
            match api.patch(&last.name, &PatchParams::default(), &Patch::Merge(series(&last))).await {
                Ok(_) => {
                    self.remember(key, last);
                    return Ok(());
                }
                // Somebody removed it.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let event = self.event(note, about, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        api.create(&PostParams::default(), &event).await?;
        self.remember(key, Last { name, count: 1, at: now });
        Ok(())
    }

    fn recent(&self, key: &Key, now: Timestamp) -> Option<Last> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.swept.is_none_or(|swept| swept + COUNTED < now) {
            written.known.retain(|_, last| last.at + COUNTED > now);
            written.swept = Some(now);
        }
        written.known.get(key).filter(|last| last.at + COUNTED > now).cloned()
    }

    fn remember(&self, key: Key, last: Last) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).known.insert(key, last);
    }

    fn event(&self, note: &Note, about: &ObjectReference, now: Timestamp) -> Event {
        let of = about.name.as_deref().unwrap_or(&self.controller);
        let end = (0..=of.len().min(LONGEST_NAME)).rev().find(|end| of.is_char_boundary(*end)).unwrap_or(0);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", of[..end].trim_end_matches(['.', '-']), now.as_nanosecond())),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(note.reason.to_string()),
            action: Some(note.action.to_owned()),
            note: Some(note.text.clone()),
            event_time: Some(MicroTime(now)),
            regarding: Some(about.clone()),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

fn series(last: &Last) -> serde_json::Value {
    json!({"series": {"count": last.count, "lastObservedTime": MicroTime(last.at)}})
}
