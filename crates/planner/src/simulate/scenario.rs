//! Input of a simulation: objects as Kubernetes has them, and a timeline.

use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet};
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::times;
use crate::revision::UndoError;

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// An object that is no object of its kind.
    #[error("{kind}: {source}")]
    Object { kind: String, source: serde_json::Error },
    /// Another kind.
    #[error(
        "{0}: not a kind of a simulation; expected CaptMachineDeployment, CaptMachineSet, CaptMachine or RolloutSimulation"
    )]
    Kind(String),
    /// No deployment, or more than one.
    #[error("a simulation needs exactly one CaptMachineDeployment; there are {0}")]
    Deployments(usize),
    /// More than one timeline.
    #[error("a simulation has at most one RolloutSimulation; there are {0}")]
    Timelines(usize),
    /// An event that names nothing that exists.
    #[error("at {at} s: no {what} matches {pick}")]
    NoMatch { at: i64, what: &'static str, pick: String },
    /// A patch that does not fit.
    #[error("at {at} s: the patch makes no deployment: {source}")]
    Patch { at: i64, source: serde_json::Error },
    /// A change that the API would refuse.
    #[error("at {at} s: {why}")]
    Refused { at: i64, why: String },
    /// An undo that is not possible.
    #[error("at {at} s: {source}")]
    Undo { at: i64, source: UndoError },
}

/// Objects and timeline of one simulation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The deployment.
    pub deployment: CaptMachineDeployment,
    /// Sets that exist.
    pub sets: Vec<CaptMachineSet>,
    /// Machines that exist.
    pub machines: Vec<CaptMachine>,
    /// Start, behaviour of machines and events.
    pub simulation: Simulation,
    /// The moment at which it begins; left out, an imagined one.
    pub clock: Option<Timestamp>,
}

/// Start, behaviour of machines and events. Times are seconds, or text such as `1m30s`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Simulation {
    /// Ignored.
    #[serde(default, rename = "apiVersion")]
    pub api_version: Option<String>,
    /// `RolloutSimulation`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Machines that exist at the beginning.
    #[serde(default)]
    pub start: Start,
    /// Time at which the simulation stops at the latest.
    #[serde(default = "hour", deserialize_with = "times::seconds")]
    pub until: u32,
    /// Behaviour of machines.
    #[serde(default)]
    pub machines: Behaviour,
    /// Behaviour of some machines; the first rule that matches a machine counts.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Events from outside.
    #[serde(default)]
    pub events: Vec<Event>,
}

fn hour() -> u32 {
    3_600
}

/// State of the machines at the beginning.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "PascalCase")]
pub enum Start {
    /// The sets and machines of the scenario.
    #[default]
    AsGiven,
    /// The deployment as it is when it has long been rolled out.
    Steady,
}

/// Behaviour of a machine; a field that is left out is as with other machines.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Behaviour {
    /// From its creation until it is ready.
    #[serde(default, deserialize_with = "times::some_seconds")]
    pub ready_after: Option<u32>,
    /// From its creation until it fails; never, if left out.
    #[serde(default, deserialize_with = "times::some_seconds")]
    pub fails_after: Option<u32>,
    /// From its deletion until it is gone.
    #[serde(default, deserialize_with = "times::some_seconds")]
    pub gone_after: Option<u32>,
    /// It never becomes ready.
    #[serde(default)]
    pub never_ready: bool,
    /// It cannot be destroyed.
    #[serde(default)]
    pub never_gone: bool,
}

/// Behaviour of some machines.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Machines that the rule applies to.
    #[serde(rename = "for")]
    pub pick: Pick,
    /// Behaviour of these machines.
    pub behave: Behaviour,
}

/// Some machines, or a set: each part that is given must fit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pick {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Revision of its set, or its own.
    #[serde(default)]
    pub revision: Option<i64>,
    /// Numbers in the names of machines.
    #[serde(default)]
    pub numbers: Option<Vec<i64>>,
    /// At most so many, the lowest numbers first.
    #[serde(default)]
    pub count: Option<usize>,
}

/// Something that happens from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time of the event, in seconds since the beginning.
    pub at: u32,
    /// Change that happens then.
    pub what: Happening,
}

impl<'de> Deserialize<'de> for Event {
    /// Exactly one thing beside its time: of two, one would be left out without a word.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(from)?;
        let at = fields.remove("at").ok_or_else(|| D::Error::missing_field("at"))?;
        let at = times::seconds(at).map_err(|error| D::Error::custom(format!("at: {error}")))?;
        if fields.len() != 1 {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            let message = format!("an event has `at` and one thing that happens, not {names:?}");
            return Err(D::Error::custom(message));
        }
        let what = Happening::deserialize(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Self { at, what })
    }
}

/// A change that is made from outside.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Happening {
    /// The deployment's replicas change.
    Scale(i32),
    /// A JSON merge patch of the deployment.
    Patch(Value),
    /// Another version of the deployment is applied: `metadata` and `spec`.
    Replace(Value),
    /// The deployment is paused, or resumed.
    Pause(bool),
    /// The template of a revision comes back; 0 is the one before the current.
    Undo(i64),
    /// Every machine is to be replaced.
    Restart(bool),
    /// Machines fail.
    Fail(Pick),
    /// Machines stop being ready.
    Unready(Pick),
    /// Machines become ready.
    Ready(Pick),
    /// Machines disappear without a trace.
    Vanish(Pick),
    /// Machines are annotated to be deleted first.
    Mark(Pick),
    /// Labels of machines are taken away by hand.
    Unlabel(Pick),
    /// Somebody deletes machines.
    DeleteMachines(Pick),
    /// Somebody deletes a set.
    DeleteSet(Pick),
    /// Somebody deletes the deployment.
    DeleteDeployment(Deletion),
}

/// Propagation policy for children of a deleted object.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "PascalCase")]
pub enum Deletion {
    /// They go later.
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Scenario {
    /// Sorts documents by kind: `kubectl get -o yaml` output, lists included, and a `RolloutSimulation`.
    pub fn from_documents(documents: Vec<Value>) -> Result<Self, ScenarioError> {
        let mut deployments = Vec::new();
        let mut timelines = Vec::new();
        let (mut sets, mut machines) = (Vec::new(), Vec::new());
        let mut rest: Vec<Value> = documents.into_iter().rev().collect();
        while let Some(mut document) = rest.pop() {
            if document.is_null() {
                continue;
            }
            let kind =
                document.get("kind").and_then(Value::as_str).unwrap_or("an object without a kind").to_owned();
            if kind.ends_with("List") {
                if let Some(Value::Array(items)) = document.get_mut("items").map(Value::take) {
                    rest.extend(items.into_iter().rev());
                }
                continue;
            }
            let fails = |source| ScenarioError::Object { kind: kind.clone(), source };
            match kind.as_str() {
                "CaptMachineDeployment" => deployments.push(serde_json::from_value(document).map_err(fails)?),
                "CaptMachineSet" => sets.push(serde_json::from_value(document).map_err(fails)?),
                "CaptMachine" => machines.push(serde_json::from_value(document).map_err(fails)?),
                "RolloutSimulation" => timelines.push(serde_json::from_value(document).map_err(fails)?),
                _ => return Err(ScenarioError::Kind(kind)),
            }
        }
        if timelines.len() > 1 {
            return Err(ScenarioError::Timelines(timelines.len()));
        }
        let simulation =
            timelines.pop().unwrap_or_else(|| Simulation { until: hour(), ..Simulation::default() });
        match <[CaptMachineDeployment; 1]>::try_from(deployments) {
            Ok([deployment]) => Ok(Self { deployment, sets, machines, simulation, clock: None }),
            Err(other) => Err(ScenarioError::Deployments(other.len())),
        }
    }
}
