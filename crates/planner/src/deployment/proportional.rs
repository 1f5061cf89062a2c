//! Paused: no rollout, and scaling in proportion to the sizes of the sets, the rest to the largest.

use std::cmp::Reverse;

use capt_api::machine::StrategyKind;

use super::{DeploymentStep, Set};
use crate::budget::Budget;
use crate::reason::Reason;

pub(super) fn scale(step: &mut DeploymentStep<'_>, leaving: &[Set<'_>]) {
    let active: Vec<usize> = (0..step.sets.len()).filter(|index| step.sets[*index].spec > 0).collect();
    let wanted = step.replicas;
    if active.len() <= 1 {
        let newest = (0..step.sets.len()).max_by_key(|index| step.sets[*index].revision);
        let Some(index) = active.first().copied().or(step.current).or(newest) else { return };
        let (from, others) = (step.sets[index].spec, others_exist(step, index, leaving));
        let existing = step.sets[index].existing();
        if from < wanted && existing > from {
            // What a rollout is taking down still counts: growing now would pass the ceiling.
            step.scaling_waits = true;
            step.wait(Reason::AwaitRoom { total: existing, ceiling: wanted, terminating: existing - from });
            return;
        }
        if from != wanted && (from > wanted || !others) {
            step.scale(index, wanted, Reason::Proportional { from, to: wanted });
        }
        return;
    }
    // Only a deployment that was scaled since moves: a pause in mid-rollout keeps what there is.
    if active.iter().all(|index| step.sets[*index].desired == Some(wanted)) {
        return;
    }
    if !step.all_have_acted(leaving) {
        step.scaling_waits = true;
        return;
    }
    spread(step, &active, leaving);
}

/// Returns true while machines of other sets are still there: Recreate allows none beside the set that grows.
fn others_exist(step: &DeploymentStep<'_>, index: usize, leaving: &[Set<'_>]) -> bool {
    let others = step.sets.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, set)| set);
    others.chain(leaving).any(|set| set.existing() > 0)
}

fn spread(step: &mut DeploymentStep<'_>, active: &[usize], leaving: &[Set<'_>]) {
    let sizes: i32 = active.iter().map(|index| step.sets[*index].spec).sum();
    let allowed = if step.replicas == 0 { 0 } else { allowed(step, step.replicas) };
    let mut left = allowed - sizes;
    let total: i32 = step.sets.iter().chain(leaving).map(Set::existing).sum();
    if left > 0 && total > sizes {
        // What is going still counts; the shares are right only when it is gone.
        step.scaling_waits = true;
        step.wait(Reason::AwaitRoom { total, ceiling: allowed, terminating: total - sizes });
        return;
    }
    let mut order = active.to_vec();
    // The largest first; of equal ones the newest grows and the oldest shrinks first.
    order.sort_by_key(|index| {
        let set = &step.sets[*index];
        (
            Reverse(set.spec),
            if left > 0 { Reverse(set.created) } else { Reverse(jiff::Timestamp::MIN) },
            *index,
        )
    });
    let mut targets = Vec::with_capacity(order.len());
    for index in order {
        let set = &step.sets[index];
        let before = allowed_before(step, set);
        let ideal = rounded(i64::from(set.spec) * i64::from(allowed), i64::from(before.max(1))) - set.spec;
        let share = if left > 0 { ideal.clamp(0, left) } else { ideal.clamp(left, 0) };
        left -= share;
        targets.push((index, set.spec + share));
    }
    if let Some((_, largest)) = targets.first_mut() {
        *largest = (*largest + left).max(0);
    }
    for (index, to) in targets {
        step.scale(index, to, Reason::Proportional { from: sizes, to: allowed });
    }
}

/// Returns the number of machines that the deployment might have had when the set was last scaled.
fn allowed_before(step: &DeploymentStep<'_>, set: &Set<'_>) -> i32 {
    allowed(step, set.desired.unwrap_or(step.replicas))
}

fn allowed(step: &DeploymentStep<'_>, replicas: i32) -> i32 {
    let strategy = &step.deployment.spec.strategy;
    let surge = match strategy.kind {
        StrategyKind::RollingUpdate => Budget::of(&strategy.rolling_update, replicas).max_surge,
        StrategyKind::Recreate | StrategyKind::OnDelete => 0,
    };
    replicas.saturating_add(surge)
}

fn rounded(numerator: i64, denominator: i64) -> i32 {
    i32::try_from((2 * numerator + denominator) / (2 * denominator)).unwrap_or(i32::MAX)
}
