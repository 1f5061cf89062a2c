//! Events from outside: people and the cloud.

use capt_api::names::annotations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::act::bump;
use super::scenario::{Deletion, Happening, Pick, ScenarioError};
use super::world::{World, become_ready, fail};
use crate::{deployment, names, revision};

/// Says whether an API would take a deployment that is changed from the first to the second, and why not.
pub type Judge<'a> = dyn Fn(&Value, &Value) -> Result<(), String> + 'a;

impl World {
    /// Lets something happen; what it took counts as lost, for no decision knew of it.
    pub(super) fn happen(&mut self, what: &Happening, judge: &Judge<'_>) -> Result<(), ScenarioError> {
        let before = self.own();
        self.happens(what, judge)?;
        self.recount();
        let after = self.own();
        self.checks.lost(before.counting() - after.counting(), before.available - after.available);
        Ok(())
    }

    fn happens(&mut self, what: &Happening, judge: &Judge<'_>) -> Result<(), ScenarioError> {
        let at = self.seconds();
        match what {
            Happening::Scale(replicas) => {
                let from = self.deployment.spec.replicas;
                self.edit(judge, |object| merge(object, &json!({"spec": {"replicas": replicas}})))?;
                self.event(format!("scaled {from}->{replicas}"));
            }
            Happening::Patch(patch) => {
                self.edit(judge, |object| merge(object, patch))?;
                self.event(format!("patched: {patch}"));
            }
            Happening::Replace(new) => {
                self.edit(judge, |object| replace(object, new))?;
                self.event("replaced by another version".to_owned());
            }
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
            Happening::DeleteSet(pick) => self.somebody_deletes_sets(at, pick)?,
            Happening::DeleteDeployment(how) => self.somebody_deletes_all(*how),
            _ => self.befall(at, what)?,
        }
        Ok(())
    }

    /// Applies an event to the machines that it picks.
    fn befall(&mut self, at: i64, what: &Happening) -> Result<(), ScenarioError> {
        let now = self.now;
        match what {
            Happening::Fail(pick) => self.each(at, pick, "failed", |world, index| {
                world.change(index, |actor| {
                    (actor.ready_at, actor.fails_at) = (None, None);
                    fail(&mut actor.object, now);
                });
            }),
            Happening::Unready(pick) => self.each(at, pick, "is not ready any more", |world, index| {
                world.change(index, |actor| become_ready(&mut actor.object, false, now));
            }),
            Happening::Ready(pick) => self.each(at, pick, "is ready", |world, index| {
                world.change(index, |actor| {
                    actor.ready_at = None;
                    become_ready(&mut actor.object, true, now);
                });
            }),
            Happening::Vanish(pick) => self.each(at, pick, "vanished", |world, index| {
                world.remove(index);
            }),
            Happening::Mark(pick) => self.each(at, pick, "is marked for deletion", |world, index| {
                world.change(index, |actor| {
                    let notes = actor.object.metadata.annotations.get_or_insert_default();
                    notes.insert(annotations::DELETE_MACHINE.to_owned(), String::new());
                });
            }),
            Happening::Unlabel(pick) => self.each(at, pick, "lost its labels", |world, index| {
                world.change(index, |actor| actor.object.metadata.labels = None);
            }),
            Happening::DeleteMachines(pick) => {
                self.each(at, pick, "is deleted by somebody", |world, index| {
                    world.delete_machine(index, false);
                })
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, what: String) {
        self.note("event", what, None);
    }

    /// Changes the deployment, if an API would take the change.
    fn edit(&mut self, judge: &Judge<'_>, edit: impl FnOnce(&mut Value)) -> Result<(), ScenarioError> {
        let at = self.seconds();
        let fails = |source| ScenarioError::Patch { at, source };
        let old = serde_json::to_value(&self.deployment).map_err(fails)?;
        let mut new = old.clone();
        edit(&mut new);
        judge(&old, &new).map_err(|why| ScenarioError::Refused { at, why })?;
        let kept = self.deployment.metadata.clone();
        self.deployment = serde_json::from_value(new).map_err(fails)?;
        // What an API keeps for itself.
        self.deployment.metadata.uid = kept.uid;
        self.deployment.metadata.name = kept.name;
        self.deployment.metadata.namespace = kept.namespace;
        bump(&mut self.deployment.metadata);
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
            .filter(|(_, actor)| {
                actor.object.metadata.deletion_timestamp.is_none() && self.fits(&actor.object, pick)
            })
            .map(|(_, actor)| {
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
            if let Some(index) = self.position(&name) {
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

/// As `kubectl apply` with another version of the file: its spec, and its labels and annotations over those that are there.
fn replace(object: &mut Value, new: &Value) {
    object["spec"] = new["spec"].clone();
    for part in ["labels", "annotations"] {
        if let Some(given @ Value::Object(_)) = new["metadata"].get(part) {
            merge(&mut object["metadata"][part], given);
        }
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
