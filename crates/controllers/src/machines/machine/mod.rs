//! CaptMachine: one workspace of its own, built from its template with the machine's values.
//!
//! ```text
//! observe: the machine, its workspace, group and Machine, what pauses it    (observe, owner, variables)
//! decide:  what to do next, and why                                  (decide, depart; pure)
//! act:     finalizer, label, workspace, providerID, Node, the end    (act)
//! report:  phase, outputs, conditions; one write                     (report; pure up to the write)
//! ```

mod act;
pub mod decide;
mod node_drain;
mod observe;
mod owner;
mod report;
mod variables;

use std::sync::Arc;
use std::time::Duration;

use capt_api::machine::CaptMachine;

use super::context::{CATCH_UP, Context};
use crate::runtime::Error;
use crate::runtime::queue::Next;

/// A new workspace wakes its machine; should that be missed, the machine looks for it.
const LATEST: Duration = Duration::from_millis(500);

/// Reconciles one machine.
pub async fn reconcile(context: Arc<Context>, object: Arc<CaptMachine>) -> Result<Next, Error> {
    let Some(observed) = observe::observe(&context, object).await? else { return Ok(CATCH_UP) };
    let decision = decide::decide(&observed);
    let acted = act::act(&context, &observed, &decision.step).await?;
    if decision.step == decide::Step::Create {
        // The workspace wakes us when the cache has it: how it stands by then is one write instead of two.
        return Ok(Next::After(LATEST));
    }
    report::report(&context, &observed, &decision.phase, &acted, context.clock.now()).await?;
    Ok(Next::soonest([decision.again]))
}

/// Name of a machine's workspace.
pub fn workspace_of(machine: &str) -> String {
    format!("{machine}{SUFFIX}")
}

/// What a machine's workspace has after the machine's name.
pub const SUFFIX: &str = "-machine";
