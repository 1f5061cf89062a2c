//! Machines from end to end: real Terraform, the embedded API, and, where it is built, a real kube-apiserver.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::needless_pass_by_value, reason = "specs are written where they are handed over")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent, and a long test says where it is")]

mod contract;
mod core;
mod drain;
mod fleet;
mod groups;
mod mishaps;
mod owners;
mod pauses;
mod restart;
mod rollouts;
mod scaling;
#[macro_use]
#[path = "../workspaces/scenarios.rs"]
mod scenarios;
#[allow(dead_code, reason = "the workspaces' tests use the rest of it")]
#[path = "../workspaces/fixture.rs"]
mod fixture;
mod single;

scenarios! {
    scaling: five_eight_two_none, no_replicas, a_machine_leaves_its_set, a_deleted_machine_is_replaced, a_name_that_is_taken,
        foreground_deletion;
    rollouts: rolling_update, recreate, on_delete, a_rollout_fails_and_is_undone, in_place;
    single: a_machine_lives_and_goes, a_template_is_awaited, paused_means_paused, somebody_else_manages_it, a_failure_is_told,
        a_paused_cluster;
    contract: a_machine_of_cluster_api, a_machine_without_bootstrap_data;
    drain: a_node_is_drained_first, a_node_is_found_by_name, a_drain_ends_in_time, a_cluster_out_of_reach;
    owners: machines_are_adopted_and_released, sets_are_adopted_and_released, nothing_is_lost_with_its_owner,
        an_orphaned_workspace_is_taken_up;
    pauses: a_deployment_is_paused, a_set_is_paused, a_group_fails_and_is_paused;
    mishaps: a_failed_rollout_is_undone_by_itself, names_that_are_taken, a_set_goes_in_the_middle,
        a_deployment_goes_in_the_middle, selectors_that_overlap, a_template_that_is_not_there,
        labels_that_do_not_match;
    groups: machines_wait_for_their_group, an_existing_group, a_machine_that_is_a_group;
}
