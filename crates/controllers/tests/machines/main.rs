//! Machines from end to end: real Terraform, the embedded API, and, where it is built, a real kube-apiserver.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent, and a long test says where it is")]

mod fleet;
mod groups;
mod restart;
mod rollouts;
mod scaling;
#[macro_use]
#[path = "../workspaces/scenarios.rs"]
mod scenarios;
mod single;
#[allow(dead_code, reason = "the workspaces' tests use the rest of it")]
#[path = "../workspaces/stage.rs"]
mod stage;

scenarios! {
    scaling: five_eight_two_none, no_replicas, a_machine_leaves_its_set, a_deleted_machine_is_replaced, a_name_that_is_taken,
        foreground_deletion;
    rollouts: rolling_update, recreate, on_delete, a_rollout_fails_and_is_undone, in_place;
    single: a_machine_lives_and_goes, a_template_is_awaited, paused_means_paused, somebody_else_manages_it, a_failure_is_told,
        a_paused_cluster;
    groups: machines_wait_for_their_group, an_existing_group, a_machine_that_is_a_group;
}
