//! Runs a reconcile for each name that a stream brings: one at a time for one object, a few at a time for all.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use futures::stream::{BoxStream, select_all};
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::backoff::{Backoff, Failures};
use super::cache::Cache;
use super::error::{Class, Error};
use super::metrics::Metrics;
use super::name::Name;
use super::workqueue::WorkQueue;
use super::writer::Kind;

/// Time of the next look at an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// At the next change only.
    OnChange,
    /// After this time, too.
    After(Duration),
    /// Something was written, or the cache is behind what was written before: at the next change, without a pause. In case
    /// that nothing changes any more, after a moment too.
    CatchUp,
}

/// That moment.
const MOMENT: Duration = Duration::from_millis(500);

impl Next {
    /// A moment that has just passed is not now: an object that asks for it each time would keep a core busy.
    const SHORTEST: Duration = Duration::from_millis(10);

    /// After the soonest of these, where there is any.
    pub fn soonest(delays: impl IntoIterator<Item = Option<Duration>>) -> Self {
        let soonest = delays.into_iter().flatten().min();
        soonest.map_or(Self::OnChange, |delay| Self::After(delay.max(Self::SHORTEST)))
    }
}

/// Starts controllers.
pub struct Starter<'a> {
    /// Set that their tasks are added to.
    pub tasks: &'a mut JoinSet<()>,
    /// Concurrency and intervals of each.
    pub pace: Pace,
    /// Counters that they share.
    pub metrics: &'a Arc<Metrics>,
    /// Progress of their first round.
    pub round: &'a Round,
}

/// The first round of controllers: the look of each at everything that was there when it began.
#[derive(Clone, Debug)]
pub struct Round(watch::Sender<usize>);

impl Default for Round {
    fn default() -> Self {
        Self(watch::channel(0).0)
    }
}

impl Round {
    /// One more controller has to go round.
    fn joined(&self) {
        self.0.send_modify(|left| *left += 1);
    }

    /// One has gone round.
    fn gone(&self) {
        self.0.send_modify(|left| *left -= 1);
    }

    /// Waits until all that joined have gone round.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut left = self.0.subscribe();
        async move {
            // Whoever could say more is gone: then nothing more will be seen.
            let _ = left.wait_for(|left| *left == 0).await;
        }
    }
}

impl Starter<'_> {
    /// Starts one, on the objects of `cache` and those that `triggers` name, once all that it decides by is `listed`: what is
    /// only not listed yet is not missing.
    pub fn start<C, K, F>(
        &mut self,
        controller: &'static str,
        context: &Arc<C>,
        cache: &Cache<K>,
        listed: Vec<BoxFuture<'static, ()>>,
        triggers: Vec<BoxStream<'static, Name>>,
        reconcile: impl Fn(Arc<C>, Arc<K>) -> F + Send + Sync + 'static,
    ) where
        C: Send + Sync + 'static,
        K: Kind,
        F: Future<Output = Result<Next, Error>> + Send + 'static,
    {
        self.start_large(controller, context, cache, listed, triggers, |_| 1, reconcile);
    }

    /// The same for a kind whose objects may have thousands of others: how many pauses lie between two looks at one, so
    /// that what a change of one of its many costs does not grow with them.
    #[expect(clippy::too_many_arguments, reason = "one more than the usual")]
    pub fn start_large<C, K, F>(
        &mut self,
        controller: &'static str,
        context: &Arc<C>,
        cache: &Cache<K>,
        listed: Vec<BoxFuture<'static, ()>>,
        triggers: Vec<BoxStream<'static, Name>>,
        pauses: fn(&K) -> u32,
        reconcile: impl Fn(Arc<C>, Arc<K>) -> F + Send + Sync + 'static,
    ) where
        C: Send + Sync + 'static,
        K: Kind,
        F: Future<Output = Result<Next, Error>> + Send + 'static,
    {
        let (context, cache, metrics) = (Arc::clone(context), cache.clone(), Arc::clone(self.metrics));
        let (pace, round) = (self.pace, self.round.clone());
        round.joined();
        self.tasks.spawn(async move {
            join_all(listed).await;
            let reconcile = move |object: Arc<K>| {
                let pauses = pauses(&object);
                reconcile(Arc::clone(&context), object).map(move |next| (next, pauses))
            };
            run(controller, &cache, select_all(triggers), pace, (metrics, round), reconcile).await;
        });
    }
}

/// Concurrency and intervals of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Objects that are looked at at the same time.
    pub concurrency: usize,
    /// The least time between two looks at one object that changes bring.
    pub pause: Duration,
    /// Interval at which every object is looked at though nothing changed.
    pub resync: Duration,
}

/// Reconcile budget of one object per second without a pause where a controller has little to do: a tenth of a core
/// at most, and enough for all that happens to a small cluster while it is built.
const QUICK: Duration = Duration::from_millis(100);

/// In how many parts a resync is done: a moment of work each, not all at once.
const SLICES: u32 = 64;

/// Looks at every object once, then at those that `triggers` name, until they end. The cache must be ready.
async fn run<K, F>(
    controller: &'static str,
    cache: &Cache<K>,
    triggers: impl Stream<Item = Name> + Send + 'static,
    pace: Pace,
    (metrics, round): (Arc<Metrics>, Round),
    reconcile: impl Fn(Arc<K>) -> F + Send + Sync + 'static,
) where
    K: Kind,
    F: Future<Output = (Result<Next, Error>, u32)> + Send + 'static,
{
    let mut queue = WorkQueue::new(pace.pause, QUICK);
    let failures = Failures::default();
    let mut work = JoinSet::new();
    let mut names: HashMap<Id, Name> = HashMap::new();
    let mut unseen: HashSet<Name> = cache.names().into_iter().collect();
    for name in &unseen {
        queue.wake(name, Instant::now());
    }
    let mut in_round = true;
    let slice = (pace.resync / SLICES).max(Duration::from_millis(1));
    let mut resync = interval_at(Instant::now() + slice, slice);
    resync.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut turn = 0;
    let mut triggers = std::pin::pin!(triggers);
    loop {
        while work.len() < pace.concurrency
            && let Some(name) = queue.take(Instant::now())
        {
            // An object that is gone needs nothing.
            let Some(object) = cache.get(&name) else {
                queue.forget(&name);
                failures.clear(&name);
                unseen.remove(&name);
                continue;
            };
            names.insert(work.spawn(reconcile(object)).id(), name);
        }
        if in_round && unseen.is_empty() {
            in_round = false;
            round.gone();
        }
        let due = queue.due().filter(|_| work.len() < pace.concurrency);
        tokio::select! {
            name = triggers.next() => match name {
                Some(name) => queue.wake(&name, Instant::now()),
                None => return,
            },
            Some(ended) = work.join_next_with_id() => {
                let Some((name, (next, pauses))) = settle(controller, &mut names, ended) else { continue };
                metrics.reconciled(controller, next.as_ref().err());
                // One that did something has yet to tell of it.
                if !matches!(next, Ok(Next::CatchUp)) {
                    unseen.remove(&name);
                }
                let pauses = if matches!(next, Ok(Next::CatchUp)) { 0 } else { pauses };
                let delay = after(controller, &name, next, &failures);
                let now = Instant::now();
                queue.ended(&name, now, delay.map(|delay| now + delay), pauses);
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            _ = resync.tick() => {
                queue.tidy(Instant::now());
                for name in cache.names().iter().filter(|name| slice_of(name) == turn) {
                    queue.wake(name, Instant::now());
                }
                turn = (turn + 1) % SLICES;
            }
        }
    }
}

fn slice_of(name: &Name) -> u32 {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(name);
    u32::try_from(hash % u64::from(SLICES)).expect("a small number")
}

/// Returns the object of a look that ended, and its result; a panic of one is passed on, as it would be without tasks.
fn settle<T>(
    controller: &'static str,
    names: &mut HashMap<Id, Name>,
    ended: Result<(Id, T), JoinError>,
) -> Option<(Name, T)> {
    match ended {
        Ok((id, next)) => names.remove(&id).map(|name| (name, next)),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => {
                tracing::debug!(controller, %error, "stopped");
                None
            }
        },
    }
}

/// Returns the delay until the next look, by how a look ended.
fn after(
    controller: &'static str,
    name: &Name,
    next: Result<Next, Error>,
    failures: &Failures,
) -> Option<Duration> {
    let error = match next {
        Ok(next) => {
            failures.clear(name);
            return match next {
                Next::OnChange => None,
                Next::After(delay) => Some(delay),
                Next::CatchUp => Some(MOMENT),
            };
        }
        Err(error) => error,
    };
    let failed = failures.add(name);
    match error.class() {
        Class::Stale => tracing::debug!(controller, %name, error = chain(&error), "again"),
        Class::Transient => {
            tracing::warn!(controller, %name, failed, error = chain(&error), "again later");
        }
    }
    Some(error.retry(failed, &Backoff::API))
}

/// An error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soonest_of_all_and_never_at_once() {
        let [short, long] = [1, 60].map(Duration::from_secs);
        assert_eq!(Next::soonest([Some(long), None, Some(short)]), Next::After(short));
        assert_eq!(Next::soonest([Some(Duration::ZERO), Some(long)]), Next::After(Next::SHORTEST));
        assert_eq!(Next::soonest([None, None]), Next::OnChange);
    }

    #[tokio::test]
    async fn a_round_is_over_when_all_have_gone_round() {
        let round = Round::default();
        round.over().await;
        round.joined();
        round.joined();
        let mut over = std::pin::pin!(round.over());
        assert!(futures::poll!(&mut over).is_pending());
        round.gone();
        assert!(futures::poll!(&mut over).is_pending());
        round.gone();
        over.await;
    }
}
