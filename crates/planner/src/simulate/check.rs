//! What a rollout promises, checked at every step.

use capt_api::machine::{CaptMachineDeployment, StrategyKind};

use super::report::Counts;
use super::world::World;
use crate::budget::Budget;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) violations: Vec<String>,
    pub(super) most: i32,
    pub(super) fewest_available: Option<i32>,
    /// The most machines that may exist now: the ceiling, or what there was when it fell.
    allowed: i32,
    /// What counted after the last step.
    total: i32,
    /// Places of machines that somebody took away: whoever fills one makes no machine too many.
    emptied: i32,
}

/// The most machines that may exist and the fewest that a rollout keeps available.
pub(super) fn bounds(deployment: &CaptMachineDeployment) -> (i32, i32) {
    let replicas = deployment.spec.replicas.max(0);
    match deployment.spec.strategy.kind {
        StrategyKind::RollingUpdate => {
            let budget = Budget::of(&deployment.spec.strategy.rolling_update, replicas);
            (replicas.saturating_add(budget.max_surge), replicas - budget.max_unavailable)
        }
        StrategyKind::Recreate | StrategyKind::OnDelete => (replicas, 0),
    }
}

impl Checks {
    /// Looks at the moment after a step.
    pub(super) fn see(&mut self, world: &World, counts: &Counts, who: &str, what: &str) {
        // A machine that failed or that somebody deleted is replaced while it is still being destroyed.
        let given_up = world.machines.iter().filter(|actor| actor.given_up).count();
        let total = counts.live + i32::try_from(given_up).unwrap_or(i32::MAX);
        let everything = counts.live + counts.terminating;
        self.most = self.most.max(everything);
        self.fewest_available =
            Some(self.fewest_available.map_or(counts.available, |fewest| fewest.min(counts.available)));
        // Where somebody lowered the ceiling, what there was may stay until it is gone.
        self.allowed = self.allowed.max(counts.ceiling);
        if who == "event" {
            self.allowed = self.allowed.max(total);
            self.emptied += (self.total - total).max(0);
        }
        if total > self.allowed {
            self.violations
                .push(format!("{total} machines, at most {} may exist, after: {what}", self.allowed));
        }
        if what.starts_with("created") && who == "set" {
            self.emptied = (self.emptied - 1).max(0);
        }
        self.total = total;
        self.allowed = counts.ceiling.max(self.allowed.min(total + self.emptied));
        for set in &world.sets {
            let live = world
                .machines
                .iter()
                .filter(|actor| actor.object.metadata.deletion_timestamp.is_none())
                .filter(|actor| {
                    actor
                        .object
                        .metadata
                        .owner_references
                        .iter()
                        .flatten()
                        .any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
                })
                .count();
            if what.starts_with("created")
                && i32::try_from(live).unwrap_or(i32::MAX) > set.spec.replicas.max(0)
            {
                let name = set.metadata.name.as_deref().unwrap_or_default();
                self.violations
                    .push(format!("{name} has {live} machines of {}, after: {what}", set.spec.replicas));
            }
        }
    }

    /// Looks at the moment after a decision took an available machine.
    pub(super) fn took_available(&mut self, world: &World, what: &str) {
        let spec = &world.deployment.spec;
        let counts = world.counts();
        let rolling = world.exists && spec.strategy.kind == StrategyKind::RollingUpdate && !spec.paused;
        let deleting = world.deployment.metadata.deletion_timestamp.is_some();
        if rolling && !deleting && counts.available < counts.floor {
            self.violations.push(format!(
                "{} available, at least {} must be, after: {what}",
                counts.available, counts.floor
            ));
        }
    }
}
