//! A deployment: which sets there are, and how large each is.
//!
//! ```text
//! adopt, release -> find the current set -> (make it) -> one step of the strategy -> in place -> history -> status
//! ```
//!
//! **One step at a time.** A step is decided from what sets have reported, and the next one waits until every set has
//! acted on the last (`observedGeneration`). So a set never creates for a size that is no longer its own while its place
//! was given to another, and the ceiling and the floor hold whatever the caches show.

mod build;
pub(crate) mod current;
mod proportional;
mod rolling;
mod simple;
mod status;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use capt_api::machine::{
    CaptMachineDeployment, CaptMachineDeploymentStatus, CaptMachineSet, DeletePolicy, MachineTemplate,
    StrategyKind,
};
use capt_api::names::annotations;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use build::{is_same_set, set};

use crate::budget::Budget;
use crate::owner::{Kinship, Matcher, kinship};
use crate::reason::{Field, Reason};
use crate::template::relevant;
use crate::{hash, names, revision};
use current::Set;

/// A deployment and its sets, as a controller observes them.
#[derive(Debug)]
pub struct DeploymentObservation<'a, S> {
    /// The deployment.
    pub deployment: &'a CaptMachineDeployment,
    /// Sets that it owns, and those without an owner that its selector matches; others are ignored.
    pub sets: &'a [S],
}

impl<S> Clone for DeploymentObservation<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for DeploymentObservation<'_, S> {}

/// Plan of one step of a deployment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPlan {
    /// In this order.
    pub actions: Vec<DeploymentAction>,
    /// Why nothing more is done yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Reason>,
    /// To be written last; none where it has not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<CaptMachineDeploymentStatus>,
    /// Time of the next look, should nothing happen before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
}

/// One thing to do for a deployment.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "PascalCase", rename_all_fields = "camelCase")]
pub enum DeploymentAction {
    /// Create [`set`]`(deployment, hash, revision, replicas)`. Where it exists and [`is_same_set`], that is a success; where
    /// it is another, raise `status.collisionCount` by one and plan again.
    CreateSet { name: String, hash: String, revision: i64, replicas: i32, reason: Reason },
    /// Change it in one write, if it has this resourceVersion.
    ChangeSet {
        name: String,
        uid: String,
        resource_version: String,
        change: Box<Change>,
        reasons: Vec<Reason>,
    },
    /// Delete it if it has this uid. That it is gone is a success.
    DeleteSet { name: String, uid: String, reason: Reason },
    /// Make the deployment its controller, if it has this uid and no controller.
    AdoptSet { name: String, uid: String, reason: Reason },
    /// Take the deployment out of its owners.
    ReleaseSet { name: String, uid: String, reason: Reason },
    /// Put this template into the deployment with [`undo`], if it has the generation that was observed.
    Undo { revision: i64, template: Box<MachineTemplate>, reason: Reason },
    /// Take the deployment's finalizer off: nothing of it is left.
    Finish { reason: Reason },
}

/// Changes to a set; a field that is none stays.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// `spec.replicas`, from and to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<(i32, i32)>,
    /// Its revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Replicas of the deployment that it was scaled for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// True if the set may not create machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_create: Option<bool>,
    /// True if machines that are not available go before those that are marked for deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_first: Option<bool>,
    /// `spec.template`, of which only what reaches machines in place differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<MachineTemplate>,
    /// `spec.minReadySeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// `spec.deletePolicy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_policy: Option<DeletePolicy>,
}

impl Change {
    /// Makes the change to a set.
    pub fn apply(&self, set: &mut CaptMachineSet) {
        let Self {
            replicas,
            revision,
            desired_replicas,
            disable_create,
            unavailable_first,
            template,
            min_ready_seconds,
            delete_policy,
        } = self;
        let all = set.metadata.annotations.get_or_insert_default();
        if let Some(revision) = revision {
            all.insert(annotations::REVISION.to_owned(), revision.to_string());
        }
        if let Some(desired) = desired_replicas {
            all.insert(annotations::DESIRED_REPLICAS.to_owned(), desired.to_string());
        }
        let flags = [
            (annotations::DISABLE_CREATE, disable_create),
            (annotations::UNAVAILABLE_FIRST, unavailable_first),
        ];
        for (key, flag) in flags {
            match flag {
                Some(true) => drop(all.insert(key.to_owned(), String::new())),
                Some(false) => drop(all.remove(key)),
                None => {}
            }
        }
        if let Some((_, to)) = replicas {
            set.spec.replicas = *to;
        }
        if let Some(template) = template {
            set.metadata.labels.get_or_insert_default().extend(template.metadata.labels.clone());
            set.spec.template = template.clone();
        }
        set.spec.min_ready_seconds = min_ready_seconds.unwrap_or(set.spec.min_ready_seconds);
        set.spec.delete_policy = delete_policy.unwrap_or(set.spec.delete_policy);
    }
}

impl fmt::Display for DeploymentAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateSet { name, replicas, reason, .. } => {
                write!(f, "created {name} with {replicas}: {reason}")
            }
            Self::ChangeSet { name, change, reasons, .. } => {
                match change.replicas {
                    Some((from, to)) => write!(f, "scaled {name} {from}->{to}: ")?,
                    None => write!(f, "updated {name}: ")?,
                }
                for (index, reason) in reasons.iter().enumerate() {
                    write!(f, "{}{reason}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::DeleteSet { name, reason, .. } => write!(f, "deleted {name}: {reason}"),
            Self::AdoptSet { name, reason, .. } => write!(f, "adopted {name}: {reason}"),
            Self::ReleaseSet { name, reason, .. } => write!(f, "released {name}: {reason}"),
            Self::Undo { revision, reason, .. } => write!(f, "went back to revision {revision}: {reason}"),
            Self::Finish { reason } => write!(f, "finished: {reason}"),
        }
    }
}

/// Input and result of one step: at most one change for each set.
pub(crate) struct DeploymentStep<'a> {
    pub(crate) deployment: &'a CaptMachineDeployment,
    /// Sets that are not being deleted, the oldest first.
    pub(crate) sets: Vec<Set<'a>>,
    /// Index of the current set.
    pub(crate) current: Option<usize>,
    pub(crate) replicas: i32,
    pub(crate) budget: Budget,
    changes: BTreeMap<usize, (Change, Vec<Reason>)>,
    /// Number of times that the name of a new set was taken.
    collisions: i32,
    /// True while a scaling is still to come, so that sets must not look as if it had been done.
    pub(crate) scaling_waits: bool,
    pub(crate) waits: Vec<Reason>,
}

impl<'a> DeploymentStep<'a> {
    pub(crate) fn current(&self) -> Option<&Set<'a>> {
        self.current.map(|index| &self.sets[index])
    }

    pub(crate) fn old(&self) -> impl Iterator<Item = (usize, &Set<'a>)> {
        self.sets.iter().enumerate().filter(|(index, _)| Some(*index) != self.current)
    }

    /// Scales a set; a second scaling in the same step adds to the first.
    pub(crate) fn scale(&mut self, index: usize, to: i32, reason: Reason) {
        let from = self.sets[index].spec;
        if self.target(index) == to {
            return;
        }
        let (change, reasons) = self.changes.entry(index).or_default();
        change.replicas = Some((from, to));
        reasons.push(reason);
    }

    /// The size that a set will have after this step.
    pub(crate) fn target(&self, index: usize) -> i32 {
        self.changes
            .get(&index)
            .and_then(|(change, _)| change.replicas)
            .map_or(self.sets[index].spec, |(_, to)| to)
    }

    pub(crate) fn wait(&mut self, reason: Reason) {
        if !self.waits.contains(&reason) {
            self.waits.push(reason);
        }
    }

    fn change(&mut self, index: usize, edit: impl FnOnce(&mut Change), reason: Reason) {
        let (change, reasons) = self.changes.entry(index).or_default();
        edit(change);
        reasons.push(reason);
    }

    /// Returns true if every set has acted on its last change; says which has not.
    pub(crate) fn all_have_acted(&mut self, leaving: &[Set<'_>]) -> bool {
        let all = self.sets.iter().chain(leaving);
        let slow: Vec<String> = all.filter(|set| !set.acted).map(|set| set.name.to_owned()).collect();
        for set in &slow {
            self.wait(Reason::AwaitSet { set: set.clone() });
        }
        slow.is_empty()
    }
}

/// Decides the next step of a deployment. Linear in the sets.
///
/// A controller must:
/// 1. plan only on a cache that shows its own writes to sets (after a start, or after taking a lease: on a new list);
/// 2. work on one deployment once at a time, in the order of the actions, and stop at the first write that fails.
pub fn plan<S: Borrow<CaptMachineSet>>(
    observed: DeploymentObservation<'_, S>,
    now: Timestamp,
) -> DeploymentPlan {
    let deployment = observed.deployment;
    let mut plan = DeploymentPlan::default();
    let family = sort_out(observed, &mut plan);
    if deployment.metadata.deletion_timestamp.is_some() {
        take_down(deployment, &family, &mut plan);
        status::finish(&mut plan, deployment, &family, None, now);
        return plan;
    }
    // A set that is being deleted still has machines: they count for the ceiling and against haste.
    let (leaving, sets): (Vec<Set<'_>>, Vec<Set<'_>>) = family.iter().copied().partition(|set| set.deleting);
    let due = deployment.spec.rollout_after.as_ref().map(|time| time.0);
    let replicas = deployment.spec.replicas.max(0);
    let mut step = DeploymentStep {
        deployment,
        current: current::find(deployment, &sets, due.filter(|due| *due <= now)),
        sets,
        replicas,
        budget: Budget::of(&deployment.spec.strategy.rolling_update, replicas),
        changes: BTreeMap::new(),
        collisions: deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0),
        scaling_waits: false,
        waits: Vec::new(),
    };
    let undone = status::falls_back(deployment, &step, now);
    if let Some(undo) = undone {
        plan.actions.push(undo);
    } else if deployment.spec.paused {
        step.wait(Reason::Paused);
        proportional::scale(&mut step, &leaving);
    } else {
        let created = advance(&mut step, &leaving, &family, due.filter(|due| *due <= now), &mut plan);
        if !created {
            clean_history(&step, &leaving, &mut plan);
        }
    }
    propagate(&mut step);
    finish_changes(&mut step, &mut plan);
    plan.waits.append(&mut step.waits);
    if let Some(due) = due.filter(|due| *due > now) {
        plan.wake_at = Some(due);
    }
    let current = step.current().map(|set| set.name);
    status::finish(&mut plan, deployment, &family, current, now);
    if step.collisions > 0
        && let Some(status) = &mut plan.status
    {
        status.collision_count = Some(step.collisions);
    }
    plan
}

fn sort_out<'a, S: Borrow<CaptMachineSet>>(
    observed: DeploymentObservation<'a, S>,
    plan: &mut DeploymentPlan,
) -> Vec<Set<'a>> {
    let parent = &observed.deployment.metadata;
    let matcher = Matcher::new(&observed.deployment.spec.selector);
    let mut family = Vec::with_capacity(observed.sets.len());
    for object in observed.sets {
        let object: &CaptMachineSet = object.borrow();
        let set = Set::new(object);
        let (name, uid) = (set.name.to_owned(), object.metadata.uid.clone().unwrap_or_default());
        let matches = matcher.matches(object.metadata.labels.as_ref());
        match kinship(&object.metadata, parent) {
            Kinship::Foreign => continue,
            Kinship::Orphan if set.deleting || !matches || parent.deletion_timestamp.is_some() => continue,
            Kinship::Orphan => {
                plan.actions.push(DeploymentAction::AdoptSet { name, uid, reason: Reason::Selected });
            }
            Kinship::Ours if !matches && !set.deleting => {
                plan.actions.push(DeploymentAction::ReleaseSet { name, uid, reason: Reason::Unselected });
                continue;
            }
            Kinship::Ours => {}
        }
        family.push(set);
    }
    family.sort_by(|one, other| {
        (one.created, one.revision, one.name).cmp(&(other.created, other.revision, other.name))
    });
    family
}

fn take_down(deployment: &CaptMachineDeployment, family: &[Set<'_>], plan: &mut DeploymentPlan) {
    let orphans = deployment.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == "orphan");
    if family.is_empty() || orphans {
        plan.actions.push(DeploymentAction::Finish { reason: Reason::OwnerDeleting });
        return;
    }
    plan.actions.extend(family.iter().filter(|set| !set.deleting).map(|set| DeploymentAction::DeleteSet {
        name: set.name.to_owned(),
        uid: set.object.metadata.uid.clone().unwrap_or_default(),
        reason: Reason::OwnerDeleting,
    }));
    plan.waits.push(Reason::AwaitChildren { left: crate::set::count(family.len()) });
}

/// Makes the current set or takes one step; whether it made it.
fn advance(
    step: &mut DeploymentStep<'_>,
    leaving: &[Set<'_>],
    family: &[Set<'_>],
    restarted: Option<Timestamp>,
    plan: &mut DeploymentPlan,
) -> bool {
    let strategy = step.deployment.spec.strategy.kind;
    if let Some(index) = step.current {
        let highest =
            family.iter().filter(|set| set.name != step.sets[index].name).map(|set| set.revision).max();
        if let Some(highest) = highest.filter(|highest| *highest >= step.sets[index].revision) {
            let revision = highest + 1;
            step.change(index, |change| change.revision = Some(revision), Reason::CurrentAgain { revision });
        }
    }
    let replicas = match strategy {
        StrategyKind::RollingUpdate => rolling::step(step, leaving),
        StrategyKind::Recreate => simple::recreate(step, leaving),
        StrategyKind::OnDelete => simple::on_delete(step, leaving),
    };
    if step.current.is_some() {
        return false;
    }
    let revision = family.iter().map(|set| set.revision).max().unwrap_or(0) + 1;
    let deployment_name = step.deployment.metadata.name.as_deref().unwrap_or_default();
    let (name, hash) = loop {
        let hash = current::hash(step.deployment, restarted, step.collisions);
        let name = names::set_name(deployment_name, &hash);
        match family.iter().find(|set| set.name == name) {
            None => break (name, hash),
            Some(set) if set.vacates() => {
                step.wait(Reason::AwaitSet { set: name });
                return false;
            }
            Some(_) => {}
        }
        step.collisions += 1;
    };
    let ceiling = ceiling(step);
    let reason = Reason::NewRevision { revision, replicas, ceiling };
    plan.actions.push(DeploymentAction::CreateSet { name, hash, revision, replicas, reason });
    true
}

pub(crate) fn ceiling(step: &DeploymentStep<'_>) -> i32 {
    match step.deployment.spec.strategy.kind {
        StrategyKind::RollingUpdate => step.replicas.saturating_add(step.budget.max_surge),
        StrategyKind::Recreate | StrategyKind::OnDelete => step.replicas,
    }
}

/// Propagates the in-place fields to the current set. Old sets keep the template that they stand for, so that an undo
/// brings it back; what decides how they shrink reaches them too.
fn propagate(step: &mut DeploymentStep<'_>) {
    let spec = &step.deployment.spec;
    let on_delete = spec.strategy.kind == StrategyKind::OnDelete;
    for index in 0..step.sets.len() {
        let set = step.sets[index];
        let is_current = Some(index) == step.current;
        let is_active = is_current || set.spec > 0 || set.replicas > 0;
        let mut change = Change::default();
        let mut what = Vec::new();
        if is_current {
            let template = build::template(step.deployment, set.hash);
            if set.object.spec.template != template {
                change.template = Some(template);
                what.push(Field::Template);
            }
        }
        if is_active && set.object.spec.min_ready_seconds != spec.min_ready_seconds {
            change.min_ready_seconds = Some(spec.min_ready_seconds);
            what.push(Field::MinReadySeconds);
        }
        if is_active && set.object.spec.delete_policy != spec.delete_policy {
            change.delete_policy = Some(spec.delete_policy);
            what.push(Field::DeletePolicy);
        }
        if !step.scaling_waits && (is_current || set.spec > 0) && set.desired != Some(step.replicas) {
            change.desired_replicas = Some(step.replicas);
            what.push(Field::DesiredReplicas);
        }
        // While there is no current set, somebody having deleted it, old ones stay as they are.
        let disable = on_delete && !is_current && (step.current.is_some() || set.create_disabled);
        if (is_active || !disable) && set.create_disabled != disable {
            change.disable_create = Some(disable);
            what.push(Field::DisableCreate);
        }
        // People choose which machines go when they scale; a rollout takes all of an old set, and needs the available ones longest.
        // Machines that it has decided to take go in that order even if the set is current again, or paused, before they are gone.
        let rolls = spec.strategy.kind == StrategyKind::RollingUpdate && !is_current && !spec.paused;
        let still_taking = !set.acted || set.replicas > set.spec;
        let unavailable_first =
            set.unavailable_first && (rolls || still_taking) || rolls && step.target(index) < set.spec;
        if set.unavailable_first != unavailable_first {
            change.unavailable_first = Some(unavailable_first);
            what.push(Field::UnavailableFirst);
        }
        if what.is_empty() {
            continue;
        }
        let (planned, reasons) = step.changes.entry(index).or_default();
        // That a scaled set learns what it was scaled for, and how, needs no words.
        let silent = |field: &Field| matches!(field, Field::DesiredReplicas | Field::UnavailableFirst);
        if reasons.is_empty() || !what.iter().all(silent) {
            reasons.push(Reason::InPlace { what });
        }
        *planned = Change { replicas: planned.replicas, revision: planned.revision, ..change };
    }
}

fn finish_changes(step: &mut DeploymentStep<'_>, plan: &mut DeploymentPlan) {
    for (index, (change, reasons)) in std::mem::take(&mut step.changes) {
        let set = &step.sets[index];
        plan.actions.push(DeploymentAction::ChangeSet {
            name: set.name.to_owned(),
            uid: set.object.metadata.uid.clone().unwrap_or_default(),
            resource_version: set.object.metadata.resource_version.clone().unwrap_or_default(),
            change: Box::new(change),
            reasons,
        });
    }
}

/// Removes old revisions beyond the limit once the rollout is complete, the oldest first.
fn clean_history(step: &DeploymentStep<'_>, leaving: &[Set<'_>], plan: &mut DeploymentPlan) {
    let Some(current) = step.current() else { return };
    let complete = leaving.is_empty()
        && current.available >= step.replicas
        && step.old().all(|(_, set)| set.existing() == 0 && set.acted);
    if !complete {
        return;
    }
    let limit = step.deployment.spec.revision_history_limit.max(0);
    let mut old: Vec<&Set<'_>> = step.old().map(|(_, set)| set).collect();
    old.sort_by_key(|set| set.revision);
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    plan.actions.extend(old.into_iter().take(surplus).map(|set| DeploymentAction::DeleteSet {
        name: set.name.to_owned(),
        uid: set.object.metadata.uid.clone().unwrap_or_default(),
        reason: Reason::History { limit },
    }));
}

/// The deployment with a restart asked for: every machine that is older than now is replaced.
pub fn restart(deployment: &mut CaptMachineDeployment, now: Timestamp) {
    deployment.spec.rollout_after = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
}

/// Puts the template of [`DeploymentAction::Undo`] into a deployment, and notes it there: should it miss its deadline as well, two broken revisions are
/// not undone for one another for ever.
pub fn undo(deployment: &mut CaptMachineDeployment, template: &MachineTemplate) {
    deployment.spec.template = template.clone();
    let all = deployment.metadata.annotations.get_or_insert_default();
    all.insert(annotations::UNDONE_TO.to_owned(), template_hash(template));
}

/// Returns true if the deployment's template is one that an undo by itself put there.
pub(crate) fn is_undone(deployment: &CaptMachineDeployment) -> bool {
    let noted = deployment.metadata.annotations.as_ref().and_then(|all| all.get(annotations::UNDONE_TO));
    noted.is_some_and(|noted| *noted == template_hash(&deployment.spec.template))
}

fn template_hash(template: &MachineTemplate) -> String {
    hash::text(&relevant(&template.spec))
}

/// The revision that a set stands for.
pub fn revision_of(set: &CaptMachineSet) -> i64 {
    revision::of(set)
}

#[cfg(test)]
mod tests;
