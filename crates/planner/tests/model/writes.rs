//! What the API does with each write.

use crate::rollout::Rollout;
use crate::state::{Bond, Deployment, DeploymentWrite, Life, Machine, Memory, Set, SetWrite, State};

impl Rollout {
    pub fn write_deployment(state: &mut State) {
        match state.queue.remove(0) {
            DeploymentWrite::Create(set) => {
                // One that has the name and is the same is this one, made before; any other name is free.
                let same = |other: &Set| other.template == set.template && other.owned && !other.deleting;
                if !state.sets.values().any(same) {
                    let id = state.next_id;
                    state.next_id += 1;
                    state.sets.insert(id, Set { id, ..set });
                }
                state.awaits = true;
            }
            DeploymentWrite::Change(before, after) => {
                if state.sets.get(&before.id) == Some(&before) {
                    state.sets.insert(after.id, after);
                    state.awaits = true;
                } else {
                    state.queue.clear();
                }
            }
            DeploymentWrite::Delete(id) => {
                Self::delete_set(state, id);
                state.awaits = true;
            }
            DeploymentWrite::Adopt(before) => {
                if state.sets.get(&before.id) == Some(&before) {
                    state.sets.insert(before.id, Set { owned: true, ..before });
                    state.awaits = true;
                } else {
                    state.queue.clear();
                }
            }
            DeploymentWrite::Finish => state.gone = true,
            DeploymentWrite::Report(before, told) => {
                if state.deployment == before {
                    state.deployment.told = Some(told);
                }
            }
            DeploymentWrite::Undo(before, template) => {
                // Whether or not it is done, the next plan begins anew.
                state.queue.clear();
                if state.deployment == before {
                    state.undone += 1;
                    let generation = before.generation + 1;
                    state.deployment =
                        Deployment { template, generation, undone_to: Some(template), ..before };
                }
            }
        }
    }

    /// A set has a finalizer: it goes when that is taken off.
    pub fn delete_set(state: &mut State, id: u8) {
        if let Some(set) = state.sets.get_mut(&id)
            && !set.deleting
        {
            set.deleting = true;
            set.generation += 1;
        }
    }

    pub fn write_set(&self, state: &mut State, id: u8) {
        let memory = state.memory.entry(id).or_default();
        let write = memory.queue.remove(0);
        let place = |number: i64| move |machine: &Machine| machine.set == id && machine.number == number;
        match write {
            SetWrite::Status(before, status) => {
                if state.sets.get(&id) == Some(&before) {
                    memory.absent.retain(|number| status.pending.contains(number));
                    state.sets.insert(id, Set { status: Some(status), ..before });
                } else {
                    memory.queue.clear();
                }
            }
            SetWrite::Create(number) => {
                memory.awaits = !self.bounds.blind;
                if !state.machines.iter().any(place(number)) {
                    state.machines.push(Machine::new(id, number));
                    state.machines.sort_unstable();
                }
            }
            // Deletes are sent together: one that is refused keeps none of the others.
            SetWrite::Delete(seen, given_up) => {
                memory.awaits = true;
                let found = state.machines.iter_mut().find(|machine| place(seen.number)(machine));
                if let Some(machine) = found
                    && machine.has_version_of(seen)
                {
                    // Which time is over is decided by the clock of the decision.
                    state.lost += i32::from(seen.life == Life::Warm && machine.life == Life::Ready);
                    machine.life = Life::Going(given_up);
                }
            }
            SetWrite::Adopt(number) => {
                memory.awaits = true;
                if let Some(machine) = state.machines.iter_mut().find(|machine| place(number)(machine)) {
                    machine.bond = Bond::Owned;
                }
            }
            // It is on its own from here on, and no part of this any more.
            SetWrite::Release(number) => {
                memory.awaits = true;
                state.machines.retain(|machine| !place(number)(machine) || machine.bond != Bond::Unlabelled);
            }
            SetWrite::Probe(number) => {
                if state.machines.iter().any(place(number)) {
                    memory.awaits = true;
                } else if !memory.absent.contains(&number) {
                    memory.absent.push(number);
                }
            }
            SetWrite::Finish(before) => {
                if state.sets.get(&id) == Some(&before) {
                    state.sets.remove(&id);
                }
                *memory = Memory::default();
            }
        }
    }
}
