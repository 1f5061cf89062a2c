//! Carries plans out on objects in memory, as a controller would on an API.

use capt_api::conditions::types;
use capt_api::machine::{CaptMachine, CaptMachineSet};
use capt_api::names::finalizers;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::check::Checks;
use super::world::{Actor, World};
use crate::availability::MachineAvailability;
use crate::reason::Reason;
use crate::{conditions, deployment, owner, set};

impl World {
    /// Carries out the plan of the deployment; returns true if anything changed.
    pub(super) fn act_on_deployment(&mut self, plan: deployment::DeploymentPlan) -> bool {
        let mut changed = !plan.actions.is_empty();
        for action in plan.actions {
            self.act_one(&action);
            let json = serde_json::to_value(&action).expect("plans are JSON");
            self.note("deployment", action.to_string(), Some(json));
        }
        if let Some(status) = plan.status {
            changed = true;
            let before = self.deployment.status.replace(status);
            self.note_progress(
                before.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default(),
            );
        }
        changed
    }

    /// Says when a rollout has ended, or has failed.
    fn note_progress(&mut self, before: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]) {
        let status = self.deployment.status.clone().unwrap_or_default();
        let Some(now) = conditions::find(&status.conditions, types::PROGRESSING) else { return };
        let was = conditions::find(before, types::PROGRESSING).map(|condition| condition.reason.as_str());
        if was != Some(now.reason.as_str()) {
            let text = format!("Progressing={} {}: {}", now.status, now.reason, now.message);
            self.note("deployment", text, None);
        }
    }

    fn act_one(&mut self, action: &deployment::DeploymentAction) {
        use deployment::DeploymentAction;
        let parent = self.deployment.metadata.clone();
        match action {
            DeploymentAction::CreateSet { hash, revision, replicas, .. } => {
                let mut set = deployment::set(&self.deployment, hash, *revision, *replicas);
                self.born(&mut set.metadata);
                self.agenda.set_changed(&set.metadata);
                self.sets.push(set);
            }
            DeploymentAction::ChangeSet { name, change, .. } => self.change_set(name, |set| {
                let before = set.spec.clone();
                change.apply(set);
                if before != set.spec {
                    bump(&mut set.metadata);
                }
            }),
            DeploymentAction::DeleteSet { name, .. } => self.delete_set(name),
            DeploymentAction::AdoptSet { name, .. } => {
                self.change_set(name, |set| adopt(&mut set.metadata, "CaptMachineDeployment", &parent));
            }
            DeploymentAction::ReleaseSet { name, .. } => {
                self.change_set(name, |set| release(&mut set.metadata, &parent));
            }
            DeploymentAction::Undo { template, .. } => {
                deployment::undo(&mut self.deployment, template);
                bump(&mut self.deployment.metadata);
            }
            DeploymentAction::Finish { .. } => {
                self.exists = false;
                for set in &mut self.sets {
                    release(&mut set.metadata, &parent);
                }
                self.agenda.everything();
            }
        }
    }

    fn change_set(&mut self, name: &str, change: impl FnOnce(&mut CaptMachineSet)) {
        if let Some(index) = self.set_index(name) {
            change(&mut self.sets[index]);
            self.agenda.set_changed(&self.sets[index].metadata);
        }
    }

    pub(super) fn delete_set(&mut self, name: &str) {
        let now = self.now;
        self.change_set(name, |set| {
            let meta = &mut set.metadata;
            if meta.deletion_timestamp.is_none() {
                meta.deletion_timestamp = Some(Time(now));
                meta.finalizers.get_or_insert_default().push(finalizers::MACHINE_SET.to_owned());
                bump(meta);
            }
        });
    }

    /// Carries out the plan of a set; returns true if anything changed.
    pub(super) fn act_on_set(&mut self, name: &str, plan: set::SetPlan) -> bool {
        let Some(index) = self.set_index(name) else { return false };
        let mut changed = false;
        if let Some(status) = plan.status {
            changed = true;
            self.sets[index].status = Some(status);
        }
        for action in plan.actions {
            changed |= !matches!(action, set::SetAction::Probe { .. });
            self.act_on_machine(name, &action);
            let json = serde_json::to_value(&action).expect("plans are JSON");
            self.note("set", action.to_string(), Some(json));
        }
        changed
    }

    fn act_on_machine(&mut self, set_name: &str, action: &set::SetAction) {
        use set::SetAction;
        let Some(index) = self.set_index(set_name) else { return };
        let parent = self.sets[index].metadata.clone();
        match action {
            SetAction::Create { name, number, .. } => {
                if self.position(name).is_none() {
                    let mut machine = set::machine(&self.sets[index], *number);
                    self.born(&mut machine.metadata);
                    let actor = self.actor(machine);
                    self.add(actor);
                    self.check(|checks, world| checks.created(world, &world.sets[index], action));
                }
            }
            SetAction::Delete { name, reason, .. } => {
                let Some(machine) = self.position(name) else { return };
                let available =
                    self.standing(&self.machines[machine].object) == MachineAvailability::Available;
                self.delete_machine(machine, matches!(reason, Reason::TooMany { .. }));
                self.check(|checks, world| checks.deleted(world, &parent, action, available));
            }
            SetAction::Adopt { name, .. } => {
                if let Some(machine) = self.position(name) {
                    let owned =
                        |actor: &mut Actor| adopt(&mut actor.object.metadata, "CaptMachineSet", &parent);
                    self.change(machine, owned);
                }
            }
            SetAction::Release { name, .. } => {
                if let Some(machine) = self.position(name) {
                    self.change(machine, |actor| release(&mut actor.object.metadata, &parent));
                    self.checks.lost(1, 0);
                }
            }
            SetAction::Update { name, .. } => {
                let fresh = set::machine(&self.sets[index], 0);
                if let Some(machine) = self.position(name) {
                    self.change(machine, |actor| update_in_place(&mut actor.object, fresh));
                }
            }
            SetAction::Probe { .. } => {}
            SetAction::Finish { .. } => {
                self.sets.remove(index);
                self.agenda.forget(&parent);
                let all: Vec<usize> = self.machines.iter().map(|(index, _)| index).collect();
                for machine in all {
                    self.change(machine, |actor| release(&mut actor.object.metadata, &parent));
                }
            }
        }
    }

    /// Lets the checks look at the world that they are part of.
    fn check(&mut self, look: impl FnOnce(&mut Checks, &Self)) {
        let mut checks = std::mem::take(&mut self.checks);
        look(&mut checks, self);
        self.checks = checks;
    }
}

fn update_in_place(machine: &mut CaptMachine, fresh: CaptMachine) {
    let meta = &mut machine.metadata;
    meta.labels.get_or_insert_default().extend(fresh.metadata.labels.unwrap_or_default());
    meta.annotations.get_or_insert_default().extend(fresh.metadata.annotations.unwrap_or_default());
    machine.spec.labels = fresh.spec.labels;
    machine.spec.tags = fresh.spec.tags;
    machine.spec.additional_tags = fresh.spec.additional_tags;
    machine.spec.taints = fresh.spec.taints;
    machine.spec.scaling = fresh.spec.scaling;
    machine.spec.node_drain_timeout_seconds = fresh.spec.node_drain_timeout_seconds;
    machine.spec.paused = fresh.spec.paused;
}

pub(super) fn bump(meta: &mut ObjectMeta) {
    meta.generation = Some(meta.generation.unwrap_or(1) + 1);
}

fn adopt(child: &mut ObjectMeta, kind: &str, parent: &ObjectMeta) {
    child.owner_references.get_or_insert_default().push(owner::reference(kind, parent));
}

fn release(child: &mut ObjectMeta, parent: &ObjectMeta) {
    if let Some(owners) = &mut child.owner_references {
        owners.retain(|owner| Some(&owner.uid) != parent.uid.as_ref());
    }
}
