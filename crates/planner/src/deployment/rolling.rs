//! RollingUpdate: grow the current set to the ceiling, shrink old ones to the floor.
//!
//! ```text
//! ceiling       = replicas + maxSurge            all machines, those being destroyed included, stay at or below it
//! floor         = replicas - maxUnavailable      no step takes an available machine that the floor needs
//! up            = min(replicas - current, ceiling - existing)
//! budget        = sum of sizes - floor - unavailable of the current set
//! down, pass 1  = unavailable old replicas, the oldest set first, within the budget
//! down, pass 2  = any old replicas, the oldest set first, within the budget and available - floor
//! ```

use super::{DeploymentStep, Set, ceiling};
use crate::reason::Reason;

/// Decides a step; the size of the current set where that is not made yet.
pub(super) fn step(step: &mut DeploymentStep<'_>, leaving: &[Set<'_>]) -> i32 {
    let acted = step.all_have_acted(leaving);
    if !acted {
        // A new revision is recorded at once, without machines: what it may have shows when the others have acted.
        return 0;
    }
    let size = up(step, leaving);
    down(step, leaving);
    size
}

fn up(step: &mut DeploymentStep<'_>, leaving: &[Set<'_>]) -> i32 {
    let all = || step.sets.iter().chain(leaving);
    let total: i32 = all().map(Set::existing).sum();
    let terminating: i32 = all().map(|set| set.terminating).sum();
    let (ceiling, wanted) = (ceiling(step), step.replicas);
    let room = (ceiling - total).max(0);
    let size = step.current().map_or(0, |set| set.spec);
    if size > wanted {
        if let Some(index) = step.current {
            step.scale(index, wanted, Reason::Shrink { wanted });
        }
        return wanted;
    }
    let to = wanted.min(size + room);
    if let Some(index) = step.current
        && to > size
    {
        step.scale(index, to, Reason::Grow { total, ceiling, wanted });
    }
    if to == size && size < wanted {
        step.wait(Reason::AwaitRoom { total, ceiling, terminating });
    }
    to
}

fn down(step: &mut DeploymentStep<'_>, leaving: &[Set<'_>]) {
    let floor = step.replicas - step.budget.max_unavailable;
    let sizes: i32 = step.sets.iter().map(|set| set.spec).sum();
    let available: i32 = step.sets.iter().map(|set| set.available).sum();
    let Some(current) = step.current().copied() else {
        return;
    };
    let missing = (current.spec - current.available).max(0);
    let mut budget = sizes - floor - missing;
    let old: Vec<usize> = step.old().filter(|(_, set)| set.spec > 0).map(|(index, _)| index).collect();
    if old.is_empty() {
        return;
    }
    if budget <= 0 {
        if !break_deadlock(step, &current, &old, leaving) {
            step.wait(Reason::AwaitAvailable { available, min_available: floor });
        }
        return;
    }
    let given = budget;
    for &index in &old {
        let set = step.sets[index];
        let count = (set.spec - set.available).min(budget).max(0);
        if count > 0 {
            budget -= count;
            step.scale(index, set.spec - count, Reason::UnavailableOld { count, budget: given });
        }
    }
    let mut spare = (available - floor).max(0).min(budget);
    for &index in &old {
        let target = step.target(index);
        let count = target.min(spare);
        if count > 0 {
            spare -= count;
            step.scale(index, target - count, Reason::Replaced { available, min_available: floor });
        }
    }
    if old.iter().all(|index| step.target(*index) == step.sets[*index].spec) {
        step.wait(Reason::AwaitAvailable { available, min_available: floor });
    }
}

/// Takes one old replica that serves nobody where nothing else can move.
fn break_deadlock(
    step: &mut DeploymentStep<'_>,
    current: &Set<'_>,
    old: &[usize],
    leaving: &[Set<'_>],
) -> bool {
    let still = leaving.is_empty()
        && step.changes.is_empty()
        && current.available == current.spec
        && step.sets.iter().all(|set| set.replicas == set.spec && set.terminating == 0);
    let idle = old.iter().copied().find(|index| step.sets[*index].available == 0);
    match idle {
        Some(index) if still => {
            step.scale(index, step.sets[index].spec - 1, Reason::Deadlock);
            true
        }
        _ => false,
    }
}
