//! The one thread that changes the store.
//!
//! ```text
//! queue -> group -> draft (checks, revisions) -> journal (one commit) -> publish -> wake watchers -> answer
//! ```
//!
//! What is queued while one commit runs becomes the next group, so groups grow with load and a lone write waits for
//! nobody. Nothing is visible before the journal has it, and everything is visible before its writer is answered. When
//! the commit fails, the draft is thrown away and every write of the group learns of it, also those that would have
//! been refused: the state they were checked against never came to be.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, oneshot};

use super::{
    Shared,
    clock::{Clock, Millis},
    draft::{Draft, Op, WriteError},
    journal::{Journal, JournalError},
    key::Revision,
    object::Object,
    snapshot::State,
};

/// Bounds of a group: how long the first write may wait for the last, and how much the journal takes at once.
const GROUP_WRITES: usize = 512;
const GROUP_BYTES: usize = 4 << 20;

/// Bounds of what is dropped from history at once. Less costs more commits than it is worth; more keeps the writes
/// queued behind it waiting. The upper one is more than a group of usual writes adds, so that history always shrinks.
const LEAST_CUT: usize = 256;
const MOST_CUT: usize = 2048;

/// The limits of the history. The first one reached counts, give or take some hundred changes.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// The oldest change. Checked when something is written: a store at rest keeps what it has.
    pub age: Duration,
    /// The number of changes.
    pub events: usize,
    /// Memory held by versions that only history needs.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    /// As long as clients of Kubernetes are used to (kube-apiserver has etcd compact every five minutes), enough events
    /// for a watcher to fall some seconds behind the fastest writers, and a bound on memory when objects are large.
    fn default() -> Self {
        Self { age: Duration::from_secs(300), events: 20_000, bytes: 32 << 20 }
    }
}

pub(crate) type Answer = Result<Vec<Arc<Object>>, WriteError>;

#[derive(Debug)]
pub(crate) enum Command {
    Write { ops: Vec<Op>, answer: oneshot::Sender<Answer> },
    Compact { revision: Revision, answer: oneshot::Sender<Result<Revision, WriteError>> },
    Close { answer: oneshot::Sender<Result<(), WriteError>> },
}

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) queue: mpsc::Receiver<Command>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: HistoryLimits,
    pub(crate) objects_bytes: usize,
    /// The newest revision ever taken. A failed commit leaves a gap rather than a number that was used twice.
    pub(crate) last: Revision,
    /// Why there are to be no more writes.
    pub(crate) broken: Option<Arc<str>>,
}

impl Writer {
    pub(crate) fn run(mut self, mut journal: Box<dyn Journal>) {
        let (mut carried, mut closer) = (None, None);
        while let Some(command) = carried.take().or_else(|| self.queue.blocking_recv()) {
            match command {
                Command::Write { ops, answer } => {
                    let now = self.clock.now();
                    carried = self.write(journal.as_mut(), (ops, answer), now);
                    self.trim(journal.as_mut(), now);
                }
                Command::Compact { revision, answer } => {
                    let revision = revision.min(self.shared.state().revision);
                    // The caller may be gone.
                    let _ = answer.send(self.compact(journal.as_mut(), revision));
                }
                Command::Close { answer } => {
                    closer = Some(answer);
                    break;
                }
            }
        }
        // What comes from now on is refused.
        self.queue.close();
        journal.close();
        closer.map(|closer| closer.send(Ok(())));
    }

    /// Makes a group of this write and those queued behind it, commits it and answers. Returns a command that was taken
    /// from the queue and is no write.
    fn write(&mut self, journal: &mut dyn Journal, first: Write, now: Millis) -> Option<Command> {
        let mut draft = Draft::new(&self.shared.state(), self.last, now, self.objects_bytes);
        let (mut answers, mut bytes) = (Vec::new(), 0);
        let (mut next, mut carried) = (Some(first), None);
        while let Some((ops, answer)) = next.take() {
            bytes += ops.iter().map(Op::size).sum::<usize>();
            answers.push((answer, draft.apply(ops)));
            if answers.len() >= GROUP_WRITES || bytes >= GROUP_BYTES {
                break;
            }
            match self.queue.try_recv() {
                Ok(Command::Write { ops, answer }) => next = Some((ops, answer)),
                other => carried = other.ok(),
            }
        }
        let outcome = self.commit(journal, draft, now, answers.len());
        for (answer, result) in answers {
            let _ = answer.send(outcome.clone().and(result));
        }
        carried
    }

    fn commit(
        &mut self,
        journal: &mut dyn Journal,
        draft: Draft,
        now: Millis,
        writes: usize,
    ) -> Result<(), WriteError> {
        let Draft { state, events, .. } = draft;
        if events.is_empty() {
            return Ok(());
        }
        self.last = state.revision;
        let started = Instant::now();
        self.attempt(|| journal.append(&events, now))?;
        self.shared.meter.committed(writes, started.elapsed());
        self.shared.publish(state);
        self.shared.hub.ring(events.iter().map(|event| &event.key().resource).collect::<BTreeSet<_>>());
        Ok(())
    }

    /// Uses the journal, unless it is broken, and remembers when it breaks.
    fn attempt(&mut self, step: impl FnOnce() -> Result<(), JournalError>) -> Result<(), WriteError> {
        if let Some(reason) = &self.broken {
            return Err(WriteError::ReadOnly { reason: reason.clone() });
        }
        step().map_err(|error| {
            let error = match error {
                JournalError::Full(reason) => WriteError::Full { reason },
                JournalError::Broken(reason) => {
                    self.broken = Some(reason.clone());
                    WriteError::ReadOnly { reason }
                }
            };
            self.shared.meter.failed(&error);
            error
        })
    }

    /// Drops history beyond the limits.
    fn trim(&mut self, journal: &mut dyn Journal, now: Millis) {
        let state = self.shared.state();
        if let Some(revision) = self.limits.cut(&state, now) {
            // When there is no room for it now, there is another attempt after the next write.
            let _ = self.compact(journal, revision);
        }
    }

    fn compact(&mut self, journal: &mut dyn Journal, revision: Revision) -> Result<Revision, WriteError> {
        let published = self.shared.state();
        if revision <= published.compacted {
            return Ok(published.compacted);
        }
        let mut state = State::clone(&published);
        let forgotten = state.compact(revision);
        self.attempt(|| journal.compact(revision, &forgotten))?;
        self.shared.publish(state);
        Ok(revision)
    }
}

impl Drop for Writer {
    /// Also when the thread panics: watchers must not wait for events that cannot come.
    fn drop(&mut self) {
        self.shared.hub.close();
    }
}

type Write = (Vec<Op>, oneshot::Sender<Answer>);

impl HistoryLimits {
    /// The revision up to which history is to be dropped now, if that is enough to be worth a commit.
    fn cut(&self, state: &State, now: Millis) -> Option<Revision> {
        let (mut len, mut cost) = (state.history.len(), state.history.cost());
        let (mut cut, mut count) = (None, 0);
        for entry in state.history.iter().take(MOST_CUT) {
            if len <= self.events && cost <= self.bytes && !older(entry.written, self.age, now) {
                break;
            }
            len -= 1;
            cost -= entry.event.cost();
            count += 1;
            cut = Some(entry.event.revision());
        }
        // A few large objects are worth it too.
        let heavy = state.history.cost() > self.bytes.saturating_add(self.bytes / 16);
        cut.filter(|_| count >= LEAST_CUT || heavy)
    }
}

fn older(written: Millis, age: Duration, now: Millis) -> bool {
    u128::from(now.saturating_sub(written)) > age.as_millis()
}
