//! CaptMachine: one workspace of its own, built from its template with the machine's values.
//!
//! ```text
//! observe: the machine, its workspace, group and Machine, what pauses it    (observe, owner, variables)
//! decide:  its state, and the next thing to do                       (capt_planner::machine; pure)
//! act:     finalizer, label, workspace, providerID, Node, the end    (act, owned_workspace)
//! report:  phase, outputs, conditions; one write                     (report; pure up to the write)
//! ```

mod act;
mod observe;
mod owner;
mod report;
mod variables;

use std::sync::Arc;
use std::time::Duration;

use capt_api::machine::CaptMachine;
use capt_planner::machine::{MachineStep, decide};
use capt_planner::owned_workspace::OwnerStep;

use super::context::{CATCH_UP, MachineContext};
use crate::runtime::Error;
use crate::runtime::queue::Next;

/// A new workspace wakes its machine; should that be missed, the machine looks for it.
const LATEST: Duration = Duration::from_millis(500);

/// Reconciles one machine.
pub async fn reconcile(context: Arc<MachineContext>, object: Arc<CaptMachine>) -> Result<Next, Error> {
    let Some(found) = observe::observe(&context, object).await? else { return Ok(CATCH_UP) };
    let decision = decide(&found.observed());
    let acted = act::act(&context, &found, &decision.step).await?;
    if decision.step == MachineStep::Workspace(OwnerStep::Create) {
        // The workspace wakes us when the cache has it: its state by then is one write instead of two.
        return Ok(Next::After(LATEST));
    }
    report::report(&context, &found, &decision.state, &acted, context.clock.now()).await?;
    Ok(Next::soonest([decision.again]))
}
