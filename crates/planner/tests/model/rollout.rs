//! What may happen, and what must hold.

use std::collections::BTreeMap;
use std::fmt;

use capt_api::machine::StrategyKind;
use capt_planner::budget::Budget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use stateright::{Model, Property};

use crate::planner::{has_floor, plan_deployment, plan_set};
use crate::state::{Deployment, DeploymentWrite, Life, Machine, Memory, Set, SetWrite, State, Status};

/// How much happens.
#[allow(clippy::struct_excessive_bools, reason = "each is one thing that a test turns on")]
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub replicas: i32,
    pub surge: i32,
    pub unavailable: i32,
    pub strategy: StrategyKind,
    /// How often somebody edits the template.
    pub edits: u8,
    /// Whether the last edit goes back to the first template.
    pub back: bool,
    /// Sizes that somebody scales to, one after the other.
    pub scales: &'static [i32],
    /// How often a machine fails, vanishes or is deleted by somebody.
    pub faults: u8,
    /// Whether machines only vanish.
    pub only_vanish: bool,
    pub crashes: u8,
    /// Whether sets plan again without having seen their own creates.
    pub blind: bool,
    /// Whether to follow a fair schedule from every state.
    pub converges: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            replicas: 1,
            surge: 0,
            unavailable: 0,
            strategy: StrategyKind::RollingUpdate,
            edits: 0,
            back: false,
            scales: &[],
            faults: 0,
            only_vanish: false,
            crashes: 0,
            blind: false,
            converges: false,
        }
    }
}

// What plans depend on.
impl PartialEq for Bounds {
    fn eq(&self, other: &Self) -> bool {
        self.surge == other.surge && self.unavailable == other.unavailable && self.strategy == other.strategy
    }
}
impl Eq for Bounds {}
impl std::hash::Hash for Bounds {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.surge, self.unavailable, self.strategy as u8).hash(state);
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replicas, surge, unavailable, strategy, edits, back, scales, .. } = self;
        let Self { faults, only_vanish, crashes, blind, converges, .. } = self;
        write!(
            f,
            "{strategy:?} {replicas} replicas, surge {surge}, unavailable {unavailable}, {edits} edits"
        )?;
        write!(f, "{}", if *back { " (the last one back)" } else { "" })?;
        write!(f, ", scaled to {scales:?}, {faults} faults, {crashes} crashes")?;
        write!(f, "{}", if *only_vanish { ", faults only vanish" } else { "" })?;
        write!(f, "{}", if *blind { ", blind to own creates" } else { "" })?;
        write!(f, "{}", if *converges { ", convergence from every state" } else { "" })
    }
}

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
    IsGone(usize),
    // From here on: what nobody decided.
    Fails(usize),
    Vanishes(usize),
    SomebodyDeletes(usize),
    SomebodyEdits,
    SomebodyScales,
    Crash,
    /// A crash while a create of this set is under way.
    CrashInFlight(u8),
    /// That create reaches the API after all; not after its machine has come and gone, requests time out before that.
    Lands,
}

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
        for (template, set) in &state.known_sets {
            let memory = state.memory.get(template).cloned().unwrap_or_default();
            if !memory.queue.is_empty() {
                moves.push(Action::SetWrites(*template));
            } else if !memory.awaits
                && !plan_set(self.bounds, state.deployment, set, &state.known_machines).is_empty()
            {
                moves.push(Action::SetPlans(*template));
            }
        }
        if state.late.is_some() {
            moves.push(Action::Lands);
        }
        for (index, machine) in state.machines.iter().enumerate() {
            match machine.life {
                Life::Building => moves.push(Action::BecomesReady(index)),
                Life::Going(_) => moves.push(Action::IsGone(index)),
                Life::Ready | Life::Failed => {}
            }
        }
        moves
    }

    fn write_deployment(state: &mut State) {
        match state.queue.remove(0) {
            DeploymentWrite::Create(set) => {
                state.sets.entry(set.template).or_insert(set);
                state.awaits = true;
            }
            DeploymentWrite::Change(before, after) => {
                if state.sets.get(&before.template) == Some(&before) {
                    state.sets.insert(after.template, after);
                    state.awaits = true;
                } else {
                    state.queue.clear();
                }
            }
        }
    }

    fn write_set(&self, state: &mut State, template: u8) {
        let memory = state.memory.entry(template).or_default();
        let write = memory.queue.remove(0);
        let place =
            |number: i64| move |machine: &Machine| machine.set == template && machine.number == number;
        match write {
            SetWrite::Status(before, status) => {
                if state.sets.get(&template) == Some(&before) {
                    state.sets.insert(template, Set { status: Some(status), ..before });
                } else {
                    memory.queue.clear();
                }
            }
            SetWrite::Create(number) => {
                memory.awaits = !self.bounds.blind;
                if !state.machines.iter().any(place(number)) {
                    state.machines.push(Machine { set: template, number, life: Life::Building });
                    state.machines.sort_unstable();
                }
            }
            SetWrite::Delete(number, given_up) => {
                memory.awaits = true;
                if let Some(machine) = state.machines.iter_mut().find(|machine| place(number)(machine))
                    && machine.life.is_live()
                {
                    machine.life = Life::Going(given_up);
                }
            }
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

    /// Exactly what the deployment says.
    fn is_done(state: &State) -> bool {
        let wanted = usize::try_from(state.deployment.replicas).unwrap();
        state.machines.len() == wanted
            && state
                .machines
                .iter()
                .all(|machine| machine.set == state.deployment.template && machine.life == Life::Ready)
            && state.sets.values().all(|set| {
                set.replicas
                    == if set.template == state.deployment.template { state.deployment.replicas } else { 0 }
            })
    }

    /// OnDelete waits for people: old machines that nobody deletes stay.
    fn may_rest(&self, state: &State) -> bool {
        let on_delete = self.bounds.strategy == StrategyKind::OnDelete;
        Self::is_done(state)
            || on_delete
                && i32::try_from(state.machines.len()).unwrap() == state.deployment.replicas
                && state.machines.iter().all(|machine| machine.life == Life::Ready)
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
            template: 1,
            replicas,
            generation: 1,
            revision: 1,
            desired: replicas,
            create_disabled: false,
            status: Some(Status {
                observed: 1,
                replicas,
                ready: replicas,
                available: replicas,
                terminating: 0,
                next: replicas.into(),
                pending: Vec::new(),
            }),
            largest: replicas,
        };
        let sets = BTreeMap::from([(1, set)]);
        let machines: Vec<Machine> = (0..replicas)
            .map(|number| Machine { set: 1, number: number.into(), life: Life::Ready })
            .collect();
        vec![State {
            deployment: Deployment { replicas, template: 1 },
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
            lost: 0,
            floor,
            ceiling,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.moves(state));
        if state.faults > 0 {
            for (index, machine) in state.machines.iter().enumerate() {
                if machine.life.is_live() {
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
        if state.edits > 0 {
            actions.push(Action::SomebodyEdits);
        }
        if usize::from(state.scales) < self.bounds.scales.len() {
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
            actions.extend(creating.map(|(template, _)| Action::CrashInFlight(*template)));
        }
    }

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
            Action::SetsSeeSets => state.known_sets.clone_from(&state.sets),
            Action::SetsSeeMachines => {
                state.known_machines.clone_from(&state.machines);
                state.memory.values_mut().for_each(|memory| memory.awaits = false);
            }
            Action::SetPlans(template) => {
                let set = state.known_sets[&template].clone();
                let memory = state.memory.entry(template).or_default();
                memory.queue = plan_set(self.bounds, state.deployment, &set, &state.known_machines);
            }
            Action::SetWrites(template) => self.write_set(&mut state, template),
            Action::BecomesReady(index) => state.machines[index].life = Life::Ready,
            Action::IsGone(index) => Self::remove(&mut state, index),
            Action::Fails(index) => Self::lose(&mut state, index, Some(Life::Failed)),
            Action::Vanishes(index) => Self::lose(&mut state, index, None),
            Action::SomebodyDeletes(index) => Self::lose(&mut state, index, Some(Life::Going(false))),
            Action::SomebodyEdits => {
                state.edits -= 1;
                let back = self.bounds.back && state.edits == 0;
                state.deployment.template = if back { 1 } else { state.deployment.template + 1 };
            }
            Action::SomebodyScales => {
                state.deployment.replicas = self.bounds.scales[usize::from(state.scales)];
                state.scales += 1;
                let (floor, ceiling) = self.limits(state.deployment.replicas);
                state.floor = state.floor.min(floor);
                state.ceiling = state.ceiling.max(ceiling);
            }
            Action::Lands => {
                let (set, number) = state.late.take()?;
                let status = state.sets[&set].status.as_ref();
                let pending = status.is_some_and(|status| status.pending.contains(&number));
                if pending
                    && !state.machines.iter().any(|machine| machine.set == set && machine.number == number)
                {
                    state.machines.push(Machine { set, number, life: Life::Building });
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
                let counted =
                    state.machines.iter().filter(|machine| machine.life != Life::Going(false)).count();
                i32::try_from(counted).unwrap() <= state.ceiling
            }),
            Property::always("floor", |_, state: &State| {
                let ready = state.machines.iter().filter(|machine| machine.life == Life::Ready).count();
                i32::try_from(ready).unwrap() >= state.floor - state.lost
            }),
            Property::always("no over-creation", |_, state: &State| {
                state.sets.values().all(|set| {
                    let live = state
                        .machines
                        .iter()
                        .filter(|machine| machine.set == set.template && machine.life.is_live())
                        .count();
                    i32::try_from(live).unwrap() <= set.largest
                })
            }),
            Property::always("the end", |model: &Self, state: &State| {
                // Most states can be seen to be on their way without a plan.
                !state.queue.is_empty()
                    || state.awaits
                    || state.seen_sets != state.sets
                    || state.known_machines != state.machines
                    || state
                        .machines
                        .iter()
                        .any(|machine| matches!(machine.life, Life::Building | Life::Going(_)))
                    || !model.moves(state).is_empty()
                    || model.may_rest(state)
            }),
        ];
        if self.bounds.converges {
            properties
                .push(Property::always("convergence", |model: &Self, state: &State| model.converges(state)));
        }
        properties
    }
}
