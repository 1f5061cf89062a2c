//! What the server does by itself: serve what CRDs define, collect garbage, empty namespaces, collect the
//! rules of roles.
//!
//! Each task follows the store and acts through the engine, as a client would; all are level-triggered, so a task
//! that was interrupted does the rest when it runs again.

mod crds;
mod garbage;
mod namespaces;
mod roles;

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::engine::Engine;

pub use crds::refresh;
pub use roles::collect as collect_roles;

/// Starts every task; they end when the set is dropped.
pub fn start(engine: &Arc<Engine>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(crds::run(Arc::clone(engine)));
    tasks.spawn(garbage::run(Arc::clone(engine)));
    tasks.spawn(namespaces::run(Arc::clone(engine)));
    tasks.spawn(roles::run(Arc::clone(engine)));
    tasks
}
