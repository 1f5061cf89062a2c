//! Workspaces from end to end: real Terraform, the embedded API, and, where it is built, a real kube-apiserver.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skip must not be silent, and a long test says where it is")]

mod approval;
mod aws;
mod dependencies;
mod drift;
mod import;
mod lifecycle;
mod many;
mod restart;
#[macro_use]
mod scenarios;
#[allow(dead_code, reason = "the machines' tests use the rest of it")]
mod fixture;
mod secret_values;
mod trouble;

scenarios! {
    lifecycle: a_workspace_lives_and_goes, outputs_reach_status_and_secret, a_template_edit_reaches_its_instances,
        what_changes_nothing_starts_nothing, a_template_in_use_stays, a_retained_workspace_is_taken_up_again,
        text_is_substituted, paused_means_paused, a_state_is_taken_over;
    approval: a_plan_waits_for_a_person, too_much_destruction_waits_for_a_person;
    dependencies: a_chain_of_three, a_circle_is_named, secrets_are_awaited, a_workspace_is_awaited_by_its_own_name,
        values_of_a_template_count;
    import: what_something_else_applied_is_held, a_state_waits_for_its_workspace,
        a_state_that_does_not_fit_is_not_destroyed, one_state_has_one_instance,
        a_manifest_names_the_state_to_import, a_fixed_backend_serves_many;
    drift: drift_is_reported, drift_is_corrected;
    trouble: a_failure_is_retried_and_fixed, a_run_is_cancelled, a_run_takes_too_long, mistakes_are_named,
        secrets_stay_secret, a_deletion_needs_no_template, a_backend_has_one_workspace, a_secret_of_others_is_a_condition;
    secret_values: an_output_with_a_value_of_a_secret_is_not_shown;
    many: fifty_at_once;
}
