//! Recreate: all old machines go first. OnDelete: what people delete is replaced.

use super::{DeploymentStep, Set};
use crate::reason::Reason;

/// Decides a step; the size of the current set where that is not made yet.
pub(super) fn recreate(step: &mut DeploymentStep<'_>, leaving: &[Set<'_>]) -> i32 {
    let old: Vec<usize> = step.old().map(|(index, _)| index).collect();
    for &index in &old {
        if step.sets[index].spec > 0 {
            step.scale(index, 0, Reason::Recreate);
        }
    }
    let left: i32 =
        old.iter().map(|index| step.sets[*index].existing()).chain(leaving.iter().map(Set::existing)).sum();
    let wanted = step.replicas;
    let size = step.current().map_or(0, |set| set.spec);
    if size > wanted
        && let Some(index) = step.current
    {
        step.scale(index, wanted, Reason::Shrink { wanted });
        return wanted;
    }
    if left > 0 {
        step.wait(Reason::AwaitOldGone { left });
        return 0;
    }
    if !step.all_have_acted(leaving) {
        return 0;
    }
    let Some(current) = step.current().copied() else { return wanted };
    // Machines of its own that are being destroyed count as well: it may have been old, or larger, before.
    let (total, ceiling) = (current.existing(), wanted);
    let to = wanted.min(size + (ceiling - total).max(0));
    if let Some(index) = step.current
        && to > size
    {
        let reason = if old.is_empty() { Reason::Grow { total, ceiling, wanted } } else { Reason::OldGone };
        step.scale(index, to, reason);
    }
    if to < wanted {
        step.wait(Reason::AwaitRoom { total, ceiling, terminating: current.terminating });
    }
    to
}

/// Decides a step; the size of the current set where that is not made yet.
pub(super) fn on_delete(step: &mut DeploymentStep<'_>, leaving: &[Set<'_>]) -> i32 {
    if !step.all_have_acted(leaving) {
        return 0;
    }
    let wanted = step.replicas;
    let old: Vec<usize> = step.old().filter(|(_, set)| set.spec > 0).map(|(index, _)| index).collect();
    // An old set does not create any more, so what it lacks is what people took.
    for &index in &old {
        let set = step.sets[index];
        if set.create_disabled && set.replicas < set.spec {
            step.scale(index, set.replicas, Reason::Deleted { count: set.spec - set.replicas });
        }
    }
    let size = step.current().map_or(0, |set| set.spec);
    let total: i32 = (0..step.sets.len()).map(|index| step.target(index)).sum();
    if total > wanted {
        trim(step, &old, total, wanted);
        return 0;
    }
    let existing: i32 = step
        .sets
        .iter()
        .enumerate()
        .map(|(index, set)| step.target(index).max(set.replicas) + set.terminating)
        .chain(leaving.iter().map(Set::existing))
        .sum();
    let to = wanted.min(size + (wanted - existing).max(0));
    match step.current {
        Some(index) if to > size => step.scale(index, to, Reason::Fill { total: existing, wanted }),
        _ => {}
    }
    to
}

fn trim(step: &mut DeploymentStep<'_>, old: &[usize], total: i32, wanted: i32) {
    let mut surplus = total - wanted;
    for index in old.iter().copied().chain(step.current) {
        let target = step.target(index);
        let count = target.min(surplus);
        if count > 0 {
            surplus -= count;
            step.scale(index, target - count, Reason::Surplus { total, wanted });
        }
    }
}
