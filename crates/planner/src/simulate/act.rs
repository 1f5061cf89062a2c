//! Carries plans out on objects in memory, as a controller would on an API.

use capt_api::conditions::types;
use capt_api::names::finalizers;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::world::World;
use crate::availability::Standing;
use crate::reason::Reason;
use crate::{conditions, deployment, owner, set};

impl World {
    /// Whether anything changed.
    pub(super) fn act_on_deployment(&mut self, plan: deployment::Plan) -> bool {
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

    fn act_one(&mut self, action: &deployment::Action) {
        use deployment::Action;
        let parent = self.deployment.metadata.clone();
        match action {
            Action::CreateSet { hash, revision, replicas, .. } => {
                let mut set = deployment::set(&self.deployment, hash, *revision, *replicas);
                self.born(&mut set.metadata);
                self.sets.push(set);
            }
            Action::ChangeSet { name, change, .. } => {
                if let Some(index) = self.set_index(name) {
                    let before = self.sets[index].spec.clone();
                    change.apply(&mut self.sets[index]);
                    if before != self.sets[index].spec {
                        bump(&mut self.sets[index].metadata);
                    }
                }
            }
            Action::DeleteSet { name, .. } => self.delete_set(name),
            Action::AdoptSet { name, .. } => {
                if let Some(index) = self.set_index(name) {
                    adopt(&mut self.sets[index].metadata, "CaptMachineDeployment", &parent);
                }
            }
            Action::ReleaseSet { name, .. } => {
                if let Some(index) = self.set_index(name) {
                    release(&mut self.sets[index].metadata, &parent);
                }
            }
            Action::Undo { template, .. } => {
                self.deployment.spec.template = (**template).clone();
                bump(&mut self.deployment.metadata);
            }
            Action::Finish { .. } => {
                self.exists = false;
                for set in &mut self.sets {
                    release(&mut set.metadata, &parent);
                }
            }
        }
    }

    pub(super) fn delete_set(&mut self, name: &str) {
        let now = self.now;
        if let Some(index) = self.set_index(name) {
            let meta = &mut self.sets[index].metadata;
            if meta.deletion_timestamp.is_none() {
                meta.deletion_timestamp = Some(Time(now));
                meta.finalizers.get_or_insert_default().push(finalizers::MACHINE_SET.to_owned());
                bump(meta);
            }
        }
    }

    /// Whether anything changed.
    pub(super) fn act_on_set(&mut self, name: &str, plan: set::Plan) -> bool {
        let Some(index) = self.set_index(name) else { return false };
        let mut changed = false;
        if let Some(status) = plan.status {
            changed = true;
            self.sets[index].status = Some(status);
        }
        for action in plan.actions {
            changed |= !matches!(action, set::Action::Probe { .. });
            let took = self.act_on_machine(name, &action);
            let json = serde_json::to_value(&action).expect("plans are JSON");
            self.note("set", action.to_string(), Some(json));
            if took {
                let mut checks = std::mem::take(&mut self.checks);
                checks.took_available(self, &action.to_string());
                self.checks = checks;
            }
        }
        changed
    }

    /// Whether a decision took an available machine.
    fn act_on_machine(&mut self, set_name: &str, action: &set::Action) -> bool {
        use set::Action;
        let Some(index) = self.set_index(set_name) else { return false };
        let parent = self.sets[index].metadata.clone();
        let position = |world: &Self, name: &str| {
            world.machines.iter().position(|actor| actor.object.metadata.name.as_deref() == Some(name))
        };
        match action {
            Action::Create { name, number, .. } => {
                if position(self, name).is_none() {
                    let mut machine = set::machine(&self.sets[index], *number);
                    self.born(&mut machine.metadata);
                    let actor = self.actor(machine);
                    self.machines.push(actor);
                }
            }
            Action::Delete { name, reason, .. } => {
                let Some(machine) = position(self, name) else { return false };
                let available = self.standing(&self.machines[machine].object) == Standing::Available;
                let given_up = matches!(reason, Reason::TooMany { .. });
                self.delete_machine(machine, given_up);
                return available && given_up;
            }
            Action::Adopt { name, .. } => {
                if let Some(machine) = position(self, name) {
                    adopt(&mut self.machines[machine].object.metadata, "CaptMachineSet", &parent);
                }
            }
            Action::Release { name, .. } => {
                if let Some(machine) = position(self, name) {
                    release(&mut self.machines[machine].object.metadata, &parent);
                }
            }
            Action::Update { name, .. } => {
                let fresh = set::machine(&self.sets[index], 0);
                if let Some(machine) = position(self, name) {
                    let object = &mut self.machines[machine].object;
                    object
                        .metadata
                        .labels
                        .get_or_insert_default()
                        .extend(fresh.metadata.labels.unwrap_or_default());
                    object
                        .metadata
                        .annotations
                        .get_or_insert_default()
                        .extend(fresh.metadata.annotations.unwrap_or_default());
                    object.spec.labels = fresh.spec.labels;
                    object.spec.tags = fresh.spec.tags;
                    object.spec.node_drain_timeout_seconds = fresh.spec.node_drain_timeout_seconds;
                    object.spec.paused = fresh.spec.paused;
                }
            }
            Action::Probe { .. } => {}
            Action::Finish { .. } => {
                self.sets.remove(index);
                for actor in &mut self.machines {
                    release(&mut actor.object.metadata, &parent);
                }
            }
        }
        false
    }
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
