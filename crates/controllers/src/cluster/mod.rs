//! Clusters: their networks and control planes, how others reach them, and what Cluster API's own part is where that is
//! not installed.
//!
//! ```text
//! Cluster -> CAPTCluster      -> WorkspaceTemplateApply
//!         -> CAPTControlPlane -> WorkspaceTemplateApply -> kubeconfig and CA
//! ```
//!
//! What networks and control planes need is decided by `capt-planner`; here its plans are carried out.

pub mod access;
mod act;
pub mod context;
pub mod control_plane;
pub mod core;
pub mod network;
mod start;

use std::time::Duration;

use jiff::Timestamp;

use crate::runtime::queue::Next;

pub use context::Context;
pub use start::start;

/// When to look again though nothing changes.
fn next(wake: Option<Timestamp>, now: Timestamp, renew: Option<Duration>) -> Next {
    let late = wake.map(|wake| Duration::try_from(wake.duration_since(now)).unwrap_or_default());
    let soonest = [late, renew].into_iter().flatten().min();
    soonest.map_or(Next::OnChange, |delay| Next::After(delay.max(Duration::from_secs(1))))
}
