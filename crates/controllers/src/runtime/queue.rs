//! Runs a reconcile for each name that a stream brings: one at a time for one object, a few at a time for all.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::controller::{Action, Config, applier};
use kube::runtime::reflector::ObjectRef;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::backoff::{Backoff, Failures};
use super::cache::Cache;
use super::error::{Class, Error};
use super::metrics::Metrics;
use super::name::Name;

/// When to look at an object again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// When something changes.
    OnChange,
    /// After this time, too.
    After(Duration),
}

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
    /// Where their work goes on.
    pub tasks: &'a mut JoinSet<()>,
    /// Objects of one kind that are looked at at the same time.
    pub concurrency: u16,
    /// What they count.
    pub metrics: &'a Arc<Metrics>,
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
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        F: Future<Output = Result<Next, Error>> + Send + 'static,
    {
        let (context, cache, metrics) = (Arc::clone(context), cache.clone(), Arc::clone(self.metrics));
        let concurrency = self.concurrency;
        self.tasks.spawn(async move {
            join_all(listed).await;
            let reconcile = move |object| reconcile(Arc::clone(&context), object);
            run(controller, &cache, select_all(triggers), concurrency, metrics, reconcile).await;
        });
    }
}

/// Looks at every object once, then at those that `triggers` name, until they end. The cache must be ready.
async fn run<K, F>(
    controller: &'static str,
    cache: &Cache<K>,
    triggers: impl Stream<Item = Name> + Send + 'static,
    concurrency: u16,
    metrics: Arc<Metrics>,
    reconcile: impl Fn(Arc<K>) -> F + Send + Sync + 'static,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    F: Future<Output = Result<Next, Error>> + Send + 'static,
{
    let failures = Arc::new(Failures::default());
    let all: Vec<Name> = cache.all().iter().map(|object| Name::of(object.as_ref())).collect();
    let queue = futures::stream::iter(all)
        .chain(triggers)
        .map(|name| Ok::<_, Infallible>(ObjectRef::<K>::new(&name.name).within(&name.namespace)));
    let count = Arc::clone(&failures);
    let measure = Arc::clone(&metrics);
    let once = move |object: Arc<K>, _: Arc<()>| {
        let name = Name::of(object.as_ref());
        let (count, measure) = (Arc::clone(&count), Arc::clone(&measure));
        let work = reconcile(object);
        Box::pin(async move {
            let next = work.await;
            measure.reconciled(controller, next.as_ref().err());
            let next = next?;
            count.clear(&name);
            Ok::<_, Error>(match next {
                Next::OnChange => Action::await_change(),
                Next::After(delay) => Action::requeue(delay),
            })
        })
    };
    let on_error = move |object: Arc<K>, error: &Error, _: Arc<()>| {
        let name = Name::of(object.as_ref());
        let failed = failures.add(&name);
        let delay = error.retry(failed, &Backoff::API);
        match error.class() {
            Class::Stale => tracing::debug!(controller, %name, error = chain(error), "again"),
            Class::Transient => {
                tracing::warn!(controller, %name, failed, error = chain(error), "again later");
            }
        }
        Action::requeue(delay)
    };
    let config = Config::default().concurrency(concurrency);
    applier(once, on_error, Arc::new(()), cache.store(), queue, config)
        // Errors were seen by `on_error`; an object that is gone needs nothing.
        .for_each(|_| std::future::ready(()))
        .await;
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
}
