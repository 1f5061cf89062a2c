//! Guarantees of a rollout, checked at every step.

use std::collections::HashMap;

use capt_api::machine::{CaptMachineDeployment, CaptMachineSet, StrategyKind};
use capt_api::names::annotations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::report::Counts;
use super::world::World;
use crate::budget::Budget;
use crate::reason::{Count, Priority, Reason};
use crate::set;

/// Violations and extremes that were seen so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) violations: Vec<String>,
    pub(super) most: i32,
    pub(super) fewest_available: Option<i32>,
    pub(super) created: i32,
    pub(super) deleted: i32,
    /// Places of machines that were lost since the last decision, to a fault, a hand or a replacement: whoever fills one makes
    /// no machine too many.
    emptied: i32,
    /// Available machines that were lost since the last decision, which could not know of it.
    unforeseen: i32,
    /// Machines that a set had too many at the beginning, by its uid: that they go was decided before.
    owed: HashMap<Option<String>, i32>,
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

/// Returns true if a rollout takes machines of the set.
fn rolls(set: &ObjectMeta) -> bool {
    set.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::UNAVAILABLE_FIRST))
}

impl Checks {
    /// Looks at what is given: nothing of it is the simulation's doing.
    pub(super) fn begin(world: &World) -> Self {
        let owed = world.sets.iter().map(|set| {
            let live = world.of_set(&set.metadata).live;
            (set.metadata.uid.clone(), (live - set.spec.replicas.max(0)).max(0))
        });
        let mut checks = Self { owed: owed.collect(), ..Self::default() };
        checks.see(&world.counts());
        checks
    }

    /// Remembers the extremes.
    pub(super) fn see(&mut self, counts: &Counts) {
        self.most = self.most.max(counts.live + counts.terminating);
        let fewest = self.fewest_available.map_or(counts.available, |fewest| fewest.min(counts.available));
        self.fewest_available = Some(fewest);
    }

    /// Machines, and available ones among them, went without a decision to have fewer.
    pub(super) fn lost(&mut self, machines: i32, available: i32) {
        self.emptied += machines.max(0);
        self.unforeseen += available.max(0);
    }

    /// Every decision was carried out: what was not filled by now is nobody's place any more.
    pub(super) fn settled(&mut self) {
        self.emptied = 0;
        self.unforeseen = 0;
    }

    /// Looks at the moment after a set made a machine. Only a decision to make one can break the ceiling: what there was when
    /// the ceiling fell may stay until it is gone.
    pub(super) fn created(&mut self, world: &World, set: &CaptMachineSet, action: &set::SetAction) {
        self.created += 1;
        let (total, counts) = (world.own().counting(), world.counts());
        if total > counts.ceiling && self.emptied == 0 && world.exists {
            let (machines, most) = (Count(total, "machine"), counts.ceiling);
            self.violations.push(format!("{machines}, at most {most} may exist, after: {action}"));
        }
        self.emptied = (self.emptied - 1).max(0);
        let live = world.of_set(&set.metadata).live;
        if live > set.spec.replicas.max(0) {
            let name = set.metadata.name.as_deref().unwrap_or_default();
            let (machines, wanted) = (Count(live, "machine"), set.spec.replicas);
            self.violations.push(format!("{name} has {machines} of {wanted}, after: {action}"));
        }
    }

    /// Looks at the moment after a set deleted a machine.
    pub(super) fn deleted(
        &mut self,
        world: &World,
        set: &ObjectMeta,
        action: &set::SetAction,
        available: bool,
    ) {
        self.deleted += 1;
        match action.reason() {
            // Who scales down chooses with marks; a rollout takes no available machine for one.
            Reason::TooMany { first: Priority::Annotated, .. } if !rolls(set) => return,
            Reason::TooMany { .. } => {}
            // Its set goes, and makes none in its place.
            Reason::OwnerDeleting => return,
            _ => return self.lost(1, i32::from(available)),
        }
        if let Some(owed) = self.owed.get_mut(&set.uid).filter(|owed| **owed > 0) {
            *owed -= 1;
            return;
        }
        let spec = &world.deployment.spec;
        let rolling = world.exists && spec.strategy.kind == StrategyKind::RollingUpdate && !spec.paused;
        let deleting = world.deployment.metadata.deletion_timestamp.is_some();
        let Counts { available: left, floor, .. } = world.counts();
        if available && rolling && !deleting && left + self.unforeseen < floor {
            self.violations.push(format!("{left} available, at least {floor} must be, after: {action}"));
        }
    }
}
