//! Objects in memory, and the clock.

use std::collections::{BTreeSet, HashMap};

use capt_api::machine::{
    CaptMachine, CaptMachineDeployment, CaptMachineSet, CaptMachineStatus, MachinePhase,
};
use capt_api::names::labels;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::check::Checks;
use super::machines::Machines;
use super::report::{Counts, SimulationStep};
use super::scenario::{Behaviour, Pick, Scenario, Simulation};
use super::tally::{Agenda, Known, Tally, controller};
use super::tell::Moment;
use crate::availability::{MachineAvailability, standing};
use crate::owner::{Kinship, kinship};
use crate::reason::Reason;
use crate::{deployment, names, revision, set};

const READY_AFTER: u32 = 60;
const GONE_AFTER: u32 = 30;

/// A machine, and what will become of it.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) object: CaptMachine,
    pub(super) ready_at: Option<Timestamp>,
    pub(super) fails_at: Option<Timestamp>,
    pub(super) gone_at: Option<Timestamp>,
    /// True if a decision to have fewer machines took it.
    pub(super) given_up: bool,
}

impl Actor {
    /// Returns the time at which it changes by itself.
    pub(super) fn changes_at(&self) -> Option<Timestamp> {
        [self.ready_at, self.fails_at, self.gone_at].into_iter().flatten().min()
    }
}

/// All that exists.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) start: Timestamp,
    pub(super) deployment: CaptMachineDeployment,
    pub(super) exists: bool,
    pub(super) sets: Vec<CaptMachineSet>,
    pub(super) machines: Machines,
    /// The number of each machine, by its name.
    pub(super) names: HashMap<String, usize>,
    /// Times at which machines change by themselves.
    pub(super) changes: BTreeSet<(Timestamp, usize)>,
    pub(super) tally: Tally,
    pub(super) agenda: Agenda,
    pub(super) known: Known,
    pub(super) simulation: Simulation,
    pub(super) steps: Vec<SimulationStep>,
    pub(super) moments: Vec<Moment>,
    pub(super) checks: Checks,
    pub(super) waits: Vec<Reason>,
    pub(super) building_up: bool,
    uids: u64,
}

impl World {
    pub(super) fn new(scenario: Scenario, start: Timestamp) -> Self {
        let Scenario { deployment, sets, machines, simulation, clock: _ } = scenario;
        let mut world = Self {
            now: start,
            start,
            deployment,
            exists: true,
            sets: Vec::new(),
            machines: Machines::default(),
            names: HashMap::new(),
            changes: BTreeSet::new(),
            tally: Tally::default(),
            agenda: Agenda::default(),
            known: Known::default(),
            simulation,
            steps: Vec::new(),
            moments: Vec::new(),
            checks: Checks::default(),
            waits: Vec::new(),
            building_up: false,
            uids: 0,
        };
        let mut meta = std::mem::take(&mut world.deployment.metadata);
        world.born(&mut meta);
        world.deployment.metadata = meta;
        for mut set in sets {
            if kinship(&set.metadata, &world.deployment.metadata) != Kinship::Foreign {
                world.born(&mut set.metadata);
                world.sets.push(set);
            }
        }
        for mut machine in machines {
            // `kubectl get` lists the machines of other deployments too.
            let owner = controller(&machine.metadata);
            if owner.is_none() || world.sets.iter().any(|set| set.metadata.uid.as_ref() == owner) {
                world.born(&mut machine.metadata);
                let actor = world.actor(machine);
                world.add(actor);
            }
        }
        world.agenda.everything();
        world.checks = Checks::begin(&world);
        world
    }

    /// Fills in what an API server would.
    pub(super) fn born(&mut self, meta: &mut ObjectMeta) {
        self.uids += 1;
        meta.uid.get_or_insert_with(|| format!("uid-{}", self.uids));
        meta.creation_timestamp.get_or_insert(Time(self.now));
        meta.generation.get_or_insert(1);
    }

    /// Plans the future of a machine by its behaviour.
    pub(super) fn actor(&self, object: CaptMachine) -> Actor {
        let created = object.metadata.creation_timestamp.as_ref().map_or(self.now, |time| time.0);
        let behaviour = self.behaviour(&object);
        let later = |seconds: u32| created + SignedDuration::from_secs(seconds.into());
        let settled = object.status.as_ref().is_some_and(|status| {
            let building =
                matches!(status.phase, None | Some(MachinePhase::Pending | MachinePhase::Provisioning));
            status.ready || !building
        });
        let builds = !settled && !behaviour.never_ready && behaviour.fails_after.is_none();
        let mut actor = Actor {
            ready_at: builds.then(|| later(behaviour.ready_after.unwrap_or(READY_AFTER))),
            fails_at: behaviour.fails_after.filter(|_| !settled).map(later),
            gone_at: None,
            given_up: false,
            object,
        };
        if self.building_up {
            actor.ready_at = Some(created);
            actor.fails_at = None;
        }
        if let Some(deleted) = actor.object.metadata.deletion_timestamp.as_ref().map(|time| time.0) {
            actor.ready_at = None;
            actor.gone_at = self.gone_at(&actor.object, deleted);
        }
        actor
    }

    fn behaviour(&self, machine: &CaptMachine) -> Behaviour {
        let rule = self.simulation.rules.iter().find(|rule| self.fits(machine, &rule.pick));
        let base = self.simulation.machines;
        rule.map_or(base, |rule| Behaviour {
            ready_after: rule.behave.ready_after.or(base.ready_after),
            fails_after: rule.behave.fails_after.or(base.fails_after),
            gone_after: rule.behave.gone_after.or(base.gone_after),
            never_ready: rule.behave.never_ready,
            never_gone: rule.behave.never_gone,
        })
    }

    fn gone_at(&self, machine: &CaptMachine, deleted: Timestamp) -> Option<Timestamp> {
        let behaviour = self.behaviour(machine);
        let after = SignedDuration::from_secs(behaviour.gone_after.unwrap_or(GONE_AFTER).into());
        (!behaviour.never_gone).then(|| deleted + after)
    }

    /// Returns true if the machine is one of those that are meant, but for their count.
    pub(super) fn fits(&self, machine: &CaptMachine, pick: &Pick) -> bool {
        let Pick { name, revision, numbers, count: _ } = pick;
        let own = machine.metadata.name.as_deref().unwrap_or_default();
        let set_name = machine.metadata.labels.as_ref().and_then(|all| all.get(labels::SET_NAME));
        let set = self.sets.iter().find(|set| set.metadata.name.as_ref() == set_name);
        name.as_ref().is_none_or(|name| name == own)
            && revision.is_none_or(|wanted| set.is_some_and(|set| revision::of(set) == wanted))
            && numbers.as_ref().is_none_or(|numbers| {
                set_name
                    .and_then(|set| names::machine_number(set, own))
                    .is_some_and(|own| numbers.contains(&own))
            })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the time at which the next machine changes by itself.
    pub(super) fn next_change(&self) -> Option<Timestamp> {
        self.changes.first().map(|(at, _)| *at)
    }

    /// Moves the clock, and lets machines become what they will.
    pub(super) fn advance(&mut self, to: Timestamp) {
        self.now = self.now.max(to);
        // Time alone makes a machine available only then.
        if self.deployment.spec.min_ready_seconds > 0 {
            self.recount();
        }
        let now = self.now;
        let due: BTreeSet<usize> =
            self.changes.range(..=(now, usize::MAX)).map(|(_, index)| *index).collect();
        for &index in &due {
            let actor = &self.machines[index];
            if actor.ready_at.is_some_and(|at| at <= now) {
                self.change(index, |actor| {
                    actor.ready_at = None;
                    become_ready(&mut actor.object, true, now);
                });
                self.note_machine(index, "is ready");
            } else if actor.fails_at.is_some_and(|at| at <= now) {
                self.change(index, |actor| {
                    actor.fails_at = None;
                    fail(&mut actor.object, now);
                });
                self.note_machine(index, "failed");
            }
        }
        let gone = |index: &usize| self.machines[*index].gone_at.is_some_and(|at| at <= now);
        let gone: Vec<usize> = due.into_iter().filter(gone).collect();
        let gone: Vec<String> = gone.into_iter().filter_map(|index| self.remove(index)).collect();
        for name in gone {
            self.note("machine", format!("{name} is gone"), None);
        }
    }

    fn note_machine(&mut self, index: usize, what: &str) {
        let name = self.machines[index].object.metadata.name.clone().unwrap_or_default();
        self.note("machine", format!("{name} {what}"), None);
    }

    /// Makes the world as it is when the deployment has long been rolled out.
    pub(super) fn build_up(&mut self, start: Timestamp) {
        let hour = SignedDuration::from_secs(3_600);
        self.building_up = true;
        self.now = start - hour;
        self.deployment.metadata.creation_timestamp = Some(Time(self.now));
        loop {
            let wake = self.settle(super::ROUNDS);
            match [wake, self.next_change()].into_iter().flatten().min() {
                Some(next) if next < start => self.advance(next),
                _ => break,
            }
        }
        self.building_up = false;
        self.now = start;
        self.recount();
        self.agenda.everything();
        self.steps.clear();
        self.checks = Checks::begin(self);
    }

    /// Lets every controller plan and act until none has anything to do; when the first wants to look again.
    pub(super) fn settle(&mut self, rounds: usize) -> Option<Timestamp> {
        for _ in 0..rounds {
            let mut wake = None;
            let mut changed = false;
            if self.exists {
                let plan = deployment::plan(
                    deployment::DeploymentObservation { deployment: &self.deployment, sets: &self.sets },
                    self.now,
                );
                wake = plan.wake_at;
                self.waits.clone_from(&plan.waits);
                changed |= self.act_on_deployment(plan);
            }
            for name in self.agenda.due(&self.sets, self.now) {
                changed |= self.look_at_set(&name);
            }
            if !changed {
                self.checks.settled();
                return crate::availability::earlier(wake, self.agenda.next());
            }
        }
        self.checks.violations.push(format!("decisions did not settle within {rounds} rounds"));
        None
    }

    /// Plans and acts for one set; returns true if anything changed.
    fn look_at_set(&mut self, name: &str) -> bool {
        let Some(index) = self.set_index(name) else { return false };
        let set = self.sets[index].clone();
        let mut facts = self.known.take(&set);
        let machines = self.candidates(&set, &mut facts);
        let plan = set::plan_known(&set, machines.into_iter(), &[], &set::Settings::default(), self.now);
        let meta = set.metadata.clone();
        self.known.keep(set, facts);
        self.agenda.wake(&meta, plan.wake_at);
        // One that only told its status has nothing more to do.
        let again = plan.actions.iter().any(|action| !matches!(action, set::SetAction::Probe { .. }));
        let changed = self.act_on_set(name, plan);
        if again {
            self.agenda.set_changed(&meta);
        }
        changed
    }

    pub(super) fn set_index(&self, name: &str) -> Option<usize> {
        self.sets.iter().position(|set| set.metadata.name.as_deref() == Some(name))
    }

    pub(super) fn delete_machine(&mut self, index: usize, given_up: bool) {
        let deleted = self.now;
        let gone_at = self.gone_at(&self.machines[index].object, deleted);
        self.change(index, |actor| {
            if actor.object.metadata.deletion_timestamp.is_none() {
                actor.object.metadata.deletion_timestamp = Some(Time(deleted));
                actor.ready_at = None;
                actor.fails_at = None;
                actor.gone_at = gone_at;
                actor.given_up = given_up;
            }
        });
    }

    pub(super) fn note(&mut self, who: &'static str, what: String, action: Option<serde_json::Value>) {
        let at = self.seconds();
        let counts = self.counts();
        self.checks.see(&counts);
        self.steps.push(SimulationStep { at, who, what, action, counts });
    }

    /// Seconds since the beginning.
    pub(super) fn seconds(&self) -> i64 {
        (self.now - self.start).get_seconds()
    }

    pub(super) fn standing(&self, machine: &CaptMachine) -> MachineAvailability {
        standing(machine, self.deployment.spec.min_ready_seconds, self.now)
    }

    pub(super) fn counts(&self) -> Counts {
        let own = self.own();
        let (ceiling, floor) = super::check::bounds(&self.deployment);
        Counts { live: own.live, terminating: own.terminating, available: own.available, ceiling, floor }
    }
}

pub(super) fn become_ready(machine: &mut CaptMachine, ready: bool, now: Timestamp) {
    let status = machine.status.get_or_insert_with(CaptMachineStatus::default);
    if status.ready != ready {
        status.last_transition_time = Some(Time(now));
    }
    status.ready = ready;
    status.phase = Some(if ready { MachinePhase::Running } else { MachinePhase::Provisioning });
}

pub(super) fn fail(machine: &mut CaptMachine, now: Timestamp) {
    let status = machine.status.get_or_insert_with(CaptMachineStatus::default);
    status.ready = false;
    status.phase = Some(MachinePhase::Failed);
    status.last_transition_time = Some(Time(now));
}
