//! Events: what happened to an object, for `kubectl describe`.
//!
//! Of one reason on one kind a few are written each second, and a hundred at once: those of a thousand machines that are
//! made together would cost as much as the machines, and nobody reads them. Warnings are always written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use std::borrow::Cow;

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::time::Instant;

/// Longest note that the API accepts, in bytes.
const LONGEST_NOTE: usize = 1024;
/// Events of one reason on one kind that are written at once, where none were for a while.
const AT_ONCE: f64 = 100.0;
/// And each second after that.
const EACH_SECOND: f64 = 2.0;

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
pub struct Events {
    recorder: Recorder,
    budget: Arc<Mutex<Budget>>,
}

/// What may still be written, by kind and reason: how many as of when.
#[derive(Debug, Default)]
struct Budget(HashMap<(String, Cow<'static, str>), (f64, Instant)>);

impl Budget {
    /// Whether one more may be written.
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
    /// Events of this program.
    pub fn new(client: Client, controller: &str, instance: Option<String>) -> Self {
        let recorder = Recorder::new(client, Reporter { controller: controller.to_owned(), instance });
        Self { recorder, budget: Arc::default() }
    }

    /// Writes one. An event that cannot be written is only logged: it must not stop the work it tells of.
    pub async fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, note: &Note) {
        if !note.warning {
            let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
            if !budget.spend(K::kind(&()).into_owned(), note.reason.clone(), Instant::now()) {
                return;
            }
        }
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
        let publish = self.recorder.publish(&event, &about);
        match tokio::time::timeout(super::status::PATIENCE, publish).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(reason = %note.reason, %error, "an event was not written"),
            Err(_) => tracing::warn!(reason = %note.reason, "an event was not written in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
}
