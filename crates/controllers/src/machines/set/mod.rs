//! CaptMachineSet: carries out the plans of `capt_planner::set`.
//!
//! ```text
//! observe: the set and its machines, when the caches show what was written before
//! decide:  capt_planner::set::plan
//! act:     status first, under the version that was observed; then machines, in the plan's order
//! ```

mod act;
pub mod overlap;

use std::sync::Arc;
use std::time::Duration;

use capt_api::conditions::types;
use capt_api::machine::{CaptMachine, CaptMachineSet};
use capt_api::names::{annotations, finalizers};
use capt_planner::conditions;
use capt_planner::set::{SetObservation, SetPlan, plan};
use jiff::Timestamp;
use kube::ResourceExt;

use super::context::{CATCH_UP, MachineContext};
use super::remarks;
use crate::runtime::conditions::seconds;
use crate::runtime::queue::Next;
use crate::runtime::{Error, Name};

/// A set and its machines.
struct Family {
    set: CaptMachineSet,
    machines: Vec<Arc<CaptMachine>>,
    absent: Vec<i64>,
    /// Reason why all work on it stops.
    paused: Option<String>,
    /// Other sets that select its machines, or whose machines it selects.
    overlaps: Vec<String>,
}

/// Returns the number of pauses between two looks: each goes through all machines.
pub fn pauses(object: &CaptMachineSet) -> u32 {
    let machines = object.status.as_ref().map_or(0, |status| status.replicas).max(object.spec.replicas);
    (machines.unsigned_abs() / 1000).clamp(1, 50)
}

/// Reconciles one set.
pub async fn reconcile(context: Arc<MachineContext>, object: Arc<CaptMachineSet>) -> Result<Next, Error> {
    let name = Name::of(object.as_ref());
    let Some(family) = observe(&context, &name).await? else { return Ok(CATCH_UP) };
    let held = family.set.finalizers().iter().any(|known| known == finalizers::MACHINE_SET);
    match (held, family.set.metadata.deletion_timestamp.is_some()) {
        // Nothing was made without it.
        (false, true) => return Ok(Next::OnChange),
        (false, false) => {
            let version = context.writer.hold(&family.set, finalizers::MACHINE_SET).await?;
            context.own_sets.wrote(&name, name.clone(), version);
            return Ok(CATCH_UP);
        }
        (true, _) => {}
    }
    let now = seconds(context.clock.now());
    let observed = SetObservation { set: &family.set, machines: &family.machines, absent: &family.absent };
    let mut plan = plan(observed, &context.settings, now);
    remark(&family, &mut plan, now);
    let again = act::act(&context, &family, &plan).await?;
    let wake = plan.wake_at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    if !plan.actions.is_empty() && again.is_none() {
        return Ok(CATCH_UP);
    }
    Ok(Next::soonest([wake, again]))
}

/// A set and its machines; nothing while the caches are behind our own writes.
async fn observe(context: &MachineContext, name: &Name) -> Result<Option<Family>, Error> {
    let writer = &context.writer;
    let caught_up = context.own_sets.caught_up(name, &context.sets, writer).await?
        && context.machine_writes.caught_up(name, &context.machines, writer).await?;
    let Some(set) = context.sets.get(name).filter(|_| caught_up) else { return Ok(None) };
    let machines = context.machines.family(set.as_ref());
    let overlaps = overlap::overlapping(&set, &context.sets.all());
    let mut set = CaptMachineSet::clone(&set);
    let paused = context.paused(&set);
    if paused.is_some() {
        // The planner knows one way of being paused.
        set.metadata.annotations.get_or_insert_default().insert(annotations::PAUSED.into(), String::new());
    }
    let pending = set.status.as_ref().and_then(|status| status.allocation.as_ref());
    let absent = context.absent.of(name, pending.map(|given| given.pending.as_slice()).unwrap_or_default());
    Ok(Some(Family { set, machines, absent, paused, overlaps }))
}

/// Adds what the planner does not see.
fn remark(family: &Family, plan: &mut SetPlan, now: Timestamp) {
    let old = family.set.status.as_ref();
    let Some(mut status) = plan.status.take().or_else(|| old.cloned()) else { return };
    remarks::paused(&mut status.conditions, family.paused.as_deref());
    let generation = family.set.metadata.generation;
    match overlap::finding(&family.overlaps) {
        Some(finding) => {
            status.conditions = conditions::merge(&status.conditions, vec![finding], generation, now);
        }
        None => status.conditions.retain(|one| one.type_ != types::SELECTOR_OVERLAPS),
    }
    plan.status = (old != Some(&status)).then_some(status);
}
