//! What the server does by itself: serve what CRDs define, collect garbage, empty namespaces, collect the
//! rules of roles, let events expire.
//!
//! Each task follows the store and acts through the storage, as a client would; all are level-triggered, so a task
//! that was interrupted does the rest when it runs again.

mod backoff;
mod crds;
mod events;
#[cfg(test)]
pub(crate) mod fixture;
mod garbage;
mod namespaces;
mod roles;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

use backoff::Backoff;

use crate::storage::Storage;

pub use crds::{refresh, refreshed};
pub use roles::collect as collect_roles;

/// Two, so that one that takes long does not hold up all others.
const THREADS: usize = 2;

/// The tasks, on threads of their own: what they do takes as long as what tenants have written is large, and nobody who asks the
/// server waits behind it. They end when this is dropped.
#[derive(Debug)]
pub struct Tasks {
    tasks: JoinSet<()>,
    runtime: Option<Runtime>,
}

impl Tasks {
    /// Ends the tasks, and waits until they have.
    pub async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.tasks.abort_all();
        // Waiting for threads is not for a thread that serves.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Lifetime of an event after its last write; `None` keeps it until it is deleted.
    pub event_ttl: Option<Duration>,
    /// Runs what kube-controller-manager runs in a cluster as well: collects garbage, empties namespaces,
    /// collects the rules of roles. A test that compares with a kube-apiserver alone wants none of it.
    pub controllers: bool,
}

impl Default for ServerOptions {
    /// Events stay for an hour, as kube-apiserver keeps them.
    fn default() -> Self {
        Self { event_ttl: Some(Duration::from_secs(3600)), controllers: true }
    }
}

/// Starts every task that is wanted. Without a time to live, events stay.
pub fn start(storage: &Arc<Storage>, options: &ServerOptions) -> Tasks {
    // Where no thread can be started, the caller's are better than no tasks.
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("capt-control")
        .enable_all()
        .build()
        .ok();
    let on = runtime.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone());
    // Set once: a storage is of one server.
    let _ = storage.threads.set(on.clone());
    let mut tasks = JoinSet::new();
    if let Some(ttl) = options.event_ttl {
        let of = Arc::clone(storage);
        tasks.spawn_on(kept_up("events", move || events::run(Arc::clone(&of), ttl)), &on);
    }
    let mut add = |name, run: fn(Arc<Storage>) -> BoxFuture<'static, ()>| {
        let of = Arc::clone(storage);
        tasks.spawn_on(kept_up(name, move || run(Arc::clone(&of))), &on);
    };
    add("definitions", |storage| crds::run(storage).boxed());
    if options.controllers {
        add("garbage collection", |storage| garbage::run(storage).boxed());
        add("namespaces", |storage| namespaces::run(storage).boxed());
        add("roles", |storage| roles::run(storage).boxed());
    }
    Tasks { tasks, runtime }
}

/// Runs a task to its end. One that panics is started again, later each time: it begins with everything there is.
async fn kept_up<F: Future<Output = ()>>(name: &str, run: impl Fn() -> F) {
    let mut backoff = Backoff::default();
    while let Err(panic) = AssertUnwindSafe(run()).catch_unwind().await {
        let why = panic.downcast_ref::<String>().map(String::as_str);
        let why = why.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        tracing::error!("the task for {name} failed and is started again: {why}");
        backoff.note(true);
        backoff.is_due().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_started_again() {
        let runs = AtomicUsize::new(0);
        kept_up("tests", || async {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            assert!(run == 2, "as a bug would");
        })
        .await;
        assert_eq!(runs.into_inner(), 3);
    }
}
