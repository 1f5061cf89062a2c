//! What happens from outside: people and the cloud.

use capt_api::names::annotations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::act::bump;
use super::scenario::{Deletion, Happening, Pick, ScenarioError};
use super::world::{World, become_ready, fail};
use crate::{deployment, names, revision};

impl World {
    pub(super) fn happen(&mut self, what: &Happening) -> Result<(), ScenarioError> {
        let at = (self.now - self.start).get_seconds();
        match what {
            Happening::Scale(replicas) => {
                let from = self.deployment.spec.replicas;
                self.deployment.spec.replicas = *replicas;
                bump(&mut self.deployment.metadata);
                self.event(format!("scaled {from}->{replicas}"));
            }
            Happening::Patch(patch) => self.patch(at, patch)?,
            Happening::Pause(paused) => {
                self.deployment.spec.paused = *paused;
                bump(&mut self.deployment.metadata);
                self.event(if *paused { "paused" } else { "resumed" }.to_owned());
            }
            Happening::Undo(to) => {
                let sets: Vec<_> = self.sets.iter().collect();
                let to = (*to != 0).then_some(*to);
                let (revision, template) = revision::undo(&self.deployment, &sets, to)
                    .map_err(|source| ScenarioError::Undo { at, source })?;
                self.deployment.spec.template = template;
                bump(&mut self.deployment.metadata);
                self.event(format!("undone: back to revision {revision}"));
            }
            Happening::Restart(_) => {
                deployment::restart(&mut self.deployment, self.now);
                bump(&mut self.deployment.metadata);
                self.event("restarted: every machine is to be replaced".to_owned());
            }
            Happening::Fail(pick) => self.each(at, pick, "failed", |world, index| {
                let now = world.now;
                let actor = &mut world.machines[index];
                (actor.ready_at, actor.fails_at) = (None, None);
                fail(&mut actor.object, now);
            })?,
            Happening::Unready(pick) => self.each(at, pick, "is not ready any more", |world, index| {
                let now = world.now;
                become_ready(&mut world.machines[index].object, false, now);
            })?,
            Happening::Ready(pick) => self.each(at, pick, "is ready", |world, index| {
                let now = world.now;
                world.machines[index].ready_at = None;
                become_ready(&mut world.machines[index].object, true, now);
            })?,
            Happening::Vanish(pick) => self.each(at, pick, "vanished", |world, index| {
                drop(world.machines.remove(index));
            })?,
            Happening::Mark(pick) => self.each(at, pick, "is marked for deletion", |world, index| {
                let meta = &mut world.machines[index].object.metadata;
                meta.annotations
                    .get_or_insert_default()
                    .insert(annotations::DELETE_MACHINE.to_owned(), String::new());
            })?,
            Happening::Unlabel(pick) => self.each(at, pick, "lost its labels", |world, index| {
                world.machines[index].object.metadata.labels = None;
            })?,
            Happening::DeleteMachines(pick) => {
                self.each(at, pick, "is deleted by somebody", |world, index| {
                    world.delete_machine(index, false);
                })?;
            }
            Happening::DeleteSet(pick) => self.somebody_deletes_sets(at, pick)?,
            Happening::DeleteDeployment(how) => self.somebody_deletes_all(*how),
        }
        Ok(())
    }

    fn event(&mut self, what: String) {
        self.note("event", what, None);
    }

    fn patch(&mut self, at: i64, patch: &Value) -> Result<(), ScenarioError> {
        let fails = |source| ScenarioError::Patch { at, source };
        let mut value = serde_json::to_value(&self.deployment).map_err(fails)?;
        merge(&mut value, patch);
        self.deployment = serde_json::from_value(value).map_err(fails)?;
        bump(&mut self.deployment.metadata);
        self.event(format!("patched: {patch}"));
        Ok(())
    }

    fn each(
        &mut self,
        at: i64,
        pick: &Pick,
        what: &str,
        act: impl Fn(&mut Self, usize),
    ) -> Result<(), ScenarioError> {
        let mut chosen: Vec<(Option<i64>, String)> = self
            .machines
            .iter()
            .filter(|actor| {
                actor.object.metadata.deletion_timestamp.is_none() && self.fits(&actor.object, pick)
            })
            .map(|actor| {
                let name = actor.object.metadata.name.clone().unwrap_or_default();
                let number = name.rsplit_once('-').and_then(|(set, _)| names::machine_number(set, &name));
                (number, name)
            })
            .collect();
        chosen.sort();
        chosen.truncate(pick.count.unwrap_or(usize::MAX));
        if chosen.is_empty() {
            return Err(ScenarioError::NoMatch { at, what: "machine", pick: format!("{pick:?}") });
        }
        for (_, name) in chosen {
            let found = self
                .machines
                .iter()
                .position(|actor| actor.object.metadata.name.as_deref() == Some(name.as_str()));
            if let Some(index) = found {
                act(self, index);
                self.event(format!("{name} {what}"));
            }
        }
        Ok(())
    }

    fn somebody_deletes_sets(&mut self, at: i64, pick: &Pick) -> Result<(), ScenarioError> {
        let chosen: Vec<String> = self
            .sets
            .iter()
            .filter(|set| pick.revision.is_none_or(|wanted| revision::of(set) == wanted))
            .filter_map(|set| set.metadata.name.clone())
            .filter(|name| pick.name.as_ref().is_none_or(|wanted| wanted == name))
            .collect();
        if chosen.is_empty() {
            return Err(ScenarioError::NoMatch { at, what: "set", pick: format!("{pick:?}") });
        }
        for name in chosen {
            self.delete_set(&name);
            self.event(format!("{name} is deleted by somebody"));
        }
        Ok(())
    }

    fn somebody_deletes_all(&mut self, how: Deletion) {
        let meta = &mut self.deployment.metadata;
        meta.deletion_timestamp = Some(Time(self.now));
        if how == Deletion::Orphan {
            meta.finalizers.get_or_insert_default().push("orphan".to_owned());
        }
        bump(meta);
        self.event(format!("the deployment is deleted: {how:?}"));
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(members) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            members.remove(key);
        } else {
            merge(members.entry(key).or_insert(Value::Null), value);
        }
    }
}
