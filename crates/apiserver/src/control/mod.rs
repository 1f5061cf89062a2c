//! What the server does by itself: serve what CRDs define, collect garbage, empty namespaces, collect the
//! rules of roles, let events expire.
//!
//! Each task follows the store and acts through the engine, as a client would; all are level-triggered, so a task
//! that was interrupted does the rest when it runs again.

mod crds;
mod events;
mod garbage;
mod namespaces;
mod roles;

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::engine::Engine;
use crate::server::ServerOptions;

pub use crds::refresh;
pub use roles::collect as collect_roles;

/// Starts every task that is wanted; they end when the set is dropped. Without a time to live, events stay.
pub fn start(engine: &Arc<Engine>, options: &ServerOptions) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if let Some(ttl) = options.event_ttl {
        tasks.spawn(events::run(Arc::clone(engine), ttl));
    }
    tasks.spawn(crds::run(Arc::clone(engine)));
    if options.controllers {
        tasks.spawn(garbage::run(Arc::clone(engine)));
        tasks.spawn(namespaces::run(Arc::clone(engine)));
        tasks.spawn(roles::run(Arc::clone(engine)));
    }
    tasks
}
