//! A whole rollout on an imagined clock.
//!
//! A [`Scenario`] is a deployment, the sets and machines that exist, and a timeline. [`run`] lets the planner decide,
//! carries its plans out on objects in memory, and writes down each step with its reason and the number of machines at
//! that moment. At every step it also checks what a rollout promises; a broken promise is in the report.

mod act;
mod check;
mod happen;
mod machines;
mod report;
mod scenario;
mod tally;
mod tell;
mod times;
mod world;

pub use happen::Judge;
pub use report::{Counts, End, Report, SimulationStep};
pub use scenario::{
    Behaviour, Deletion, Event, Happening, Pick, Rule, Scenario, ScenarioError, Simulation, Start,
};
pub use tell::{ByMoment, Moment, SetSize, Summary};
pub use times::in_words;

use jiff::{SignedDuration, Timestamp};

use world::World;

/// Decisions at one moment end within few rounds; more means that two decisions undo each other.
const ROUNDS: usize = 2_000;

/// The imagined present: any moment would do.
fn beginning() -> Timestamp {
    Timestamp::from_second(1_767_225_600).expect("2026 is a year")
}

/// Runs a scenario to its end: nothing more happens, or `until` has passed.
pub fn run(scenario: Scenario) -> Result<Report, ScenarioError> {
    run_judged(scenario, &|_, _| Ok(()))
}

/// The same, where changes of the deployment must be such that an API would take them.
pub fn run_judged(scenario: Scenario, judge: &Judge<'_>) -> Result<Report, ScenarioError> {
    let simulation = scenario.simulation.clone();
    let start = scenario.clock.unwrap_or_else(beginning);
    let mut world = World::new(scenario, start);
    if simulation.start == Start::Steady {
        world.build_up(start);
    }
    let at = |seconds: u32| start + SignedDuration::from_secs(seconds.into());
    let mut events = simulation.events.clone();
    events.sort_by_key(|event| event.at);
    let mut events = events.into_iter().peekable();
    let until = at(simulation.until);
    loop {
        while let Some(event) = events.next_if(|event| at(event.at) <= world.now()) {
            world.happen(&event.what, judge)?;
        }
        let wake = world.settle(ROUNDS);
        world.tell_moment();
        let next =
            [wake, world.next_change(), events.peek().map(|event| at(event.at))].into_iter().flatten().min();
        match next {
            Some(next) if next <= until => world.advance(next),
            Some(_) => return Ok(world.into_report(Some(simulation.until.into()))),
            None => return Ok(world.into_report(None)),
        }
    }
}
