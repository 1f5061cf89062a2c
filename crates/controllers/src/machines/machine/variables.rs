//! Inputs of a machine's module, from what is observed.

use capt_api::machine::{CaptMachine, NodeGroup};
use capt_api::workspace::VariablesFrom;
use capt_planner::inputs::{self, MachineOwner};
use capt_planner::owned_workspace::Variables;

use super::owner::Ownership;
use crate::runtime::owners::Bootstrap;

/// Variables of a machine.
pub fn variables(machine: &CaptMachine, group: Option<&NodeGroup>, ownership: &Ownership) -> Variables {
    let cluster = ownership.cluster(machine);
    let owner = MachineOwner {
        cluster: cluster.as_deref(),
        failure_domain: ownership.machine().and_then(|owner| owner.failure_domain.as_deref()),
        version: ownership.machine().and_then(|owner| owner.version.as_deref()),
    };
    inputs::of_machine(machine, group, owner)
}

/// Variables from the Secret that the bootstrap provider wrote, where there is one.
pub fn secrets(ownership: &Ownership) -> Vec<VariablesFrom> {
    match ownership.machine().map(|owner| &owner.bootstrap) {
        Some(Bootstrap::Secret(name)) => inputs::bootstrap(name),
        _ => Vec::new(),
    }
}
