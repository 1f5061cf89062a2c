//! Model checking: the two controllers of a rollout, interleaved in any order.
//!
//! What may happen, between any two writes: caches lag and catch up at any time, each on its own; the process crashes and
//! starts again on new lists; machines become ready, fail, vanish or are deleted by somebody; somebody edits or scales the
//! deployment. Every write of a plan is a step of its own. The planner is the real one.
//!
//! Checked in every reachable state:
//! - **ceiling**: machines, those that a scale-down is destroying included, never exceed replicas + maxSurge;
//! - **floor**: machines that are available never fall below replicas - maxUnavailable, but for those that failed, vanished
//!   or were deleted by somebody;
//! - **no over-creation**: no set ever has more machines than it was ever told to have;
//! - **the end**: where no controller and no machine can move, the deployment is exactly what it says;
//! - **convergence** (smaller bounds): from every state, however caches and queues stand, a fair schedule reaches that end.
//!
//! `CAPT_MODEL=large` explores larger bounds.

mod planner;
mod rollout;
mod state;

use rollout::{Bounds, Rollout};
use stateright::{Checker, Model};

/// A bound on states that no test of `make test` reaches: a change that blows the space up should say so.
const TOO_MANY: usize = 60_000_000;

fn explore(name: &str, bounds: Bounds) {
    let model = Rollout::new(bounds);
    let checker = model.checker().threads(2).target_state_count(TOO_MANY).spawn_bfs().join();
    println!(
        "{name}: {} states, depth {}, {}",
        checker.unique_state_count(),
        checker.max_depth(),
        checker.model().bounds
    );
    checker.assert_properties();
    assert!(checker.unique_state_count() < TOO_MANY, "{name}: not all states were explored");
}

fn large() -> bool {
    std::env::var("CAPT_MODEL").is_ok_and(|value| value == "large")
}

#[test]
fn a_rollout_with_a_surge() {
    explore("surge", Bounds { replicas: 2, surge: 1, edits: 1, ..Bounds::default() });
    explore(
        "surge, crash",
        Bounds { replicas: 1, surge: 1, edits: 1, crashes: 1, converges: true, ..Bounds::default() },
    );
    if large() {
        explore("surge, crash", Bounds { replicas: 2, surge: 1, edits: 1, crashes: 1, ..Bounds::default() });
    }
}

#[test]
fn a_rollout_with_a_gap() {
    explore("gap", Bounds { replicas: 2, unavailable: 1, edits: 1, ..Bounds::default() });
    explore(
        "gap, fault",
        Bounds { replicas: 1, unavailable: 1, edits: 1, faults: 1, converges: true, ..Bounds::default() },
    );
    if large() {
        explore(
            "gap, fault",
            Bounds { replicas: 2, unavailable: 1, edits: 1, faults: 1, ..Bounds::default() },
        );
    }
}

#[test]
fn an_edit_in_mid_rollout() {
    explore("two edits", Bounds { replicas: 1, surge: 1, edits: 2, ..Bounds::default() });
    explore("edit and back", Bounds { replicas: 1, surge: 1, edits: 2, back: true, ..Bounds::default() });
    if large() {
        explore(
            "two edits, fault",
            Bounds { replicas: 1, surge: 1, edits: 2, faults: 1, ..Bounds::default() },
        );
    }
}

#[test]
fn machines_fail_and_vanish_in_a_rollout() {
    explore("fault", Bounds { replicas: 1, surge: 1, edits: 1, faults: 1, ..Bounds::default() });
    if large() {
        explore("faults", Bounds { replicas: 2, surge: 1, edits: 1, faults: 1, ..Bounds::default() });
    }
}

#[test]
fn a_set_that_is_scaled() {
    let scaled = Bounds { replicas: 2, surge: 1, scales: &[3, 1], ..Bounds::default() };
    explore("scaled", scaled);
    explore(
        "scaled, crash, fault",
        Bounds { scales: &[1], crashes: 1, faults: 1, converges: true, ..scaled },
    );
    if large() {
        explore("scaled, crashes, faults", Bounds { crashes: 2, faults: 2, ..scaled });
    }
}

#[test]
fn recreate_and_on_delete() {
    use capt_api::machine::StrategyKind::{OnDelete, Recreate};
    explore(
        "Recreate",
        Bounds { replicas: 2, strategy: Recreate, edits: 1, crashes: 1, ..Bounds::default() },
    );
    explore("OnDelete", Bounds { replicas: 1, strategy: OnDelete, edits: 1, faults: 2, ..Bounds::default() });
}
