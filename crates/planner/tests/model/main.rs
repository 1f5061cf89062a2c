//! Model checking: the two controllers of a rollout, interleaved in any order.
//!
//! What may happen, between any two writes: caches lag and catch up at any time, each on its own; the process crashes and
//! starts again on new lists; machines become ready, fail, vanish, lose their labels or are deleted by somebody; machines that
//! nobody owns turn up; time passes, deadlines too; somebody edits, scales, pauses, resumes or deletes the deployment, or deletes a set.
//! Every write of a plan is a step of its own. The planner is the real one.
//!
//! Checked in every reachable state:
//! - **ceiling**: machines, those that a scale-down is destroying included, never exceed replicas + maxSurge;
//! - **floor**: machines that are available never fall below replicas - maxUnavailable, but for those that failed, vanished
//!   or were deleted by somebody;
//! - **no over-creation**: no set ever has more machines than it was ever told to have;
//! - **the end**: where no controller and no machine can move, the deployment is exactly what it says, or, where it was
//!   deleted, nothing is left;
//! - **undo**: what works is not undone, and what is broken once, however many revisions are;
//! - **convergence** (smaller bounds): from every state, however caches and queues stand, a fair schedule reaches that end.
//!
//! `CAPT_MODEL=large` explores larger bounds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

mod bounds;
mod planner;
mod rollout;
mod state;
mod writes;

use bounds::{Bounds, Broken, Deletes};
use rollout::Rollout;
use stateright::{Checker, Model};

/// Bounds on states that no test reaches: a change that blows the space up should say so before it fills the memory.
const TOO_MANY: usize = 3_000_000;
const TOO_MANY_EVEN_FOR_LARGE: usize = 30_000_000;

fn explore(name: &str, bounds: Bounds) {
    let model = Rollout::new(bounds);
    let begun = std::time::Instant::now();
    let most = if large() { TOO_MANY_EVEN_FOR_LARGE } else { TOO_MANY };
    let checker = model.checker().threads(2).target_state_count(most).spawn_bfs().join();
    println!(
        "{name}: {} states, depth {}, {:.1} s, {}",
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f32(),
        checker.model().bounds
    );
    checker.assert_properties();
    // The limit counts repeats, too.
    assert!(checker.state_count() < most, "{name}: not all states were explored");
}

fn large() -> bool {
    std::env::var("CAPT_MODEL").is_ok_and(|value| value == "large")
}

#[test]
fn a_rollout_with_a_surge() {
    let base = Bounds { surge: 1, edits: 1, ..Bounds::default() };
    explore("surge", Bounds { replicas: 4, blind: true, ..base });
    explore("surge, crash", Bounds { replicas: 3, crashes: 1, converges: true, ..base });
    if large() {
        explore("surge, crashes", Bounds { replicas: 3, crashes: 2, ..base });
        explore("wide surge, crash", Bounds { replicas: 3, surge: 2, crashes: 1, ..base });
    }
}

#[test]
fn a_rollout_with_a_gap() {
    let base = Bounds { unavailable: 1, edits: 1, ..Bounds::default() };
    explore("gap", Bounds { replicas: 2, blind: true, ..base });
    explore("gap, crash", Bounds { replicas: 2, crashes: 1, converges: true, ..base });
    explore("both, crash", Bounds { replicas: 2, surge: 1, crashes: 1, ..base });
    if large() {
        explore("gap, fault", Bounds { replicas: 2, faults: 1, ..base });
        explore("wide gap, crash", Bounds { replicas: 3, unavailable: 2, crashes: 1, ..base });
    }
}

#[test]
fn an_edit_in_mid_rollout() {
    let base = Bounds { replicas: 1, surge: 1, edits: 2, ..Bounds::default() };
    explore("two edits", Bounds { blind: true, ..base });
    // Wide enough that a set which shrank can grow again before it has acted: without that wait the ceiling breaks.
    explore("edit and back, wide", Bounds { replicas: 2, surge: 2, back: true, ..base });
    explore("edit and back, crash", Bounds { replicas: 2, back: true, crashes: 1, ..base });
    if large() {
        explore("two edits, crash", Bounds { replicas: 2, crashes: 1, ..base });
        explore("edit and back, vanished", Bounds { back: true, faults: 1, only_vanish: true, ..base });
    }
}

#[test]
fn machines_fail_and_vanish_in_a_rollout() {
    let base = Bounds { surge: 1, edits: 1, faults: 1, ..Bounds::default() };
    explore("fault, gap", Bounds { replicas: 1, surge: 0, unavailable: 1, ..base });
    explore("fault, surge", Bounds { replicas: 1, ..base });
    explore("vanished, gap", Bounds { replicas: 2, surge: 0, unavailable: 1, only_vanish: true, ..base });
    explore("vanished, surge", Bounds { replicas: 2, only_vanish: true, ..base });
    if large() {
        explore("fault, crash", Bounds { replicas: 1, crashes: 1, ..base });
        explore("fault, surge", Bounds { replicas: 2, ..base });
    }
}

#[test]
fn a_deployment_that_is_scaled() {
    let base = Bounds { replicas: 2, surge: 1, scales: &[3, 1], ..Bounds::default() };
    explore("scaled, crash", Bounds { crashes: 1, ..base });
    explore("scaled, crash, fault", Bounds { scales: &[1], crashes: 1, faults: 1, ..base });
    explore("scaled while rolling", Bounds { replicas: 1, scales: &[2], edits: 1, ..base });
    if large() {
        explore("scaled, crashes, vanished", Bounds { crashes: 2, faults: 1, only_vanish: true, ..base });
        explore("scaled while rolling, crash", Bounds { scales: &[3], edits: 1, crashes: 1, ..base });
    }
}

#[test]
fn recreate_and_on_delete() {
    use capt_api::machine::StrategyKind::{OnDelete, Recreate};
    let base = Bounds { edits: 1, ..Bounds::default() };
    let recreate = Bounds { replicas: 2, strategy: Recreate, ..base };
    explore("Recreate", Bounds { crashes: 1, ..recreate });
    // What is current again, or grows again, may still have machines that are being destroyed.
    explore("Recreate, and back", Bounds { edits: 2, back: true, ..recreate });
    explore("Recreate, scaled down and up", Bounds { edits: 0, scales: &[1, 2], crashes: 1, ..recreate });
    explore("Recreate, scaled while rolling", Bounds { replicas: 1, scales: &[2], ..recreate });
    explore("OnDelete", Bounds { replicas: 1, strategy: OnDelete, faults: 1, ..base });
    if large() {
        explore("OnDelete", Bounds { replicas: 2, strategy: OnDelete, faults: 1, ..base });
    }
}

#[test]
fn machines_are_marked_for_deletion() {
    let base = Bounds { replicas: 2, surge: 1, marks: 1, ..Bounds::default() };
    explore("marked, one not ready", Bounds { unready: 1, edits: 1, ..base });
    explore(
        "marked, scaled down",
        Bounds { unavailable: 1, unready: 1, scales: &[1], converges: true, ..base },
    );
    explore("marked, gap", Bounds { surge: 0, unavailable: 1, edits: 1, crashes: 1, ..base });
    // One that is chosen since it is not ready may be ready when it is deleted.
    explore("marked, two not ready", Bounds { unready: 2, edits: 1, ..base });
    explore("marked, back", Bounds { unready: 1, edits: 2, back: true, ..base });
    explore("marked, paused", Bounds { unready: 1, edits: 1, pauses: 1, ..base });
    explore("marked, waits", Bounds { unready: 1, edits: 1, min_ready: true, ..base });
    if large() {
        explore(
            "marked twice, two not ready",
            Bounds { replicas: 3, unready: 2, marks: 2, edits: 1, ..base },
        );
    }
}

/// An undo by itself that misses its deadline as well; people who take their time.
#[test]
fn deadlines_pass() {
    use capt_api::machine::StrategyKind::{OnDelete, Recreate};
    let base = Bounds { edits: 1, surge: 1, deadlines: true, ..Bounds::default() };
    explore("deadlines", Bounds { replicas: 2, converges: true, ..base });
    explore("undone", Bounds { replicas: 2, broken: Broken::Edits, converges: true, ..base });
    let gap = Bounds { surge: 0, unavailable: 1, ..base };
    explore("undone, and broken as well", Bounds { replicas: 2, broken: Broken::All, ..gap });
    explore("edited twice, undone", Bounds { replicas: 2, edits: 2, broken: Broken::Edits, ..gap });
    explore("scaled, broken", Bounds { replicas: 2, scales: &[3], broken: Broken::All, ..gap });
    let recreate = Bounds { surge: 0, strategy: Recreate, ..base };
    explore("Recreate, deadlines", Bounds { replicas: 2, converges: true, ..recreate });
    let on_delete = Bounds { surge: 0, strategy: OnDelete, ..base };
    explore("OnDelete, nobody deletes", Bounds { replicas: 2, converges: true, ..on_delete });
    explore("OnDelete, slowly", Bounds { replicas: 2, faults: 2, only_delete: true, ..on_delete });
    let broken = Bounds { broken: Broken::Edits, only_delete: true, ..on_delete };
    explore("OnDelete, broken", Bounds { replicas: 2, faults: 1, ..broken });
}

#[test]
fn machines_must_be_ready_for_a_while() {
    let base = Bounds { edits: 1, min_ready: true, ..Bounds::default() };
    explore("waits, surge", Bounds { replicas: 2, surge: 1, converges: true, ..base });
    explore("waits, gap, crash", Bounds { replicas: 2, unavailable: 1, crashes: 1, ..base });
    explore("waits, vanished", Bounds { replicas: 1, surge: 1, faults: 1, only_vanish: true, ..base });
    if large() {
        explore("waits, fault", Bounds { replicas: 1, surge: 1, faults: 1, ..base });
        explore("waits, surge, crash", Bounds { replicas: 3, surge: 1, crashes: 1, ..base });
        explore("waits, both", Bounds { replicas: 3, surge: 1, unavailable: 1, ..base });
    }
}

#[test]
fn a_level_is_deleted() {
    let base = Bounds { edits: 1, surge: 1, ..Bounds::default() };
    let deployment = Bounds { deletes: Deletes::Deployment, ..base };
    explore("deployment", Bounds { replicas: 2, edits: 0, crashes: 1, converges: true, ..deployment });
    explore("deployment in mid-rollout", Bounds { replicas: 1, ..deployment });
    let set = Bounds { edits: 0, replicas: 1, deletes: Deletes::Set, ..base };
    explore("set", set);
    explore("set and deployment", Bounds { deletes: Deletes::Both, ..set });
}

#[test]
fn a_deployment_is_paused_and_resumed() {
    let base = Bounds { edits: 1, surge: 1, pauses: 1, ..Bounds::default() };
    explore("paused", Bounds { replicas: 2, converges: true, ..base });
    explore("paused, crash", Bounds { replicas: 2, crashes: 1, ..base });
    explore("paused, scaled up", Bounds { replicas: 1, scales: &[2], ..base });
    explore("paused twice, gap", Bounds { replicas: 2, surge: 0, unavailable: 1, pauses: 2, ..base });
}

#[test]
fn machines_and_sets_come_and_go_by_hand() {
    let base = Bounds { surge: 1, ..Bounds::default() };
    explore("adopted set", Bounds { replicas: 2, orphaned: true, edits: 1, crashes: 1, ..base });
    explore("stray", Bounds { replicas: 2, strays: 1, crashes: 1, converges: true, ..base });
    explore("stray in mid-rollout", Bounds { replicas: 1, strays: 1, edits: 1, ..base });
    explore("labels lost", Bounds { replicas: 2, unlabels: 1, crashes: 1, converges: true, ..base });
    explore("labels lost in mid-rollout", Bounds { replicas: 1, unlabels: 1, edits: 1, ..base });
    if large() {
        explore(
            "stray in mid-rollout, crash",
            Bounds { replicas: 1, strays: 1, edits: 1, crashes: 1, ..base },
        );
        explore("labels lost in mid-rollout", Bounds { replicas: 2, unlabels: 1, edits: 1, ..base });
    }
}
