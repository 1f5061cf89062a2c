//! Rollouts that nobody thought of: any deployment, any timeline.
//!
//! The simulator says step by step what was done; this counts the machines of those steps by itself, without the planner's
//! or the simulator's own arithmetic, and asserts what a rollout promises:
//! - **ceiling**: no decision lets sets grow so that, with what a scale-down is still destroying, more machines exist than
//!   replicas and surge; and no set ever makes more than it was told to have;
//! - **floor**: no decision takes an available machine that the floor needs, but for one that somebody marked when the
//!   deployment is scaled down;
//! - **Recreate**: no set grows while another one has machines.
//!
//! `PROPTEST_CASES` runs more of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use capt_planner::simulate::{Report, Scenario, ScenarioError, SimulationStep, run};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What people write into a deployment.
#[derive(Clone, Debug)]
struct Deployment {
    replicas: i32,
    strategy: &'static str,
    surge: Share,
    unavailable: Share,
    min_ready: i64,
}

/// Machines, or hundredths of the replicas.
#[derive(Clone, Copy, Debug)]
enum Share {
    Machines(i32),
    Percent(i32),
}

impl Share {
    fn json(self) -> Value {
        match self {
            Self::Machines(number) => json!(number),
            Self::Percent(percent) => json!(format!("{percent}%")),
        }
    }

    fn up(self, replicas: i32) -> i32 {
        match self {
            Self::Machines(number) => number,
            Self::Percent(percent) => {
                (percent * replicas).div_euclid(100) + i32::from(percent * replicas % 100 > 0)
            }
        }
    }

    fn down(self, replicas: i32) -> i32 {
        match self {
            Self::Machines(number) => number,
            Self::Percent(percent) => percent * replicas / 100,
        }
    }
}

fn share() -> impl Strategy<Value = Share> {
    prop_oneof![
        (0..4).prop_map(Share::Machines),
        prop::sample::select(&[0, 10, 25, 34, 50, 100][..]).prop_map(Share::Percent),
    ]
}

fn deployment() -> impl Strategy<Value = Deployment> {
    let strategy = prop_oneof![4 => Just("RollingUpdate"), 1 => Just("Recreate"), 1 => Just("OnDelete")];
    let min_ready = prop_oneof![2 => Just(0), 1 => Just(45)];
    (0..9, strategy, share(), share(), min_ready).prop_map(
        |(replicas, strategy, surge, unavailable, min_ready)| Deployment {
            replicas,
            strategy,
            surge,
            unavailable,
            min_ready,
        },
    )
}

/// What happens, and when. Times are close together, so that one thing finds another under way.
fn event() -> impl Strategy<Value = Value> {
    let some = |most: i64| {
        let numbers = prop::collection::vec(0..most, 1..4).prop_map(|numbers| json!({"numbers": numbers}));
        prop_oneof![numbers, (1..4).prop_map(|count| json!({"count": count}))]
    };
    let size = prop::sample::select(&["small", "medium", "large"][..]);
    let edit =
        size.prop_map(|size| json!({"patch": {"spec": {"template": {"spec": {"instanceType": size}}}}}));
    let what = prop_oneof![
        4 => edit,
        2 => (0..9).prop_map(|replicas| json!({"scale": replicas})),
        2 => Just(json!({"undo": 0})),
        1 => any::<bool>().prop_map(|paused| json!({"pause": paused})),
        1 => Just(json!({"restart": true})),
        2 => some(12).prop_map(|pick| json!({"mark": pick})),
        2 => some(12).prop_map(|pick| json!({"unready": pick})),
        1 => some(12).prop_map(|pick| json!({"ready": pick})),
        1 => some(12).prop_map(|pick| json!({"fail": pick})),
        1 => some(12).prop_map(|pick| json!({"vanish": pick})),
        1 => some(12).prop_map(|pick| json!({"deleteMachines": pick})),
    ];
    (0..60_i64, what).prop_map(|(at, mut what)| {
        what["at"] = json!(600 + at * 10);
        what
    })
}

fn timeline() -> impl Strategy<Value = Value> {
    let behave = prop_oneof![
        3 => Just(json!({"readyAfter": 60})),
        1 => Just(json!({"neverReady": true})),
        1 => Just(json!({"failsAfter": 20})),
        1 => Just(json!({"readyAfter": 5, "goneAfter": 200})),
    ];
    let rule = (prop::collection::vec(0..20_i64, 1..6), behave)
        .prop_map(|(numbers, behave)| json!({"for": {"numbers": numbers}, "behave": behave}));
    (prop::collection::vec(event(), 0..9), prop::collection::vec(rule, 0..3)).prop_map(|(events, rules)| {
        json!({"kind": "RolloutSimulation", "until": 4000, "events": events, "rules": rules})
    })
}

/// Runs it without what cannot happen then: nothing matches, or there is no revision to go back to.
fn simulate(deployment: &Deployment, mut timeline: Value) -> Report {
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachineDeployment",
        "metadata": {"name": "web", "annotations": {"infrastructure.cluster.x-k8s.io/undo-on-failure": "true"}},
        "spec": {
            "replicas": deployment.replicas, "minReadySeconds": deployment.min_ready, "progressDeadlineSeconds": 300,
            "strategy": {"type": deployment.strategy, "rollingUpdate": {
                "maxSurge": deployment.surge.json(), "maxUnavailable": deployment.unavailable.json(),
            }},
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "workspaceTemplateRef": {"name": "machine"}, "instanceType": "tiny",
            }},
        },
    });
    loop {
        let scenario = Scenario::from_documents(vec![object.clone(), timeline.clone()]).unwrap();
        let impossible = match run(scenario) {
            Ok(report) => return report,
            Err(ScenarioError::NoMatch { at, .. } | ScenarioError::Undo { at, .. }) => at,
            Err(error) => panic!("{error}"),
        };
        timeline["events"].as_array_mut().unwrap().retain(|event| event["at"] != impossible);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Idle,
    ReadySince(i64),
    /// Being destroyed; whether a decision to have fewer took it.
    Going(bool),
}

/// The machines, as this counts them.
#[derive(Debug)]
struct Count {
    deployment: Deployment,
    paused: bool,
    now: i64,
    /// Size of each set.
    sets: BTreeMap<String, i32>,
    /// Sets that were last made smaller because the deployment wants fewer.
    scaled_down: BTreeSet<String>,
    marked: BTreeSet<String>,
    machines: BTreeMap<String, Life>,
}

impl Count {
    fn ceiling(&self) -> i32 {
        let Deployment { replicas, strategy, surge, .. } = self.deployment;
        if strategy == "RollingUpdate" { replicas + surge.up(replicas) } else { replicas }
    }

    fn floor(&self) -> i32 {
        let Deployment { replicas, surge, unavailable, .. } = self.deployment;
        let missing = unavailable.down(replicas);
        // Both zero would let nothing move.
        let stuck = surge.up(replicas) == 0 && missing == 0;
        replicas - if stuck { 1 } else { missing }
    }

    fn available(&self) -> i32 {
        let available = |life: &Life| match life {
            Life::ReadySince(since) => self.now - since >= self.deployment.min_ready,
            Life::Idle | Life::Going(_) => false,
        };
        i32::try_from(self.machines.values().filter(|life| available(life)).count()).unwrap()
    }

    /// Machines of a set: those that live, and those that a scale-down is destroying.
    fn of(&self, set: &str) -> (i32, i32) {
        let own = self.machines.iter().filter(|(name, _)| name.rsplit_once('-').unwrap().0 == set);
        own.fold((0, 0), |(live, going), (_, life)| match life {
            Life::Going(decided) => (live, going + i32::from(*decided)),
            Life::Idle | Life::ReadySince(_) => (live + 1, going),
        })
    }

    /// Machines that exist or that a set is told to make.
    fn existing(&self) -> i32 {
        self.sets
            .iter()
            .map(|(set, size)| {
                let (live, going) = self.of(set);
                live.max(*size) + going
            })
            .sum()
    }

    fn see(&mut self, step: &SimulationStep) {
        self.now = step.at;
        match (step.who, &step.action) {
            ("deployment", Some(action)) => self.see_deployment(action),
            ("set", Some(action)) => self.see_set(action),
            ("machine" | "event", _) => self.see_happening(&step.what),
            _ => {}
        }
    }

    fn see_deployment(&mut self, action: &Value) {
        let name = action["name"].as_str().unwrap_or_default().to_owned();
        match action["action"].as_str().unwrap() {
            "CreateSet" => self.size(&name, 0, i32::try_from(action["replicas"].as_i64().unwrap()).unwrap()),
            "ChangeSet" => {
                if let [from, to] = action["change"]["replicas"].as_array().map_or(&[][..], Vec::as_slice) {
                    let number = |value: &Value| i32::try_from(value.as_i64().unwrap()).unwrap();
                    self.size(&name, number(from), number(to));
                    if action["reasons"].as_array().unwrap().iter().any(|why| why["reason"] == "Shrink") {
                        self.scaled_down.insert(name);
                    } else {
                        self.scaled_down.remove(&name);
                    }
                }
            }
            "DeleteSet" => {
                assert_eq!(self.of(&name), (0, 0), "{name} goes with machines");
                self.sets.remove(&name);
            }
            _ => {}
        }
    }

    fn size(&mut self, set: &str, from: i32, to: i32) {
        assert_eq!(self.sets.get(set).copied().unwrap_or(0), from, "{set}");
        if to > from && self.deployment.strategy == "Recreate" && !self.paused {
            let other = self.sets.keys().find(|other| **other != set && self.of(other) != (0, 0));
            assert_eq!(other, None, "{set} grows to {to} beside it");
        }
        self.sets.insert(set.to_owned(), to);
        let (existing, ceiling) = (self.existing(), self.ceiling());
        assert!(to <= from || existing <= ceiling, "{existing} of at most {ceiling}: {set} grows to {to}");
    }

    fn see_set(&mut self, action: &Value) {
        let name = action["name"].as_str().unwrap_or_default().to_owned();
        match action["action"].as_str().unwrap() {
            "Create" => {
                let set = name.rsplit_once('-').unwrap().0.to_owned();
                self.machines.entry(name).or_insert(Life::Idle);
                let (live, size) = (self.of(&set).0, self.sets[&set]);
                assert!(live <= size, "{set} makes {live} of {size}");
            }
            "Delete" => {
                let decided = action["reason"]["reason"] == "TooMany";
                let before = self.available();
                self.machines.insert(name.clone(), Life::Going(decided));
                let (available, floor) = (self.available(), self.floor());
                let set = name.rsplit_once('-').unwrap().0;
                let chosen = self.marked.contains(&name) && self.scaled_down.contains(set);
                let rolls = self.deployment.strategy == "RollingUpdate" && !self.paused && decided && !chosen;
                assert!(
                    !rolls || available == before || available >= floor,
                    "{available} available, at least {floor} must be, without {name}"
                );
            }
            _ => {}
        }
    }

    fn see_happening(&mut self, what: &str) {
        match what {
            "paused" => self.paused = true,
            "resumed" => self.paused = false,
            _ => {}
        }
        if let Some((_, to)) = what.strip_prefix("scaled ").and_then(|sizes| sizes.split_once("->")) {
            self.deployment.replicas = to.parse().unwrap();
        }
        let Some((name, how)) = what.split_once(' ') else { return };
        if how == "is marked for deletion" {
            self.marked.insert(name.to_owned());
        }
        let Some(life) = self.machines.get_mut(name) else { return };
        match how {
            "is ready" if !matches!(life, Life::ReadySince(_)) => *life = Life::ReadySince(self.now),
            "failed" | "is not ready any more" => *life = Life::Idle,
            "is deleted by somebody" => *life = Life::Going(false),
            "vanished" | "is gone" => drop(self.machines.remove(name)),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_decision_breaks_the_ceiling_or_the_floor(deployment in deployment(), timeline in timeline()) {
        let report = simulate(&deployment, timeline);
        let mut count = Count {
            deployment,
            paused: false,
            now: 0,
            sets: BTreeMap::new(),
            scaled_down: BTreeSet::new(),
            marked: BTreeSet::new(),
            machines: BTreeMap::new(),
        };
        for step in &report.steps {
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| count.see(step)));
            if seen.is_err() {
                return Err(TestCaseError::fail(format!("after {step:?}\n{report}")));
            }
        }
        // It has counted all of them.
        let live = count.machines.values().filter(|life| !matches!(life, Life::Going(_))).count();
        prop_assert_eq!(i32::try_from(live).unwrap(), report.end.counts.live, "{}", report);
    }
}
