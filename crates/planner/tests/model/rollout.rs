//! What may happen, and what must hold.

use std::collections::BTreeMap;

use capt_api::machine::StrategyKind;
use capt_planner::budget::Budget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use stateright::{Model, Property};

use crate::bounds::{Bounds, Broken, Deletes};
use crate::planner::{has_floor, plan_deployment, plan_set};
use crate::state::{Bond, Deployment, Life, Machine, Memory, Set, SetWrite, State, Status, Told, Word};

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    DeploymentSees,
    DeploymentPlans,
    DeploymentWrites,
    SetsSeeSets,
    SetsSeeMachines,
    SetPlans(u8),
    SetWrites(u8),
    BecomesReady(usize),
    /// A machine has been ready for long enough. Clocks need no cache: whoever knows the machine knows that.
    TimePasses(usize),
    IsGone(usize),
    /// Nothing has moved for as long as the deployment's deadline.
    DeadlinePasses,
    SomebodyResumes,
    // From here on: what nobody decided.
    Fails(usize),
    Vanishes(usize),
    SomebodyDeletes(usize),
    SomebodyEdits,
    SomebodyScales,
    SomebodyPauses,
    SomebodyDeletesDeployment,
    SomebodyDeletesSet(u8),
    /// A machine that nobody owns and this set's selector matches.
    StrayTurnsUp(u8),
    LosesLabels(usize),
    SomebodyMarks(usize),
    Crash,
    /// A crash while a create of this set is under way.
    CrashInFlight(u8),
    /// That create reaches the API after all; not after its machine has come and gone, nor after a live read has shown that it
    /// is not there: requests time out before that.
    Lands,
}

/// Number of a machine that turned up: far from those that sets give out.
const STRAY: i64 = 50;

pub struct Rollout {
    pub bounds: Bounds,
}

impl Rollout {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds }
    }

    fn limits(&self, replicas: i32) -> (i32, i32) {
        let rolling = capt_api::machine::RollingUpdate {
            max_surge: IntOrString::Int(self.bounds.surge),
            max_unavailable: IntOrString::Int(self.bounds.unavailable),
        };
        let budget = Budget::of(&rolling, replicas);
        if has_floor(self.bounds.strategy) {
            (replicas - budget.max_unavailable, replicas + budget.max_surge)
        } else {
            (0, replicas)
        }
    }

    /// What controllers and machines can do by themselves.
    fn moves(&self, state: &State) -> Vec<Action> {
        let mut moves = Vec::new();
        if state.awaits || state.seen_sets != state.sets {
            moves.push(Action::DeploymentSees);
        }
        if !state.queue.is_empty() {
            moves.push(Action::DeploymentWrites);
        } else if !state.awaits
            && !state.gone
            && !plan_deployment(self.bounds, state.deployment, &state.seen_sets).is_empty()
        {
            moves.push(Action::DeploymentPlans);
        }
        if state.known_sets != state.sets {
            moves.push(Action::SetsSeeSets);
        }
        if state.known_machines != state.machines || state.memory.values().any(|memory| memory.awaits) {
            moves.push(Action::SetsSeeMachines);
        }
        for (id, set) in &state.known_sets {
            let memory = state.memory.get(id).cloned().unwrap_or_default();
            if !memory.queue.is_empty() {
                moves.push(Action::SetWrites(*id));
            } else if !memory.awaits
                && !plan_set(self.bounds, set, &state.known_machines, &memory.absent).is_empty()
            {
                moves.push(Action::SetPlans(*id));
            }
        }
        if state.deployment.paused {
            moves.push(Action::SomebodyResumes);
        }
        if state.late.is_some() {
            moves.push(Action::Lands);
        }
        for (index, machine) in state.machines.iter().enumerate() {
            match machine.life {
                Life::Building if self.never_ready(state, machine) => {}
                Life::Building => moves.push(Action::BecomesReady(index)),
                Life::Warm => moves.push(Action::TimePasses(index)),
                Life::Going(_) => moves.push(Action::IsGone(index)),
                Life::Ready | Life::Failed => {}
            }
        }
        let waits = |told: &Told| matches!(told.word, Word::Moves | Word::AwaitsPeople) && !told.overdue;
        if moves.is_empty() && state.deployment.told.as_ref().is_some_and(waits) {
            moves.push(Action::DeadlinePasses);
        }
        moves
    }

    /// Whether an old set has machines that are available.
    fn has_a_way_back(state: &State) -> bool {
        let old = |set: &Set| set.template != state.deployment.template && !set.deleting;
        let serves =
            |machine: &Machine| machine.life == Life::Ready && state.sets.get(&machine.set).is_some_and(old);
        state.machines.iter().any(serves)
    }

    fn never_ready(&self, state: &State, machine: &Machine) -> bool {
        match self.bounds.broken {
            Broken::None => false,
            Broken::Edits => state.sets.get(&machine.set).is_some_and(|set| set.template > 1),
            Broken::All => true,
        }
    }

    /// Somebody has changed the deployment's spec.
    fn changed(&self, state: &mut State) {
        if self.bounds.deadlines {
            state.deployment.generation += 1;
        }
    }

    fn lose(state: &mut State, index: usize, becomes: Option<Life>) {
        state.faults -= 1;
        if state.machines[index].life == Life::Ready {
            state.lost += 1;
        }
        match becomes {
            Some(life) => state.machines[index].life = life,
            None => Self::remove(state, index),
        }
    }

    /// A machine is no more. A create of it that is still under way has timed out by now.
    fn remove(state: &mut State, index: usize) {
        let machine = state.machines.remove(index);
        if state.late == Some((machine.set, machine.number)) {
            state.late = None;
        }
    }

    /// Exactly what the deployment says; nothing, where it is deleted.
    fn is_done(state: &State) -> bool {
        if state.deployment.deleting {
            return state.gone && state.sets.is_empty() && state.machines.is_empty();
        }
        let wanted = usize::try_from(state.deployment.replicas).unwrap();
        let current = |id: u8| {
            state.sets.get(&id).is_some_and(|set| set.template == state.deployment.template && !set.deleting)
        };
        state.machines.len() == wanted
            && state.machines.iter().all(|machine| {
                current(machine.set) && machine.life == Life::Ready && machine.bond == Bond::Owned
            })
            && state.sets.values().all(|set| {
                set.owned
                    && !set.deleting
                    && set.replicas == if current(set.id) { state.deployment.replicas } else { 0 }
            })
    }

    /// OnDelete waits for people: old machines that nobody deletes stay.
    fn may_rest(&self, state: &State) -> bool {
        let on_delete = self.bounds.strategy == StrategyKind::OnDelete;
        let given_up = state.deployment.told.is_some_and(|told| match told.word {
            // It went back, and that is late as well; or nothing else has machines that serve.
            Word::Late => {
                state.deployment.undone_to == Some(state.deployment.template) || !Self::has_a_way_back(state)
            }
            Word::AwaitsPeople => true,
            Word::Moves | Word::Done => false,
        });
        Self::is_done(state)
            || self.bounds.broken != Broken::None && given_up
            || on_delete
                && i32::try_from(state.machines.len()).unwrap() == state.deployment.replicas
                && state.machines.iter().all(|machine| machine.life == Life::Ready)
    }

    /// What people may do besides edits and scales.
    fn people(state: &State, actions: &mut Vec<Action>) {
        let there = !state.deployment.deleting;
        if there && state.pauses > 0 && !state.deployment.paused {
            actions.push(Action::SomebodyPauses);
        }
        if there && state.deployment_deletes > 0 {
            actions.push(Action::SomebodyDeletesDeployment);
        }
        for (id, set) in state.sets.iter().filter(|(_, set)| !set.deleting) {
            if state.set_deletes > 0 {
                actions.push(Action::SomebodyDeletesSet(*id));
            }
            if there && state.strays > 0 && set.owned {
                actions.push(Action::StrayTurnsUp(*id));
            }
        }
        if there && state.marks > 0 {
            let all = state.machines.iter().enumerate();
            let unmarked = all.filter(|(_, machine)| machine.life.is_live() && !machine.marked);
            actions.extend(unmarked.map(|(index, _)| Action::SomebodyMarks(index)));
        }
        if there && state.unlabels > 0 {
            let owned = |machine: &Machine| machine.life.is_live() && machine.bond == Bond::Owned;
            let all = state.machines.iter().enumerate().filter(|(_, machine)| owned(machine));
            actions.extend(all.map(|(index, _)| Action::LosesLabels(index)));
        }
    }

    /// Follows the first move that is possible, each in its turn, until none is.
    fn converges(&self, state: &State) -> bool {
        let mut state = state.clone();
        for turn in 0..2_000 {
            let moves = self.moves(&state);
            let Some(action) = moves.get(turn % moves.len().max(1)) else {
                return self.may_rest(&state);
            };
            if let Some(next) = self.next_state(&state, *action) {
                state = next;
            }
        }
        false
    }
}

impl Model for Rollout {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let replicas = self.bounds.replicas;
        let (floor, ceiling) = self.limits(replicas);
        let set = Set {
            id: 1,
            template: 1,
            owned: !self.bounds.orphaned,
            deleting: false,
            replicas,
            generation: 1,
            revision: 1,
            desired: replicas,
            create_disabled: false,
            unavailable_first: false,
            status: Some(Status {
                observed: 1,
                replicas,
                ready: replicas - self.bounds.unready,
                available: replicas - self.bounds.unready,
                terminating: 0,
                deleting: false,
                next: replicas.into(),
                pending: Vec::new(),
            }),
            largest: replicas,
        };
        let sets = BTreeMap::from([(1, set)]);
        let machines: Vec<Machine> = (0..replicas)
            .map(|number| {
                let life = if number < self.bounds.unready { Life::Building } else { Life::Ready };
                Machine { life, ..Machine::new(1, number.into()) }
            })
            .collect();
        vec![State {
            deployment: Deployment {
                told: self.bounds.deadlines.then_some(Told {
                    observed: Some(1),
                    replicas,
                    updated: replicas,
                    ready: replicas,
                    available: replicas,
                    word: Word::Done,
                    overdue: true,
                }),
                ..Deployment::new(replicas, 1)
            },
            gone: false,
            next_id: 2,
            sets: sets.clone(),
            machines: machines.clone(),
            seen_sets: sets.clone(),
            awaits: false,
            queue: Vec::new(),
            known_sets: sets,
            known_machines: machines,
            memory: BTreeMap::new(),
            late: None,
            edits: self.bounds.edits,
            scales: 0,
            faults: self.bounds.faults,
            crashes: self.bounds.crashes,
            pauses: self.bounds.pauses,
            set_deletes: u8::from(matches!(self.bounds.deletes, Deletes::Set | Deletes::Both)),
            deployment_deletes: u8::from(matches!(self.bounds.deletes, Deletes::Deployment | Deletes::Both)),
            strays: self.bounds.strays,
            unlabels: self.bounds.unlabels,
            marks: self.bounds.marks,
            edited: 0,
            undone: 0,
            found: 0,
            lost: 0,
            short: self.bounds.unready,
            floor,
            ceiling,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.moves(state));
        let rests = actions.iter().all(|action| *action == Action::DeadlinePasses);
        if state.faults > 0 {
            for (index, machine) in state.machines.iter().enumerate() {
                let old =
                    state.sets.get(&machine.set).is_none_or(|set| set.template != state.deployment.template);
                if machine.life.is_live() && self.bounds.only_delete {
                    actions.extend((old && rests).then_some(Action::SomebodyDeletes(index)));
                } else if machine.life.is_live() {
                    actions.push(Action::Vanishes(index));
                    if self.bounds.only_vanish {
                        continue;
                    }
                    actions.push(Action::SomebodyDeletes(index));
                    if machine.life != Life::Failed {
                        actions.push(Action::Fails(index));
                    }
                }
            }
        }
        Self::people(state, actions);
        if state.edits > 0 && !state.deployment.deleting {
            actions.push(Action::SomebodyEdits);
        }
        if usize::from(state.scales) < self.bounds.scales.len() && !state.deployment.deleting {
            actions.push(Action::SomebodyScales);
        }
        let busy = state.awaits
            || !state.queue.is_empty()
            || state.memory.values().any(|memory| memory.awaits || !memory.queue.is_empty());
        if state.crashes > 0 && busy {
            actions.push(Action::Crash);
            let creating = state
                .memory
                .iter()
                .filter(|(_, memory)| matches!(memory.queue[..], [SetWrite::Create(_), ..]));
            actions.extend(creating.map(|(id, _)| Action::CrashInFlight(*id)));
        }
    }

    #[allow(clippy::too_many_lines, reason = "a list of what can happen")]
    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::DeploymentSees => {
                state.seen_sets.clone_from(&state.sets);
                state.awaits = false;
            }
            Action::DeploymentPlans => {
                state.queue = plan_deployment(self.bounds, state.deployment, &state.seen_sets);
            }
            Action::DeploymentWrites => Self::write_deployment(&mut state),
            Action::SetsSeeSets => {
                state.known_sets.clone_from(&state.sets);
                let State { memory, known_sets, .. } = &mut state;
                memory.retain(|id, _| known_sets.contains_key(id));
            }
            Action::SetsSeeMachines => {
                state.known_machines.clone_from(&state.machines);
                state.memory.values_mut().for_each(|memory| memory.awaits = false);
            }
            Action::SetPlans(id) => {
                let set = state.known_sets[&id].clone();
                let memory = state.memory.entry(id).or_default();
                memory.queue = plan_set(self.bounds, &set, &state.known_machines, &memory.absent);
            }
            Action::SetWrites(id) => self.write_set(&mut state, id),
            Action::BecomesReady(index) => {
                if self.bounds.min_ready {
                    state.machines[index].life = Life::Warm;
                } else {
                    state.machines[index].life = Life::Ready;
                    state.short = (state.short - 1).max(0);
                }
            }
            Action::TimePasses(index) => {
                let Machine { set, number, .. } = state.machines[index];
                let same = |machine: &&mut Machine| {
                    (machine.set, machine.number, machine.life) == (set, number, Life::Warm)
                };
                let State { machines, known_machines, .. } = &mut state;
                for machine in machines.iter_mut().chain(known_machines).filter(same) {
                    machine.life = Life::Ready;
                }
                state.short = (state.short - 1).max(0);
            }
            Action::SomebodyResumes => state.deployment.paused = false,
            Action::SomebodyPauses => {
                state.pauses -= 1;
                state.deployment.paused = true;
            }
            Action::SomebodyDeletesDeployment => {
                state.deployment_deletes -= 1;
                state.deployment.deleting = true;
                state.floor = 0;
            }
            Action::SomebodyDeletesSet(id) => {
                state.set_deletes -= 1;
                Self::delete_set(&mut state, id);
                let going = state.machines.iter().filter(|machine| machine.set == id);
                let ready = going.filter(|machine| machine.life == Life::Ready).count();
                state.lost += i32::try_from(ready).unwrap();
            }
            Action::StrayTurnsUp(set) => {
                state.strays -= 1;
                state.found += 1;
                let stray = Machine::new(set, STRAY);
                state.machines.push(Machine { life: Life::Ready, bond: Bond::Stray, ..stray });
                state.machines.sort_unstable();
            }
            Action::LosesLabels(index) => {
                state.unlabels -= 1;
                if state.machines[index].life == Life::Ready {
                    state.lost += 1;
                }
                state.machines[index].bond = Bond::Unlabelled;
            }
            Action::SomebodyMarks(index) => {
                state.marks -= 1;
                state.machines[index].marked = true;
                state.machines.sort_unstable();
            }
            Action::DeadlinePasses => {
                state.deployment.told.as_mut()?.overdue = true;
            }
            Action::IsGone(index) => Self::remove(&mut state, index),
            Action::Fails(index) => Self::lose(&mut state, index, Some(Life::Failed)),
            Action::Vanishes(index) => Self::lose(&mut state, index, None),
            Action::SomebodyDeletes(index) => Self::lose(&mut state, index, Some(Life::Going(false))),
            Action::SomebodyEdits => {
                state.edits -= 1;
                let back = self.bounds.back && state.edits == 0;
                // One that was not there before: an undo may have gone back meanwhile.
                state.edited += 1;
                state.deployment.template = if back { 1 } else { state.edited + 1 };
                self.changed(&mut state);
            }
            Action::SomebodyScales => {
                state.deployment.replicas = self.bounds.scales[usize::from(state.scales)];
                state.scales += 1;
                self.changed(&mut state);
                let (floor, ceiling) = self.limits(state.deployment.replicas);
                state.floor = state.floor.min(floor);
                state.ceiling = state.ceiling.max(ceiling);
            }
            Action::Lands => {
                let (set, number) = state.late.take()?;
                let status = state.sets.get(&set).and_then(|parent| parent.status.as_ref());
                let pending = status.is_some_and(|status| status.pending.contains(&number));
                if pending
                    && !state.machines.iter().any(|machine| machine.set == set && machine.number == number)
                {
                    state.machines.push(Machine::new(set, number));
                    state.machines.sort_unstable();
                }
            }
            Action::Crash | Action::CrashInFlight(_) => {
                if let Action::CrashInFlight(set) = action
                    && let [SetWrite::Create(number), ..] = state.memory[&set].queue[..]
                {
                    state.late = Some((set, number));
                }
                state.crashes -= 1;
                state.queue.clear();
                state.memory.clear();
                state.awaits = false;
                state.seen_sets.clone_from(&state.sets);
                state.known_sets.clone_from(&state.sets);
                state.known_machines.clone_from(&state.machines);
            }
        }
        // What is empty is not there, so that equal states are equal.
        state.memory.retain(|_, memory| *memory != Memory::default());
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("ceiling", |_, state: &State| {
                let counts = |machine: &&Machine| {
                    machine.life != Life::Going(false) && machine.bond != Bond::Unlabelled
                };
                let counted = state.machines.iter().filter(counts).count();
                i32::try_from(counted).unwrap() <= state.ceiling + state.found
            }),
            Property::always("floor", |_, state: &State| {
                let counts =
                    |machine: &&Machine| machine.life == Life::Ready && machine.bond != Bond::Unlabelled;
                let ready = state.machines.iter().filter(counts).count();
                i32::try_from(ready).unwrap() >= state.floor - state.lost - state.short
            }),
            Property::always("no over-creation", |_, state: &State| {
                state.sets.values().all(|set| {
                    let live = state
                        .machines
                        .iter()
                        .filter(|machine| machine.set == set.id && machine.life.is_live())
                        .filter(|machine| machine.bond != Bond::Unlabelled)
                        .count();
                    i32::try_from(live).unwrap() <= set.largest + state.found
                })
            }),
            Property::always("the end", |model: &Self, state: &State| {
                // Most states can be seen to be on their way without a plan.
                !state.queue.is_empty()
                    || state.awaits
                    || state.seen_sets != state.sets
                    || state.known_machines != state.machines
                    || state.machines.iter().any(|machine| match machine.life {
                        Life::Building => !model.never_ready(state, machine),
                        Life::Warm | Life::Going(_) => true,
                        Life::Ready | Life::Failed => false,
                    })
                    || !model.moves(state).is_empty()
                    || model.may_rest(state)
            }),
        ];
        if self.bounds.deadlines {
            // Each edit at most once, and none that works: time passes only where nothing else can.
            properties.push(Property::always("undo", |model: &Self, state: &State| {
                let late = state.deployment.told.is_some_and(|told| told.word == Word::Late);
                match model.bounds.broken {
                    Broken::None => state.undone == 0 && !late,
                    Broken::Edits | Broken::All => state.undone <= state.edited,
                }
            }));
        }
        if self.bounds.converges {
            properties
                .push(Property::always("convergence", |model: &Self, state: &State| model.converges(state)));
        }
        properties
    }
}
