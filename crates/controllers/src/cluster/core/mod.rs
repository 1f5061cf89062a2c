//! `Cluster` of Cluster API, where Cluster API core is not installed: CAPT plays its part for the objects of the CRD
//! that it brought itself.
//!
//! ```text
//! observe: the Cluster, the objects that it names, its machines      (observe, contract_refs, workers)
//! decide:  finalizer, owner references, endpoint, the order of the end (capt_planner::cluster::core; pure)
//! act:     the only one that changes anything                         (act)
//! report:  phase, readiness, failures, conditions; one write          (report; pure up to the write)
//! ```
//!
//! Beside Cluster API core nothing of this runs: [`start()`] follows the CRD, and a CRD that is not CAPT's is left alone.

mod act;
mod contract_refs;
pub mod install;
pub mod observe;
pub mod report;
mod start;
pub(in crate::cluster) mod workers;

use std::sync::Arc;
use std::time::Duration;

use capt_api::cluster::core::{Cluster, ClusterStatus};
use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet, NodeGroup};
use capt_planner::cluster::core::{ClusterObservation, ClusterPart, decide};

use crate::runtime::events::Events;
use crate::runtime::queue::Next;
use crate::runtime::status::StatusWriter;
use crate::runtime::{Cache, Clock, Error, Writer};

pub use start::start;

/// Field manager of what this controller writes.
pub const MANAGER: &str = "capt-clusters";

/// The software that takes care of Clusters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ClusterApi {
    /// CAPT exactly where the CRD of Cluster is its own, else Cluster API core.
    #[default]
    Auto,
    /// CAPT, which brings its CRD where there is none.
    Own,
    /// Cluster API core.
    Core,
}

/// Dependencies of the controller.
pub struct ClusterContext {
    /// Talks to the API.
    pub writer: Writer,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Writes events.
    pub events: Events,
    /// All Clusters.
    pub clusters: Cache<Cluster>,
    /// Writes their status.
    pub status: StatusWriter<ClusterStatus>,
    /// Objects that they name.
    parts: Arc<contract_refs::Parts>,
    /// All deployments of machines.
    pub deployments: Cache<CaptMachineDeployment>,
    /// All sets of machines.
    pub sets: Cache<CaptMachineSet>,
    /// All machines.
    pub machines: Cache<CaptMachine>,
    /// All node groups.
    pub groups: Cache<NodeGroup>,
}

/// Reconciles one Cluster.
pub async fn reconcile(context: Arc<ClusterContext>, object: Arc<Cluster>) -> Result<Next, Error> {
    let observed = observe::observe(&context, object).await?;
    let decision = decide(&observed);
    let acted = act::act(&context, &observed, &decision.steps).await?;
    let held = report::report(&context, &observed, &decision, &acted, context.clock.now()).await?;
    Ok(next(&observed, held))
}

/// A part whose kind is not installed cannot be watched.
fn next(observed: &ClusterObservation, held: Option<Duration>) -> Next {
    let wrong = |part: &ClusterPart| matches!(part, ClusterPart::Wrong(_));
    let unwatched = wrong(&observed.infrastructure) || wrong(&observed.control_plane);
    Next::soonest([unwatched.then_some(Duration::from_secs(30)), held])
}
