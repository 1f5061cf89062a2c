//! What the server does by itself: serve what CRDs define, collect garbage, empty namespaces, collect the
//! rules of roles, let events expire.
//!
//! Each task follows the store and acts through the engine, as a client would; all are level-triggered, so a task
//! that was interrupted does the rest when it runs again.

mod backoff;
mod crds;
mod events;
#[cfg(test)]
mod fixture;
mod garbage;
mod namespaces;
mod roles;

use std::sync::Arc;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::server::ServerOptions;

pub use crds::refresh;
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

/// Starts every task that is wanted. Without a time to live, events stay.
pub fn start(engine: &Arc<Engine>, options: &ServerOptions) -> Tasks {
    // Where no thread can be started, the caller's are better than no tasks.
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("capt-control")
        .enable_all()
        .build()
        .ok();
    let on = runtime.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone());
    let mut tasks = JoinSet::new();
    if let Some(ttl) = options.event_ttl {
        tasks.spawn_on(events::run(Arc::clone(engine), ttl), &on);
    }
    tasks.spawn_on(crds::run(Arc::clone(engine)), &on);
    if options.controllers {
        tasks.spawn_on(garbage::run(Arc::clone(engine)), &on);
        tasks.spawn_on(namespaces::run(Arc::clone(engine)), &on);
        tasks.spawn_on(roles::run(Arc::clone(engine)), &on);
    }
    Tasks { tasks, runtime }
}
