//! WorkspaceTemplateApply: one instance of a template, kept in step with it.
//!
//! ```text
//! observe: object, template, provider config, values, engine  (observe, prepare, place, values, import, dependencies)
//! decide:  the next thing to do, and the phase                 (capt_planner::workspace; pure, on facts)
//! act:     finalizer, run, cancel, release                     (act, connection)
//! report:  conditions, outputs, progress; one write            (report; pure up to the write)
//! ```

pub mod act;
pub mod approval;
pub mod backends;
pub mod connection;
pub mod definition;
pub mod dependencies;
mod drift;
pub mod facts;
pub mod fields;
#[cfg(test)]
mod fixture;
pub mod history;
pub mod import;
mod news;
pub mod observe;
pub mod place;
pub mod prepare;
pub mod report;
pub mod said;
pub mod values;
pub mod variables;

use std::sync::Arc;
use std::time::Duration;

use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::workspace::decide;

use super::context::WorkspaceContext;
use crate::runtime::Error;
use crate::runtime::queue::Next;

/// Reconciles one instance.
pub async fn reconcile(
    context: Arc<WorkspaceContext>,
    object: Arc<WorkspaceTemplateApply>,
) -> Result<Next, Error> {
    let observed = observe::observe(&context, object).await?;
    let now = context.clock.now();
    let decision = decide(&observed.facts(), now);
    let acted = act::act(&context, &observed, &decision).await?;
    let shown = report::report(&context, &observed, &decision, &acted, now).await?;
    // Others go by what was told before: the next look tells of the run at once.
    if acted.started.is_some() && report::is_settled(observed.status.as_ref()) {
        return Ok(Next::CatchUp);
    }
    let wake = decision.wake.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    Ok(Next::soonest([wake, shown.again, acted.again]))
}
