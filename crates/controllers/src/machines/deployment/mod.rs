//! CaptMachineDeployment: carries out the plans of `capt_planner::deployment`.
//!
//! ```text
//! observe: the deployment and its sets, when the caches show what was written before
//! decide:  capt_planner::deployment::plan
//! act:     sets, in the plan's order, up to the first write that fails
//! report:  the status, last
//! ```

mod act;

use std::sync::Arc;
use std::time::Duration;

use capt_api::machine::{CaptMachineDeployment, CaptMachineSet};
use capt_api::names::finalizers;
use capt_planner::deployment::{DeploymentObservation, DeploymentPlan, plan};
use kube::ResourceExt;

use super::context::{CATCH_UP, MachineContext};
use super::remarks;
use crate::runtime::conditions::seconds;
use crate::runtime::queue::Next;
use crate::runtime::{Error, Name};

/// A deployment and its sets.
struct Family {
    deployment: CaptMachineDeployment,
    sets: Vec<Arc<CaptMachineSet>>,
    /// Reason why all work on it stops, scaling included.
    frozen: Option<String>,
}

/// Reconciles one deployment.
pub async fn reconcile(
    context: Arc<MachineContext>,
    object: Arc<CaptMachineDeployment>,
) -> Result<Next, Error> {
    let name = Name::of(object.as_ref());
    let Some(family) = observe(&context, &name).await? else { return Ok(CATCH_UP) };
    let held = family.deployment.finalizers().iter().any(|known| known == finalizers::MACHINE_DEPLOYMENT);
    match (held, family.deployment.metadata.deletion_timestamp.is_some()) {
        // Nothing was made without it.
        (false, true) => return Ok(Next::OnChange),
        (false, false) if family.frozen.is_none() => {
            let version = context.writer.hold(&family.deployment, finalizers::MACHINE_DEPLOYMENT).await?;
            context.own_deployments.wrote(&name, name.clone(), version);
            return Ok(CATCH_UP);
        }
        _ => {}
    }
    let now = seconds(context.clock.now());
    let mut plan = plan(DeploymentObservation { deployment: &family.deployment, sets: &family.sets }, now);
    if family.frozen.is_some() {
        plan.actions.clear();
    }
    remark(&family, &mut plan);
    let again = act::act(&context, &family, &plan).await?;
    let wake = plan.wake_at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    if !plan.actions.is_empty() && again.is_none() {
        return Ok(CATCH_UP);
    }
    Ok(Next::soonest([wake, again]))
}

/// A deployment and its sets; nothing while the caches are behind our own writes.
async fn observe(context: &MachineContext, name: &Name) -> Result<Option<Family>, Error> {
    let writer = &context.writer;
    let caught_up = context.own_deployments.caught_up(name, &context.deployments, writer).await?
        && context.set_writes.caught_up(name, &context.sets, writer).await?;
    let Some(deployment) = context.deployments.get(name).filter(|_| caught_up) else { return Ok(None) };
    let sets = context.sets.family(deployment.as_ref());
    let mut deployment = CaptMachineDeployment::clone(&deployment);
    let frozen = context.paused(&deployment);
    if frozen.is_some() {
        // Its clock stands still, too: no deadline runs out while nothing may be done.
        deployment.spec.paused = true;
    }
    Ok(Some(Family { deployment, sets, frozen }))
}

/// Adds what the planner does not see.
fn remark(family: &Family, plan: &mut DeploymentPlan) {
    let old = family.deployment.status.as_ref();
    let Some(mut status) = plan.status.take().or_else(|| old.cloned()) else { return };
    remarks::paused(&mut status.conditions, family.frozen.as_deref());
    plan.status = (old != Some(&status)).then_some(status);
}
