//! Events: what happened to an object, for `kubectl describe`.

use std::borrow::Cow;

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

/// Longest note that the API accepts, in bytes.
const LONGEST_NOTE: usize = 1024;

/// One thing that happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// Whether somebody should look at it.
    pub warning: bool,
    /// One word for it.
    pub reason: Cow<'static, str>,
    /// What was done: a verb in CamelCase.
    pub action: &'static str,
    /// What happened, in a sentence.
    pub text: String,
}

impl Note {
    /// Something went as it should.
    pub fn normal(
        reason: impl Into<Cow<'static, str>>,
        action: &'static str,
        text: impl Into<String>,
    ) -> Self {
        Self { warning: false, reason: reason.into(), action, text: text.into() }
    }

    /// Something did not.
    pub fn warning(
        reason: impl Into<Cow<'static, str>>,
        action: &'static str,
        text: impl Into<String>,
    ) -> Self {
        Self { warning: true, reason: reason.into(), action, text: text.into() }
    }
}

/// Writes events; one for the whole process, since it counts repetitions.
#[derive(Clone)]
pub struct Events(Recorder);

impl Events {
    /// Events of this program.
    pub fn new(client: Client, controller: &str, instance: Option<String>) -> Self {
        Self(Recorder::new(client, Reporter { controller: controller.to_owned(), instance }))
    }

    /// Writes one. An event that cannot be written is only logged: it must not stop the work it tells of.
    pub async fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, note: &Note) {
        let mut text = note.text.clone();
        if text.len() > LONGEST_NOTE {
            let end = (0..=LONGEST_NOTE - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        let event = Event {
            type_: if note.warning { EventType::Warning } else { EventType::Normal },
            reason: note.reason.to_string(),
            action: note.action.to_owned(),
            note: Some(text),
            secondary: None,
        };
        let about = object.object_ref(&());
        let publish = self.0.publish(&event, &about);
        match tokio::time::timeout(super::status::PATIENCE, publish).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(reason = %note.reason, %error, "an event was not written"),
            Err(_) => tracing::warn!(reason = %note.reason, "an event was not written in time"),
        }
    }
}
